"""Batches made of references at once are the batches that samples would have made."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, digest
from tests.loader.running import strict
from wdsctl.core.errors import LoaderError, StorageError
from wdsctl.loader import Loader, generic_batch, get_loader, get_train_dataset, get_val_dataset


class ByHand(Raw):
    """The same batches through samples: a hook that is overridden sees every sample."""

    def batch(self, samples: list[Any]) -> Any:
        return generic_batch(samples)


def captioned(i: int) -> Parts:
    return {"jpg": b"image %d" % i, "json": json.dumps({"text": f"text {i}"}).encode(), "txt": b"text %d" % i}


def uneven(i: int) -> Parts:
    """Every seventh sample has a part of its own."""
    return captioned(i) if i % 7 else {**captioned(i), "seg.png": b"mask"}


def loader_of(path: Any, encoder: Any, **options: Any) -> Loader:
    return get_loader(get_train_dataset(path, batch_size=8, shuffle_buffer_size=16, task_encoder=encoder, **options))


@pytest.mark.parametrize(
    ("parts", "options"),
    [
        pytest.param(captioned, {"sample_type": "CrudeSample"}, id="crude"),
        pytest.param(
            captioned,
            {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "txt"}},
            id="typed",
        ),
        pytest.param(
            captioned,
            {"sample_type": "ImageClassificationSample", "field_map": {"image": "jpg", "label_name": "txt"}},
            id="optional fields left out",
        ),
        pytest.param(
            uneven,
            {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "txt"}},
            id="samples with other parts",
        ),
        pytest.param(
            captioned,
            {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "json[text]"}},
            id="fields inside JSON",
        ),
    ],
)
def test_a_bulk_batch_is_what_its_samples_would_have_made(parts: Any, options: Any, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=parts, **options)
    bulk, by_hand = loader_of(path, Raw()), loader_of(path, ByHand())

    for ours, theirs in islice(zip(bulk, by_hand, strict=False), 30):
        assert type(ours) is type(theirs)
        assert digest(ours) == digest(theirs)
        assert ours["__sources__"] == theirs["__sources__"]
    assert bulk.state_dict()["cursors"] == by_hand.state_dict()["cursors"]
    assert (bulk.stats.samples, bulk.stats.batches) == (240, 30)


def test_a_bulk_batch_of_a_blend_is_what_its_samples_would_have_made(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "txt"}}
    paths = [
        a_dataset(tmp_path / str(i), 20 + 30 * i, parts=uneven if i == 2 else captioned, **fields) for i in range(3)
    ]
    entries = [
        {"path": paths[0], "weight": 9},
        {"path": paths[1], "weight": 9, "subflavors": {"from": "the second"}},
        {"path": paths[2], "weight": 1},
    ]
    blend = {"blend": entries}
    bulk, by_hand = loader_of(blend, Raw()), loader_of(blend, ByHand())

    for ours, theirs in islice(zip(bulk, by_hand, strict=False), 60):
        assert type(ours) is type(theirs)
        assert digest(ours) == digest(theirs)
        assert ours["__sources__"] == theirs["__sources__"]
    assert bulk.state_dict()["cursors"] == by_hand.state_dict()["cursors"]
    assert bulk.stats.samples == by_hand.stats.samples == 480


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("samples", [5, 64, 91])
def test_a_finite_pass_in_bulk_ends_as_its_samples_would_have_made_it_end(
    samples: int, is_damaged: bool, drop_last: bool, tmp_path: Path
) -> None:
    path = a_dataset(tmp_path, samples, shard_samples=4, parts=captioned)
    if is_damaged:
        (tmp_path / "shard-000.tar").write_bytes(b"")

    def passes(encoder: Any) -> tuple[list[Any], Any]:
        loader = get_loader(
            get_val_dataset(path, split_part="train", batch_size=8, batch_drop_last=drop_last, task_encoder=encoder)
        )
        batches = [batch for _ in range(2) for batch in loader]
        return [digest(batch) for batch in batches], (loader.stats.samples, loader.stats.batches, loader.stats.failed)

    assert passes(Raw()) == passes(ByHand())


def test_unlike_samples_of_a_blend_are_told(tmp_path: Path) -> None:
    typed = a_dataset(
        tmp_path / "a",
        20,
        parts=captioned,
        sample_type="CaptioningSample",
        field_map={"image": "jpg", "caption": "txt"},
    )
    blend = {"blend": [{"path": path, "weight": 1} for path in (typed, a_dataset(tmp_path / "b", 20, parts=captioned))]}

    with pytest.raises(LoaderError, match="CaptioningSample and CrudeSample"):
        list(islice(loader_of(blend, Raw(), worker_config=strict()), 3))


def test_views_hold_the_same_bytes(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned)
    for ours, theirs in islice(zip(loader_of(path, Raw(), raw="view"), loader_of(path, Raw()), strict=False), 30):
        assert all(isinstance(part, memoryview) for part in ours["jpg"])
        assert [bytes(part) for part in ours["jpg"]] == theirs["jpg"]


def test_a_view_outlives_its_loader(tmp_path: Path) -> None:
    loader = loader_of(a_dataset(tmp_path, 90, parts=captioned), Raw(), raw="view")
    batch = next(iter(loader))
    loader.close()

    assert bytes(batch["txt"][0]) == b"text %d" % int(batch["__key__"][0])


def test_views_of_fields_inside_json_are_parsed(tmp_path: Path) -> None:
    fields = {"image": "jpg", "caption": "json[text]"}
    path = a_dataset(tmp_path, 30, parts=captioned, sample_type="CaptioningSample", field_map=fields)

    batch = next(iter(loader_of(path, Raw(), raw="view")))

    assert batch.caption == [f"text {int(key)}" for key in batch["__key__"]]


def test_a_sample_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 20, shard_samples=20, parts=captioned)
    shard = tmp_path / "shard-000.tar"
    loader = loader_of(path, Raw(), worker_config=strict())
    next(iter(loader))
    with shard.open("r+b") as file:
        file.truncate(2048)

    with pytest.raises(StorageError) as caught:
        list(islice(loader, 10))

    assert caught.value.code == "WDS403"
    assert "shard-000.tar, key 0" in caught.value.where
