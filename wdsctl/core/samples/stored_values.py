"""Values as MDS and LitData store them: numbers, arrays and raw images, without a file header.

A part that is such a value has an extension that says how to read it: `int64` and `float32` (one number), `float32x3x4`
(an array of this shape), `float32xn` (an array of one dimension), `mdsarray` (an array after its type and shape). All
numbers are little-endian. Nothing is unpickled.

Sources: https://docs.mosaicml.com/projects/streaming (MDS encodings), https://github.com/Lightning-AI/litData (README),
and files that both libraries write.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.media.png import PNG_COLOR_TYPES, encode_png
from wdsctl.core.samples.packed_json import parse_packed_json

NUMBER_TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_ELEMENT_TYPES = (*NUMBER_TYPES, "bool", "complex64", "complex128")
_RAW_EXTENSION = re.compile(rf"({'|'.join(_ELEMENT_TYPES)})(x(?:n|\d{{1,18}}(?:x\d{{1,18}}){{0,31}}))?")

#: Code of an array's type in MDS -> type. The code is the number of bits, plus 1 for signed integers and 2 for floats.
_MDS_DTYPES = {
    **{8 * size: f"<u{size}" for size in (1, 2, 4, 8)},
    **{8 * size + 1: f"<i{size}" for size in (1, 2, 4, 8)},
    **{8 * size + 2: f"<f{size}" for size in (2, 4, 8)},
}
_MDS_SHAPE_DTYPES = ("u1", "<u2", "<u4", "<u8")

_LITDATA_NUMPY_DTYPES = dict(
    enumerate(("<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?"))
)
_LITDATA_TORCH_DTYPES = {
    **dict.fromkeys((0, 1), "<f4"), **dict.fromkeys((2, 3), "<f8"), **dict.fromkeys((4, 5), "<c8"),
    **dict.fromkeys((6, 7), "<c16"), **dict.fromkeys((8, 9), "<f2"), 11: "u1", 12: "i1",
    **dict.fromkeys((13, 14), "<i2"), **dict.fromkeys((15, 16), "<i4"), **dict.fromkeys((17, 18), "<i8"),
    19: "?", 20: "<u2",
}  # fmt: skip


def raw_extension(dtype: np.dtype[Any] | str, shape: tuple[int, ...] | None = None) -> str:
    """The extension of a number (`shape` None), or of an array; a shape of (-1,) is one dimension of any length."""
    name = np.dtype(dtype).name
    if shape is None:
        return name
    return f"{name}x{'x'.join('n' if size < 0 else str(size) for size in shape)}"


def decode_number(data: bytes, dtype: str) -> int | float | bool | complex:
    """One number as a Python number. Raises ValueError if the data have another size."""
    if len(data) != np.dtype(dtype).itemsize:
        raise ValueError(f"a number of type {dtype} has {len(data):,} bytes")
    value: int | float | bool | complex = np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))[0].item()
    return value


def decode_array(data: bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of a known type and shape, (-1,) for one dimension of any length. Raises ValueError."""
    kind = np.dtype(dtype).newbyteorder("<")
    if -1 not in shape and math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"an array of type {dtype} and shape {shape} has {len(data):,} bytes")
    return np.frombuffer(data, kind).reshape(shape).copy()


def decode_mds_array(data: bytes, dtype: str = "") -> NDArray[Any]:
    """An array of MDS: its type unless `dtype` says it, its shape, its values. Raises ValueError, LookupError."""
    at = 0
    kind = np.dtype(dtype).newbyteorder("<") if dtype else None
    if kind is None:
        kind, at = np.dtype(_MDS_DTYPES[data[0]]), 1
    width = np.dtype(_MDS_SHAPE_DTYPES[data[at] & 3])
    count = data[at] >> 2
    shape = tuple(np.frombuffer(data, width, count, at + 1).tolist())
    at += 1 + width.itemsize * count
    return np.frombuffer(data, kind, offset=at).reshape(shape).copy()


def litdata_dtype(number: int, *, is_tensor: bool) -> np.dtype[Any]:
    """The type that LitData calls by this number. Raises ValueError if the number is not known."""
    table = _LITDATA_TORCH_DTYPES if is_tensor else _LITDATA_NUMPY_DTYPES
    if number not in table:
        raise ValueError(f"an array has the unknown type {number}")
    return np.dtype(table[number])


def decode_litdata_array(data: bytes, *, is_tensor: bool = False) -> NDArray[Any]:
    """An array or tensor of LitData: type, number of dimensions, shape, values. Raises ValueError, struct.error.

    These numbers are little-endian before an array, and big-endian before a tensor.
    """
    order = ">" if is_tensor else "<"
    number, count = struct.unpack_from(f"{order}2I", data)
    shape = struct.unpack_from(f"{order}{count}I", data, 8)
    kind = litdata_dtype(number, is_tensor=is_tensor)
    return np.frombuffer(data, kind, offset=8 + 4 * count).reshape(shape).copy()


#: The extension of a raw image.
RAW_IMAGE_EXTENSION = "pil"


def raw_image_to_png(data: bytes, *, level: int = 6) -> bytes:
    """Convert a raw image, as MDS and LitData store it, to PNG without loss.

    The raw image is width, height and length of the mode (32 bits each, little-endian), the mode, and the pixels.
    `level`: of the compression, 0 to 9. Raises ValueError if the sizes do not match, or the mode is not one of L, LA,
    RGB and RGBA.
    """
    if len(data) < 12:
        raise ValueError("a raw image is truncated")
    width, height, count = struct.unpack_from("<3I", data)
    mode = data[12 : 12 + count].decode("ascii", "replace")
    if mode not in PNG_COLOR_TYPES:
        raise ValueError(f"a raw image of mode {mode[:8]!r}: only L, LA, RGB and RGBA can be written as PNG")
    pixels = data[12 + count :]
    if not width or not height or len(pixels) != width * height * len(mode):
        raise ValueError(f"a raw image of {width} x {height} {mode} has {len(pixels):,} bytes of pixels")
    return encode_png(width, height, mode, pixels, level=level)


ValueDecoder = Callable[[bytes], Any]

#: What decoders of stored values raise for invalid bytes.
STORED_VALUE_ERRORS: tuple[type[Exception], ...] = (
    *(ValueError, LookupError, OverflowError, TypeError, MemoryError, struct.error, RecursionError),
)

#: The extensions of values that state their type and shape themselves.
_DECODERS: dict[str, ValueDecoder] = {
    "mdsarray": decode_mds_array,
    **{f"mdsarray-{name}": partial(decode_mds_array, dtype=name) for name in NUMBER_TYPES},
    "litarray": decode_litdata_array,
    "littensor": partial(decode_litdata_array, is_tensor=True),
    "litjson": parse_packed_json,
    "float": float,
}


@lru_cache(maxsize=256)
def stored_value_decoder(extension: str) -> ValueDecoder | None:
    """The function that decodes a part with this extension (in lower case); None if it is no stored value."""
    known = _DECODERS.get(extension)
    match = None if known else _RAW_EXTENSION.fullmatch(extension)
    if match is None:
        return known
    dtype, dims = match[1], match[2]
    if dims is None:
        return partial(decode_number, dtype=dtype)
    shape = (-1,) if dims == "xn" else tuple(map(int, dims[1:].split("x")))
    return partial(decode_array, dtype=dtype, shape=shape)


def is_stored_array(extension: str) -> bool:
    """Whether the values of this extension are arrays."""
    return extension.startswith(("mdsarray", "litarray", "littensor")) or (
        (match := _RAW_EXTENSION.fullmatch(extension)) is not None and match[2] is not None
    )
