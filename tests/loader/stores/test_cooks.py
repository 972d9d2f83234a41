"""Cookers with auxiliary stores: what they get, and what comes out of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset as tars
from tests.build import an_image
from tests.loader.cooks import IMAGES, Texts, blend_of_images, blend_of_texts, packing
from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import strict, taken, training_of
from tests.loader.stores.stores import a_file_folder, a_tar_store, blend, primaries
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


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    return blend_of_texts(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Any]:
    return blend_of_images(tmp_path)


# What a cooker gets.


@pytest.mark.usefixtures("place")
def test_a_cooker_gets_the_stores_of_its_dataset_by_their_names(texts: dict[str, Any]) -> None:
    for sample in islice(training_of(texts, encoder=Texts(), batch_size=None), 30):
        assert sample.text == f"text {int(sample.__key__) % 6}"


def test_what_was_looked_up_is_among_the_sources(texts: dict[str, Any], tmp_path: Path) -> None:
    """`basic_sample_keys` comes before the lookup in this cooker, as in most."""
    for sample in islice(training_of(texts, encoder=Texts(), batch_size=None), 5):
        primary, media = sample.__sources__
        assert primary.dataset_path == str(tmp_path / "primary")
        assert (media.dataset_path, media.shard_name) == (str(tmp_path / "media"), "shard-0.tar")
        assert media.file_names == (f"m/{int(sample.__key__) % 6}.txt",)
        first, size = media.byte_range or (0, 0)
        assert (tmp_path / "media" / "shard-0.tar").read_bytes()[first : first + size].decode() == sample.text


@pytest.mark.usefixtures("place")
def test_every_dataset_of_a_blend_has_stores_of_its_own(tmp_path: Path) -> None:
    one, two = (primaries(tmp_path / name) for name in "ab")
    first = a_tar_store(tmp_path / "one", {f"m/{i}.txt": b"one" for i in range(6)})
    second = a_tar_store(tmp_path / "two", {f"m/{i}.txt": b"two" for i in range(6)})
    both = {"blend": [{**blend(one, media=first), "weight": 1}, {**blend(two, media=second), "weight": 1}]}

    for sample in islice(training_of(both, encoder=Texts(), batch_size=None), 20):
        assert sample.text == ("one", "two")[sample.__restore_key__[0]]


def test_the_sources_of_every_output_of_a_generator_are_told(texts: dict[str, Any]) -> None:
    def several(sample: Any, media: Any) -> Iterator[Any]:
        for copy in range(2):
            media.get(f"m/{copy}.txt", sample)
            yield TextSample(**{**basic_sample_keys(sample), "__sources__": ()}, text="")

    class Several(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(several),)

    one, two = taken(training_of(texts, encoder=Several(), batch_size=None, lanes=1), 2)

    assert [source.file_names for source in one.__sources__] == [("m/0.txt",)]
    assert [source.file_names for source in two.__sources__] == [("m/0.txt",), ("m/1.txt",)]


def test_a_hook_of_the_users_own_gets_the_stores_too(texts: dict[str, Any]) -> None:
    class Own(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(len),)

        def cook_crude_sample(self, sample: Any, cooker: Any, aux: Any) -> Any:
            return {**sample, "names": sorted(aux)}

    assert taken(training_of(texts, encoder=Own(), batch_size=None), 1)[0]["names"] == ["media"]


@pytest.mark.usefixtures("place")
def test_without_a_pool_a_cooker_that_needs_one_works(images: dict[str, Any]) -> None:
    assert len(taken(packing(images), 3)) == 3


def test_a_primary_needs_no_blend_file(tmp_path: Path) -> None:
    @cooker(need_primary=True)
    def cook(sample: Any, primary: Any) -> Any:
        return {**sample, "same": primary.get(".txt"), "other": primary.get("000003.txt")}

    class Cooks(Raw):
        cookers = (Cooker(cook),)

    sample = taken(training_of(primaries(tmp_path), encoder=Cooks(), batch_size=None), 1)[0]

    assert (sample["same"], sample["other"]) == (sample["txt"], b"3")


# What is refused before anything is read.


def test_a_cooker_that_does_not_take_the_stores_is_told(texts: dict[str, Any]) -> None:
    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(lambda sample, images: (sample, images)),)

    with pytest.raises(UsageError, match="with a sample and media"):
        next(iter(training_of(texts, encoder=Cooks())))


def test_a_store_cannot_be_called_as_what_a_cooker_needs(tmp_path: Path) -> None:
    path = {"path": primaries(tmp_path / "primary"), "aux": {"primary": a_tar_store(tmp_path / "media")}}

    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(cooker(need_primary=True)(lambda sample, primary: (sample, primary))),)

    with pytest.raises(UsageError, match="has the reserved name 'primary'"):
        next(iter(training_of(path, encoder=Cooks())))


def test_stores_of_typed_samples_are_refused(tmp_path: Path) -> None:
    typed = a_dataset(tmp_path / "typed", 5, sample_type="TextSample", field_map={"text": "txt"})
    with pytest.raises(UsageError, match="are TextSample"):
        next(iter(training_of(blend(typed, media=a_tar_store(tmp_path / "media")))))


def test_a_store_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        next(iter(training_of(blend(primaries(tmp_path / "primary"), media=str(tmp_path / "no")), encoder=Texts())))


# Bad references.


@pytest.mark.parametrize(
    ("reference", "code"),
    [("m/9.txt", "WDS550"), ("M/1.TXT", "WDS550"), ("../../etc/passwd", "WDS550"), ("/etc/passwd", "WDS550")],
)
def test_a_bad_reference_names_sample_and_store(tmp_path: Path, reference: str, code: str) -> None:
    path = blend(primaries(tmp_path / "primary", reference=reference), media=a_tar_store(tmp_path / "media"))
    with pytest.raises(SampleFailed) as raised:
        next(iter(training_of(path, encoder=Texts(), shuffle=False, lanes=1, worker_config=strict())))

    assert raised.value.code == code
    assert raised.value.where.startswith(f"dataset {tmp_path / 'primary'}, shard shard-000.tar, key 000000, store ")


def _twice(media: Path) -> None:
    """Two samples of the store have the name."""
    tars(media, {"more.tar": {"m/3.png": an_image("PNG")}})
    index(str(media))


def _cut_off(media: Path) -> None:
    """The image ends too early."""
    tars(media, {"shard-0.tar": {**IMAGES, "m/3.png": IMAGES["m/3.png"][:-100]}})
    index(str(media))


def _gone(media: Path) -> None:
    """The shard lost an image since the store was prepared."""
    shard = {name: data for name, data in IMAGES.items() if name != "m/3.png"}
    tars(media, {"shard-0.tar": {**shard, "m/other.bin": bytes(20_000)}})


@pytest.mark.parametrize(
    ("spoil", "code", "failed"), [(_twice, "WDS551", 4), (_cut_off, "WDS503", 4), (_gone, "WDS403", 24)]
)
def test_bad_media_cost_the_samples_that_refer_to_them_and_are_told_with_both_places(
    tmp_path: Path, spoil: Any, code: str, failed: int
) -> None:
    media = tmp_path / "media"
    path = blend(primaries(tmp_path / "primary", 24, "m/{}.png"), media=a_tar_store(media, IMAGES))
    spoil(media)
    told: list[Any] = []
    config = WorkerConfig(global_error_handler=lambda error, *_: told.append(error))
    loader = training_of(path, encoder=Texts(), batch_size=None, repeat=False, worker_config=config)

    assert (len(list(loader)), loader.stats.failed) == (24 - failed, failed)
    assert {error.code for error in told} == {code}
    for words in (f"dataset {tmp_path / 'primary'}, shard shard-00", "key 0000", f"store {media}", "m/"):
        assert words in told[0].where


@pytest.mark.usefixtures("place")
def test_one_bad_reference_costs_one_sample(tmp_path: Path) -> None:
    files = {f"a/{i}.txt": b"here" for i in range(5)}
    store = a_file_folder(tmp_path / "files")
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    path = blend(primaries(tmp_path / "primary", 24, "a/{}.txt"), media=f"filesystem://{store}")
    loader = training_of(path, encoder=Texts(), batch_size=None, repeat=False)

    assert (len(list(loader)), loader.stats.failed) == (20, 4)
    assert loader.stats.causes == {"cook_crude_sample: WDS550": 4}
