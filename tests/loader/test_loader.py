"""The loader in a training: its counters, opening and closing, and invalid requests."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, a_shard, at_place, digest, numbered
from tests.loader.hooked import Draws, loader_of
from tests.loader.running import digests, take_batches
from tests.open_files import open_files
from tests.places import in_folder_and_memory
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.loader import (
    DefaultTaskEncoder,
    SkipSample,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
)

SAMPLES = 60


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> Iterator[None]:
    """Garbage collections omit what existed before: with torch, each would take 0.2 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


@pytest.fixture
def dataset(whole: str) -> str:
    return at_place(whole)


# Counters.


@pytest.mark.usefixtures("place")
def test_loader_stats_count_batches_samples_and_skips_exactly(dataset: str) -> None:
    class Odd(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if int(sample["__key__"]) % 2 == 0:
                raise SkipSample("an even number")
            return sample

    loader = loader_of(dataset, Odd(), lanes=1, batch_size=5)
    batches = take_batches(loader, 6 + 1)
    resumed = loader_of(dataset, Odd(), lanes=1, batch_size=5)
    resumed.load_state_dict(loader.state_dict())

    assert sum(len(batch["__key__"]) for batch in batches) == 35
    assert (loader.stats.batches, loader.stats.samples) == (7, 35)
    assert loader.stats.skipped in range(30, 60), "all the even ones of the first pass, some of the second"
    assert loader.stats.skip_reasons == {"an even number": loader.stats.skipped}
    assert loader.stats.load_seconds > 0
    assert loader.stats.encode_seconds > 0
    assert loader.stats.batch_seconds > 0
    assert (resumed.stats.batches, resumed.stats.samples, resumed.stats.skipped) == (0, 0, 0)


def test_loader_stats_count_samples_without_batches(dataset: str) -> None:
    loader = loader_of(dataset, batch_size=None)

    take_batches(loader, 9)

    assert (loader.stats.batches, loader.stats.samples) == (9, 9)


def test_loader_config_is_json_with_plan_fingerprint(dataset: str) -> None:
    config = loader_of(dataset).config()

    assert json.loads(json.dumps(config)) == config
    assert loader_of(dataset).config() == config
    assert loader_of(dataset, seed=1).config()["fingerprint"] != config["fingerprint"]
    assert loader_of(dataset, batch_size=5).config()["fingerprint"] != config["fingerprint"]
    assert (config["order"]["samples"], config["order"]["lanes"]) == (SAMPLES, 2)


# Opening and closing.


def test_closed_loader_releases_files_and_continues_on_next_use(dataset: str) -> None:
    expected = digests(loader_of(dataset), 12)
    before = open_files(dataset)
    loader = loader_of(dataset)

    first = digests(loader, 5)
    running = open_files(dataset)
    loader.close()
    closed = open_files(dataset)
    with loader:
        rest = digests(loader, 7)
    after_exit = open_files(dataset)
    del loader

    assert first + rest == expected
    assert len(running) > len(closed)
    assert closed == after_exit == before, "small offsets are read, not mapped: nothing stays open"
    assert open_files(dataset) == before


def test_deleted_loader_releases_its_files(dataset: str) -> None:
    before = open_files(dataset)

    for _ in range(3):
        take_batches(loader_of(dataset), 3)

    assert open_files(dataset) == before


def test_repeated_restores_open_no_more_files(dataset: str) -> None:
    loader = loader_of(dataset)
    take_batches(loader, 5)
    before = open_files(dataset)

    for _ in range(5):
        loader.load_state_dict(loader.state_dict())
        take_batches(loader, 5)

    assert open_files(dataset) == before


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_two_loaders_run_independently_side_by_side(dataset: str) -> None:
    expected = [digests(loader_of(dataset, Draws(), seed=seed), 8) for seed in (1, 2)]
    one, two = loader_of(dataset, Draws(), seed=1), loader_of(dataset, Draws(), seed=2)

    both = [[digest(batch) for batch in pair] for pair in islice(zip(one, two, strict=False), 8)]

    assert [list(each) for each in zip(*both, strict=True)] == expected


def test_loader_runs_in_another_thread(dataset: str) -> None:
    expected = digests(loader_of(dataset, Draws()), 8)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(digests(loader_of(dataset, Draws()), 8)))

    thread.start()
    thread.join(60)

    assert found == expected


