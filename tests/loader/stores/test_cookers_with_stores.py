"""Cookers with auxiliary stores: what they receive and what they return."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset as tars
from tests.build import an_image
from tests.loader.cooks import IMAGES, Texts, blend_of_images, blend_of_texts, packing
from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import make_training_loader, raising_worker_config, take_batches
from tests.loader.stores.stores import a_file_folder, a_tar_store, blend_with_stores, make_primary_dataset
from tests.places import in_folder_and_memory
from wdsctl.core.errors import InputError, SampleFailed, UsageError
from wdsctl.core.index.index import index
from wdsctl.loader import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
)
from wdsctl.loader.runtime.failures import FatalSampleError


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    return blend_of_texts(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Any]:
    return blend_of_images(tmp_path)


# Arguments of a cooker.


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_cooker_receives_stores_of_its_dataset_by_name(texts: dict[str, Any]) -> None:
    for sample in islice(make_training_loader(texts, encoder=Texts(), batch_size=None), 30):
        assert sample.text == f"text {int(sample.__key__) % 6}"


def test_sources_of_sample_include_store_lookups(texts: dict[str, Any], tmp_path: Path) -> None:
    """This cooker calls `basic_sample_keys` before the lookup, as most do."""
    for sample in islice(make_training_loader(texts, encoder=Texts(), batch_size=None), 5):
        primary, media = sample.__sources__
        assert primary.dataset_path == str(tmp_path / "primary")
        assert (media.dataset_path, media.shard_name) == (str(tmp_path / "media"), "shard-0.tar")
        assert media.file_names == (f"m/{int(sample.__key__) % 6}.txt",)
        first, size = media.byte_range or (0, 0)
        assert (tmp_path / "media" / "shard-0.tar").read_bytes()[first : first + size].decode() == sample.text


@pytest.mark.usefixtures("place")
def test_every_dataset_of_blend_has_its_own_stores(tmp_path: Path) -> None:
    one, two = (make_primary_dataset(tmp_path / name) for name in "ab")
    first = a_tar_store(tmp_path / "one", {f"m/{i}.txt": b"one" for i in range(6)})
    second = a_tar_store(tmp_path / "two", {f"m/{i}.txt": b"two" for i in range(6)})
    both = {
        "blend": [
            {**blend_with_stores(one, media=first), "weight": 1},
            {**blend_with_stores(two, media=second), "weight": 1},
        ]
    }

    for sample in islice(make_training_loader(both, encoder=Texts(), batch_size=None), 20):
        assert sample.text == ("one", "two")[sample.__restore_key__[0]]


def test_sources_are_recorded_for_every_output_of_generator_cooker(texts: dict[str, Any]) -> None:
    def several(sample: Any, media: Any) -> Iterator[Any]:
        for copy in range(2):
            media.get(f"m/{copy}.txt", sample)
            yield TextSample(**{**basic_sample_keys(sample), "__sources__": ()}, text="")

    class Several(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(several),)

    one, two = take_batches(make_training_loader(texts, encoder=Several(), batch_size=None, lanes=1), 2)

    assert [source.file_names for source in one.__sources__] == [("m/0.txt",)]
    assert [source.file_names for source in two.__sources__] == [("m/0.txt",), ("m/1.txt",)]


def test_custom_cook_crude_sample_receives_stores(texts: dict[str, Any]) -> None:
    class Own(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(len),)

        def cook_crude_sample(self, sample: Any, cooker: Any, aux: Any) -> Any:
            return {**sample, "names": sorted(aux)}

    assert take_batches(make_training_loader(texts, encoder=Own(), batch_size=None), 1)[0]["names"] == ["media"]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_cooker_with_need_cache_works_without_pool(images: dict[str, Any]) -> None:
    assert len(take_batches(packing(images), 3)) == 3


def test_need_primary_works_without_blend_file(tmp_path: Path) -> None:
    @cooker(need_primary=True)
    def cook(sample: Any, primary: Any) -> Any:
        return {**sample, "same": primary.get(".txt"), "other": primary.get("000003.txt")}

    class Cooks(Raw):
        cookers = (Cooker(cook),)

    sample = take_batches(make_training_loader(make_primary_dataset(tmp_path), encoder=Cooks(), batch_size=None), 1)[0]

    assert (sample["same"], sample["other"]) == (sample["txt"], b"3")


# Errors before the first read.


def test_cooker_without_store_parameters_is_rejected(texts: dict[str, Any]) -> None:
    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(lambda sample, images: (sample, images)),)

    with pytest.raises(UsageError, match="with a sample and media"):
        next(iter(make_training_loader(texts, encoder=Cooks())))


def test_store_with_reserved_name_is_rejected(tmp_path: Path) -> None:
    path = {"path": make_primary_dataset(tmp_path / "primary"), "aux": {"primary": a_tar_store(tmp_path / "media")}}

    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(cooker(need_primary=True)(lambda sample, primary: (sample, primary))),)

    with pytest.raises(UsageError, match="has the reserved name 'primary'"):
        next(iter(make_training_loader(path, encoder=Cooks())))


def test_stores_of_typed_dataset_are_rejected(tmp_path: Path) -> None:
    typed = a_dataset(tmp_path / "typed", 5, sample_type="TextSample", field_map={"text": "txt"})
    with pytest.raises(UsageError, match="are TextSample"):
        next(iter(make_training_loader(blend_with_stores(typed, media=a_tar_store(tmp_path / "media")))))


def test_missing_store_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        next(
            iter(
                make_training_loader(
                    blend_with_stores(make_primary_dataset(tmp_path / "primary"), media=str(tmp_path / "no")),
                    encoder=Texts(),
                )
            )
        )


# Bad references.


@pytest.mark.parametrize(
    ("reference", "code"),
    [("m/9.txt", "WDS550"), ("M/1.TXT", "WDS550"), ("../../etc/passwd", "WDS550"), ("/etc/passwd", "WDS550")],
)
def test_bad_reference_is_reported_with_sample_and_store(tmp_path: Path, reference: str, code: str) -> None:
    path = blend_with_stores(
        make_primary_dataset(tmp_path / "primary", reference=reference), media=a_tar_store(tmp_path / "media")
    )
    with pytest.raises(SampleFailed) as raised:
        next(
            iter(
                make_training_loader(
                    path, encoder=Texts(), shuffle=False, lanes=1, worker_config=raising_worker_config()
                )
            )
        )

    assert raised.value.code == code
    assert raised.value.where.startswith(f"dataset {tmp_path / 'primary'}, shard shard-000.tar, key 000000, store ")


def _duplicate_name(media: Path) -> None:
    """Gives two samples of the store the same name."""
    tars(media, {"more.tar": {"m/3.png": an_image("PNG")}})
    index(str(media))


def _truncate_image(media: Path) -> None:
    """Truncates the image."""
    tars(media, {"shard-0.tar": {**IMAGES, "m/3.png": IMAGES["m/3.png"][:-100]}})
    index(str(media))


def _remove_image(media: Path) -> None:
    """Removes an image from the shard after the store was prepared."""
    shard = {name: data for name, data in IMAGES.items() if name != "m/3.png"}
    tars(media, {"shard-0.tar": {**shard, "m/other.bin": bytes(20_000)}})


@pytest.mark.parametrize(
    ("spoil", "code", "failed"),
    [(_duplicate_name, "WDS551", 4), (_truncate_image, "WDS503", 4), (_remove_image, "WDS403", 24)],
)
def test_bad_media_fail_referring_samples_with_both_locations(
    tmp_path: Path, spoil: Any, code: str, failed: int
) -> None:
    media = tmp_path / "media"
    path = blend_with_stores(
        make_primary_dataset(tmp_path / "primary", 24, "m/{}.png"), media=a_tar_store(media, IMAGES)
    )
    spoil(media)
    errors: list[Any] = []
    config = WorkerConfig(global_error_handler=lambda error, *_: errors.append(error))
    loader = make_training_loader(path, encoder=Texts(), batch_size=None, repeat=False, worker_config=config)

    batches: list[Any] = []
    with pytest.raises(FatalSampleError, match="without a batch") if failed == 24 else nullcontext():
        batches.extend(loader)
    assert (len(batches), loader.stats.failed) == (24 - failed, failed)
    assert {error.code for error in errors} == {code}
    for text in (f"dataset {tmp_path / 'primary'}, shard shard-00", "key 0000", f"store {media}", "m/"):
        assert text in errors[0].where


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_bad_reference_fails_only_its_samples(tmp_path: Path) -> None:
    files = {f"a/{i}.txt": b"here" for i in range(5)}
    store = a_file_folder(tmp_path / "files")
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    path = blend_with_stores(make_primary_dataset(tmp_path / "primary", 24, "a/{}.txt"), media=f"filesystem://{store}")
    loader = make_training_loader(path, encoder=Texts(), batch_size=None, repeat=False)

    assert (len(list(loader)), loader.stats.failed) == (20, 4)
    assert loader.stats.causes == {"cook_crude_sample: WDS550: the store has no ...": 4}
