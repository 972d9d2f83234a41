from __future__ import annotations

import threading
import time

import pytest
import torch

from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.jpeg import MAX_WAITING_IMAGES, DecodeThreads, default_threads
from wdsctl.loader.decoding.memory import BatchMemory

from .pictures import a_jpeg


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("spec", ["torchrgb8", "torchrgb", "torchrgb16", "rgb8"])
def test_decode_threads_do_not_change_images(spec: str, threads: int) -> None:
    files = [a_jpeg(40 + i % 2, 30, seed=i) for i in range(MAX_WAITING_IMAGES + 9)]
    plain, decoder, pool = SampleDecoder(spec), SampleDecoder(spec, decode_threads=threads), DecodeThreads(threads)
    decode = decoder.function_for("jpg", decoder.memory_for("jpg"), threads=pool)

    with pool.decode_in_parallel():
        images = [decode(data) for data in files]

    assert all(
        torch.equal(torch.as_tensor(i), torch.as_tensor(plain("jpg", d))) for i, d in zip(images, files, strict=True)
    )


def test_threads_fill_batch_memory_in_order() -> None:
    decoder, pool, memory = SampleDecoder("torchrgb8"), DecodeThreads(3), BatchMemory(torch.uint8)
    decode = decoder.function_for("jpg", memory, threads=pool)
    memory.begin(1)
    decode(a_jpeg())
    memory.begin(8)

    with pool.decode_in_parallel():
        images = [decode(a_jpeg(seed=i)) for i in range(8)]

    whole = memory.batch_tensor(images)
    assert whole is not None
    assert torch.equal(whole, torch.stack([decoder("jpg", a_jpeg(seed=i)) for i in range(8)]))


def test_fill_is_deferred_only_inside_decode_in_parallel() -> None:
    done: list[int] = []
    pool = DecodeThreads(2)

    pool.fill(lambda: done.append(1))
    assert done == [1]

    with pool.decode_in_parallel():
        pool.fill(lambda: done.append(2))
        assert done == [1]
    assert done == [1, 2]


def test_fill_runs_immediately_with_one_thread() -> None:
    done: list[int] = []
    pool = DecodeThreads(1)

    with pool.decode_in_parallel():
        pool.fill(lambda: done.append(1))
        assert done == [1]


def test_fills_run_concurrently() -> None:
    barrier = threading.Barrier(2, timeout=60)
    pool = DecodeThreads(2)

    with pool.decode_in_parallel():
        pool.fill(barrier.wait)  # type: ignore[arg-type]  # the return value does not matter
        pool.fill(barrier.wait)  # type: ignore[arg-type]


def fail() -> None:
    raise ValueError("damaged")


def test_error_of_fill_is_raised_and_pool_stays_usable() -> None:
    pool, done = DecodeThreads(2), list[int]()

    def one_fails() -> None:
        with pool.decode_in_parallel():
            pool.fill(fail)
            pool.fill(lambda: time.sleep(0.01))

    with pytest.raises(ValueError, match="damaged"):
        one_fails()

    with pool.decode_in_parallel():
        pool.fill(lambda: done.append(1))
    assert done == [1]


def test_pending_fills_are_dropped_when_body_raises() -> None:
    pool, done = DecodeThreads(2), list[int]()

    def fails_later() -> None:
        with pool.decode_in_parallel():
            pool.fill(lambda: done.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        fails_later()

    pool.fill(lambda: done.append(2))
    assert done == [2]


def test_threads_end_with_their_batch() -> None:
    before = set(threading.enumerate())
    pool = DecodeThreads(4)

    with pool.decode_in_parallel():
        for _ in range(8):
            pool.fill(lambda: None)

    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(("processors", "threads"), [(1, 1), (3, 3), (4, 4), (5, 4), (64, 4)])
def test_default_threads_is_number_of_allowed_processors_up_to_four(
    processors: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 128)  # of the machine, not of this process
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)), raising=False)

    assert default_threads() == threads