def test_two_iterators_of_one_loader_share_its_position(dataset: str) -> None:
    expected = digests(loader_of(dataset), 6)
    loader = loader_of(dataset)
    one, two = iter(loader), iter(loader)

    assert [digest(next(stream)) for stream in (one, two, two, one, two, one)] == expected


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_running_loop_continues_from_state_loaded_in_it(dataset: str) -> None:
    expected = digests(loader_of(dataset), 6)
    loader = loader_of(dataset)
    begin = loader.state_dict()
    found = []
    for batch in islice(loader, 9):
        found.append(digest(batch))
        if len(found) == 3:
            loader.load_state_dict(begin)

    assert found == expected[:3] + expected


# Invalid requests.


def test_loader_with_trace_warns_once_when_loading_state(dataset: str, tmp_path: Path) -> None:
    state = loader_of(dataset).state_dict()

    with pytest.warns(UserWarning, match="other hooks") as warned:
        loader_of(dataset, Draws(), trace=tmp_path / "trace").load_state_dict(state)

    assert len(warned) == 1


def test_endless_loader_has_no_length_but_can_be_sliced(dataset: str) -> None:
    loader = loader_of(dataset)

    with pytest.raises(TypeError, match="endless training"):
        len(loader)
    assert len([*islice(loader, 3)]) == 3


@pytest.mark.parametrize(
    "options", [{}, {"repeat": False}, {"repeat": False, "batch_size": 1000, "batch_drop_last": True}]
)
def test_loaders_and_datasets_are_truthy_without_being_opened(dataset: str, options: Any) -> None:
    recipe = get_train_dataset(dataset, task_encoder=Raw(), **{"batch_size": 4, **options})
    loader = get_loader(recipe)

    assert recipe
    assert loader
    assert get_val_dataset(dataset)
    assert loader._stream is None


@pytest.mark.parametrize("argument", ["a path", None, 7])
def test_get_savable_loader_refuses_what_is_not_a_dataset(argument: Any) -> None:
    with pytest.raises(UsageError, match=f"found {type(argument).__name__}") as raised:
        get_savable_loader(argument)

    assert "get_train_dataset" in raised.value.hint


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_loader_refuses_unknown_split_and_lists_existing_ones(dataset: str) -> None:
    with pytest.raises(InputError, match="no split 'dev'; it has train") as raised:
        loader_of(dataset, split_part="dev").state_dict()

    assert raised.value.code == "WDS211"


def test_loader_refuses_split_without_samples(tmp_path: Path) -> None:
    from wdsctl.core.index.index import index

    root = a_dataset(tmp_path, 10, shard_samples=5, split={"train": 1.0, "val": 1.0})
    loader = get_loader(get_val_dataset(root, task_encoder=Raw()))
    (key, *_) = [batch["__key__"] for batch in loader]
    kept = "shard-001.tar" if key == "000000" else "shard-000.tar"
    removed = "shard-000.tar" if key == "000000" else "shard-001.tar"
    (tmp_path / removed).unlink()
    index(root, missing="drop")

    with pytest.raises(InputError, match="the split 'val' has no samples") as raised:
        list(get_loader(get_val_dataset(root)))

    assert raised.value.code == "WDS211"
    assert (tmp_path / kept).exists()


def test_loader_refuses_dataset_without_catalog(tmp_path: Path) -> None:
    a_shard(tmp_path / "a.tar", [("1", {"txt": b"1"})])
    with pytest.raises(CatalogError) as raised:
        loader_of(str(tmp_path)).state_dict()

    assert raised.value.code == "WDS301"
    assert "wdsctl prepare" in raised.value.hint


@pytest.mark.usefixtures("unopened_datasets")
def test_get_loader_opens_nothing_before_first_batch() -> None:
    loader = get_loader(get_train_dataset("data", batch_size=4))

    with pytest.raises(CatalogError, match="catalog"):
        next(iter(loader))


def test_training_emits_no_warnings(dataset: str, recwarn: pytest.WarningsRecorder) -> None:
    loader = loader_of(dataset, DefaultTaskEncoder[Any, Any, Any, Any]())
    take_batches(loader, 20)
    loader.load_state_dict(loader.state_dict())
    take_batches(loader, 20)
    loader.close()
    del loader
    gc.collect()

    assert list(recwarn) == []
