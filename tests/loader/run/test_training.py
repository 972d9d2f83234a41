"""What a training adopts from a state, and which states it rejects."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.build import split_by_ratios
from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import Twice, digests, ids, make_training_loader, save_state_after
from wdsctl.core.errors import LoaderError, StateMismatch
from wdsctl.loader import SkipSample, WorkerConfig, merge_states

SAMPLES = 96


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=30, parts=numbered)


# Other orders.


@pytest.mark.parametrize(
    ("saved", "current", "line"),
    [
        ({}, {"seed": 1}, "seed: 0 in the state, 1 here"),
        ({}, {"worker_config": WorkerConfig(seed_offset=2)}, "seed_offset: 0 in the state, 2 here"),
        ({}, {"shuffle_buffer_size": 50}, "shuffle_buffer_size: 8 in the state, 50 here"),
        ({}, {"shuffle": False}, "shuffle_over_epochs_multiplier: 1 in the state, None here"),
        ({"lanes": 4}, {"lanes": 2}, "lanes: 4 in the state, 2 here"),
        (
            {"lanes": 1, "shuffle_buffer_size": 24},
            {"lanes": 1, "shuffle_buffer_size": 24, "max_samples_per_sequence": 2},
            "max_samples_per_sequence: 16 in the state, 2 here",
        ),
    ],
)
def test_state_of_another_order_is_rejected_with_difference(
    saved: dict[str, Any], current: dict[str, Any], line: str, dataset: str
) -> None:
    state = save_state_after(make_training_loader(dataset, **saved), 3)

    with pytest.raises(StateMismatch) as raised:
        make_training_loader(dataset, **current).load_state_dict(state)

    assert raised.value.message.splitlines()[1:] == [f"  {line}"]
    assert raised.value.code == "WDS501"
    assert raised.value.hint


def test_rejected_state_lists_each_difference_on_a_line(dataset: str) -> None:
    state = save_state_after(make_training_loader(dataset), 3)

    with pytest.raises(StateMismatch) as raised:
        make_training_loader(dataset, seed=1, shuffle=False).load_state_dict(state)

    assert [line.split(":")[0].strip() for line in raised.value.message.splitlines()[1:]] == [
        "shuffle_over_epochs_multiplier",
        "seed",
    ]


def test_state_of_another_dataset_is_rejected(dataset: str, tmp_path: Path) -> None:
    other = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=lambda i: {"txt": b"%d" % i, "json": b"{}"})
    state = save_state_after(make_training_loader(dataset), 3)

    with pytest.raises(StateMismatch, match="changed data: "):
        make_training_loader(other).load_state_dict(state)


def test_state_of_another_split_is_rejected(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered, split={"train": 1.0, "other": 1.0})
    state = save_state_after(make_training_loader(root), 3)

    with pytest.raises(StateMismatch, match=r"split: train in the state, other here"):
        make_training_loader(root, split_part="other").load_state_dict(state)


def test_state_of_replaced_split_is_rejected(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered, split={"train": 1.0, "val": 1.0})
    state = save_state_after(make_training_loader(root), 3)
    split_by_ratios(root, {"train": 1.0, "val": 1.0}, by="sample", seed=5, allow_split_changes=True)

    with pytest.raises(StateMismatch, match="changed data: "):
        make_training_loader(root).load_state_dict(state)


def test_state_of_moved_dataset_is_accepted(dataset: str, tmp_path: Path) -> None:
    loader = make_training_loader(dataset)
    state = save_state_after(loader, 5)
    shutil.copytree(dataset, tmp_path / "moved")
    resumed = make_training_loader(str(tmp_path / "moved"))

    resumed.load_state_dict(state)

    assert digests(resumed, 10) == digests(loader, 10)


# Sizes chosen at the first start are kept.


@pytest.mark.parametrize("world", [2, 4, 3])
def test_default_lane_count_is_taken_from_state(world: int, dataset: str) -> None:
    loader = make_training_loader(dataset)
    state = merge_states([save_state_after(loader, 5)])

    resumed = [make_training_loader(dataset, rank, world) for rank in range(world)]
    for each in resumed:
        each.load_state_dict(state)

    assert {each.config()["order"]["lanes"] for each in resumed} == {8}
    assert make_training_loader(dataset, 0, world).state_dict()["lanes"] == 8 * world


def test_default_slice_size_is_taken_from_state(dataset: str) -> None:
    loader = make_training_loader(dataset, lanes=1, max_samples_per_sequence=3)
    state = save_state_after(loader, 5)
    resumed = make_training_loader(dataset)

    resumed.load_state_dict(state)

    assert resumed.config()["order"]["max_samples_per_sequence"] == 3
    assert digests(resumed, 10) == digests(loader, 10)


def test_lanes_are_split_if_ranks_do_not_divide_them(dataset: str) -> None:
    world = [make_training_loader(dataset, rank, 4, lanes=6, batch_size=3) for rank in range(4)]

    batches = [batch for loader in world for batch in islice(loader, 24)]

    counts = Counter(ids(batches))
    assert set(counts.values()) == {1}
    assert world[0].state_dict()["lanes"] == 12
    assert Counter(epoch for _, epoch, _ in counts)[0] == SAMPLES


# Lanes with few or no samples.


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_training_with_more_lanes_than_samples_continues(samples: int, tmp_path: Path) -> None:
    root = a_dataset(tmp_path, samples, parts=numbered)
    loader = make_training_loader(root, lanes=16, batch_size=2)

    counts = Counter(ids(list(islice(loader, 100))))

    assert set(counts.values()) == {1}


@pytest.mark.parametrize(("samples", "generator"), [(5, False), (40, True)])
def test_training_with_all_samples_skipped_raises(samples: int, generator: bool, tmp_path: Path) -> None:
    class Nothing(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if generator:
                return iter_nothing()
            raise SkipSample

    root = a_dataset(tmp_path, samples, parts=numbered)
    loader = make_training_loader(root, encoder=Nothing(), lanes=16)

    with pytest.raises(LoaderError, match="no output from") as raised:
        next(iter(loader))

    assert raised.value.code == "WDS505"
    assert "SkipSample" in raised.value.hint
    assert loader.stats.skipped == 0


def iter_nothing() -> Iterator[Any]:
    yield from ()


def test_every_lane_finds_single_unskipped_sample(dataset: str) -> None:
    class One(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if int(sample["__key__"]) != 17:
                raise SkipSample
            return sample

    keys = {
        key
        for batch in islice(make_training_loader(dataset, encoder=One(), batch_size=1), 60)
        for key in batch["__key__"]
    }

    assert keys == {"000017"}


# The form of states.


def test_state_contains_no_numpy_numbers(dataset: str) -> None:
    workers = WorkerConfig(rank=np.int64(0), world_size=np.int64(1))  # type: ignore[arg-type]
    loader = make_training_loader(
        dataset, worker_config=workers, seed=np.int64(3), lanes=np.int32(4), batch_size=np.int64(4), shuffle=np.bool_(1)
    )
    state = save_state_after(loader, 5)

    assert types_in(loader.state_dict()) <= {dict, list, str, int, bool, type(None)}
    assert types_in(loader.config()) <= {dict, list, str, int, bool, type(None)}
    same = make_training_loader(dataset, seed=3, lanes=4)
    same.load_state_dict(state, strict=True)


def types_in(value: Any) -> set[type[Any]]:
    if isinstance(value, dict):
        return {dict}.union(*map(types_in, value.values()), *map(types_in, value))
    return {list}.union(*map(types_in, value)) if isinstance(value, list) else {type(value)}


def test_states_are_not_mutated_by_later_batches(dataset: str) -> None:
    loader = make_training_loader(dataset, encoder=Twice())
    states, texts = [], []
    for _ in islice(loader, 30):
        states.append(loader.state_dict())
        texts.append(json.dumps(states[-1]))

    assert [json.dumps(state) for state in states] == texts
    assert len(set(texts)) == len(texts)
