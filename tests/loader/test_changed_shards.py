"""A shard that changed since indexing stops a resumed run, which would drift; other runs skip it with a warning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, a_shard, digest, numbered
from tests.loader.running import digests, ids, json_round_trip, save_state_after, take_batches
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.runtime.failures import ChangedShardError, FatalSampleError

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


def shorten(shard: Path) -> None:
    a_shard(shard, ((f"{i:06}", numbered(i)) for i in range(20, 30)))


def change_keys(shard: Path) -> None:
    size = shard.stat().st_size
    a_shard(shard, ((f"x{i:05}", numbered(i)) for i in range(20, 40)))
    assert shard.stat().st_size == size


def remove(shard: Path) -> None:
    shard.unlink()


def truncate(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-5000])


CHANGES = [shorten, change_keys, remove, truncate]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_resumed_run_raises_at_changed_shard(dataset: Path, change: Callable[[Path], None], workers: int) -> None:
    state = save_state_after(loader_of(dataset), 3)
    change(dataset / "shard-001.tar")

    with resumed(dataset, state, workers) as loader, pytest.raises(ChangedShardError) as raised:
        take_batches(loader, 60)

    assert raised.value.code == "WDS528"
    assert "shard-001.tar" in raised.value.where
    assert raised.value.hint.startswith("restore the shard")


def test_batches_before_changed_shard_are_exact_and_state_resumes(dataset: Path) -> None:
    state = save_state_after(loader_of(dataset), 3)
    expected = digests(resumed(dataset, state), 60)
    shard = dataset / "shard-001.tar"
    whole = shard.read_bytes()
    shorten(shard)
    loader = resumed(dataset, state)
    actual: list[str] = []
    with pytest.raises(ChangedShardError):
        actual.extend(map(digest, loader))
    later = json_round_trip(loader.state_dict())
    shard.write_bytes(whole)

    assert actual == expected[: len(actual)]
    assert digests(resumed(dataset, later), 60 - len(actual)) == expected[len(actual) :]


def test_new_run_skips_changed_shard_and_logs_lost_share(dataset: Path, caplog: pytest.LogCaptureFixture) -> None:
    shorten(dataset / "shard-001.tar")
    with caplog.at_level(logging.WARNING, "wdsctl.loader"), loader_of(dataset) as loader:
        batches = take_batches(loader, 60)

    assert len({key[2] for key in ids(batches)}) == 20 * (SHARDS - 1)
    lines = [line for line in caplog.messages if "shard-001.tar" in line and "cannot be read" in line]
    assert len(lines) == 1
    assert "20 samples skipped, 25% of the split" in lines[0]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_shard_is_logged_once(
    dataset: Path, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    change(dataset / "shard-001.tar")
    with caplog.at_level(logging.WARNING, "wdsctl.loader"), loader_of(dataset) as loader:
        take_batches(loader, 60)

    (line,) = [line for line in caplog.messages if "shard-001.tar" in line and "of the last" not in line]
    assert "restore the shards" in line


def test_changed_shards_option_selects_skip_or_error(dataset: Path) -> None:
    state = save_state_after(loader_of(dataset), 3)
    remove(dataset / "shard-001.tar")

    assert len(take_batches(resumed(dataset, state, changed_shards="skip"), 60)) == 60
    with pytest.raises(ChangedShardError):
        take_batches(loader_of(dataset, changed_shards="error"), 60)
    with pytest.raises(UsageError, match="changed_shards"):
        loader_of(dataset, changed_shards="never")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", [remove, truncate])
def test_changed_shards_skip_continues_after_any_number_of_lost_samples(
    tmp_path: Path, change: Callable[[Path], None], workers: int
) -> None:
    path = Path(a_dataset(tmp_path / "data", 400, shard_samples=200, parts=numbered))
    change(path / "shard-000.tar")
    with loader_of(path, workers, shuffle=False, lanes=2, changed_shards="skip") as loader:
        batches = take_batches(loader, 50)

    assert {key for batch in batches for key in batch["__key__"]} == {f"{i:06}" for i in range(200, 400)}
    assert loader.stats.failed == sum(loader.stats.causes.values()) == 200


def test_validation_skips_all_samples_of_changed_shard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = Path(a_dataset(tmp_path / "data", 400, shard_samples=200, parts=numbered))
    truncate(path / "shard-000.tar")
    options: dict[str, Any] = {"split_part": "train", "batch_size": 4, "task_encoder": Raw()}

    batches = list(get_loader(get_val_dataset(path, changed_shards="skip", **options)))

    assert len(ids(batches)) == 200
    assert "200 samples skipped, 50% of the split" in caplog.text
    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in load") as raised:
        list(get_loader(get_val_dataset(path, **options)))
    assert "changed_shards='skip'" in raised.value.hint


class OpensFiles(Raw):
    """Opens a file of its own, which is missing for some or all samples."""

    def __init__(self, every: int) -> None:
        self.every = every

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) % self.every == 0:
            Path("/no-such-folder/words.txt").read_text()
        return sample


def test_file_that_hook_opens_is_no_changed_shard(dataset: Path) -> None:
    def opening(every: int, state: Any = None, **options: Any) -> Loader:
        loader = get_loader(get_train_dataset(dataset, batch_size=4, task_encoder=OpensFiles(every), **options))
        if state is not None:
            loader.load_state_dict(state)
        return loader

    expected = digests(opening(7), 40)
    state = save_state_after(opening(7), 10)

    assert digests(opening(7, state), 30) == expected[10:], "the hook fails as in the first run"
    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in encode_sample"):
        take_batches(opening(1, changed_shards="skip"), 1)


def test_resumed_validation_raises_at_changed_shard(dataset: Path) -> None:
    def val_loader(state: Any = None) -> Loader:
        loader = get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, task_encoder=Raw()))
        if state is not None:
            loader.load_state_dict(state)
        return loader

    state = save_state_after(val_loader(), 2)
    remove(dataset / "shard-002.tar")

    with pytest.raises(ChangedShardError):
        list(val_loader(state))
    assert len(ids(list(val_loader()))) == 60


def test_copied_shards_and_repeated_index_are_no_changes(dataset: Path) -> None:
    state = save_state_after(loader_of(dataset), 3)
    expected = digests(resumed(dataset, state), 40)
    for shard in dataset.glob("*.tar"):
        data = shard.read_bytes()
        shard.unlink()
        shard.write_bytes(data)

    assert digests(resumed(dataset, state), 40) == expected
    index(str(dataset))
    assert digests(resumed(dataset, state), 40) == expected
