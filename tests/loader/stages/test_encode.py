"""The stage of `encode_sample`, by itself: over samples that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader import SkipSample
from wdsctl.loader.stages.encode import EncodeCursor, EncodeStage
from wdsctl.loader.stats import Stats


class Numbers:
    """A cursor over samples 0, 1, 2, ..."""

    def __init__(self) -> None:
        self.at = 0
        self.taken = 0

    def take(self, count: int) -> list[Any]:
        self.taken += count
        samples = [{"__key__": str(i), "__restore_key__": (0, 0, i), "n": i} for i in range(self.at, self.at + count)]
        self.at += count
        return samples

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def cursor_of(hook: Callable[[Any], Any], patience: int = 100) -> EncodeCursor:
    return EncodeStage(hook, 1, patience, Stats()).open(Numbers())


def test_a_sample_that_is_skipped_is_replaced_by_the_next_one() -> None:
    def even(sample: Any) -> Any:
        if sample["n"] % 2:
            raise SkipSample
        return sample["n"]

    cursor = cursor_of(even)

    assert cursor.take(5) == [0, 2, 4, 6, 8]
    assert cursor._stage.stats.skipped == 4


def test_a_generator_goes_on_in_the_next_take() -> None:
    def copies(sample: Any) -> Iterator[Any]:
        for copy in range(sample["n"]):
            yield sample["n"], copy

    cursor = cursor_of(copies)

    assert [cursor.take(2) for _ in range(3)] == [[(1, 0), (2, 0)], [(2, 1), (3, 0)], [(3, 1), (3, 2)]]


def test_none_is_an_output_and_a_list_is_one() -> None:
    assert cursor_of(lambda _: None).take(2) == [None, None]
    assert cursor_of(lambda sample: [sample["n"]] * 2).take(2) == [[0, 0], [1, 1]]


def test_a_generator_that_skips_ends_there() -> None:
    def once(sample: Any) -> Iterator[Any]:
        yield sample["n"]
        raise SkipSample

    assert cursor_of(once).take(3) == [0, 1, 2]


def test_after_so_many_that_were_skipped_it_gives_up() -> None:
    def nothing(sample: Any) -> Any:
        raise SkipSample

    cursor = cursor_of(nothing, patience=7)

    with pytest.raises(LoaderError, match="8 samples in a row") as raised:
        cursor.take(1)

    assert raised.value.code == "WDS505"
    assert cursor._stage.stats.skipped == 8


def test_patience_counts_anew_after_each_output() -> None:
    def rare(sample: Any) -> Any:
        if sample["n"] % 8 != 7:
            raise SkipSample
        return sample["n"]

    assert cursor_of(rare, patience=7).take(4) == [7, 15, 23, 31]


def test_a_restore_reads_the_sample_under_way_again_and_no_other() -> None:
    def copies(sample: Any) -> Iterator[Any]:
        for copy in range(3):
            yield sample["n"], copy, float(torch.rand(1))

    cursor = cursor_of(copies)
    cursor.take(5)
    state = cursor.state_dict()
    rest = cursor.take(4)
    source = Numbers()
    restored = EncodeStage(copies, 1, 100, Stats()).open(source)

    restored.load_state_dict(state)

    assert source.taken == 1
    assert restored.take(4) == rest


def test_a_hook_that_changed_the_sample_before_it_failed_is_named_all_the_same() -> None:
    def breaks(sample: Any) -> Any:
        sample.clear()
        raise ValueError("gone")

    with pytest.raises(LoaderError, match="gone"):
        cursor_of(breaks).take(1)
