"""Batches built in bulk from references equal batches built from samples."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, digest
from tests.loader.running import raising_worker_config
from wdsctl.core.errors import LoaderError, StorageError
from wdsctl.loader import Loader, generic_batch, get_loader, get_train_dataset, get_val_dataset


class SampleWise(Raw):
    """Builds the same batches from samples, since the overridden hook needs every sample."""

    def batch(self, samples: list[Any]) -> Any:
        return generic_batch(samples)


def captioned_parts(i: int) -> Parts:
    return {"jpg": b"image %d" % i, "json": json.dumps({"text": f"text {i}"}).encode(), "txt": b"text %d" % i}


def uneven_parts(i: int) -> Parts:
    """Every seventh sample has an additional part."""
    return captioned_parts(i) if i % 7 else {**captioned_parts(i), "seg.png": b"mask"}


def loader_of(path: Any, encoder: Any, **options: Any) -> Loader:
    return get_loader(get_train_dataset(path, batch_size=8, shuffle_buffer_size=16, task_encoder=encoder, **options))


@pytest.mark.parametrize(
    ("parts", "options"),
    [
        pytest.param(captioned_parts, {"sample_type": "CrudeSample"}, id="crude"),
        pytest.param(
            captioned_parts,
            {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "txt"}},
            id="typed",
        ),
        pytest.param(
            captioned_parts,
            {"sample_type": "ImageClassificationSample", "field_map": {"image": "jpg", "label_name": "txt"}},
            id="optional fields left out",
        ),
        pytest.param(
            uneven_parts,
            {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "txt"}},
            id="samples with other parts",
        ),
        pytest.param(
            captioned_parts,
            {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "json[text]"}},
            id="fields inside JSON",
        ),
    ],
)
def test_bulk_batches_equal_batches_of_samples(parts: Any, options: Any, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=parts, **options)
    bulk, sample_wise = loader_of(path, Raw()), loader_of(path, SampleWise())

    for actual, expected in islice(zip(bulk, sample_wise, strict=False), 30):
        assert type(actual) is type(expected)
        assert digest(actual) == digest(expected)
        assert actual["__sources__"] == expected["__sources__"]
    assert bulk.state_dict()["cursors"] == sample_wise.state_dict()["cursors"]
    assert (bulk.stats.samples, bulk.stats.batches) == (240, 30)


def test_bulk_batches_of_blend_equal_batches_of_samples(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"sample_type": "CaptioningSample", "field_map": {"image": "jpg", "caption": "txt"}}
    paths = [
        a_dataset(tmp_path / str(i), 20 + 30 * i, parts=uneven_parts if i == 2 else captioned_parts, **fields)
        for i in range(3)
    ]
    entries = [
        {"path": paths[0], "weight": 9},
        {"path": paths[1], "weight": 9, "subflavors": {"from": "the second"}},
        {"path": paths[2], "weight": 1},
    ]
    blend = {"blend": entries}
    bulk, sample_wise = loader_of(blend, Raw()), loader_of(blend, SampleWise())

    for actual, expected in islice(zip(bulk, sample_wise, strict=False), 60):
        assert type(actual) is type(expected)
        assert digest(actual) == digest(expected)
        assert actual["__sources__"] == expected["__sources__"]
    assert bulk.state_dict()["cursors"] == sample_wise.state_dict()["cursors"]
    assert bulk.stats.samples == sample_wise.stats.samples == 480


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("samples", [5, 64, 91])
def test_bulk_validation_passes_equal_passes_of_samples(
    samples: int, is_damaged: bool, drop_last: bool, tmp_path: Path
) -> None:
    path = a_dataset(tmp_path, samples, shard_samples=4, parts=captioned_parts)
    if is_damaged:
        (tmp_path / "shard-000.tar").write_bytes(b"")

    def passes(encoder: Any) -> tuple[list[Any], Any]:
        loader = get_loader(
            get_val_dataset(path, split_part="train", batch_size=8, batch_drop_last=drop_last, task_encoder=encoder)
        )
        batches = [batch for _ in range(2) for batch in loader]
        return [digest(batch) for batch in batches], (loader.stats.samples, loader.stats.batches, loader.stats.failed)

    assert passes(Raw()) == passes(SampleWise())


def test_bulk_batch_refuses_different_sample_types_of_blend(tmp_path: Path) -> None:
    typed = a_dataset(
        tmp_path / "a",
        20,
        parts=captioned_parts,
        sample_type="CaptioningSample",
        field_map={"image": "jpg", "caption": "txt"},
    )
    blend = {
        "blend": [{"path": path, "weight": 1} for path in (typed, a_dataset(tmp_path / "b", 20, parts=captioned_parts))]
    }

    with pytest.raises(LoaderError, match="CaptioningSample and CrudeSample"):
        list(islice(loader_of(blend, Raw(), worker_config=raising_worker_config()), 3))


def test_raw_views_equal_bytes(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 90, parts=captioned_parts)
    for actual, expected in islice(zip(loader_of(path, Raw(), raw="view"), loader_of(path, Raw()), strict=False), 30):
        assert all(isinstance(part, memoryview) for part in actual["jpg"])
        assert [bytes(part) for part in actual["jpg"]] == expected["jpg"]


def test_raw_view_outlives_loader(tmp_path: Path) -> None:
    loader = loader_of(a_dataset(tmp_path, 90, parts=captioned_parts), Raw(), raw="view")
    batch = next(iter(loader))
    loader.close()

    assert bytes(batch["txt"][0]) == b"text %d" % int(batch["__key__"][0])


def test_raw_view_parses_fields_inside_json(tmp_path: Path) -> None:
    fields = {"image": "jpg", "caption": "json[text]"}
    path = a_dataset(tmp_path, 30, parts=captioned_parts, sample_type="CaptioningSample", field_map=fields)

    batch = next(iter(loader_of(path, Raw(), raw="view")))

    assert batch.caption == [f"text {int(key)}" for key in batch["__key__"]]


def test_unreadable_sample_error_names_shard_and_key(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 20, shard_samples=20, parts=captioned_parts)
    shard = tmp_path / "shard-000.tar"
    loader = loader_of(path, Raw(), worker_config=raising_worker_config())
    next(iter(loader))
    with shard.open("r+b") as file:
        file.truncate(2048)

    with pytest.raises(StorageError) as caught:
        list(islice(loader, 10))

    assert caught.value.code == "WDS403"
    assert "shard-000.tar, key 0" in caught.value.where
