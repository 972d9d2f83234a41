"""A state whose generation wdsctl no longer keeps: it resumes as long as its rows exist, and only then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_shard, digest, numbered
from tests.loader.running import digests, make_training_loader, save_state_after, take_batches
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import Buckets, WorkerConfig, get_loader, get_val_dataset

UNSURE = PrepareRequest(sample_type="CrudeSample")


def add_shard(root: Path, split: str, number: int, samples: int = 20) -> None:
    first = number * 100
    a_shard(root / f"{split}-{number:03d}.tar", ((f"{i:06}", numbered(i)) for i in range(first, first + samples)))


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Shards whose names say their split, so that new shards of `val` do not change `train`."""
    root = tmp_path / "data"
    for number in range(3):
        add_shard(root, "train", number)
    add_shard(root, "val", 3)
    prepare(str(root), None, UNSURE)
    return root


def grow_until_gone(root: Path, split: str) -> None:
    """Add shards to a split until the first generation is gone."""
    for number in range(4, 8):
        add_shard(root, split, number)
        index(str(root))
    assert not os.path.exists(locate(str(root)).offsets_path(1))


def index_again(root: Path) -> None:
    """Index from scratch: a new catalog, whose generations begin at 1."""
    grow_until_gone(root, "val")
    shutil.rmtree(root / ".wdsctl")
    prepare(str(root), None, UNSURE)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", [lambda root: grow_until_gone(root, "val"), index_again], ids=["grown", "again"])
def test_state_of_gone_generation_continues_on_equal_data(
    dataset: Path, change: Callable[[Path], None], workers: int
) -> None:
    loader = make_training_loader(str(dataset))
    state = save_state_after(loader, 5)
    expected = digests(loader, 30)
    if change is index_again:  # the state of a generation that the new catalog has not reached
        state = add_digests({**state, "generations": [5]})
    change(dataset)

    resumed = make_training_loader(str(dataset), worker_config=WorkerConfig(0, 1, num_workers=workers))
    resumed.load_state_dict(state)
    assert digests(resumed, 30) == expected
    assert resumed.state_dict()["generations"] == [1]


def test_pass_of_gone_generation_continues_on_equal_data(dataset: Path) -> None:
    loader = get_loader(get_val_dataset(str(dataset), batch_size=4, split_part="train", task_encoder=Raw()))
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    expected = [digest(batch) for batch in batches]
    grow_until_gone(dataset, "val")

    resumed = get_loader(get_val_dataset(str(dataset), batch_size=4, split_part="train", task_encoder=Raw()))
    resumed.load_state_dict(state)
    assert [digest(batch) for batch in resumed] == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_state_of_gone_generation_continues_on_grown_data(dataset: Path, workers: int) -> None:
    loader = make_training_loader(str(dataset), lanes=2)
    state = save_state_after(loader, 5)
    expected = digests(loader, 40)
    grow_until_gone(dataset, "train")

    resumed = make_training_loader(str(dataset), lanes=2, worker_config=WorkerConfig(0, 1, num_workers=workers))
    resumed.load_state_dict(state)
    assert digests(resumed, 40) == expected
    later = make_training_loader(str(dataset), lanes=2)
    later.load_state_dict(resumed.state_dict())
    assert later.state_dict()["generations"] == [1]


def test_state_of_gone_generation_adopts_growth_like_a_kept_one(dataset: Path) -> None:
    state = save_state_after(make_training_loader(str(dataset), lanes=2), 5)
    add_shard(dataset, "train", 4)
    index(str(dataset))
    adopted = []
    for is_gone in (False, True):
        if is_gone:
            Path(locate(str(dataset)).offsets_path(1)).unlink()
        resumed = make_training_loader(str(dataset), lanes=2, adopt="next_epoch")
        resumed.load_state_dict(state)
        adopted.append((digests(resumed, 60), resumed.state_dict()["plan"]))
    assert adopted[0] == adopted[1]


def test_state_of_gone_generation_continues_with_column(dataset: Path) -> None:
    index(str(dataset), columns={"tokens": "size:txt"})
    options: Any = {"buckets": Buckets(of="tokens", edges=[7])}
    loader = make_training_loader(str(dataset), **options)
    state = save_state_after(loader, 5)
    expected = digests(loader, 20)
    grow_until_gone(dataset, "train")

    resumed = make_training_loader(str(dataset), **options)
    resumed.load_state_dict(state)
    assert digests(resumed, 20) == expected


