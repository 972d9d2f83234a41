"""A shard cache changes no batch and fetches as few bytes from the store as an optimal cache."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import digests
from tests.prepare_requests import prepare_request
from tests.remote import DelayedFileSystem, upload_shards
from wdsctl.core.errors import UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.storage import hedging
from wdsctl.loader import ShardCache, WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.next_use import UnitUses
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.stores import shard_cache
from wdsctl.loader.stores.shard_cache_folder import unit_file_bytes

URL = "delayed://store/shards"
SAMPLES = 1600
SHARD_SAMPLES = 200
SAMPLE_BYTES = 18_000  # so that a slice is longer than the gap that one request may span
IN_TAR_BYTES = 512 + 36 * 512
pytestmark = pytest.mark.usefixtures("delayed_store")


def parts(i: int) -> dict[str, bytes]:
    return {"bin": i.to_bytes(4, "little") * (SAMPLE_BYTES // 4)}


class Uploaded(NamedTuple):
    root: str  # the dataset on disk
    objects: dict[str, bytes]  # its copy in the store
    data_home: Path  # with the catalog of the copy


@pytest.fixture(scope="module")
def uploaded(tmp_path_factory: pytest.TempPathFactory) -> Uploaded:
    folder = tmp_path_factory.mktemp("uploaded")
    DelayedFileSystem.reset()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(folder / "data-home"))
        root = a_dataset(folder / "local", SAMPLES, shard_samples=SHARD_SAMPLES, parts=parts, split={"train": 1})
        upload_shards(root, URL)
        prepare(URL, None, prepare_request(sample_type="CrudeSample", split={"train": 1}))
    return Uploaded(root, dict(DelayedFileSystem.files), folder / "data-home")


@pytest.fixture
def local(uploaded: Uploaded, delayed_store: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset on disk; the store has a copy."""
    monkeypatch.setattr(hedging, "HEDGED_SHARE", 0.0)
    monkeypatch.setattr(hedging, "_POLICIES", {})
    DelayedFileSystem.reset()
    DelayedFileSystem.files.update(uploaded.objects)
    shutil.copytree(uploaded.data_home, tmp_path / "data-home")
    return uploaded.root


def a_training(path: str, cache: ShardCache | None = None, workers: int = 0, **options: Any) -> Any:
    options = {"lanes": 4, "max_samples_per_sequence": 16, "shuffle_buffer_size": 64, **options}
    config = WorkerConfig(num_workers=workers)
    dataset = get_train_dataset(path, batch_size=8, task_encoder=Raw(), worker_config=config, **options)
    return get_loader(dataset, shard_cache=cache)


def gbytes(share: float) -> float:
    """Return the size of this share of the data in GiB."""
    return share * SAMPLES * (SAMPLE_BYTES + 512) / (1 << 30)


def fetched_bytes() -> int:
    return sum(stop - start for _, start, stop in DelayedFileSystem.reads)


def misses_by_epoch(traces: Sequence[Sequence[int]], capacity: int, *, is_optimal: bool) -> list[int]:
    """Count the misses in each epoch of a cache of `capacity` units: of the optimal one, which may also discard the
    unit just read, or of one that evicts the least recently used unit."""
    trace = [unit for each in traces for unit in each]
    next_uses: list[float] = [0.0] * len(trace)
    seen: dict[int, int] = {}
    for i in range(len(trace) - 1, -1, -1):
        next_uses[i] = seen.get(trace[i], float("inf"))
        seen[trace[i]] = i
    distances: dict[int, float] = {}  # of the cached units
    misses = []
    i = 0
    for each in traces:
        misses.append(0)
        for unit in each:
            misses[-1] += unit not in distances
            distances[unit] = next_uses[i] if is_optimal else -i
            if len(distances) > capacity:
                del distances[max(distances, key=distances.__getitem__)]
            i += 1
    return misses


def flush(loader: Any) -> None:
    """Wait until the cache has written everything."""
    loader._stream.streams.components[0].cached_units._cache.flush()


