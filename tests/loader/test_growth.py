"""A dataset that grows: saved jobs continue with the samples they had, and new jobs use all samples."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.loader.datasets import a_dataset, a_shard, digest, numbered
from tests.loader.running import digests, ids, make_training_loader, save_state_after, take_rounds
from tests.places import in_folder_and_memory, place_dataset
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import merge_states

SAMPLES = 96
STEPS = 30  # more than an epoch


def grow_dataset(root: Path) -> None:
    a_shard(root / "shard-900.tar", ((f"new-{i}", numbered(i)) for i in range(30)))
    index(place_dataset(root))


@pytest.mark.usefixtures("place")
def test_state_resumes_with_its_generation_after_growth(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    loader = make_training_loader(root)
    state = save_state_after(loader, 5)
    expected = digests(make_training_loader(root), STEPS)[5:]
    grow_dataset(tmp_path)
    resumed, fresh = make_training_loader(root), make_training_loader(root)

    resumed.load_state_dict(state)

    assert digests(resumed, STEPS - 5) == expected
    assert resumed.state_dict()["generations"] == [1]
    assert fresh.config()["order"]["samples"] == SAMPLES + 30
    assert {key for batch in islice(fresh, 40) for key in batch["__key__"]} >= {f"new-{i}" for i in range(30)}
    assert fresh.state_dict()["generations"] == [2]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_running_loader_ignores_added_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    expected = digests(make_training_loader(root), STEPS)
    loader = make_training_loader(root)
    first = digests(loader, 5)

    grow_dataset(tmp_path)

    assert first + digests(loader, STEPS - 5) == expected


def test_ranks_of_generations_with_equal_data_save_one_job(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    expected = take_rounds([make_training_loader(root, rank, 2) for rank in range(2)], 20)
    early = make_training_loader(root, 0, 2)
    assert early.config()["order"]["samples"] == SAMPLES  # opens generation 1
    grow_dataset(tmp_path)
    (tmp_path / "shard-900.tar").unlink()
    index(root, missing="drop")
    late = make_training_loader(root, 1, 2)
    rounds = take_rounds([early, late], 5)

    states = [loader.state_dict() for loader in (early, late)]
    resumed = [make_training_loader(root, rank, 2) for rank in range(2)]
    for loader in resumed:
        loader.load_state_dict(merge_states(states))

    assert [state["generations"] for state in states] == [[1], [3]]
    assert list(map(digest, rounds + take_rounds(resumed, 15))) == list(map(digest, expected))
    assert resumed[0].state_dict()["generations"] == [3]


def test_state_resumes_after_shards_are_touched(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = save_state_after(make_training_loader(root), 5)
    expected = digests(make_training_loader(root), STEPS)[5:]
    for path in tmp_path.glob("*.tar"):
        os.utime(path)
    index(root)

    resumed = make_training_loader(root)
    resumed.load_state_dict(state)
    assert digests(resumed, STEPS - 5) == expected
    assert resumed.state_dict()["generations"] == [1]


@pytest.mark.parametrize("grows", [False, True])
def test_state_resumes_after_shards_are_renamed(tmp_path: Path, grows: bool) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = save_state_after(make_training_loader(root), 5)
    expected = ids(list(islice(make_training_loader(root), STEPS))[5:])
    for number, path in enumerate(sorted(tmp_path.glob("*.tar"))):
        path.rename(tmp_path / f"renamed-{9 - number}.tar")
    if grows:
        grow_dataset(tmp_path)
    index(root)

    resumed = make_training_loader(root)
    resumed.load_state_dict(state)
    assert ids(list(islice(resumed, STEPS - 5))) == expected
    assert resumed.state_dict()["generations"] == [1]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_catalog_without_sample_rows_trains_identically(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    expected = digests(make_training_loader(root), STEPS)
    state = save_state_after(make_training_loader(root), 5)
    index(root, sample_rows=False)

    resumed = make_training_loader(root)
    resumed.load_state_dict(state)
    assert digests(make_training_loader(root), STEPS) == expected
    assert digests(resumed, STEPS - 5) == expected[5:]


def test_state_resumes_after_lost_offsets_file_is_rewritten(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = save_state_after(make_training_loader(root), 5)
    expected = digests(make_training_loader(root), STEPS)[5:]
    (tmp_path / ".wdsctl" / "offsets-1.bin").unlink()
    index(root)

    resumed = make_training_loader(root)
    resumed.load_state_dict(state)
    assert digests(resumed, STEPS - 5) == expected


def test_state_rejects_generation_with_all_shards_replaced(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = save_state_after(make_training_loader(root), 5)
    for path in tmp_path.glob("*.tar"):
        path.unlink()
    a_shard(tmp_path / "shard-900.tar", ((f"new-{i}", numbered(i)) for i in range(30)))
    index(root, missing="drop")

    with pytest.raises(StateMismatch, match="samples of generation 1 that are no longer in the split"):
        make_training_loader(root).load_state_dict(state)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"rubbish" * 99)])
def test_state_needs_no_offsets_file_of_its_generation(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    loader = make_training_loader(root)
    state = save_state_after(loader, 5)
    expected = digests(loader, 40)
    grow_dataset(tmp_path)
    damage(tmp_path / ".wdsctl" / "offsets-1.bin")

    resumed = make_training_loader(root)
    resumed.load_state_dict(state)
    assert digests(resumed, 40) == expected
