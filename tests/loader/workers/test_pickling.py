from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from wdsctl.loader.workers.pickling import ResultEncoder, decode_result, segment_bytes

_DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.float8_e4m3fn,
]  # fmt: skip


def encode(value: Any) -> list[Any]:
    return ResultEncoder().encode(value)


def round_trip(value: Any, encoder: ResultEncoder | None = None) -> Any:
    segments = [
        memoryview(bytearray(b"".join(bytes(piece) for piece in segment)))
        for segment in (encoder or ResultEncoder()).encode(value)
    ]
    return decode_result(segments)


def encoded_bytes(value: Any) -> int:
    return sum(map(segment_bytes, encode(value)))


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (7, 300), (2, 0, 3)], ids=str)
def test_round_trip_keeps_tensors_of_every_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.randint(0, 2, shape).to(dtype)

    decoded = round_trip(tensor)

    assert (decoded.dtype, decoded.shape) == (tensor.dtype, tensor.shape)
    assert decoded.view(-1).to(torch.complex128).equal(tensor.view(-1).to(torch.complex128))


@pytest.mark.parametrize("items", [2, 5000])
def test_decoded_tensors_and_arrays_are_writable(items: int) -> None:
    tensor, array = round_trip((torch.zeros(items), np.zeros(items)))

    tensor += 1
    array += 1

    assert tensor.sum() == array.sum() == items


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6000).view(2, 3, 1000).transpose(0, 2),
        torch.arange(6000)[::7],
        torch.arange(6000).view(60, 100)[3:5, 2:9],
        torch.arange(4000.0).view(2, 5, 20, 20).contiguous(memory_format=torch.channels_last),
        torch.tensor([3]).expand(10_000),
        torch.complex(torch.ones(900), torch.ones(900)).conj(),
        torch.complex(torch.ones(900), torch.ones(900)).conj().imag,
    ],
    ids=["transposed", "strided", "cut", "channels_last", "expanded", "conjugated", "negated"],
)
def test_round_trip_keeps_values_of_tensors_of_any_layout(tensor: torch.Tensor) -> None:
    assert round_trip(tensor).equal(tensor)


def test_round_trip_keeps_channels_last_layout() -> None:
    tensor = torch.ones(2, 3, 20, 20).contiguous(memory_format=torch.channels_last)

    assert round_trip(tensor).is_contiguous(memory_format=torch.channels_last)


def test_view_of_large_tensor_is_encoded_without_its_base() -> None:
    assert encoded_bytes(torch.zeros(1_000_000)[500:1000]) < 5_000


def test_expanded_tensor_is_encoded_as_one_value() -> None:
    assert encoded_bytes(torch.ones(1).expand(1_000_000)) < 5_000


def test_views_of_one_storage_are_encoded_once_and_stay_shared() -> None:
    base = torch.zeros(100_000)

    whole, part = round_trip((base, base[10:20]))
    whole[12] = 5

    assert part[2] == 5
    assert encoded_bytes([base, base.view(10, 10_000), base[1:]]) < 405_000


def test_round_trip_keeps_tensors_of_different_lengths_at_one_address() -> None:
    array = np.arange(10_000)

    short, long = round_trip((torch.from_numpy(array[:500]), torch.from_numpy(array)))

    assert (short.numel(), int(long[-1])) == (500, 9_999)


def test_decoded_tensor_requires_no_gradient() -> None:
    decoded = round_trip((torch.ones(3000, requires_grad=True) * 2).squeeze())

    assert not decoded.requires_grad
    assert decoded.sum() == 6000


class Tagged(torch.Tensor):
    pass


def test_tensor_subclasses_keep_their_class_out_of_band() -> None:
    tensor = torch.ones(5000).as_subclass(Tagged)

    assert type(round_trip(tensor)) is Tagged
    assert len(encode(tensor)) == 2


def test_round_trip_keeps_sparse_tensors() -> None:
    assert round_trip(torch.eye(3).to_sparse()).to_dense().equal(torch.eye(3))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10_000).reshape(100, 100)[:, ::3],
        np.asfortranarray(np.arange(10_000).reshape(100, 100)),
        np.array([{"a": 1}, None], dtype=object),
        np.zeros(2000, dtype=[("a", "<i4"), ("b", "<f8")]),
        np.array(["a", "bc"]),
        np.zeros((0, 3)),
        np.float32(3),
    ],
    ids=["strided", "fortran", "object", "struct", "text", "empty", "scalar"],
)
def test_round_trip_keeps_arrays(array: Any) -> None:
    decoded = round_trip(array)

    assert decoded.dtype == array.dtype
    np.testing.assert_array_equal(decoded, array)


@pytest.mark.parametrize("size", [0, 10, 2000, 200_000])
def test_round_trip_keeps_bytes_and_bytearrays(size: int) -> None:
    decoded = round_trip([bytes(size), bytearray(size)])

    assert (type(decoded[0]), type(decoded[1])) == (bytes, bytearray)
    assert decoded == [bytes(size), bytearray(size)]


@pytest.mark.parametrize("size", [0, 10, 200_000])
def test_round_trip_keeps_memoryviews(size: int) -> None:
    data = bytes(i % 251 for i in range(size + 2))

    decoded, backwards = round_trip((memoryview(data)[1:-1], memoryview(data)[::-1]))

    assert (type(decoded), decoded.readonly, bytes(decoded)) == (memoryview, True, data[1:-1])
    assert bytes(backwards) == data[::-1]


def test_encoder_keeps_no_reference_to_results() -> None:
    array = np.zeros(5000)
    reference = weakref.ref(array)
    gc.disable()
    try:
        segments = ResultEncoder().encode([array])
        del array, segments
        assert reference() is None
    finally:
        gc.enable()


def test_large_buffers_are_encoded_outside_pickle() -> None:
    *buffers, pickle = encode({"image": torch.zeros(3, 64, 64), "mask": np.zeros((64, 64))})

    assert segment_bytes(pickle) < 1_000
    assert [segment_bytes(buffer) for buffer in buffers] == [3 * 64 * 64 * 4, 64 * 64 * 8]


def test_long_bytes_are_encoded_outside_pickle_after_first_result() -> None:
    files = [bytes([number]) * 20_000 for number in range(20)]
    value = [*files, files[3], "text", {"array": np.arange(1000), "short": b"x"}]
    encoder = ResultEncoder()

    first, second = (round_trip(value, encoder) for _ in range(2))
    *buffers, pickle = encoder.encode(value)

    for decoded in (first, second):
        assert decoded[:22] == value[:22]
        assert decoded[20] is decoded[3]
        np.testing.assert_array_equal(decoded[22]["array"], np.arange(1000))
    assert len(buffers) == 21
    assert segment_bytes(pickle) < 1_000


def test_encoder_rarely_checks_results_of_small_values_for_long_bytes() -> None:
    encoder = ResultEncoder()
    numbers = list(range(100_000, 140_000))

    lifts = [encoder._lifts_bytes for _ in range(140) if encoder.encode(numbers)]

    assert sum(lifts) <= 3
