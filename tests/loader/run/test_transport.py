"""compact_batch and expand_batch leave the batches that workers send unchanged."""

from __future__ import annotations

import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.mixed import Everything, a_blend, everything
from wdsctl.loader import CaptioningSample, get_loader, get_train_dataset
from wdsctl.loader.run.transport import CompactBatch, compact_batch, expand_batch
from wdsctl.loader.samples import SourceInfo


def a_training(tmp_path: Path, encoder: Any = None) -> Any:
    path = a_dataset(tmp_path / "data", 20)
    return get_train_dataset(path, batch_size=4, task_encoder=encoder or Raw())


def test_compact_batch_expands_to_same_batch(tmp_path: Path) -> None:
    loader = get_loader(a_training(tmp_path))
    for batch in islice(loader, 8):
        received = pickle.loads(pickle.dumps(compact_batch(batch)))  # noqa: S301 - our own
        assert isinstance(received, CompactBatch)
        assert expand_batch(received, loader.sources) == batch


def test_compact_batch_drops_sources_and_keeps_original_batch(tmp_path: Path) -> None:
    (batch,) = islice(get_loader(a_training(tmp_path)), 1)
    compacted = compact_batch(batch)
    assert compacted.batch["__sources__"] is None
    assert compacted.batch["__restore_key__"] == ()
    assert len(batch["__sources__"]) == len(batch["__restore_key__"]) == 4


def test_compact_batch_of_several_sources_expands_to_same_sources(tmp_path: Path) -> None:
    loader = get_loader(everything(a_blend(tmp_path), task_encoder=Everything()))
    for batch in islice(loader, 20):
        received = expand_batch(pickle.loads(pickle.dumps(compact_batch(batch))), loader.sources)  # noqa: S301 - our own
        assert received["__sources__"] == batch["__sources__"]
        assert received["__restore_key__"] == batch["__restore_key__"]


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        {"tokens": b"abc"},
        {"__restore_key__": ("a", "b")},
        {"__restore_key__": [(0, 1, 2)]},
        {"__restore_key__": ((0, 1, 2), (0, 1, 2, 3))},
        {"__restore_key__": ((0, True, 2),)},
        CaptioningSample(__key__="a", image=b"", caption=""),
    ],
)
def test_compact_batch_leaves_other_batches_unchanged(batch: Any) -> None:
    assert compact_batch(batch) is batch
    assert expand_batch(batch, []) is batch


def test_compact_batch_keeps_sources_with_names() -> None:
    info = SourceInfo(dataset_path="d", index=3, shard_name="s", file_names=("3.jpg",))
    batch = {"__sources__": (info,)}
    assert compact_batch(batch) is batch
