"""Plain batches that come from workers as freight are the batches that this process alone would have made."""

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
from wdsctl.loader.workers import WorkerPool

BATCHES = 60


def captioned(i: int) -> Parts:
    return {"jpg": bytes([i]) * (2000 + i), "json": json.dumps({"text": i}).encode(), "txt": b"text %d" % i}


def swapped(i: int) -> Parts:
    """Every third sample has its parts the other way round."""
    parts = captioned(i)
    return parts if i % 3 else {name: parts[name] for name in ("txt", "json", "jpg")}


def empty(i: int) -> Parts:
    return {"jpg": b"", "txt": b"x" * (i % 2)}


TYPED: dict[str, Any] = {"sample_type": "CaptioningSample", "field_map": {"caption": "txt", "image": "jpg"}}


def loader_of(path: Any, workers: int, **options: Any) -> Loader:
    given = {"batch_size": 8, "lanes": 4, "shuffle_buffer_size": 16, "task_encoder": Raw(), **options}
    config = WorkerConfig(0, 1, workers, global_error_handler=reraise_exception)
    return get_loader(get_train_dataset(path, worker_config=config, **given))


@pytest.mark.parametrize(
    ("parts", "options"),
    [
        pytest.param(captioned, {}, id="crude"),
        pytest.param(captioned, TYPED, id="typed, fields in another order than parts"),
        pytest.param(empty, TYPED, id="empty parts"),
    ],
)
def test_batches_from_workers_are_those_of_this_process(parts: Any, options: Any, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=parts, **options)
    with loader_of(path, 2) as ours, loader_of(path, 0) as theirs:
        for mine, other in islice(zip(ours, theirs, strict=False), BATCHES):
            assert type(mine) is type(other)
            assert digest(mine) == digest(other)
            assert mine["__sources__"] == other["__sources__"]
        assert ours.state_dict() == theirs.state_dict()
        assert (ours.stats.samples, ours.stats.batches) == (8 * BATCHES, BATCHES)


def test_batches_of_a_blend_from_workers_are_those_of_this_process(tmp_path: Path) -> None:
    paths = [a_dataset(tmp_path / str(i), 40, parts=(captioned, swapped)[i], **TYPED) for i in range(2)]
    entries = [{"path": paths[0], "weight": 2}, {"path": paths[1], "weight": 1, "subflavors": {"from": "second"}}]
    with loader_of({"blend": entries}, 2) as ours, loader_of({"blend": entries}, 0) as theirs:
        for mine, other in islice(zip(ours, theirs, strict=False), BATCHES):
            assert digest(mine) == digest(other)
            assert mine["__sources__"] == other["__sources__"]
            assert mine["__subflavors__"] == other["__subflavors__"]


@pytest.mark.parametrize("parts", [captioned, swapped])
def test_batches_of_samples_that_differ_are_those_of_this_process_too(parts: Any, tmp_path: Path) -> None:
    def some_lack(i: int) -> Parts:
        return parts(i) if i % 40 else {"txt": b"alone", **parts(i)}

    path = a_dataset(tmp_path, 90, parts=some_lack, **TYPED)
    with loader_of(path, 2) as ours, loader_of(path, 0) as theirs:
        assert [digest(b) for b in islice(ours, BATCHES)] == [digest(b) for b in islice(theirs, BATCHES)]


def test_batches_that_are_kept_never_change(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned, **TYPED)
    with loader_of(path, 2) as loader:
        kept = [(batch, digest(batch)) for batch in islice(loader, 150)]
        assert all(digest(batch) == then for batch, then in kept)
    assert all(digest(batch) == then for batch, then in kept)
    assert {type(part) for batch, _ in kept for part in batch.image} == {bytes}


def test_collecting_garbage_in_a_worker_leaves_freight_alone(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned, **TYPED)
    before = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        with loader_of(path, 2) as ours, loader_of(path, 0) as theirs:
            assert [digest(b) for b in islice(ours, 30)] == [digest(b) for b in islice(theirs, 30)]
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shard_that_was_cut_short_is_named(workers: int, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 40, shard_samples=40, parts=captioned, **TYPED)
    with loader_of(path, workers, batch_size=4) as loader:
        next(iter(loader))
        with (tmp_path / "shard-000.tar").open("r+b") as file:
            file.truncate(20_000)

        with pytest.raises(StorageError) as caught:
            list(islice(loader, 20))

    assert caught.value.code == "WDS403"
    assert "shard-000.tar, key" in caught.value.where


def test_views_from_workers_are_views_of_the_same_bytes(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned, **TYPED)
    with loader_of(path, 2, raw="view") as ours, loader_of(path, 0) as theirs:
        for mine, other in islice(zip(ours, theirs, strict=False), BATCHES):
            assert all(isinstance(part, memoryview) and part.readonly for part in mine.image)
            assert [bytes(part) for part in mine.image] == other.image
            assert [bytes(part) for part in mine.caption] == other.caption


class Carrier:
    """Sends four samples of a source from where a task says."""

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


def test_freight_holds_what_a_batch_is_made_of(tmp_path: Path) -> None:
    with loader_of(a_dataset(tmp_path, 20, parts=captioned, **TYPED), 0) as loader:
        next(iter(loader))
        (source,) = loader.sources
        with WorkerPool(lambda *_: Carrier(source), lambda _: None, worker_count=1) as pool:
            pool.submit(0, 8)
            freight = pool.peek(0)

    assert isinstance(freight, RawBatch)
    assert bulk_origins(freight) == [(0, 5, source.block(np.array([i]), np.zeros(1, int)).ids[0]) for i in range(8, 12)]
    batch = expand_raw_batch(freight, [source])
    assert batch.__key__ == [f"{i:06}" for i in range(8, 12)]
    assert batch.image == [captioned(i)["jpg"] for i in range(8, 12)]
    assert batch.caption == [captioned(i)["txt"] for i in range(8, 12)]
    assert batch.__restore_key__ == tuple(freight.restore_keys)
    assert [source.index for source in batch.__sources__] == list(range(8, 12))


def test_there_is_no_freight_in_this_process(tmp_path: Path) -> None:
    with loader_of(a_dataset(tmp_path, 20, parts=captioned, **TYPED), 0) as loader:
        next(iter(loader))
        assert Carrier(loader.sources[0]).run_task(0) is None
