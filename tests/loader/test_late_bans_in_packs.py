"""A ban that is given while a pack is half out: of which the hook makes several outputs, and some of them have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loader.datasets import Parts, Raw, a_dataset
from tests.loader.running import saved_after, taken, through_json, training_of
from wdsctl.core.index.index import index
from wdsctl.loader import Loader
from wdsctl.loader.packing import Packing

SAMPLES = 60


def lettered(i: int) -> Parts:
    """5 to 9 letters."""
    return {"txt": b"x" * (5 + i * 7 % 5), "json": b"{}"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=30, parts=lettered)
    index(path, columns={"letters": "size:txt"})
    return path


class Apart(Raw):
    """Of each pack its samples, one by one: so it is seen which of them come."""

    def pack_selected_samples(self, samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield {**sample, "of": [each["__key__"] for each in samples]}


class Grouped(Apart):
    def batch_group_criterion(self, sample: Any) -> Any:
        return len(sample["txt"]) % 3, 2


class Threes:
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]


class BufferedApart(Threes, Apart):
    pass


class BufferedGroups(Threes, Grouped):
    pass


class Halves(BufferedApart):
    """Batches of two samples of a pack, half by half."""

    def batch(self, samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield super().batch([sample])


def held(sample: Any) -> int:
    return len(sample["txt"])


BY_COLUMNS = Packing(length="letters", capacity=24, window=12, method="sequential")
BY_FUNCTIONS = Packing(length=held, capacity=24, window=12, method="sequential")

PACKS: dict[str, dict[str, Any]] = {
    "buffers": {"encoder": BufferedApart(), "batch_size": 1, "packing_buffer_size": 12},
    "batches over packs": {"encoder": BufferedApart(), "batch_size": 2, "packing_buffer_size": 12},
    "halves of batches over packs": {"encoder": Halves(), "batch_size": 2, "packing_buffer_size": 12},
    "windows of columns": {"encoder": Apart(), "batch_size": 1, "packing": BY_COLUMNS},
    "windows of functions": {"encoder": Apart(), "batch_size": 1, "packing": BY_FUNCTIONS},
    "groups of buffers": {"encoder": BufferedGroups(), "batch_size": None, "packing_buffer_size": 12},
    "groups of windows of columns": {"encoder": Grouped(), "batch_size": None, "packing": BY_COLUMNS},
    "groups of windows of functions": {"encoder": Grouped(), "batch_size": None, "packing": BY_FUNCTIONS},
}
each_kind = pytest.mark.parametrize("options", PACKS.values(), ids=PACKS)


def loader_of(path: str, options: dict[str, Any], **more: Any) -> Loader:
    return training_of(path, **{"lanes": 1, "repeat": False, **options, **more})


def resumed_from(state: Any, path: str, options: dict[str, Any], ban: list[str]) -> Loader:
    loader = loader_of(path, options, ban=ban)
    loader.load_state_dict(state)
    return loader


def keys(batches: list[Any]) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


def packs(batches: list[Any]) -> list[list[str]]:
    return [pack for batch in batches for pack in batch["of"]]


@each_kind
@pytest.mark.parametrize("place", range(1, 8))
def test_nothing_comes_twice_and_nothing_is_missing_but_what_is_banned(place: int, options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options)
    before = taken(loader, place)
    state = through_json(loader.state_dict())
    later = taken(loader, 1000)
    under_way = {key for pack in packs(before)[-4:] for key in pack}

    for banned in packs(before)[-1]:
        ban = [banned, *keys(later)[-9::4]]
        came = Counter(keys(taken(resumed_from(state, dataset, options, ban), 1000)))
        wanted = Counter(keys(later))
        assert {key: came[key] for key in wanted if key not in ban} == {
            key: count for key, count in wanted.items() if key not in ban
        }
        assert not (came - wanted)
        assert not set(ban) & set(came) - under_way


@pytest.mark.parametrize("kind", ["buffers", "windows of columns", "windows of functions"])
@pytest.mark.parametrize("place", range(1, 8))
def test_a_pack_that_is_half_out_is_finished_as_it_was_begun(place: int, kind: str, dataset: str) -> None:
    options = PACKS[kind]
    loader = loader_of(dataset, options)
    pack = packs(taken(loader, place))[-1]
    state = through_json(loader.state_dict())
    later = taken(loader, 1000)
    rest = [key for key, of in zip(keys(later), packs(later), strict=True) if of == pack]

    for banned in pack:
        came = taken(resumed_from(state, dataset, options, [banned]), 1000)
        assert keys(came[: len(rest)]) == rest
        assert keys(came) == keys(later)


@pytest.mark.parametrize("kind", [kind for kind in PACKS if kind != "halves of batches over packs"])
def test_the_rest_of_a_pack_of_which_all_samples_are_banned_does_not_come(kind: str, dataset: str) -> None:
    options = PACKS[kind]
    loader = loader_of(dataset, options)
    ban = packs(taken(loader, 1))[-1]
    state = through_json(loader.state_dict())
    rest = keys(taken(loader, 1000))

    came = keys(taken(resumed_from(state, dataset, options, ban), 1000))

    assert sorted(came) == sorted(key for key in rest if key not in ban)


@each_kind
@pytest.mark.parametrize("place", [1, 4])
def test_after_such_a_ban_states_go_on_exactly_whatever_is_banned_later(place: int, options: Any, dataset: str) -> None:
    state = saved_after(first := loader_of(dataset, options), place)
    ban = [packs(taken(first, 1))[0][0], *keys(taken(first, 12))[::3]]
    undisturbed = resumed_from(state, dataset, options, ban)
    states, truth = [through_json(undisturbed.state_dict())], []
    for _ in range(16):
        truth += [(keys([batch]), packs([batch])) for batch in taken(undisturbed, 1)]
        states.append(through_json(undisturbed.state_dict()))

    for at in range(12):
        again = resumed_from(states[at], dataset, options, [])
        assert [(keys([batch]), packs([batch])) for batch in taken(again, 4)] == truth[at : at + 4]
