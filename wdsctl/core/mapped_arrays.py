"""Files of a header and some arrays behind it, which all processes of a machine map: how they begin, what is in them.

Little-endian. 8 bytes that name the format; u64, the length of the header; then the header, JSON: facts, and `columns`:
name -> [offset, dtype, count]; `end`, the bytes of the file. Columns begin at multiples of 64 bytes.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.offsets import ALIGN, SMALL

Shapes = Mapping[str, tuple[str, int]]  # of each column: its dtype, as numpy spells it, and how many there are


class Mapped(NamedTuple):
    """`facts`: what the header says; `columns` read from memory or from the map."""

    facts: dict[str, Any]
    columns: dict[str, NDArray[Any]]


def laid_out(magic: bytes, facts: Mapping[str, Any], shapes: Shapes) -> tuple[bytes, dict[str, int]]:
    """The first bytes of the file, and where each column begins."""
    length = 0
    while True:
        at, table, places = 16 + length, {}, {}
        for name, (dtype, count) in shapes.items():
            at += -at % ALIGN
            table[name] = [at, dtype, count]
            places[name] = at
            at += np.dtype(dtype).itemsize * count
        text = json.dumps({**facts, "columns": table, "end": at}).encode()
        if len(text) <= length:
            return magic + length.to_bytes(8, "little") + text.ljust(length), places
        length = len(text) + ALIGN


def opened(path: str, magic: bytes) -> Mapped | None:
    """What is in such a file; None where it is not there, not whole, or of another format: it is made again then."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read() if size <= SMALL else mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        if data[:8] != magic:
            return None
        header = json.loads(data[16 : 16 + int.from_bytes(data[8:16], "little")])
        if header["end"] != size:
            return None
        places = header["columns"]
        columns = {name: np.frombuffer(data, dtype, count, at) for name, (at, dtype, count) in places.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Mapped(header, columns)
