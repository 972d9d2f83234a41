"""Values of lines of JSON as tensors, in the dtypes in which LeRobot returns them: float32, int64 and bool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from wdsctl.core.dataset.sequences import FLOATS
from wdsctl.core.errors import SampleFailed
from wdsctl.core.json_text import read_json


def parse_line(data: bytes) -> dict[str, Any]:
    """The object of a line. Raises SampleFailed."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise SampleFailed(f"the line is not valid JSON: {error}", hint=_HINT) from error
    if not isinstance(value, dict):
        raise SampleFailed("the line is not an object", hint=_HINT)
    return value


def feature_value(line: dict[str, Any], name: str) -> Any:
    """The value of a feature. Raises SampleFailed if the line lacks it."""
    value = line.get(name)
    if value is None:
        raise SampleFailed(f"the line has no value {name!r}", hint=_HINT)
    return value


def as_tensor(values: Any, name: str, dtype: str) -> torch.Tensor:
    """A number, or (nested) lists of numbers, as a tensor. Raises SampleFailed for anything else.

    float64 becomes float32, and all integers int64. "NaN" and "Infinity" are numbers of JSON's lines.
    """
    try:
        if dtype in FLOATS:
            array = np.array(values, np.float64).astype(np.float32 if dtype != "float16" else np.float16)
            return torch.from_numpy(array.astype(np.float32))
        array = np.array(values)
        kinds = "b" if dtype == "bool" else "iu"
        if array.dtype.kind not in kinds:
            raise ValueError(f"expected {dtype}, found {array.dtype}")
        return torch.from_numpy(array if dtype == "bool" else array.astype(np.int64))
    except (ValueError, TypeError, OverflowError) as error:
        raise SampleFailed(f"the values of {name!r} are no tensor of {dtype}: {error}", hint=_HINT) from error


def stack_values(values: Sequence[Any], name: str) -> torch.Tensor:
    """Decoded parts of several frames as one tensor, (frames, ...). Raises SampleFailed if they are no tensors of one
    shape."""
    try:
        return torch.stack([value if isinstance(value, torch.Tensor) else torch.as_tensor(value) for value in values])
    except (TypeError, ValueError, RuntimeError) as error:
        raise SampleFailed(
            f"cannot stack the values of {name!r}: {error}",
            hint="choose a decoder that makes tensors of one shape, such as SampleDecoder(image_decode='torchrgb')",
        ) from error


_HINT = "run `wdsctl prepare` on the dataset again"
