"""Files of a header and some arrays behind it, which all processes of a machine map: how they begin, what is in them.

Little-endian. 8 bytes that name the format; u64, the length of the header; then the header, JSON: facts, and `columns`:
name -> [offset, dtype, count]; `end`, the bytes so far. Columns begin at multiples of 64 bytes. Behind all of it stand
checksums by block (`block_sums.py`).
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import BlockSums, filled, size_of_sums
from wdsctl.core.errors import CatalogError
from wdsctl.core.files import open_own
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


def opened(path: str, magic: bytes, dtypes: Mapping[str, Sequence[str]]) -> Mapped | None:
    """What is in such a file; None where it is not there, damaged, or of another format: it is made again then.

    `dtypes`: of each column those that it may be of. All of it is checked: 0.3 ms a megabyte.
    """
    try:
        with open(open_own(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read() if size <= SMALL else mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        if data[:8] != magic:
            return None
        header = json.loads(data[16 : 16 + int.from_bytes(data[8:16], "little")])
        if filled(header["end"]) + size_of_sums(header["end"]) != size:
            return None
        BlockSums(data, partial(_damaged, path)).check_all()
        places = header["columns"]
        if places.keys() != dtypes.keys() or any(dtype not in dtypes[name] for name, (_, dtype, _) in places.items()):
            return None
        if any(min(at, count) < 0 for at, _, count in places.values()):  # for numpy, -1 is all that there is
            return None
        columns = {name: np.frombuffer(data, dtype, count, at) for name, (at, dtype, count) in places.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, CatalogError):
        return None
    return Mapped(header, columns)


def _damaged(path: str) -> CatalogError:
    return CatalogError("the file is damaged", where=path, hint="remove it: it is made again when it is next used")
