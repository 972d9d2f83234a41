"""Cookers with auxiliary stores: what they get, what comes out of them, and that it comes again exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.build import a_dataset as tars
from tests.build import a_folder, an_image
from tests.loader.datasets import Raw, a_dataset, digest
from tests.loader.running import digests, saved_after, strict, taken, through_json, training_of
from tests.loader.stores.stores import a_file_folder, a_tar_store, blend, primaries
from wdsctl.core.errors import InputError, SampleFailed, StateMismatch, UsageError
from wdsctl.core.trace import read_trace
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.prepare import PrepareOptions, prepare
from wdsctl.loader import (
    Cooker,
    DefaultTaskEncoder,
    FileStoreCachePool,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    merge_states,
    stateless,
)

IMAGES = {f"m/{i}.png": an_image("PNG", compress_level=i) for i in range(6)}


@stateless
def with_text(sample: Any, media: Any) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=media.get(sample["json"]["media"], sample))


class Texts(DefaultTaskEncoder[Any, Any, Any, Any]):
    cookers = (Cooker(with_text),)


@cooker(need_primary=True, need_cache=True)
def with_lazy(sample: Any, media: Any, primary: Any, cache: Any) -> dict[str, Any]:
    number = primary.get(".json", sample)["number"]
    aside = cache.to_cache(torch.full((3,), number), f"number {number}")
    return {**sample, "lazy": cache.get_lazy(media, sample["json"]["media"]), "aside": aside, "number": number}


class Packs(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Packs of samples of which each has an image that is read when the pack is made."""

    cookers = (Cooker(with_lazy),)

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        ordered = sorted(samples, key=lambda sample: (sample["number"] % 5, sample["number"]))
        return [ordered[i : i + 3] for i in range(0, len(ordered), 3)]

    def postencode_sample(self, sample: Any) -> Any:
        noise = float(torch.rand(1))
        image, aside = sample.pop("lazy").get(sample), sample.pop("aside").get()
        return {**sample, "image": image, "noise": noise, "aside": aside}

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        sources = tuple(source for sample in samples for source in sample["__sources__"])
        numbers = [(sample["number"], sample["noise"], sample["aside"].tolist()) for sample in samples]
        images = torch.stack([sample["image"] for sample in samples]).sum()
        return {**samples[0], "__sources__": sources, "numbers": numbers, "image": images}


def packing(path: Any, rank: int = 0, world: int = 1, pool: Any = None, **options: Any) -> Any:
    workers = {name: options.pop(name) for name in ("num_workers", "start_method") if name in options}
    config = strict(rank, world)
    config = WorkerConfig(rank, world, global_error_handler=config.global_error_handler, **workers)
    options = {"batch_size": 2, "shuffle_buffer_size": 8, "packing_buffer_size": 7, "lanes": 4, **options}
    dataset = get_train_dataset(path, task_encoder=Packs(), worker_config=config, **options)
    return get_loader(dataset, cache_pool=pool)


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    return blend(primaries(tmp_path / "primary"), media=a_tar_store(tmp_path / "media"))


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Any]:
    primary = primaries(tmp_path / "primary", 40, "m/{}.png")
    return blend(primary, media=a_tar_store(tmp_path / "media", IMAGES))


# What a cooker gets.


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

    with pytest.raises(UsageError, match="cannot be called with a sample and media"):
        next(iter(training_of(texts, encoder=Cooks())))


def test_a_store_cannot_be_called_as_what_a_cooker_needs(tmp_path: Path) -> None:
    path = {"path": primaries(tmp_path / "primary"), "aux": {"primary": a_tar_store(tmp_path / "media")}}

    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(cooker(need_primary=True)(lambda sample, primary: (sample, primary))),)

    with pytest.raises(UsageError, match="cannot be called 'primary'"):
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


