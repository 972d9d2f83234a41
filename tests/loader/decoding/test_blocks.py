"""Memory is taken again when nothing of a batch is left, and not before."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch

from wdsctl.loader.decoding import memory
from wdsctl.loader.decoding.memory import BLOCK_POOL, MIN_BLOCK_BYTES, BlockPool


def where(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(3,), (0, 4), (2, 1 << 20), (1 << 10, 1 << 10, 2)])
def test_a_tensor_is_contiguous_and_of_the_shape_and_type_that_was_asked_for(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = BlockPool().empty(shape, dtype)

    assert (tensor.shape, tensor.dtype) == (torch.Size(shape), dtype)
    assert tensor.is_contiguous()
    tensor.fill_(1)
    assert bool((tensor == 1).all())


def test_memory_comes_again_when_the_tensor_is_gone() -> None:
    made = BlockPool()
    tensor = made.empty((MIN_BLOCK_BYTES,), torch.uint8)
    place = where(tensor)
    del tensor

    assert where(made.empty((MIN_BLOCK_BYTES // 4,), torch.float32)) == place


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda whole: whole[1], id="a row"),
        pytest.param(lambda whole: whole.movedim(-1, 0), id="a view"),
        pytest.param(lambda whole: whole[1].numpy(), id="an array"),
        pytest.param(lambda whole: memoryview(whole[1].numpy()), id="a memoryview"),
        pytest.param(lambda whole: whole.untyped_storage(), id="a storage"),
        pytest.param(lambda whole: torch.utils.dlpack.from_dlpack(whole[1]), id="another library's view"),
        pytest.param(lambda whole: whole[1].detach().view(torch.int8), id="another type"),
    ],
)
def test_memory_stays_while_a_part_of_it_is_held(part: Any) -> None:
    made = BlockPool()
    tensor = made.empty((2, MIN_BLOCK_BYTES), torch.uint8)
    tensor.fill_(7)
    place, held = where(tensor), part(tensor)
    del tensor
    gc.collect()

    other = made.empty((2, MIN_BLOCK_BYTES), torch.uint8)
    other.fill_(9)
    assert where(other) != place
    assert ctypes.string_at(place, MIN_BLOCK_BYTES) == bytes([7]) * MIN_BLOCK_BYTES

    del held
    assert where(made.empty((2, MIN_BLOCK_BYTES), torch.uint8)) == place


def test_what_waits_is_bounded_by_bytes_whether_it_is_taken_again_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_IDLE_BYTES", 4 * MIN_BLOCK_BYTES)
    made = BlockPool()
    held = [made.empty((MIN_BLOCK_BYTES,), torch.uint8) for _ in range(20)]
    places = [where(tensor) for tensor in held]
    while held:
        held.pop(0)

    again = [where(tensor) for tensor in [made.empty((MIN_BLOCK_BYTES,), torch.uint8) for _ in range(4)]]
    assert set(again) == set(places[-4:])
    assert len(made._free) == 4


def test_a_block_that_is_larger_than_all_that_may_wait_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_IDLE_BYTES", 4 * MIN_BLOCK_BYTES)
    made = BlockPool()
    small, large = made.empty((MIN_BLOCK_BYTES,), torch.uint8), made.empty((5 * MIN_BLOCK_BYTES,), torch.uint8)
    place = where(large)
    del small, large

    assert [len(block) for block in made._free] == [5 * MIN_BLOCK_BYTES]
    assert where(made.empty((5 * MIN_BLOCK_BYTES,), torch.uint8)) == place


def test_a_block_of_another_size_goes_on_waiting() -> None:
    made = BlockPool()
    one, two = made.empty((MIN_BLOCK_BYTES,), torch.uint8), made.empty((2 * MIN_BLOCK_BYTES,), torch.uint8)
    places = where(one), where(two)
    del one, two

    again = made.empty((MIN_BLOCK_BYTES,), torch.uint8), made.empty((2 * MIN_BLOCK_BYTES,), torch.uint8)
    assert tuple(map(where, again)) == places


def test_a_child_begins_with_nothing_that_waits() -> None:
    BLOCK_POOL.empty((MIN_BLOCK_BYTES,), torch.uint8)
    assert BLOCK_POOL._free
    child = os.fork()
    if child == 0:
        os._exit(len(BLOCK_POOL._free))

    assert os.waitpid(child, 0)[1] == 0


def test_a_copy_has_memory_of_its_own() -> None:
    made = BlockPool()
    copied = copy.deepcopy(made.empty((MIN_BLOCK_BYTES,), torch.uint8).fill_(3))
    made.empty((MIN_BLOCK_BYTES,), torch.uint8).fill_(4)

    assert bool((copied == 3).all())


def test_threads_do_not_get_the_same_memory() -> None:
    made, all_have_one = BlockPool(), Barrier(4)

    def places() -> list[int]:
        found = []
        for _ in range(50):
            tensor = made.empty((MIN_BLOCK_BYTES,), torch.uint8)
            all_have_one.wait(60)
            found.append(where(tensor))
            all_have_one.wait(60)
            del tensor
        return found

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(places) for _ in range(4)]
        rounds = zip(*(each.result() for each in running), strict=True)

    assert all(len(set(each)) == 4 for each in rounds)
