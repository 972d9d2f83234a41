"""What a NumPy array file is: its type and shape from the header, the range of its numbers where it is not too large.

The format is that of numpy.lib.format (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). Nothing
is unpickled: of an array of objects the shape is told and no more.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.lib import format as npy

from wdsctl.core.media.byte_range import ByteRange

MOST_BYTES = 64 << 20  # of numbers that are looked at
HEADER = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFacts:
    """`dtype` as NumPy writes it. The numbers are None where there are none, or too many to look at.

    `odd`: how many are no finite numbers; the others are told without them.
    """

    dtype: str
    shape: tuple[int, ...]
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    odd: int = 0


def array_facts(source: ByteRange, *, values: bool = True) -> ArrayFacts | None:
    """Facts of an .npy file; None where its header is damaged. `values=False`: the header alone."""
    head = source.head or b""
    if len(head) < min(HEADER, source.size):
        source.seek(0)
        head = source.read(min(HEADER, source.size)) or b""
    file = io.BytesIO(head)
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    except (ValueError, EOFError, TypeError, SyntaxError):
        return None
    facts = ArrayFacts(dtype=str(dtype), shape=tuple(int(side) for side in shape))
    count = int(np.prod(shape, dtype=object)) if shape else 1
    size = count * dtype.itemsize
    if not values or dtype.hasobject or dtype.kind not in "biuf" or not 0 < size <= MOST_BYTES:
        return facts
    source.seek(file.tell())
    data = source.read(size) or b""
    if len(data) < size:
        return facts
    return _with_values(facts, np.frombuffer(data, dtype))


def _with_values(facts: ArrayFacts, numbers: np.ndarray) -> ArrayFacts:
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
