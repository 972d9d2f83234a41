"""Windows are prefetched before their first sample is needed; prefetching changes timing only."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest
from tests.loader.running import digests
from tests.prepare_requests import prepare_request
from tests.remote import DelayedFileSystem, round_trips, upload_shards
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.storage.read_ahead import process_budget
from wdsctl.loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

URL = "delayed://store/shards"
SAMPLES = 640
pytestmark = pytest.mark.usefixtures("delayed_store")


@pytest.fixture
def local(tmp_path: Path) -> str:
    """A dataset on disk; the store has a copy."""
    split = {"train": 4, "val": 1}
    root = a_dataset(tmp_path / "local", SAMPLES, shard_samples=64, split=split)
    upload_shards(root, URL)
    prepare(URL, None, prepare_request(sample_type="CrudeSample", split=split))
    DelayedFileSystem.reads.clear()
    return root


def a_training(path: str, workers: int = 0, encoder: Any = None, **options: Any) -> Any:
    options = {"lanes": 4, "max_samples_per_sequence": 8, "shuffle_buffer_size": 32, **options}
    config = WorkerConfig(num_workers=workers)
    return get_loader(
        get_train_dataset(path, batch_size=8, task_encoder=encoder or Raw(), worker_config=config, **options)
    )


def wait_until_idle() -> None:
    """Wait until no fetch has run in the background for a moment."""
    idle = 0
    end = time.monotonic() + 20
    while idle < 10 and time.monotonic() < end:
        time.sleep(0.005)
        idle = 0 if process_budget().running_fetches else idle + 1
    assert idle == 10


@pytest.mark.parametrize(
    ("workers", "encoder"),
    [
        pytest.param(0, Raw(), id="bulk"),
        pytest.param(2, Raw(), id="bulk in workers"),
        pytest.param(2, DefaultTaskEncoder(), id="decoded in workers"),
    ],
)
def test_prefetched_batches_and_states_equal_local_ones(local: str, workers: int, encoder: Any) -> None:
    DelayedFileSystem.delay[:] = [0.002]
    DelayedFileSystem.late.append(lambda number: 0.3 if number % 40 == 7 else 0.0)
    with a_training(local, 0, encoder) as expected, a_training(URL, workers, encoder) as actual:
        for _ in range(3):
            assert digests(actual, 20) == digests(expected, 20)
            assert actual.state_dict()["cursors"] == expected.state_dict()["cursors"]
        state = actual.state_dict()
        following = digests(expected, 10)

    with a_training(URL, 2 - workers, encoder) as resumed:
        resumed.load_state_dict(state)
        assert digests(resumed, 10) == following


@pytest.mark.parametrize("workers", [0, 2])
def test_remote_validation_and_finite_training_equal_local_ones(local: str, workers: int) -> None:
    config = WorkerConfig(num_workers=workers)

    def passes(path: str) -> list[str]:
        validation = get_val_dataset(path, batch_size=7, task_encoder=Raw(), worker_config=config)
        training = get_train_dataset(path, batch_size=7, task_encoder=Raw(), worker_config=config, repeat=False)
        with get_loader(validation) as one, get_loader(training) as two:
            return [digest(batch) for loader in (one, two, one) for batch in loader]

    assert passes(URL) == passes(local)


def test_only_first_batches_of_lanes_wait_for_store(local: str) -> None:
    DelayedFileSystem.delay[:] = [0.03]
    loader = a_training(URL)
    digests(loader, 4)
    first = loader.stats.stores[URL]
    stream = iter(loader)
    for _ in range(60):
        next(stream)
        time.sleep(0.01)
    counts = loader.stats.stores[URL].minus(first)

    assert first.stalled_seconds > 0.03
    assert counts.stalled_seconds < 0.15, "of fifteen windows of four lanes, most have arrived in time"
    assert counts.requests > 30


def test_first_batch_takes_three_round_trips(local: str) -> None:
    stream = iter(a_training(URL))

    assert round_trips(lambda: next(stream)) == 3, "whether the catalog is current, facts of its shards, its window"


def test_first_windows_of_all_lanes_are_fetched_in_parallel(local: str) -> None:
    loader = a_training(URL)
    stream = iter(loader)
    next(stream)
    wait_until_idle()
    before = loader.stats.stores[URL].stalled_seconds
    for _ in range(3):
        next(stream)

    assert loader.stats.stores[URL].stalled_seconds == before, "the other three lanes wait for nothing"


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_stats_count_reads_by_store(local: str, workers: int) -> None:
    with a_training(URL, workers) as loader, a_training(local, workers) as local_loader:
        batches = digests(loader, 40)
        counts = loader.stats.stores
        assert len(digests(local_loader, 40)) == len(batches)
        assert local_loader.stats.stores == {}

    assert list(counts) == [URL]
    reads = counts[URL]
    assert reads.requests > 0
    assert reads.bytes > 40 * 8 * 8
    assert (reads.retries, reads.hedges, reads.cached_bytes) == (0, 0, 0)
    assert "stores={" in repr(loader.stats)


def test_prefetch_fetches_no_byte_of_window_twice(local: str) -> None:
    loader = a_training(URL, lanes=1, shuffle_buffer_size=512)
    digests(loader, 30)  # less than half of the window

    again = len(DelayedFileSystem.reads) - len(set(DelayedFileSystem.reads))
    assert again == loader.stats.stores[URL].hedges