def test_join_of_gone_generations_continues(dataset: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(dataset, other)
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits: {train: {join: {a: {path: data}, b: {path: other, nonmatch: skip}}}}")
    loader = make_training_loader(str(blend))
    state = save_state_after(loader, 5)
    expected = digests(loader, 20)
    for root in (other, dataset):
        grow_until_gone(root, "train")

    resumed = make_training_loader(str(blend))
    resumed.load_state_dict(state)
    assert digests(resumed, 20) == expected


def test_state_of_gone_generation_is_refused_on_changed_data(dataset: Path) -> None:
    state = save_state_after(make_training_loader(str(dataset), lanes=2), 5)
    add_shard(dataset, "train", 1, samples=19)
    grow_until_gone(dataset, "val")

    with pytest.raises(StateMismatch, match=r"generation 1 .* no longer kept, and the samples have changed"):
        make_training_loader(str(dataset), lanes=2).load_state_dict(state)


@pytest.mark.parametrize("grows", [False, True])
def test_state_continues_after_its_shards_are_restored(
    dataset: Path, caplog: pytest.LogCaptureFixture, grows: bool
) -> None:
    loader = make_training_loader(str(dataset))
    state = save_state_after(loader, 5)
    expected = digests(loader, 30)
    shard = dataset / "train-001.tar"
    original = shard.read_bytes()
    add_shard(dataset, "train", 1, samples=19)
    index(str(dataset))
    with pytest.raises(StateMismatch, match="the state belongs to another order"):
        make_training_loader(str(dataset)).load_state_dict(state)

    if grows:
        grow_until_gone(dataset, "val")
    shard.write_bytes(original)
    index(str(dataset))
    resumed = make_training_loader(str(dataset))
    caplog.clear()
    resumed.load_state_dict(state)
    assert digests(resumed, 30) == expected
    assert bool(caplog.messages) == grows


def test_state_of_gone_generation_names_dataset_that_has_changed(dataset: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(dataset, other)
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits: {train: {blend: [{path: data, weight: 1}, {path: other, weight: 1}]}}")
    state = save_state_after(make_training_loader(str(blend)), 5)
    grow_until_gone(dataset, "val")
    add_shard(other, "train", 1, samples=19)
    grow_until_gone(other, "train")

    with pytest.raises(StateMismatch, match="no longer kept") as caught:
        make_training_loader(str(blend)).load_state_dict(state)
    assert str(other) in str(caught.value.where)


def test_save_warns_once_if_data_has_changed(dataset: Path, caplog: pytest.LogCaptureFixture) -> None:
    loader = make_training_loader(str(dataset))
    take_batches(loader, 2)
    loader.state_dict()
    add_shard(dataset, "train", 4)
    index(str(dataset))
    saved_on_growth = [make_training_loader(str(dataset)), make_training_loader(str(dataset))]
    for each in saved_on_growth:
        take_batches(each, 2)
    saved_on_growth[0].state_dict()
    assert not caplog.records
    (dataset / "train-001.tar").unlink()
    index(str(dataset), missing="drop")
    for _ in range(2):
        saved_on_growth[1].state_dict()
    [record] = caplog.records
    assert "cannot be resumed" in record.getMessage()
    assert str(dataset) in record.getMessage()


def test_resume_on_earlier_generation_warns_of_validations(dataset: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = save_state_after(make_training_loader(str(dataset)), 2)
    make_training_loader(str(dataset)).load_state_dict(state)
    assert not caplog.records
    add_shard(dataset, "val", 4)
    index(str(dataset))
    make_training_loader(str(dataset)).load_state_dict(state)
    assert "a validation that is not restored from a state reads them" in caplog.text


def test_state_of_gone_generation_is_refused_if_subset_is_gone(dataset: Path, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits: {train: {path: data, subset: {range: [50, 60]}}}")
    state = save_state_after(make_training_loader(str(blend)), 2)
    take_batches(make_training_loader(str(blend)), 1)
    grow_until_gone(dataset, "val")
    (dataset / "train-002.tar").unlink()
    index(str(dataset), missing="drop")

    with pytest.raises(StateMismatch, match="no longer kept"):
        make_training_loader(str(blend)).load_state_dict(state)
