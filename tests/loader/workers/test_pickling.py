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


def there_and_back(value: Any, encoder: ResultEncoder | None = None) -> Any:
    segments = [
        memoryview(bytearray(b"".join(bytes(piece) for piece in segment)))
        for segment in (encoder or ResultEncoder()).encode(value)
    ]
    return decode_result(segments)


def sent_bytes(value: Any) -> int:
    return sum(map(segment_bytes, encode(value)))


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (7, 300), (2, 0, 3)], ids=str)
def test_tensors_of_every_dtype_and_shape_arrive_as_they_were(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.randint(0, 2, shape).to(dtype)

    got = there_and_back(tensor)

    assert (got.dtype, got.shape) == (tensor.dtype, tensor.shape)
    assert got.view(-1).to(torch.complex128).equal(tensor.view(-1).to(torch.complex128))


@pytest.mark.parametrize("items", [2, 5000])
def test_what_arrives_can_be_written_to(items: int) -> None:
    tensor, array = there_and_back((torch.zeros(items), np.zeros(items)))

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
def test_tensors_of_any_layout_arrive_with_their_values(tensor: torch.Tensor) -> None:
    assert there_and_back(tensor).equal(tensor)


def test_channels_last_stays_channels_last() -> None:
    tensor = torch.ones(2, 3, 20, 20).contiguous(memory_format=torch.channels_last)

    assert there_and_back(tensor).is_contiguous(memory_format=torch.channels_last)


def test_a_view_of_a_large_tensor_travels_alone() -> None:
    assert sent_bytes(torch.zeros(1_000_000)[500:1000]) < 5_000


def test_a_repeated_value_travels_once() -> None:
    assert sent_bytes(torch.ones(1).expand(1_000_000)) < 5_000


def test_views_of_one_storage_travel_once_and_stay_together() -> None:
    base = torch.zeros(100_000)

    whole, part = there_and_back((base, base[10:20]))
    whole[12] = 5

    assert part[2] == 5
    assert sent_bytes([base, base.view(10, 10_000), base[1:]]) < 405_000


def test_tensors_over_one_address_of_unlike_lengths_arrive() -> None:
    array = np.arange(10_000)

    short, long = there_and_back((torch.from_numpy(array[:500]), torch.from_numpy(array)))

    assert (short.numel(), int(long[-1])) == (500, 9_999)


def test_a_tensor_that_requires_a_gradient_arrives_without() -> None:
    got = there_and_back((torch.ones(3000, requires_grad=True) * 2).squeeze())

    assert not got.requires_grad
    assert got.sum() == 6000


class Tagged(torch.Tensor):
    pass


def test_subclasses_of_tensors_keep_their_class_out_of_band() -> None:
    tensor = torch.ones(5000).as_subclass(Tagged)

    assert type(there_and_back(tensor)) is Tagged
    assert len(encode(tensor)) == 2


def test_a_sparse_tensor_arrives() -> None:
    assert there_and_back(torch.eye(3).to_sparse()).to_dense().equal(torch.eye(3))


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
def test_arrays_arrive_as_they_were(array: Any) -> None:
    got = there_and_back(array)

    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("size", [0, 10, 2000, 200_000])
def test_bytes_arrive_as_bytes(size: int) -> None:
    got = there_and_back([bytes(size), bytearray(size)])

    assert (type(got[0]), type(got[1])) == (bytes, bytearray)
    assert got == [bytes(size), bytearray(size)]


@pytest.mark.parametrize("size", [0, 10, 200_000])
def test_views_of_bytes_arrive_as_views_of_the_same_bytes(size: int) -> None:
    data = bytes(i % 251 for i in range(size + 2))

    got, backwards = there_and_back((memoryview(data)[1:-1], memoryview(data)[::-1]))

    assert (type(got), got.readonly, bytes(got)) == (memoryview, True, data[1:-1])
    assert bytes(backwards) == data[::-1]


def test_results_are_gone_when_they_were_encoded() -> None:
    array = np.zeros(5000)
    gone = weakref.ref(array)
    gc.disable()
    try:
        segments = ResultEncoder().encode([array])
        del array, segments
        assert gone() is None
    finally:
        gc.enable()


def test_large_memory_is_not_in_the_pickle() -> None:
    *buffers, pickle = encode({"image": torch.zeros(3, 64, 64), "mask": np.zeros((64, 64))})

    assert segment_bytes(pickle) < 1_000
    assert [segment_bytes(buffer) for buffer in buffers] == [3 * 64 * 64 * 4, 64 * 64 * 8]


def test_long_bytes_travel_beside_the_pickle_once_the_encoder_knows_them() -> None:
    files = [bytes([number]) * 20_000 for number in range(20)]
    value = [*files, files[3], "text", {"array": np.arange(1000), "short": b"x"}]
    encoder = ResultEncoder()

    first, second = (there_and_back(value, encoder) for _ in range(2))
    *beside, pickle = encoder.encode(value)

    for got in (first, second):
        assert got[:22] == value[:22]
        assert got[20] is got[3]
        np.testing.assert_array_equal(got[22]["array"], np.arange(1000))
    assert len(beside) == 21
    assert segment_bytes(pickle) < 1_000


def test_results_of_many_small_things_are_asked_only_now_and_then() -> None:
    encoder = ResultEncoder()
    numbers = list(range(100_000, 140_000))

    ways = [encoder._lifts_bytes for _ in range(140) if encoder.encode(numbers)]

    assert sum(ways) <= 3
