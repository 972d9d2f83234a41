from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.loader.workers.works import Consumer, a_pool
from tests.opened import open_files

MB = 1 << 20
_NAMED = "/dev/shm"  # noqa: S108 - the place where nothing may be


@pytest.fixture(autouse=True)
def inherited() -> set[str]:
    """What other tests left mapped here, and what a worker that is forked here inherits."""
    return set(Path("/proc/self/maps").read_text().splitlines())


def mapped_bytes(consumer: Consumer, inherited: set[str]) -> int:
    """What the worker has mapped itself of shared memory without a name."""
    lines = set(Path(f"/proc/{consumer.pool.pids[0]}/maps").read_text().splitlines()) - inherited
    ranges = [line.split()[0].split("-") for line in lines if "memfd:wdsctl" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def test_blocks_are_used_again_when_their_results_are_gone(inherited: set[str]) -> None:
    with a_pool() as consumer:
        for _ in range(50):
            consumer.submit(("tensor", MB))
            assert consumer.collect().numel() == MB

        assert mapped_bytes(consumer, inherited) < 5 * MB


def test_a_consumer_that_keeps_every_result_finds_them_unchanged(inherited: set[str]) -> None:
    with a_pool(ring_bytes=4 * MB) as consumer:
        consumer.submit(*[("tensor", MB // 2)] * 40)
        kept = [consumer.collect() for _ in range(40)]

        assert mapped_bytes(consumer, inherited) <= 5 * MB
    for number, tensor in enumerate(kept):
        assert bool((tensor == number).all())


def test_results_outlive_their_pool_and_their_worker() -> None:
    with a_pool() as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()

    assert int(tensor.sum()) == 0
    tensor += 1
    assert int(tensor.sum()) == MB


def test_a_view_of_a_result_keeps_it() -> None:
    with a_pool(begin=7) as consumer:
        consumer.submit(("tensor", MB))
        view = consumer.collect()[10:20].numpy()[1:]
        consumer.submit(*[("tensor", MB)] * 20)
        for _ in range(20):
            consumer.collect()

        assert view.tolist() == [7] * 9


def test_writing_into_a_result_changes_no_other() -> None:
    with a_pool() as consumer:
        consumer.submit(("tensor", MB), ("tensor", MB))
        first, second = consumer.collect(), consumer.collect()
        first.fill_(99)

        assert bool((second == 1).all())


@pytest.mark.parametrize("kind", ["tensor", "blob"])
def test_a_result_larger_than_the_ring_goes_another_way(kind: str, inherited: set[str]) -> None:
    with a_pool(ring_bytes=MB) as consumer:
        consumer.submit((kind, 20 * MB), (kind, 20 * MB), (kind, 100))
        got = [consumer.collect() for _ in range(3)]

        assert [len(each) for each in got] == [20 * MB, 20 * MB, 100]
        assert [int(each[-1]) for each in got] == [0, 1, 2]
        assert mapped_bytes(consumer, inherited) < 2 * MB


def test_results_that_grow_stay_within_the_ring(inherited: set[str]) -> None:
    sizes = [MB // 8 * step for step in range(1, 30)]
    with a_pool(ring_bytes=8 * MB) as consumer:
        for size in sizes:
            consumer.submit(("tensor", size))
            assert consumer.collect().numel() == size
            assert mapped_bytes(consumer, inherited) < 9 * MB


def test_uncollected_results_beyond_the_ring_block_nobody() -> None:
    with a_pool(ring_bytes=2 * MB, workers=2) as consumer:
        consumer.submit(*[("tensor", MB)] * 10)
        consumer.submit("next", worker=1)

        assert consumer.collect(1) == (1, 0)
        assert [int(consumer.collect()[0]) for _ in range(10)] == list(range(10))


def test_a_forked_child_that_drops_a_result_does_not_give_it_back() -> None:
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


def test_a_result_that_a_forked_child_has_too_stays_as_it_is_when_the_consumer_drops_it(inherited: set[str]) -> None:
    with a_pool(begin=5) as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()
        (go, going), (answer, answering) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.read(go, 1)
            os.write(answering, str(set(tensor.numpy().tobytes())).encode())  # no thread of torch is left here
            os._exit(0)
        del tensor
        for _ in range(20):
            consumer.submit(("tensor", MB))
            consumer.collect()
        os.write(going, b"x")
        os.waitpid(pid, 0)

        assert os.read(answer, 100) == b"{5}"
        assert mapped_bytes(consumer, inherited) < 5 * MB
    for end in (go, going, answer, answering):
        os.close(end)


def test_nothing_has_a_name_in_dev_shm(inherited: set[str]) -> None:
    """Of what both have mapped and open: others of this machine may put things there meanwhile."""
    before = set(open_files(_NAMED))
    with a_pool() as consumer:
        consumer.submit(("tensor", MB))
        tensor = consumer.collect()
        for process in (os.getpid(), consumer.pool.pids[0]):
            maps = set(Path(f"/proc/{process}/maps").read_text().splitlines()) - inherited
            assert not any(_NAMED in line for line in maps)
            assert set(open_files(_NAMED, process=process)) <= before
        assert torch.is_tensor(tensor)
