"""A shard that is not what was indexed ends a resumed run, which would drift, and is elsewhere a skip that is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, a_shard, digest, numbered
from tests.loader.running import digests, ids, saved_after, taken, through_json
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.runtime.failures import ChangedShardError

SHARDS = 4


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return Path(a_dataset(tmp_path / "data", 20 * SHARDS, shard_samples=20, parts=numbered))


def loader_of(path: Path, workers: int = 0, **options: Any) -> Loader:
    config = WorkerConfig(num_workers=workers)
    return get_loader(get_train_dataset(path, batch_size=4, task_encoder=Raw(), worker_config=config, **options))


def resumed(path: Path, state: Any, workers: int = 0, **options: Any) -> Loader:
    loader = loader_of(path, workers, **options)
    loader.load_state_dict(state)
    return loader


def shorter(shard: Path) -> None:
    a_shard(shard, ((f"{i:06}", numbered(i)) for i in range(20, 30)))


def of_other_names(shard: Path) -> None:
    size = shard.stat().st_size
    a_shard(shard, ((f"x{i:05}", numbered(i)) for i in range(20, 40)))
    assert shard.stat().st_size == size


def gone(shard: Path) -> None:
    shard.unlink()


def cut_short(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-5000])


CHANGES = [shorter, of_other_names, gone, cut_short]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_a_resumed_run_ends_at_a_shard_that_is_not_what_was_indexed(
    dataset: Path, change: Callable[[Path], None], workers: int
) -> None:
    state = saved_after(loader_of(dataset), 3)
    change(dataset / "shard-001.tar")

    with resumed(dataset, state, workers) as loader, pytest.raises(ChangedShardError) as raised:
        taken(loader, 60)

    assert raised.value.code == "WDS528"
    assert "shard-001.tar" in raised.value.where
    assert raised.value.hint.startswith("restore the shard")


def test_what_came_before_the_error_is_what_would_have_come_and_the_state_there_goes_on(dataset: Path) -> None:
    state = saved_after(loader_of(dataset), 3)
    truth = digests(resumed(dataset, state), 60)
    shard = dataset / "shard-001.tar"
    whole = shard.read_bytes()
    shorter(shard)
    loader = resumed(dataset, state)
    given: list[str] = []
    with pytest.raises(ChangedShardError):
        given.extend(map(digest, loader))
    later = through_json(loader.state_dict())
    shard.write_bytes(whole)

    assert given == truth[: len(given)]
    assert digests(resumed(dataset, later), 60 - len(given)) == truth[len(given) :]


def test_a_run_that_begins_leaves_it_out_and_says_how_much_is_lost(
    dataset: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shorter(dataset / "shard-001.tar")
    with caplog.at_level(logging.WARNING, "wdsctl.loader"), loader_of(dataset) as loader:
        batches = taken(loader, 60)

    assert len({key[2] for key in ids(batches)}) == 20 * (SHARDS - 1)
    lines = [line for line in caplog.messages if "shard-001.tar" in line and "cannot be read" in line]
    assert len(lines) == 1
    assert "20 samples skipped, 25% of the split" in lines[0]


@pytest.mark.parametrize("change", CHANGES)
def test_a_lost_shard_is_one_warning_beside_the_share_of_failures(
    dataset: Path, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    change(dataset / "shard-001.tar")
    with caplog.at_level(logging.WARNING, "wdsctl.loader"), loader_of(dataset) as loader:
        taken(loader, 60)

    (line,) = [line for line in caplog.messages if "shard-001.tar" in line and "of the last" not in line]
    assert "restore the shards" in line


def test_an_option_chooses(dataset: Path) -> None:
    state = saved_after(loader_of(dataset), 3)
    gone(dataset / "shard-001.tar")

    assert len(taken(resumed(dataset, state, changed_shards="skip"), 60)) == 60
    with pytest.raises(ChangedShardError):
        taken(loader_of(dataset, changed_shards="error"), 60)
    with pytest.raises(UsageError, match="changed_shards"):
        loader_of(dataset, changed_shards="never")


def test_a_validation_that_is_resumed_is_held_to_the_same(dataset: Path) -> None:
    def passed(state: Any = None) -> Loader:
        loader = get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, task_encoder=Raw()))
        if state is not None:
            loader.load_state_dict(state)
        return loader

    state = saved_after(passed(), 2)
    gone(dataset / "shard-002.tar")

    with pytest.raises(ChangedShardError):
        list(passed(state))
    assert len(ids(list(passed()))) == 60


def test_a_copy_with_other_times_and_a_dataset_that_was_indexed_again_are_no_changes(dataset: Path) -> None:
    state = saved_after(loader_of(dataset), 3)
    truth = digests(resumed(dataset, state), 40)
    for shard in dataset.glob("*.tar"):
        data = shard.read_bytes()
        shard.unlink()
        shard.write_bytes(data)

    assert digests(resumed(dataset, state), 40) == truth
    index(str(dataset))
    assert digests(resumed(dataset, state), 40) == truth
