from __future__ import annotations

import threading
import time

import pytest
import torch

from wdsctl.loader.decoding import BatchMemory, DecodeThreads, SampleDecoder
from wdsctl.loader.decoding.jpeg import MAX_WAITING_IMAGES, default_threads

from .pictures import a_jpeg


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("spec", ["torchrgb8", "torchrgb", "torchrgb16", "rgb8"])
def test_images_are_the_same_by_any_number_of_threads(spec: str, threads: int) -> None:
    files = [a_jpeg(40 + i % 2, 30, seed=i) for i in range(MAX_WAITING_IMAGES + 9)]
    plain, decoder, pool = SampleDecoder(spec), SampleDecoder(spec, decode_threads=threads), DecodeThreads(threads)
    decode = decoder.function_for("jpg", decoder.memory_for("jpg"), threads=pool)

    with pool.decode_in_parallel():
        images = [decode(data) for data in files]

    assert all(
        torch.equal(torch.as_tensor(i), torch.as_tensor(plain("jpg", d))) for i, d in zip(images, files, strict=True)
    )


def test_images_lie_in_the_memory_of_their_batch_in_their_order() -> None:
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


def test_outside_of_together_nothing_waits() -> None:
    done: list[int] = []
    pool = DecodeThreads(2)

    pool.fill(lambda: done.append(1))
    assert done == [1]

    with pool.decode_in_parallel():
        pool.fill(lambda: done.append(2))
        assert done == [1]
    assert done == [1, 2]


def test_one_thread_waits_for_nothing() -> None:
    done: list[int] = []
    pool = DecodeThreads(1)

    with pool.decode_in_parallel():
        pool.fill(lambda: done.append(1))
        assert done == [1]


def test_fillings_run_side_by_side() -> None:
    both = threading.Barrier(2, timeout=60)
    pool = DecodeThreads(2)

    with pool.decode_in_parallel():
        pool.fill(both.wait)  # type: ignore[arg-type]  # which of the two it is does not matter
        pool.fill(both.wait)  # type: ignore[arg-type]


def fail() -> None:
    raise ValueError("damaged")


def test_an_error_of_any_thread_is_raised_and_the_rest_is_forgotten() -> None:
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


def test_what_waits_when_something_else_fails_is_forgotten() -> None:
    pool, done = DecodeThreads(2), list[int]()

    def fails_later() -> None:
        with pool.decode_in_parallel():
            pool.fill(lambda: done.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        fails_later()

    pool.fill(lambda: done.append(2))
    assert done == [2]


def test_no_thread_outlives_its_batch() -> None:
    before = set(threading.enumerate())
    pool = DecodeThreads(4)

    with pool.decode_in_parallel():
        for _ in range(8):
            pool.fill(lambda: None)

    assert set(threading.enumerate()) <= before


def test_no_more_threads_than_processors_and_never_many() -> None:
    assert 1 <= default_threads() <= 4
