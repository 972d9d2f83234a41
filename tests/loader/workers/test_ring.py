from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.loader.workers.task_runners import Consumer, a_pool
from tests.open_files import open_files

MB = 1 << 20
_SHM_FOLDER = "/dev/shm"  # noqa: S108 - the place where nothing may be


@pytest.fixture(autouse=True)
def inherited() -> set[str]:
    """Return the mappings that other tests left in this process, which a forked worker inherits."""
    return set(Path("/proc/self/maps").read_text().splitlines())


def mapped_bytes(consumer: Consumer, inherited: set[str]) -> int:
    """Return the bytes of anonymous shared memory that the worker itself has mapped."""
    lines = set(Path(f"/proc/{consumer.pool.pids[0]}/maps").read_text().splitlines()) - inherited
    ranges = [line.split()[0].split("-") for line in lines if "memfd:wdsctl" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def test_ring_reuses_blocks_of_deleted_results(inherited: set[str]) -> None:
    with a_pool() as consumer:
        for _ in range(50):
            consumer.submit(("tensor", MB))
            assert consumer.collect().numel() == MB

        assert mapped_bytes(consumer, inherited) < 5 * MB


def test_kept_results_are_not_overwritten(inherited: set[str]) -> None:
    with a_pool(ring_bytes=4 * MB) as consumer:
        consumer.submit(*[("tensor", MB // 2)] * 40)
        kept = [consumer.collect() for _ in range(40)]

        assert mapped_bytes(consumer, inherited) <= 5 * MB
    for number, tensor in enumerate(kept):
        assert bool((tensor == number).all())


def test_results_outlive_pool_and_worker() -> None:
    with a_pool() as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()

    assert int(tensor.sum()) == 0
    tensor += 1
    assert int(tensor.sum()) == MB


def test_view_of_result_keeps_its_block() -> None:
    with a_pool(begin=7) as consumer:
        consumer.submit(("tensor", MB))
        view = consumer.collect()[10:20].numpy()[1:]
        consumer.submit(*[("tensor", MB)] * 20)
        for _ in range(20):
            consumer.collect()

        assert view.tolist() == [7] * 9


def test_writing_to_result_changes_no_other() -> None:
    with a_pool() as consumer:
        consumer.submit(("tensor", MB), ("tensor", MB))
        first, second = consumer.collect(), consumer.collect()
        first.fill_(99)

        assert bool((second == 1).all())


@pytest.mark.parametrize("kind", ["tensor", "blob"])
def test_result_larger_than_ring_is_returned_without_ring(kind: str, inherited: set[str]) -> None:
    with a_pool(ring_bytes=MB) as consumer:
        consumer.submit((kind, 20 * MB), (kind, 20 * MB), (kind, 100))
        results = [consumer.collect() for _ in range(3)]

        assert [len(each) for each in results] == [20 * MB, 20 * MB, 100]
        assert [int(each[-1]) for each in results] == [0, 1, 2]
        assert mapped_bytes(consumer, inherited) < 2 * MB


def test_growing_results_stay_within_ring_size(inherited: set[str]) -> None:
    sizes = [MB // 8 * step for step in range(1, 30)]
    with a_pool(ring_bytes=8 * MB) as consumer:
        for size in sizes:
            consumer.submit(("tensor", size))
            assert consumer.collect().numel() == size
            assert mapped_bytes(consumer, inherited) < 9 * MB


def test_uncollected_results_beyond_ring_do_not_block() -> None:
    with a_pool(ring_bytes=2 * MB, workers=2) as consumer:
        consumer.submit(*[("tensor", MB)] * 10)
        consumer.submit("next", worker=1)

        assert consumer.collect(1) == (1, 0)
        assert [int(consumer.collect()[0]) for _ in range(10)] == list(range(10))


def test_forked_child_that_drops_result_does_not_release_block() -> None:
    with a_pool(begin=5) as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()
        pid = os.fork()
        if not pid:
            del tensor
            os._exit(0)
        os.waitpid(pid, 0)
        consumer.submit(*[("tensor", MB)] * 5)
        others = [consumer.collect() for _ in range(5)]

        assert bool((tensor == 5).all())
        assert len(others) == 5


def test_result_in_forked_child_stays_unchanged_when_consumer_drops_it(inherited: set[str]) -> None:
    with a_pool(begin=5) as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()
        (go, going), (reply, replying) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.read(go, 1)
            os.write(replying, str(set(tensor.numpy().tobytes())).encode())  # the forked child has no threads of torch
            os._exit(0)
        del tensor
        for _ in range(20):
            consumer.submit(("tensor", MB))
            consumer.collect()
        os.write(going, b"x")
        os.waitpid(pid, 0)

        assert os.read(reply, 100) == b"{5}"
        assert mapped_bytes(consumer, inherited) < 5 * MB
    for end in (go, going, reply, replying):
        os.close(end)


def test_ring_creates_no_files_in_dev_shm(inherited: set[str]) -> None:
    """Checks only files that both processes have mapped or open, since other processes may create files there."""
    before = set(open_files(_SHM_FOLDER))
    with a_pool() as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()
        for process in (os.getpid(), consumer.pool.pids[0]):
            maps = set(Path(f"/proc/{process}/maps").read_text().splitlines()) - inherited
            assert not any(_SHM_FOLDER in line for line in maps)
            assert set(open_files(_SHM_FOLDER, process=process)) <= before
        assert torch.is_tensor(tensor)
