"""Finite passes that are broken off and resumed at every step, on any ranks, with hooks that skip and multiply: every
sample comes as often as it should, and no rank begins the next pass while others finish this one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import ids, json_round_trip
from wdsctl.core.hashing import hash_one_value
from wdsctl.loader import AugmentTaskEncoder, Loader, SkipSample, WorkerConfig, get_loader, get_train_dataset

SAMPLES = 13
MAX_RANKS = 6


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=5, parts=numbered)


class Hooks(Raw):
    """Skips samples, and splits or drops batches, differently for every `salt`."""

    def __init__(self, salt: int) -> None:
        super().__init__()
        self.salt = salt

    def number_of(self, sample: Any, below: int) -> int:
        return hash_one_value(self.salt, int(sample["__key__"])) % below


class Skips(Hooks):
    def encode_sample(self, sample: Any) -> Any:
        if self.number_of(sample, 3) == 0:
            raise SkipSample
        return sample


class Splits(Hooks):
    """Makes none to three batches of one."""

    def batch(self, samples: list[Any]) -> Iterator[Any]:
        parts = self.number_of(samples[0], 4)
        size = -(-len(samples) // max(1, parts))
        for start in range(0, len(samples) if parts else 0, size):
            yield super().batch(samples[start : start + size])


class SkipsAndSplits(Splits):
    def encode_sample(self, sample: Any) -> Any:
        if self.number_of(sample, 5) == 0:
            raise SkipSample
        return sample


class Copies(Hooks):
    """Makes none to two samples of one."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(self.number_of(sample, 3)):
            yield {**sample, "copy": copy}


ENCODERS: list[Callable[[int], Any]] = [lambda _: Raw(), Skips, Splits, SkipsAndSplits, Copies]


def ranks(path: str, world: int, encoder: Any, **options: Any) -> list[Loader]:
    dataset = {"repeat": False, "shuffle_buffer_size": 4, "task_encoder": encoder, **options}
    return [
        get_loader(get_train_dataset(path, worker_config=WorkerConfig(rank, world), **dataset)) for rank in range(world)
    ]


def take(world: list[Loader], count: int) -> tuple[list[Any], list[int]]:
    """Returns the samples of one loop over each rank, without padding, and the number of its batches, with padding."""
    loops = [[(batch, loader.is_padding) for batch in islice(loader, count)] for loader in world]
    samples = [ids([batch for batch, is_padding in loop if not is_padding]) for loop in loops]
    return [key for each in samples for key in each], [len(loop) for loop in loops]


def play(path: str, seed: int) -> int:
    """Plays a random history for every step of a pass. Returns the number of passes."""
    choose = random.Random(seed)
    encoder = choose.choice(ENCODERS)(seed)
    # Hooks need a process group for "drop" and "pad".
    uneven = choose.choice(["keep", "drop", "pad"]) if type(encoder) is Raw else "keep"
    ban = [f"{i:06}" for i in choose.sample(range(SAMPLES), choose.choice([0, 4]))]
    batch_size = choose.randint(1, 3)
    options = {"batch_size": batch_size, "uneven": uneven, "ban": ban}
    whole = ranks(path, 1, encoder, **options)
    expected = [Counter(take(whole, 99)[0]) for _ in range(3)]
    world = choose.randint(1, MAX_RANKS)
    counts = take(ranks(path, world, encoder, **options), 99)[1]
    for step in range(max(counts) + 1):
        loaders = ranks(path, world, encoder, **options)
        first, got = take(loaders, step)
        in_step = got == [step] * world
        way = choose.choice(["break", "own", "all", "other ranks"] if in_step else ["all", "other ranks"])
        if way != "break":
            states = [json_round_trip(loader.state_dict()) for loader in loaders]
            after = choose.randint(1, MAX_RANKS) if way == "other ranks" else world
            loaders = ranks(path, after, encoder, **options)
            for rank, loader in enumerate(loaders):
                loader.load_state_dict(states[rank] if way == "own" else states)
        where = f"seed {seed}, {type(encoder).__name__}, {options}, {world} ranks, step {step}, {way}"
        rest, counts_of_rest = take(loaders, 99)
        following, counts_of_following = take(loaders, 99)
        if uneven != "keep":
            assert len(set(counts_of_rest)) == len(set(counts_of_following)) == 1, where
        passes = {key[1] for key in rest}
        assert len(passes) <= 1, f"ranks are a pass apart: {where}"
        begins_next = passes == {1}
        seen = [first, rest, following] if begins_next else [first + rest, following, take(loaders, 99)[0]]
        for number, samples in enumerate(seen):
            assert {key[1] for key in samples} <= {number}, where
            if uneven == "drop":
                assert not Counter(samples) - expected[number], where
                assert sum((expected[number] - Counter(samples)).values()) < batch_size * MAX_RANKS, where
            else:
                assert Counter(samples) == expected[number], where
    return 3 * (max(counts) + 1)