def test_shard_cache_fetches_as_few_bytes_as_optimal_cache(local: str, tmp_path: Path) -> None:
    """The cache itself is optimal; prefetching adds a few fetches, before units read meanwhile are evicted."""
    loader = a_training(URL, ShardCache(tmp_path / "cache", gbytes(0.2)))
    of_epoch = []
    for _ in range(5):
        DelayedFileSystem.reads.clear()
        for _ in range(SAMPLES // 8 // 4):
            digests(loader, 4)
            flush(loader)  # as if the disk kept up with this loop
        of_epoch.append(fetched_bytes() / (16 * IN_TAR_BYTES))

    order = loader._stream.streams.components[0].order
    uses = UnitUses(order, [LaneOrder(order, Lane(root)) for root in range(4)])
    traces = [uses.trace(epoch)[0].tolist() for epoch in range(6)]
    capacity = int(gbytes(0.2) * (1 << 30)) // unit_file_bytes([SAMPLE_BYTES] * 16)
    optimal, lru = (misses_by_epoch(traces, capacity, is_optimal=each) for each in (True, False))

    assert sum(of_epoch[1:]) <= 1.03 * sum(optimal[1:5])
    assert sum(lru[1:5]) > 1.1 * sum(optimal[1:5])


@pytest.mark.parametrize(("workers", "share"), [(0, 0.2), (2, 0.2), (2, 2.0)])
def test_batches_and_states_with_shard_cache_equal_local_ones(
    local: str, tmp_path: Path, workers: int, share: float
) -> None:
    with (
        a_training(local) as expected,
        a_training(URL, ShardCache(tmp_path / "cache", gbytes(share)), workers) as actual,
    ):
        assert digests(actual, 240) == digests(expected, 240)  # more than an epoch
        assert actual.state_dict()["cursors"] == expected.state_dict()["cursors"]
        state = actual.state_dict()
        next_uses = digests(expected, 80)
        assert actual.stats.stores[URL].cached_bytes > 0

    with a_training(URL, ShardCache(tmp_path / "cache", gbytes(share)), 2 - workers) as resumed:
        resumed.load_state_dict(state)
        assert digests(resumed, 80) == next_uses


def test_large_shard_cache_fetches_each_byte_once(local: str, tmp_path: Path) -> None:
    with a_training(URL, ShardCache(tmp_path / "cache", gbytes(2.0)), 0) as loader:
        digests(loader, SAMPLES // 8 + 40)
        flush(loader)
        DelayedFileSystem.reads.clear()
        digests(loader, SAMPLES // 8)

    assert fetched_bytes() < 0.05 * SAMPLES * SAMPLE_BYTES


def test_damaged_and_missing_cache_files_are_fetched_again(local: str, tmp_path: Path, caplog: Any) -> None:
    cache = ShardCache(tmp_path / "cache", gbytes(2.0))
    expected = digests(a_training(local), 375)
    with a_training(URL, cache) as loader:
        assert digests(loader, 250) == expected[:250]
        flush(loader)
        files = sorted(path for path in Path(cache.folder).glob("??/*") if path.is_file())
        assert len(files) > 50
        for number, path in enumerate(files):
            data = bytearray(path.read_bytes())
            if number % 3 == 0:
                data[-5] ^= 1
                path.write_bytes(data)
            elif number % 3 == 1:
                path.write_bytes(data[: len(data) // 2])
            else:
                path.unlink()
        with caplog.at_level(logging.WARNING):
            assert digests(loader, 125) == expected[250:]
    assert "is damaged; fetching unit" in caplog.text


def test_full_disk_disables_shard_cache_with_one_warning(
    local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def raise_disk_full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shard_cache, "write_cached_unit", raise_disk_full)
    with caplog.at_level(logging.WARNING), a_training(URL, ShardCache(tmp_path / "cache", gbytes(2.0))) as loader:
        assert digests(loader, 100) == digests(a_training(local), 100)
    assert caplog.text.count("shard cache disabled; reading from the stores instead") == 1


def test_unwritable_cache_folder_is_reported_and_run_continues(local: str, tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING), a_training(URL, ShardCache(tmp_path / "file" / "cache")) as loader:
        assert digests(loader, 10) == digests(a_training(local), 10)
    assert "cannot open the shard cache" in caplog.text


def test_shard_cache_is_reused_by_later_jobs_but_not_shared_by_concurrent_ones(local: str, tmp_path: Path) -> None:
    first = ShardCache(tmp_path / "cache", gbytes(2.0))
    with a_training(URL, first) as loader:
        digests(loader, SAMPLES // 8)
        flush(loader)
        second = ShardCache(tmp_path / "cache", gbytes(2.0))
        with a_training(URL, second) as other:
            digests(other, 10)
        assert second.folder != first.folder
    folder = first.folder
    first.close()
    second.close()

    third = ShardCache(tmp_path / "cache", gbytes(2.0))
    DelayedFileSystem.reads.clear()
    with a_training(URL, third) as loader:
        assert digests(loader, 100) == digests(a_training(local), 100)
    assert third.folder == folder
    assert fetched_bytes() < 10 * 16 * SAMPLE_BYTES


def test_shard_cache_is_not_used_for_other_bytes_of_same_layout(local: str, tmp_path: Path) -> None:
    cache = ShardCache(tmp_path / "cache", gbytes(2.0))
    with a_training(URL, cache) as loader:
        digests(loader, 100)
        flush(loader)
    cache.close()
    others = a_dataset(
        tmp_path / "others",
        SAMPLES,
        shard_samples=SHARD_SAMPLES,
        parts=lambda i: parts(SAMPLES - i),
        split={"train": 1},
    )
    expected = digests(a_training(others), 100)
    assert expected != digests(a_training(local), 100)
    # Another dataset, as with the features of another model; then new bytes under the same names.
    for url in ("delayed://store/others", URL):
        upload_shards(others, url)
        prepare(url, None, prepare_request(sample_type="CrudeSample", split={"train": 1}))
        cache = ShardCache(tmp_path / "cache", gbytes(2.0))
        with a_training(url, cache) as loader:
            assert digests(loader, 100) == expected
            flush(loader)
        cache.close()


def test_shard_cache_replaces_index_of_other_version(local: str, tmp_path: Path) -> None:
    first = ShardCache(tmp_path / "cache", gbytes(2.0))
    with a_training(URL, first) as loader:
        digests(loader, 100)
    first.close()
    (Path(first.folder) / "index").write_bytes(b"of another version")

    with a_training(URL, ShardCache(tmp_path / "cache", gbytes(2.0))) as loader:
        assert digests(loader, 100) == digests(a_training(local), 100)


def test_shard_cache_keeps_size_limit(local: str, tmp_path: Path) -> None:
    cache = ShardCache(tmp_path / "cache", gbytes(0.1))
    with a_training(URL, cache, 2) as loader:
        for _ in range(10):
            digests(loader, 25)
            files = [path for path in Path(cache.folder).glob("??/*") if path.is_file()]
            total = sum(os.stat(path).st_blocks * 512 for path in files if path.exists())
            assert total <= gbytes(0.1) * (1 << 30) + 2 * 17 * SAMPLE_BYTES


def test_shard_cache_checks_arguments_and_environment_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for size in (0, float("inf"), float("nan")):
        with pytest.raises(UsageError, match=f"max_gbytes is {size}"):
            ShardCache("cache", size)
    assert shard_cache.cache_from_environment() is None
    monkeypatch.setenv("WDSCTL_SHARD_CACHE", str(tmp_path))
    assert repr(shard_cache.cache_from_environment()) == f"ShardCache('{tmp_path}')"
    monkeypatch.setenv("WDSCTL_SHARD_CACHE_GBYTES", "many")
    with pytest.raises(UsageError, match="WDSCTL_SHARD_CACHE_GBYTES is 'many'"):
        shard_cache.cache_from_environment()