def test_one_bad_reference_costs_one_sample(tmp_path: Path) -> None:
    files = {f"a/{i}.txt": b"here" for i in range(5)}
    store = a_file_folder(tmp_path / "files")
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    path = blend(primaries(tmp_path / "primary", 24, "a/{}.txt"), media=f"filesystem://{store}")
    loader = training_of(path, encoder=Texts(), batch_size=None, repeat=False)

    assert (len(list(loader)), loader.stats.failed) == (20, 4)
    assert loader.stats.causes == {"cook_crude_sample: WDS550": 4}


# The same again.


def test_a_sample_and_a_batch_are_restored_from_their_keys(images: dict[str, Any]) -> None:
    loader = packing(images)
    batch = taken(loader, 4)[-1]

    again = loader.restore_sample(batch["__restore_key__"])

    assert (again["numbers"], again["__sources__"]) == (batch["numbers"], batch["__sources__"])
    assert torch.equal(again["image"], batch["image"])


def test_packing_over_aux_media_with_a_pool_is_resumed_exactly(images: dict[str, Any], tmp_path: Path) -> None:
    truth = digests(packing(images), 24)
    pool = FileStoreCachePool(tmp_path / "cache")

    assert digests(packing(images, pool=pool), 24) == truth
    for place in (1, 4, 9, 14):
        resumed = packing(images, pool=pool)
        resumed.load_state_dict(saved_after(packing(images, pool=pool), place))
        assert digests(resumed, 24 - place) == truth[place:]
    pool.close()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_another_process_goes_on_exactly_from_any_batch_with_other_workers(
    images: dict[str, Any], tmp_path: Path, num_workers: int
) -> None:
    with packing(images, pool=FileStoreCachePool(tmp_path / "cache"), num_workers=num_workers) as loader:
        truth, states = [], []
        for batch in islice(loader, 12):
            truth.append(digest(batch))
            states.append(loader.state_dict())
    places = (0, 3, 8)
    (tmp_path / "states.json").write_text(json.dumps([states[place] for place in places]))

    arguments = [json.dumps(images), str(tmp_path), str(2 - num_workers)]
    told = subprocess.run(
        [sys.executable, "-m", "tests.loader.cooked_process", *arguments], capture_output=True, text=True, check=False
    )

    assert told.returncode == 0, told.stderr
    for place, digests_ in zip(places, json.loads(told.stdout), strict=True):
        assert digests_ == truth[place + 1 :][: len(digests_)]
        assert len(digests_) == 3


def test_a_primary_of_lines_with_media_in_a_folder_is_resumed_exactly(tmp_path: Path) -> None:
    lines = [json.dumps({"media": f"m/{i % 6}.png", "number": i}) for i in range(40)]
    (tmp_path / "qa.jsonl").write_text("\n".join(lines))
    prepare(str(tmp_path / "qa.jsonl"), None, PrepareOptions(sample_type="CrudeSample"))
    path = blend(str(tmp_path / "qa.jsonl"), media=f"filesystem://{a_folder(tmp_path / 'files', IMAGES)}")
    truth = digests(packing(path), 16)
    pool = FileStoreCachePool(tmp_path / "cache")

    for place in (1, 5, 11):
        resumed = packing(path, pool=pool)
        resumed.load_state_dict(saved_after(packing(path, pool=pool), place))
        assert digests(resumed, 16 - place) == truth[place:]
    pool.close()


