"""Cached values round-trip through bytes, and nothing is unpickled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.loader.stores.cache import UncacheableValueError, deserialize_value, serialize_value

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=50),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_round_trip(value: Any) -> None:
    assert deserialize_value(serialize_value(value)) == value


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 0, 3)])
def test_tensors_round_trip_with_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape, dtype=dtype)
    restored = deserialize_value(serialize_value({"x": [tensor, b"between", tensor]}))["x"]

    assert (restored[0].dtype, restored[0].shape, restored[1]) == (dtype, tensor.shape, b"between")
    assert torch.equal(restored[2], tensor)


def test_non_contiguous_tensor_round_trips() -> None:
    tensor = torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1)

    assert torch.equal(deserialize_value(serialize_value(tensor)), tensor)


def test_arrays_round_trip_and_are_writable() -> None:
    array = np.arange(6, dtype=">i2").reshape(2, 3)
    restored = deserialize_value(serialize_value(array))
    restored[0, 0] = 7

    assert (restored.dtype, restored.tolist()) == (array.dtype, [[7, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()]), {"x": [print]}])
def test_serialize_value_rejects_unsafe_types(value: Any) -> None:
    with pytest.raises(UncacheableValueError):
        serialize_value(value)
