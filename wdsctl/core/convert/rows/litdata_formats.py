"""Formats of LitData's leaves, and the trees that leaves are in.

Source: https://github.com/Lightning-AI/litData (README), and what its writer writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.convert.rows.litdata_nested import nested
from wdsctl.core.convert.rows.mds_encodings import jpegs
from wdsctl.core.convert.rows.pixels import npy, png_of_raw
from wdsctl.core.errors import DatasetError
from wdsctl.core.json_text import read_json
from wdsctl.core.printable import named

Decode = Callable[[bytes], Any]

#: A leaf's place in the values of its row: the names of fields, joined, and places in a list behind them.
Tree = Mapping[str, "int | Sequence[int]"]

_NUMPY = ("<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?")
_TORCH = {
    **dict.fromkeys((0, 1), "<f4"), **dict.fromkeys((2, 3), "<f8"), **dict.fromkeys((4, 5), "<c8"),
    **dict.fromkeys((6, 7), "<c16"), **dict.fromkeys((8, 9), "<f2"), 11: "u1", 12: "i1",
    **dict.fromkeys((13, 14), "<i2"), **dict.fromkeys((15, 16), "<i4"), **dict.fromkeys((17, 18), "<i8"),
    19: "?", 20: "<u2",
}  # fmt: skip


def is_media(form: str) -> bool:
    """Whether a leaf's values are files, or become some."""
    return form.partition(":")[0] not in {"str", "text", "bool", "int", "float", "json"}


def decoder(form: str, index: str) -> Decode:
    """What reads a leaf. Raises DatasetError WDS234 for pickles and what is not known."""
    kind, _, rest = form.partition(":")
    if kind in ("pickle", "graph"):
        raise _refused(f"a value is stored as {form!r}, and reading it could run code", index)
    if kind in ("file", "image", "video", "audio", "nifti", "mesh"):
        return (lambda data: {"bytes": data, "path": f"x.{rest}"}) if rest else bytes
    if kind in ("no_header_numpy", "no_header_tensor") and rest.isdigit():
        dtype = _dtype(_NUMPY if kind == "no_header_numpy" else _TORCH, int(rest))
        return lambda data: _file(np.frombuffer(data, dtype))
    if form not in _PLAIN:
        raise _refused(f"a value is stored as {form!r}, which is not known", index)
    return _PLAIN[form]


def _refused(what: str, index: str) -> DatasetError:
    return DatasetError(what, hint="`-O drop=FIELD` leaves a field out", where=named(index), code="WDS234")


def _dtype(table: Any, number: int) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(table[number])
    except LookupError:
        raise ValueError(f"the type {number} of an array is not known") from None
    return found


def _file(array: NDArray[Any]) -> dict[str, Any]:
    return {"bytes": npy(array), "path": "x.npy"}


def _numpy(data: bytes) -> dict[str, Any]:
    number, count = struct.unpack_from("<2I", data)
    shape = struct.unpack_from(f"<{count}I", data, 8)
    return _file(np.frombuffer(data, _dtype(_NUMPY, number), offset=8 + 4 * count).reshape(shape))


def _tensor(data: bytes) -> dict[str, Any]:
    """As arrays, with big-endian numbers before the values."""
    number, count = struct.unpack_from(">2I", data)
    shape = struct.unpack_from(f">{count}I", data, 8)
    return _file(np.frombuffer(data, _dtype(_TORCH, number), offset=8 + 4 * count).reshape(shape))


_PLAIN: dict[str, Decode] = {
    "str": bytes.decode,
    "text": bytes.decode,
    "bool": lambda data: data[0] != 0,
    "int": lambda data: struct.unpack("<q", data)[0],
    "float": lambda data: struct.unpack("<d", data)[0],
    "json": nested,
    "bytes": bytes,
    "file": bytes,
    "jpeg": lambda data: {"bytes": data, "path": "x.jpg"},
    "jpeg_array": jpegs,
    "pil": lambda data: {"bytes": png_of_raw(data), "path": "x.png"},
    "pdf": lambda data: {"bytes": data, "path": "x.pdf"},
    "tiff": lambda data: {"bytes": data, "path": "x.tif"},
    "tifffile": lambda data: {"bytes": data, "path": "x.tif"},
    "numpy": _numpy,
    "tensor": _tensor,
}


def tree_of(spec: str, leaves: int) -> Tree:
    """Where leaves go, from the text that says the shape of a row. Raises ValueError where it does not fit.

    Names of dicts in dicts are joined with a dot; a list of leaves stays a list. A row that is no dict has fields with
    numbers for names, one that is a single value the field `value`.
    """
    described = read_json(spec)
    root = described[1] if isinstance(described, list) and len(described) == 2 else described
    fields: dict[str, int | Sequence[int]] = {}
    try:
        count = _placed(root, "", fields, 0)
    except RecursionError as error:
        raise ValueError("the shape of a row is nested too deep") from error
    if count != leaves:
        raise ValueError(f"the shape of a row has {count} values, and {leaves} are stored")
    return fields


def _placed(node: Any, name: str, fields: dict[str, int | Sequence[int]], first: int) -> int:
    """Put the leaves below `node` into `fields`; the number of the leaf that comes next."""
    kind, children = node.get("type"), node.get("children_spec") or []
    if kind is None:
        fields[name or "value"] = first
        return first + 1
    if kind.endswith("ict"):
        words = [str(word) for word in read_json(node["context"])]
    elif name and all(child.get("type") is None for child in children):
        fields[name] = range(first, first + len(children))
        return first + len(children)
    else:
        words = [str(i) for i in range(len(children))]
    for word, child in zip(words, children, strict=True):
        first = _placed(child, f"{name}.{word}" if name else word, fields, first)
    return first