def keys_of_loops(world: list[Loader], count: int) -> list[list[str]]:
    return [[batch["__key__"][0] for batch in islice(loader, count)] for loader in world]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("four"), 4, parts=numbered)


@pytest.mark.parametrize("way", ["break", "own states", "all states"])
def test_rank_without_batch_left_gives_empty_loop_while_others_finish(way: str, four: str) -> None:
    class SkipsLast(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if sample["__key__"] == "000003":
                raise SkipSample
            return sample

    options = {"shuffle": False, "batch_size": 1}
    world = ranks(four, 2, SkipsLast(), **options)
    first = keys_of_loops(world, 1)
    if way != "break":
        states = [json_round_trip(loader.state_dict()) for loader in world]
        world = ranks(four, 2, SkipsLast(), **options)
        for rank, loader in enumerate(world):
            loader.load_state_dict(states[rank] if way == "own states" else states)

    assert first == [["000000"], ["000001"]]
    assert [keys_of_loops(world, 9) for _ in range(2)] == [[["000002"], []], [["000000", "000002"], ["000001"]]]


class OneByOne(Raw):
    """Might make several batches of one."""

    def batch(self, samples: list[Any]) -> Iterator[Any]:
        yield super().batch(samples)


@pytest.mark.parametrize(
    ("encoder", "lengths"),
    [(Raw(), [2, 2]), (Hooks(0), [2, 2]), (OneByOne(), [0, 2]), (AugmentTaskEncoder(OneByOne()), [0, 2])],
    ids=["no hooks", "hooks", "a generator", "a wrapped generator"],
)
def test_loop_after_last_batch_begins_next_pass_if_no_hook_may_make_further_batches(
    encoder: Any, lengths: list[int], four: str
) -> None:
    world = ranks(four, 2, encoder, batch_size=1)
    keys_of_loops(world, 2)

    assert [list(map(len, keys_of_loops(world, 9))) for _ in range(2)] == [[length] * 2 for length in lengths]


def test_rank_with_most_batches_does_not_fall_behind_one_that_has_ended(dataset: str) -> None:
    """Seven batches: rank 1 ends in the round in which rank 0 gets the last one."""
    world = ranks(dataset, 2, Raw(), batch_size=2)
    assert list(map(len, keys_of_loops(world, 4))) == [4, 3]

    assert [{key[1] for key in take([loader], 1)[0]} for loader in world] == [{1}, {1}]


@pytest.mark.parametrize("seed", [16, 19])
def test_pass_broken_off_or_resumed_at_every_step_is_complete_on_all_ranks(seed: int, dataset: str) -> None:
    play(dataset, seed)


@pytest.mark.slow
def test_thousand_histories_of_passes_are_complete_on_all_ranks(dataset: str) -> None:
    assert sum(play(dataset, seed) for seed in range(100, 200)) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 6])
def test_histories_of_padded_and_dropped_passes_with_hooks_are_even_on_all_ranks(
    world: int, dataset: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.loader.pass_history_process"]
    processes = [
        children.Popen(
            [*command, str(rank), str(world), str(tmp_path / "store"), dataset, str(100 * world), "6"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            parent="training",
        )
        for rank in range(world)
    ]
    outputs = [process.communicate(timeout=500) for process in processes]

    assert [process.returncode for process in processes] == [0] * world, "\n".join(errors for _, errors in outputs)
    assert [json.loads(output) for output, _ in outputs] == [[]] * world
