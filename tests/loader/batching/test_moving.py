from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typing_extensions import Self

from tests.loader.datasets import Raw, a_dataset, numbered
from wdsctl.loader import get_loader, get_train_dataset
from wdsctl.loader.batching import batch as moving
from wdsctl.loader.batching.batch import Batch, CrudeBatch
from wdsctl.loader.samples import edataclass
from wdsctl.loader.samples.types import TextSample


class Pinnable:
    """Stands in for a tensor on machines without a GPU: it can be pinned."""

    def __init__(self, device: object = None, *, pinned: bool = False) -> None:
        self.device = device
        self.pinned = pinned

    def pin_memory(self, device: object = None) -> Self:
        return type(self)(device, pinned=True)


class Boxes(NamedTuple):
    corners: Any
    names: list[str]


@edataclass
class Mixed(Batch):
    image: Any
    boxes: Boxes
    meta: dict[str, Any]
    rows: list[Any]
    text: str = "words"


def a_batch(tensor: Any) -> Mixed:
    return Mixed(
        __key__=["1"],
        image=tensor,
        boxes=Boxes(tensor, ["cat"]),
        meta={"mask": tensor, "n": 3},
        rows=[TextSample(__key__="1", text=tensor), (tensor, 1)],
    )


def test_batch_to_moves_nested_tensors_only() -> None:
    batch = a_batch(torch.zeros(2))

    moved = batch.to("meta", non_blocking=True)

    assert type(moved) is Mixed
    assert {moved.image.device.type, moved.boxes.corners.device.type, moved.meta["mask"].device.type} == {"meta"}
    assert moved.rows[0].text.device.type == moved.rows[1][0].device.type == "meta"
    assert (moved.text, moved.meta["n"], moved.boxes.names, moved.rows[1][1]) == ("words", 3, ["cat"], 1)
    assert moved.__key__ == ["1"]
    assert batch.image.device.type == "cpu"


def test_batch_pin_memory_pins_nested_tensors() -> None:
    pinned = a_batch(Pinnable()).pin_memory()

    assert pinned.image.pinned
    assert pinned.boxes.corners.pinned
    assert pinned.meta["mask"].pinned
    assert pinned.rows[0].text.pinned
    assert pinned.rows[1][0].pinned
    assert a_batch(Pinnable()).pin_memory("cuda:1").image.device == "cuda:1"


class Tensors(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "number": torch.tensor(int(sample["__key__"]))}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is something to pin for")
def test_pin_memory_warns_and_loads_without_accelerator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moving._has_accelerator.cache_clear()
    path = a_dataset(tmp_path, 8, shard_samples=4, parts=numbered)
    dataset = get_train_dataset(path, batch_size=2, task_encoder=Tensors())

    batches = list(islice(get_loader(dataset, pin_memory=True), 3))

    assert [len(batch["__key__"]) for batch in batches] == [2, 2, 2]
    assert caplog.messages == ["pin_memory=True has no effect: this machine has no accelerator"]


def test_crude_batch_to_moves_tensors() -> None:
    moved = CrudeBatch(jpg=torch.zeros(2), txt=["a"]).to("meta")

    assert type(moved) is CrudeBatch
    assert (moved.jpg.device.type, moved.txt) == ("meta", ["a"])


def test_batch_to_moves_nested_batch() -> None:
    moved = CrudeBatch(inner=CrudeBatch(x=torch.zeros(1))).to("meta")

    assert type(moved.inner) is CrudeBatch
    assert moved.inner.x.device.type == "meta"


def test_batch_to_keeps_channels_last_format() -> None:
    image = torch.zeros(2, 4, 6, 3).movedim(-1, 1)

    assert CrudeBatch(jpg=image).to("meta").jpg.is_contiguous(memory_format=torch.channels_last)
