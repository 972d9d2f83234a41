"""A dataset that grows: what was begun goes on as it was, and what begins anew sees everything."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.loader.datasets import a_dataset, a_shard, numbered
from tests.loader.running import digests, ids, saved_after, training_of
from tests.places import placed
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index

SAMPLES = 96


def grown(root: Path) -> None:
    a_shard(root / "shard-900.tar", ((f"new-{i}", numbered(i)) for i in range(30)))
    index(placed(root))


@pytest.mark.usefixtures("place")
def test_a_state_goes_on_with_the_generation_it_was_saved_on(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    loader = training_of(root)
    state = saved_after(loader, 5)
    truth = digests(training_of(root), 60)[5:]
    grown(tmp_path)
    resumed, fresh = training_of(root), training_of(root)

    resumed.load_state_dict(state)

    assert digests(resumed, 55) == truth
    assert resumed.state_dict()["generations"] == [1]
    assert fresh.config()["order"]["samples"] == SAMPLES + 30
    assert {key for batch in islice(fresh, 64) for key in batch["__key__"]} >= {f"new-{i}" for i in range(30)}
    assert fresh.state_dict()["generations"] == [2]


@pytest.mark.usefixtures("place")
def test_a_loader_that_is_running_does_not_see_what_is_added(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    truth = digests(training_of(root), 60)
    loader = training_of(root)
    first = digests(loader, 5)

    grown(tmp_path)

    assert first + digests(loader, 55) == truth


def test_a_state_goes_on_after_all_shards_were_touched(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = saved_after(training_of(root), 5)
    truth = digests(training_of(root), 60)[5:]
    for path in tmp_path.glob("*.tar"):
        os.utime(path)
    index(root)

    resumed = training_of(root)
    resumed.load_state_dict(state)
    assert digests(resumed, 55) == truth
    assert resumed.state_dict()["generations"] == [1]


@pytest.mark.parametrize("more", [False, True])
def test_a_state_goes_on_after_shards_were_renamed(tmp_path: Path, more: bool) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = saved_after(training_of(root), 5)
    truth = ids(list(islice(training_of(root), 60))[5:])
    for number, path in enumerate(sorted(tmp_path.glob("*.tar"))):
        path.rename(tmp_path / f"renamed-{9 - number}.tar")
    if more:
        grown(tmp_path)
    index(root)

    resumed = training_of(root)
    resumed.load_state_dict(state)
    assert ids(list(islice(resumed, 55))) == truth
    assert resumed.state_dict()["generations"] == [1]


@pytest.mark.usefixtures("place")
def test_a_catalog_without_rows_of_samples_trains_as_one_with_them(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    truth = digests(training_of(root), 60)
    state = saved_after(training_of(root), 5)
    index(root, sample_rows=False)

    resumed = training_of(root)
    resumed.load_state_dict(state)
    assert digests(training_of(root), 60) == truth
    assert digests(resumed, 55) == truth[5:]


def test_a_state_goes_on_when_a_lost_offsets_file_was_made_again(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = saved_after(training_of(root), 5)
    truth = digests(training_of(root), 60)[5:]
    (tmp_path / ".wdsctl" / "offsets-1.bin").unlink()
    index(root)

    resumed = training_of(root)
    resumed.load_state_dict(state)
    assert digests(resumed, 55) == truth


def test_a_generation_whose_shards_have_all_changed_says_so(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = saved_after(training_of(root), 5)
    for path in tmp_path.glob("*.tar"):
        path.unlink()
    a_shard(tmp_path / "shard-900.tar", ((f"new-{i}", numbered(i)) for i in range(30)))
    index(root, missing="drop")

    with pytest.raises(StateMismatch, match="samples of generation 1 that are no longer in the split"):
        training_of(root).load_state_dict(state)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"rubbish" * 99)])
def test_a_generation_that_is_gone_says_so(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=30, parts=numbered)
    state = saved_after(training_of(root), 5)
    grown(tmp_path)
    damage(tmp_path / ".wdsctl" / "offsets-1.bin")

    with pytest.raises(StateMismatch, match="generation 1 of the dataset, which is no longer kept") as raised:
        training_of(root).load_state_dict(state)

    assert raised.value.hint
    assert ".wdsctl" in raised.value.where
