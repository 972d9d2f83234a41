"""Batches that travel are on arrival what they were."""

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


def test_a_batch_is_on_arrival_what_it_was(tmp_path: Path) -> None:
    loader = get_loader(a_training(tmp_path))
    for batch in islice(loader, 8):
        there = pickle.loads(pickle.dumps(compact_batch(batch)))  # noqa: S301 - our own
        assert isinstance(there, CompactBatch)
        assert expand_batch(there, loader.sources) == batch


def test_what_is_sent_holds_no_source_and_the_batch_here_keeps_its_own(tmp_path: Path) -> None:
    (batch,) = islice(get_loader(a_training(tmp_path)), 1)
    travelling = compact_batch(batch)
    assert travelling.batch["__sources__"] is None
    assert travelling.batch["__restore_key__"] == ()
    assert len(batch["__sources__"]) == len(batch["__restore_key__"]) == 4


def test_batches_of_several_sources_arrive_too(tmp_path: Path) -> None:
    loader = get_loader(everything(a_blend(tmp_path), task_encoder=Everything()))
    for batch in islice(loader, 20):
        there = expand_batch(pickle.loads(pickle.dumps(compact_batch(batch))), loader.sources)  # noqa: S301 - our own
        assert there["__sources__"] == batch["__sources__"]
        assert there["__restore_key__"] == batch["__restore_key__"]


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        {"tokens": b"abc"},
        {"__restore_key__": ("a", "b")},
        {"__restore_key__": ((0, 1, 2), (0, 1, 2, 3))},
        {"__restore_key__": ((0, True, 2),)},
        CaptioningSample(__key__="a", image=b"", caption=""),
    ],
)
def test_what_is_not_numbers_travels_as_it_is(batch: Any) -> None:
    assert compact_batch(batch) is batch
    assert expand_batch(batch, []) is batch


def test_sources_that_know_their_names_travel_as_they_are() -> None:
    info = SourceInfo(dataset_path="d", index=3, shard_name="s", file_names=("3.jpg",))
    batch = {"__sources__": (info,)}
    assert compact_batch(batch) is batch
