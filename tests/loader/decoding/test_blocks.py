"""BlockPool reuses a block only when no tensor or view refers to it."""

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


def address_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(3,), (0, 4), (2, 1 << 20), (1 << 10, 1 << 10, 2)])
def test_empty_returns_contiguous_tensor_of_shape_and_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = BlockPool().empty(shape, dtype)

    assert (tensor.shape, tensor.dtype) == (torch.Size(shape), dtype)
    assert tensor.is_contiguous()
    tensor.fill_(1)
    assert bool((tensor == 1).all())


def test_block_is_reused_after_tensor_is_deleted() -> None:
    pool = BlockPool()
    tensor = pool.empty((MIN_BLOCK_BYTES,), torch.uint8)
    address = address_of(tensor)
    del tensor

    assert address_of(pool.empty((MIN_BLOCK_BYTES // 4,), torch.float32)) == address


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
def test_block_is_not_reused_while_view_is_alive(part: Any) -> None:
    pool = BlockPool()
    tensor = pool.empty((2, MIN_BLOCK_BYTES), torch.uint8)
    tensor.fill_(7)
    address, live = address_of(tensor), part(tensor)
    del tensor
    gc.collect()

    other = pool.empty((2, MIN_BLOCK_BYTES), torch.uint8)
    other.fill_(9)
    assert address_of(other) != address
    assert ctypes.string_at(address, MIN_BLOCK_BYTES) == bytes([7]) * MIN_BLOCK_BYTES

    del live
    assert address_of(pool.empty((2, MIN_BLOCK_BYTES), torch.uint8)) == address


def test_idle_blocks_are_bounded_by_max_idle_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_IDLE_BYTES", 4 * MIN_BLOCK_BYTES)
    pool = BlockPool()
    live = [pool.empty((MIN_BLOCK_BYTES,), torch.uint8) for _ in range(20)]
    addresses = [address_of(tensor) for tensor in live]
    while live:
        live.pop(0)

    reused = [address_of(tensor) for tensor in [pool.empty((MIN_BLOCK_BYTES,), torch.uint8) for _ in range(4)]]
    assert set(reused) == set(addresses[-4:])
    assert len(pool._free) == 4


def test_block_over_max_idle_bytes_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_IDLE_BYTES", 4 * MIN_BLOCK_BYTES)
    pool = BlockPool()
    small, large = pool.empty((MIN_BLOCK_BYTES,), torch.uint8), pool.empty((5 * MIN_BLOCK_BYTES,), torch.uint8)
    address = address_of(large)
    del small, large

    assert [len(block) for block in pool._free] == [5 * MIN_BLOCK_BYTES]
    assert address_of(pool.empty((5 * MIN_BLOCK_BYTES,), torch.uint8)) == address


def test_blocks_of_other_sizes_stay_idle() -> None:
    pool = BlockPool()
    one, two = pool.empty((MIN_BLOCK_BYTES,), torch.uint8), pool.empty((2 * MIN_BLOCK_BYTES,), torch.uint8)
    addresses = address_of(one), address_of(two)
    del one, two

    reused = pool.empty((MIN_BLOCK_BYTES,), torch.uint8), pool.empty((2 * MIN_BLOCK_BYTES,), torch.uint8)
    assert tuple(map(address_of, reused)) == addresses


def test_forked_child_starts_without_idle_blocks() -> None:
    BLOCK_POOL.empty((MIN_BLOCK_BYTES,), torch.uint8)
    assert BLOCK_POOL._free
    child = os.fork()
    if child == 0:
        os._exit(len(BLOCK_POOL._free))

    assert os.waitpid(child, 0)[1] == 0


def test_deepcopy_has_own_memory() -> None:
    pool = BlockPool()
    clone = copy.deepcopy(pool.empty((MIN_BLOCK_BYTES,), torch.uint8).fill_(3))
    pool.empty((MIN_BLOCK_BYTES,), torch.uint8).fill_(4)

    assert bool((clone == 3).all())


def test_threads_never_share_blocks() -> None:
    pool, barrier = BlockPool(), Barrier(4)

    def addresses() -> list[int]:
        results = []
        for _ in range(50):
            tensor = pool.empty((MIN_BLOCK_BYTES,), torch.uint8)
            barrier.wait(60)
            results.append(address_of(tensor))
            barrier.wait(60)
            del tensor
        return results

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(addresses) for _ in range(4)]
        rounds = zip(*(each.result() for each in futures), strict=True)

    assert all(len(set(each)) == 4 for each in rounds)
