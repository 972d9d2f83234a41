"""Encodings of MDS columns: bytes to values of Python, to files where they are media or arrays.

Source: https://docs.mosaicml.com/projects/streaming (MDS encodings), and what its writer writes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from wdsctl.core.convert.rows.pixels import npy, png_of_raw
from wdsctl.core.errors import DatasetError
from wdsctl.core.printable import named

Decode = Callable[[bytes], Any]


def is_media(encoding: str) -> bool:
    """Whether its values are files, or become some."""
    return encoding.partition(":")[0] in {*_FILES, *_LISTS, "ndarray", "bytes"}


def decoder(column: str, encoding: str, index: str) -> Decode:
    """What reads a column. Raises DatasetError WDS234 for pickles and for what is not known."""
    kind, _, rest = encoding.partition(":")
    if kind == "pkl":
        raise DatasetError(
            f"the column {column!r} is pickled, and reading it could run code",
            hint=f"`-O drop={column}` leaves it out",
            where=named(index),
            code="WDS234",
        )
    if kind == "ndarray":
        return _array(rest)
    found = _FILES.get(kind) or _LISTS.get(kind) or _PLAIN.get(kind)
    if found is None:
        raise DatasetError(
            f"the column {column!r} is of encoding {encoding!r}, which is not known",
            hint=f"`-O drop={column}` leaves it out",
            where=named(index),
            code="WDS234",
        )
    return found


def _file(ending: str) -> Decode:
    return lambda data: {"bytes": data, "path": f"x.{ending}"}


def _pil(data: bytes) -> dict[str, Any]:
    return {"bytes": png_of_raw(data), "path": "x.png"}


def _list(each: Decode, start: int) -> Decode:
    """Lists: a count, the sizes, the elements. `start`: bytes before the count."""

    def decode(data: bytes) -> list[Any]:
        (count,) = struct.unpack_from("<I", data, start)
        head = start + 4 + 4 * count
        sizes = struct.unpack_from(f"<{count}I", data, start + 4) if head <= len(data) else ()
        if head + sum(sizes) != len(data):
            raise ValueError("a list's sizes do not fit its bytes")
        ends = np.cumsum([head, *sizes]).tolist()
        return [each(data[a:b]) for a, b in pairwise(ends)]

    return decode


def _number(dtype: str) -> Decode:
    kind = np.dtype(dtype)
    return lambda data: np.frombuffer(data, kind)[0].item()


#: Encodings that are files already, or become files.
_FILES: dict[str, Decode] = {"jpeg": _file("jpg"), "png": _file("png"), "pil": _pil}
#: Several JPEG files in one value.
jpegs = _list(_file("jpg"), 0)

_LISTS: dict[str, Decode] = {
    "jpeg_array": jpegs,
    "jpegarray": jpegs,
    **{f"list[{kind}]": _list(decode, 4) for kind, decode in _FILES.items()},
}
_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_PLAIN: dict[str, Decode] = {
    "bytes": bytes,
    "str": bytes.decode,
    "int": _number("<i8"),
    "str_int": lambda data: int(data.decode()),
    "str_float": lambda data: float(data.decode()),
    "str_decimal": bytes.decode,
    "json": json.loads,
    **{name: _number(np.dtype(name).newbyteorder("<").str) for name in _NUMBERS},
}
#: Types of arrays by the byte that stands for them: bits, plus 1 for signed integers and 2 for floats.
_DTYPES = {
    **{8 * size: f"<u{size}" for size in (1, 2, 4, 8)},
    **{8 * size + 1: f"<i{size}" for size in (1, 2, 4, 8)},
    **{8 * size + 2: f"<f{size}" for size in (2, 4, 8)},
}
_SHAPES = ("u1", "<u2", "<u4", "<u8")


def _array(rest: str) -> Decode:
    """Arrays, whose type and shape stand in the encoding's name (`uint8:2,3`) or before the values."""
    name, _, dims = rest.partition(":")
    fixed_type = np.dtype(name).newbyteorder("<") if name in _NUMBERS else None
    fixed_shape = tuple(map(int, dims.split(","))) if dims else None

    def decode(data: bytes) -> dict[str, Any]:
        at = 0
        dtype, shape = fixed_type, fixed_shape
        if dtype is None:
            dtype, at = np.dtype(_DTYPES[data[0]]), 1
        if shape is None:
            width = np.dtype(_SHAPES[data[at] & 3])
            count = data[at] >> 2
            shape = tuple(np.frombuffer(data, width, count, at + 1).tolist())
            at += 1 + width.itemsize * count
        return {"bytes": npy(np.frombuffer(data, dtype, offset=at).reshape(shape)), "path": "x.npy"}

    return decode
