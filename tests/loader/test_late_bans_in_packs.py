"""Bans given while a pack is partly emitted: its hook makes several outputs, and some of them have been returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loader.datasets import Parts, Raw, a_dataset
from tests.loader.running import json_round_trip, make_training_loader, save_state_after, take_batches
from wdsctl.core.index.index import index
from wdsctl.loader import Loader
from wdsctl.loader.packing import Packing

SAMPLES = 48


def lettered(i: int) -> Parts:
    """5 to 9 letters."""
    return {"txt": b"x" * (5 + i * 7 % 5), "json": b"{}"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=30, parts=lettered)
    index(path, columns={"letters": "size:txt"})
    return path


class Unpacked(Raw):
    """Emits the samples of each pack one by one, so that tests see which of them come."""

    def pack_selected_samples(self, samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield {**sample, "of": [each["__key__"] for each in samples]}


class Grouped(Unpacked):
    def batch_group_criterion(self, sample: Any) -> Any:
        return len(sample["txt"]) % 3, 2


class PacksOfThree:
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]


class BufferedUnpacked(PacksOfThree, Unpacked):
    pass


class BufferedGroups(PacksOfThree, Grouped):
    pass


class Halves(BufferedUnpacked):
    """Batches of two samples of a pack, half by half."""

    def batch(self, samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield super().batch([sample])


def letter_count(sample: Any) -> int:
    return len(sample["txt"])


BY_COLUMNS = Packing(length="letters", capacity=24, window=12, method="sequential")
BY_FUNCTIONS = Packing(length=letter_count, capacity=24, window=12, method="sequential")

PACKS: dict[str, dict[str, Any]] = {
    "buffers": {"encoder": BufferedUnpacked(), "batch_size": 1, "packing_buffer_size": 12},
    "batches over packs": {"encoder": BufferedUnpacked(), "batch_size": 2, "packing_buffer_size": 12},
    "halves of batches over packs": {"encoder": Halves(), "batch_size": 2, "packing_buffer_size": 12},
    "windows of columns": {"encoder": Unpacked(), "batch_size": 1, "packing": BY_COLUMNS},
    "windows of functions": {"encoder": Unpacked(), "batch_size": 1, "packing": BY_FUNCTIONS},
    "groups of buffers": {"encoder": BufferedGroups(), "batch_size": None, "packing_buffer_size": 12},
    "groups of windows of columns": {"encoder": Grouped(), "batch_size": None, "packing": BY_COLUMNS},
    "groups of windows of functions": {"encoder": Grouped(), "batch_size": None, "packing": BY_FUNCTIONS},
}
each_kind = pytest.mark.parametrize("options", PACKS.values(), ids=PACKS)


def loader_of(path: str, options: dict[str, Any], **more: Any) -> Loader:
    return make_training_loader(path, **{"lanes": 1, "repeat": False, **options, **more})


def resumed_from(state: Any, path: str, options: dict[str, Any], ban: list[str]) -> Loader:
    loader = loader_of(path, options, ban=ban)
    loader.load_state_dict(state)
    return loader


def keys(batches: list[Any]) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


def packs(batches: list[Any]) -> list[list[str]]:
    return [pack for batch in batches for pack in batch["of"]]


@pytest.mark.parametrize(
    ("place", "options"),
    [
        pytest.param(place, options, id=f"{kind} after {place}")
        for number, (kind, options) in enumerate(PACKS.items())
        for place in range(1 + number % 2, 8, 2)
    ],
)
def test_late_ban_in_packs_neither_repeats_nor_loses_other_samples(place: int, options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options)
    before = take_batches(loader, place)
    state = json_round_trip(loader.state_dict())
    later = take_batches(loader, 1000)
    under_way = {key for pack in packs(before)[-4:] for key in pack}

    for banned in packs(before)[-1]:
        ban = [banned, *keys(later)[-9::4]]
        actual = Counter(keys(take_batches(resumed_from(state, dataset, options, ban), 1000)))
        expected = Counter(keys(later))
        assert {key: actual[key] for key in expected if key not in ban} == {
            key: count for key, count in expected.items() if key not in ban
        }
        assert not (actual - expected)
        assert not set(ban) & set(actual) - under_way


@pytest.mark.parametrize("kind", ["buffers", "windows of columns", "windows of functions"])
@pytest.mark.parametrize("place", range(1, 8))
def test_partly_emitted_pack_is_finished_unchanged_after_ban(place: int, kind: str, dataset: str) -> None:
    options = PACKS[kind]
    loader = loader_of(dataset, options)
    pack = packs(take_batches(loader, place))[-1]
    state = json_round_trip(loader.state_dict())
    later = take_batches(loader, 1000)
    rest = [key for key, of in zip(keys(later), packs(later), strict=True) if of == pack]

    for banned in pack:
        actual = take_batches(resumed_from(state, dataset, options, [banned]), 1000)
        assert keys(actual[: len(rest)]) == rest
        assert keys(actual) == keys(later)


@pytest.mark.parametrize("kind", [kind for kind in PACKS if kind != "halves of batches over packs"])
def test_rest_of_pack_is_dropped_when_all_its_samples_are_banned(kind: str, dataset: str) -> None:
    options = PACKS[kind]
    loader = loader_of(dataset, options)
    ban = packs(take_batches(loader, 1))[-1]
    state = json_round_trip(loader.state_dict())
    rest = keys(take_batches(loader, 1000))

    actual = keys(take_batches(resumed_from(state, dataset, options, ban), 1000))

    assert sorted(actual) == sorted(key for key in rest if key not in ban)


@each_kind
@pytest.mark.parametrize("place", [1, 4])
def test_states_saved_after_ban_in_partly_emitted_pack_resume_exactly(place: int, options: Any, dataset: str) -> None:
    state = save_state_after(first := loader_of(dataset, options), place)
    ban = [packs(take_batches(first, 1))[0][0], *keys(take_batches(first, 12))[::3]]
    uninterrupted = resumed_from(state, dataset, options, ban)
    states, truth = [json_round_trip(uninterrupted.state_dict())], []
    for _ in range(16):
        truth += [(keys([batch]), packs([batch])) for batch in take_batches(uninterrupted, 1)]
        states.append(json_round_trip(uninterrupted.state_dict()))

    for at in range(12):
        again = resumed_from(states[at], dataset, options, [])
        assert [(keys([batch]), packs([batch])) for batch in take_batches(again, 4)] == truth[at : at + 4]