def test_it_is_resumed_on_other_ranks(images: dict[str, Any], tmp_path: Path) -> None:
    truth = digests(packing(images), 16)
    pool = FileStoreCachePool(tmp_path / "cache")
    ranks = [packing(images, rank, 2, pool=pool) for rank in range(2)]
    state = merge_states([saved_after(rank, 3) for rank in ranks])
    resumed = packing(images, pool=pool)
    resumed.load_state_dict(through_json(state))

    assert digests(resumed, 10) == truth[6:]
    pool.close()


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_make_the_same_and_go_on_from_each_others_states(
    images: dict[str, Any], tmp_path: Path, start_method: Any
) -> None:
    truth = digests(packing(images), 12)
    pool = FileStoreCachePool(tmp_path / "cache")
    with packing(images, pool=pool, num_workers=2, start_method=start_method) as loader:
        state = saved_after(loader, 5)
        kept = sum(1 for each in Path(pool.cache_dir).rglob("*") if len(each.name) == 32)
    resumed = packing(images, pool=pool)
    resumed.load_state_dict(state)

    assert digests(resumed, 7) == truth[5:]
    assert 0 < kept <= 6, "the workers share what one of them has brought"
    pool.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_validations_are_cooked_too(texts: dict[str, Any], num_workers: int) -> None:
    val = {**texts, "split_part": "train"}
    dataset = get_val_dataset(val, task_encoder=Texts(), worker_config=WorkerConfig(0, 1, num_workers), batch_size=6)
    with get_loader(dataset) as loader:
        batches = list(loader)

    assert [batch.text for batch in batches] == [[f"text {i}" for i in range(6)]] * 4


def test_lazy_media_may_leave_the_worker(images: dict[str, Any], tmp_path: Path) -> None:
    @cooker(need_cache=True)
    def cook(sample: Any, media: Any, cache: Any) -> Any:
        return {**sample, "lazy": cache.get_lazy(media, sample["json"]["media"])}

    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(cook),)

    pool = FileStoreCachePool(tmp_path / "cache")
    dataset = get_train_dataset(images, task_encoder=Cooks(), worker_config=WorkerConfig(0, 1, 1))
    with get_loader(dataset, cache_pool=pool) as loader:
        samples = taken(loader, 3)

    for sample in samples:
        assert tuple(sample["lazy"].get(sample).shape) == (3, 32, 48)
        assert [source.shard_name for source in sample["__sources__"]][1:] == ["shard-0.tar"]
    pool.close()


def test_a_store_that_has_changed_since_is_warned_of_and_refused_if_strict(texts: dict[str, Any]) -> None:
    state = saved_after(training_of(texts, encoder=Texts()), 2)
    media = Path(texts["aux"]["media"])
    tars(media, {"more.tar": {"m/new.txt": b"new"}})
    index(str(media))

    with pytest.warns(UserWarning, match="auxiliary stores are not what they were"):
        training_of(texts, encoder=Texts()).load_state_dict(state)
    with pytest.raises(StateMismatch, match="media"):
        training_of(texts, encoder=Texts()).load_state_dict(state, strict=True)


def test_a_trace_says_which_stores_there_were(texts: dict[str, Any], tmp_path: Path) -> None:
    with training_of(texts, encoder=Texts(), trace=tmp_path / "trace") as loader:
        batch = taken(loader, 3)[-1]
    traced = list(read_trace(str(tmp_path / "trace")).batches())[-1]

    (store,) = traced.run.run["aux"]
    assert (store["source"], store["name"], store["path"]) == (0, "media", str(tmp_path / "media"))
    for key, text in zip(batch["__restore_key__"], batch["text"], strict=True):
        again = loader.restore_sample(key)
        assert (again.text, len(again.__sources__)) == (text, 2)


def test_a_store_may_move(texts: dict[str, Any], tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    state = saved_after(training_of(texts, encoder=Texts()), 2)
    (tmp_path / "media").rename(tmp_path / "moved")
    moved = {**texts, "aux": {"media": str(tmp_path / "moved")}}
    loader = training_of(moved, encoder=Texts())
    loader.load_state_dict(state, strict=True)

    assert len(taken(loader, 2)) == 2
    assert not [each for each in recwarn if "auxiliary" in str(each.message)]


def test_hooks_may_be_checked_for_determinism_over_lazy_media(images: dict[str, Any]) -> None:
    assert len(taken(packing(images, check_determinism=True), 4)) == 4
