"""The facts of a NumPy array file: type, shape, and the range of its numbers if they are not too many.

The header gives type and shape (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). Nothing is
unpickled: for an array of objects, only type and shape are known.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from tokenize import TokenError
from typing import TYPE_CHECKING, BinaryIO

from wdsctl.core.media.byte_range import ByteRangeFile

if TYPE_CHECKING:
    import numpy as np

MAX_ARRAY_BYTES = 64 << 20  # bytes; larger arrays are not read for their range
NPY_HEADER_BYTES = 64 << 10

#: What NumPy raises for an invalid header, a Python literal. It reads one of Python 2 as tokens.
_HEADER_ERRORS = (SyntaxError, TypeError, EOFError, struct.error, OverflowError, RecursionError, TokenError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFacts:
    """Facts about an array. `dtype` in NumPy's notation.

    `min`, `max` and `mean` are over the finite numbers; None if there are none, or the array is too large to read.
    `odd`: how many numbers are not finite.
    """

    dtype: str
    shape: tuple[int, ...]
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    odd: int = 0


def array_facts(source: ByteRangeFile, *, values: bool = True) -> ArrayFacts | None:
    """Return the facts of an .npy file, or None if its header is damaged. `values=False`: read the header only."""
    import numpy as np  # takes longer than the rest of `inspect`, which seldom meets an array

    head = source.head or b""
    if len(head) < min(NPY_HEADER_BYTES, source.size):
        source.seek(0)
        head = source.read(min(NPY_HEADER_BYTES, source.size)) or b""
    file = io.BytesIO(head)
    try:
        shape, dtype = parse_npy_header(file)
    except ValueError:
        return None
    facts = ArrayFacts(dtype=str(dtype), shape=tuple(int(side) for side in shape))
    count = int(np.prod(shape, dtype=object)) if shape else 1
    size = count * dtype.itemsize
    if not values or dtype.hasobject or dtype.kind not in "biuf" or not 0 < size <= MAX_ARRAY_BYTES:
        return facts
    source.seek(file.tell())
    data = source.read(size) or b""
    if len(data) < size:
        return facts
    return _with_statistics(facts, np.frombuffer(data, dtype))


def parse_npy_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Parse the shape and type of an array. Raises ValueError. Source: numpy.lib.format."""
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"unknown version {version}")
        shape, _, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    except _HEADER_ERRORS as error:
        raise ValueError(str(error)) from error
    return shape, dtype


def _with_statistics(facts: ArrayFacts, numbers: np.ndarray) -> ArrayFacts:
    import numpy as np

    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
    odd = len(numbers) - len(finite)
    if not len(finite):
        return ArrayFacts(dtype=facts.dtype, shape=facts.shape, odd=odd)
    return ArrayFacts(
        dtype=facts.dtype,
        shape=facts.shape,
        min=float(finite.min()),
        max=float(finite.max()),
        mean=float(finite.mean(dtype=np.float64)),
        odd=odd,
    )
