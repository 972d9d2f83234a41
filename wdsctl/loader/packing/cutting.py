"""A stretch of a sample: every field that is as long as the sample is sliced, the others stay."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from wdsctl.core.errors import SampleFailed
from wdsctl.loader.samples import BASE_FIELDS

SLICED = (torch.Tensor, np.ndarray, list, tuple)


def cut(value: Any, start: int, stop: int, length: int) -> Any:
    """Rows `start` to before `stop` of a value that has `length` rows: a new value of the same kind.

    Of a sample, a dict, another dataclass or a named tuple, those fields are sliced that are tensors, arrays, lists or
    tuples with a first dimension of `length`; tensors and arrays as views. Base fields, strings and bytes stay: their
    characters are not what was counted. Raises SampleFailed where nothing has that length.
    """
    if isinstance(value, SLICED) and not hasattr(value, "_fields"):
        if not _has_rows(value, length):
            raise _nothing(length)
        return value[start:stop]
    fields = fields_of(value)
    sliced = {
        name: field[start:stop]
        for name, field in fields.items()
        if name not in BASE_FIELDS and _has_rows(field, length) and not hasattr(field, "_fields")
    }
    if not sliced:
        raise _nothing(length)
    if isinstance(value, dict):
        return type(value)({**value, **sliced})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **sliced)
    return value._replace(**sliced)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dict, dataclass or named tuple by name; none of anything else."""
    if isinstance(value, dict):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return value._asdict() if hasattr(value, "_asdict") else {}


def _has_rows(value: Any, length: int) -> bool:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.ndim > 0 and value.shape[0] == length
    return isinstance(value, (list, tuple)) and len(value) == length


def _nothing(length: int) -> SampleFailed:
    return SampleFailed(
        f"the sample is too long for a pack, and none of its fields has a first dimension of {length:,} to cut",
        hint="make tensors or lists of that length in encode_sample, or choose another `too_long`",
    )
