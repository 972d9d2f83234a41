"""Plain batches that workers send as raw batches equal those that one process builds."""

from __future__ import annotations

import gc
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, digest
from wdsctl.core.errors import StorageError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.pipeline.bulk import RawBatch, bulk_origins, expand_raw_batch, read_raw_batch
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.runtime.failures import reraise_exception
from wdsctl.loader.workers.pool import WorkerPool

BATCHES = 24  # more than two epochs


def captioned_parts(i: int) -> Parts:
    return {"jpg": bytes([i]) * (2000 + i), "json": json.dumps({"text": i}).encode(), "txt": b"text %d" % i}


def swapped_parts(i: int) -> Parts:
    """Every third sample has its parts in reverse order."""
    parts = captioned_parts(i)
    return parts if i % 3 else {name: parts[name] for name in ("txt", "json", "jpg")}


def empty_parts(i: int) -> Parts:
    return {"jpg": b"", "txt": b"x" * (i % 2)}


TYPED: dict[str, Any] = {"sample_type": "CaptioningSample", "field_map": {"caption": "txt", "image": "jpg"}}


def loader_of(path: Any, workers: int, **options: Any) -> Loader:
    settings = {"batch_size": 8, "lanes": 4, "shuffle_buffer_size": 16, "task_encoder": Raw(), **options}
    config = WorkerConfig(0, 1, workers, global_error_handler=reraise_exception)
    return get_loader(get_train_dataset(path, worker_config=config, **settings))


@pytest.mark.parametrize(
    ("parts", "options"),
    [
        pytest.param(captioned_parts, {}, id="crude"),
        pytest.param(captioned_parts, TYPED, id="typed, fields in another order than parts"),
        pytest.param(empty_parts, TYPED, id="empty parts"),
    ],
)
def test_raw_batches_from_workers_equal_in_process_batches(parts: Any, options: Any, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=parts, **options)
    with loader_of(path, 2) as worker_loader, loader_of(path, 0) as local_loader:
        for actual, expected in islice(zip(worker_loader, local_loader, strict=False), BATCHES):
            assert type(actual) is type(expected)
            assert digest(actual) == digest(expected)
            assert actual["__sources__"] == expected["__sources__"]
        assert worker_loader.state_dict() == local_loader.state_dict()
        assert (worker_loader.stats.samples, worker_loader.stats.batches) == (8 * BATCHES, BATCHES)


def test_raw_batches_of_blend_equal_in_process_batches(tmp_path: Path) -> None:
    paths = [a_dataset(tmp_path / str(i), 40, parts=(captioned_parts, swapped_parts)[i], **TYPED) for i in range(2)]
    entries = [{"path": paths[0], "weight": 2}, {"path": paths[1], "weight": 1, "subflavors": {"from": "second"}}]
    with loader_of({"blend": entries}, 2) as worker_loader, loader_of({"blend": entries}, 0) as local_loader:
        for actual, expected in islice(zip(worker_loader, local_loader, strict=False), BATCHES):
            assert digest(actual) == digest(expected)
            assert actual["__sources__"] == expected["__sources__"]
            assert actual["__subflavors__"] == expected["__subflavors__"]


@pytest.mark.parametrize("parts", [captioned_parts, swapped_parts])
def test_worker_batches_of_different_samples_equal_in_process_batches(parts: Any, tmp_path: Path) -> None:
    def make_parts(i: int) -> Parts:
        return parts(i) if i % 40 else {"txt": b"alone", **parts(i)}

    path = a_dataset(tmp_path, 90, parts=make_parts, **TYPED)
    with loader_of(path, 2) as worker_loader, loader_of(path, 0) as local_loader:
        assert [digest(b) for b in islice(worker_loader, BATCHES)] == [digest(b) for b in islice(local_loader, BATCHES)]


def test_batches_from_workers_are_not_overwritten(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned_parts, **TYPED)
    with loader_of(path, 2) as loader:
        batches = [(batch, digest(batch)) for batch in islice(loader, 60)]
        assert all(digest(batch) == expected for batch, expected in batches)
    assert all(digest(batch) == expected for batch, expected in batches)
    assert {type(part) for batch, _ in batches for part in batch.image} == {bytes}


def test_garbage_collection_in_workers_keeps_raw_batches_intact(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned_parts, **TYPED)
    before = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        with loader_of(path, 2) as worker_loader, loader_of(path, 0) as local_loader:
            assert [digest(b) for b in islice(worker_loader, 30)] == [digest(b) for b in islice(local_loader, 30)]
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("workers", [0, 2])
def test_truncated_shard_error_names_shard_and_key(workers: int, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 40, shard_samples=40, parts=captioned_parts, **TYPED)
    with loader_of(path, workers, batch_size=4) as loader:
        next(iter(loader))
        with (tmp_path / "shard-000.tar").open("r+b") as file:
            file.truncate(20_000)

        with pytest.raises(StorageError) as caught:
            list(islice(loader, 20))

    assert caught.value.code == "WDS403"
    assert "shard-000.tar, key" in caught.value.where


def test_raw_views_from_workers_equal_bytes(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned_parts, **TYPED)
    with loader_of(path, 2, raw="view") as worker_loader, loader_of(path, 0) as local_loader:
        for actual, expected in islice(zip(worker_loader, local_loader, strict=False), BATCHES):
            assert all(isinstance(part, memoryview) and part.readonly for part in actual.image)
            assert [bytes(part) for part in actual.image] == expected.image
            assert [bytes(part) for part in actual.caption] == expected.caption


class RawBatchWorker:
    """A worker that sends four samples of a source, starting at the task's number."""

    def __init__(self, source: SplitSource) -> None:
        self.source = source

    def run_task(self, start: int) -> RawBatch | None:
        source = self.source
        block = source.block(np.arange(start, start + 4), np.full(4, 5))
        plain = source.plain_type(block.common_layout)
        assert plain is not None
        return read_raw_batch([(source, block, 0, 1), (source, block, 1, 4)], plain)

    def close(self) -> None:
        pass


def test_raw_batch_expands_to_batch(tmp_path: Path) -> None:
    with loader_of(a_dataset(tmp_path, 20, parts=captioned_parts, **TYPED), 0) as loader:
        next(iter(loader))
        (source,) = loader.sources
        with WorkerPool(lambda *_: RawBatchWorker(source), lambda _: None, worker_count=1) as pool:
            pool.submit(0, 8)
            raw_batch = pool.peek(0)

    assert isinstance(raw_batch, RawBatch)
    assert bulk_origins(raw_batch) == [
        (0, 5, source.block(np.array([i]), np.zeros(1, int)).ids[0]) for i in range(8, 12)
    ]
    batch = expand_raw_batch(raw_batch, [source])
    assert batch.__key__ == [f"{i:06}" for i in range(8, 12)]
    assert batch.image == [captioned_parts(i)["jpg"] for i in range(8, 12)]
    assert batch.caption == [captioned_parts(i)["txt"] for i in range(8, 12)]
    assert batch.__restore_key__ == tuple(raw_batch.restore_keys)
    assert [source.index for source in batch.__sources__] == list(range(8, 12))


def test_read_raw_batch_is_none_outside_workers(tmp_path: Path) -> None:
    with loader_of(a_dataset(tmp_path, 20, parts=captioned_parts, **TYPED), 0) as loader:
        next(iter(loader))
        assert RawBatchWorker(loader.sources[0]).run_task(0) is None
