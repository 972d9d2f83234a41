"""The contract of cursors holds for every cursor there is."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import wdsctl.loader.stages
from tests.contracts.savable import assert_savable
from tests.loader.datasets import a_dataset, numbered
from wdsctl.core.catalog.quick import read_split
from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import locate
from wdsctl.loader import SkipSample
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.shuffle import Shuffled
from wdsctl.loader.pipeline import LaneCursor, Pipeline
from wdsctl.loader.selection import Selection
from wdsctl.loader.source import Source
from wdsctl.loader.stages.batch import BatchStage
from wdsctl.loader.stages.encode import EncodeCursor, EncodeStage
from wdsctl.loader.stages.load import LoadCursor, LoadStage
from wdsctl.loader.stages.source import SourceCursor, SourceStage
from wdsctl.loader.stats import Stats

SAMPLES, STEPS = 40, 45  # a lane of two: into the third pass


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    root = a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=11, parts=numbered)
    place = locate(root)
    offsets = Offsets(place.offsets(1))
    selection = Selection(offsets, read_split(place.catalog, "train"))
    return Source(root, offsets, selection, DatasetConfig(sample_type="CrudeSample"), None)


def hook(sample: Any) -> Any:
    """One to none, to two, skipped."""
    number = int(sample["__key__"])
    if number % 5 == 3:
        raise SkipSample
    for copy in range(number % 3):
        yield sample["__restore_key__"], copy


def source_cursor(source: Source, lane: Lane) -> SourceCursor:
    order = Shuffled(n=source.n, lanes=2, slice_samples=2, window_samples=6, seed=7)
    return SourceStage(source, order).open(lane)


def load_cursor(source: Source, lane: Lane) -> LoadCursor:
    return LoadStage(Stats()).open(source_cursor(source, lane))


def encode_cursor(source: Source, lane: Lane) -> EncodeCursor:
    return EncodeStage(hook, 5, 100, Stats()).open(load_cursor(source, lane))


def lane_cursor(source: Source, lane: Lane) -> LaneCursor:
    stats = Stats()
    order = Shuffled(n=source.n, lanes=2, slice_samples=2, window_samples=6, seed=7)
    encode = EncodeStage(hook, 5, 100, stats)
    batch = BatchStage(3, list, seeds_batch=False, encode_batch=None, memories=(), key=0, stats=stats)
    return Pipeline(SourceStage(source, order), LoadStage(stats), encode, batch, None).open(lane)


def references(cursor: Any) -> list[tuple[int, int]]:
    return [(block.epoch, block.ids[i]) for _, block, i in cursor.take(2)]


def samples(cursor: Any) -> list[Any]:
    return [(sample["__restore_key__"], sample["txt"]) for sample in cursor.take(1)]


CURSORS: dict[type[Any], tuple[Callable[[Source, Lane], Any], Callable[[Any], Any]]] = {
    SourceCursor: (source_cursor, references),
    LoadCursor: (load_cursor, samples),
    EncodeCursor: (encode_cursor, lambda cursor: cursor.take(1)),
    LaneCursor: (lane_cursor, lambda cursor: cursor.draw(0)),
}


@pytest.mark.parametrize("kind", CURSORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lane", [Lane(0, 0, 1), Lane(1, 1, 3)], ids=["a whole lane", "a third of a lane"])
def test_a_cursor_goes_on_from_wherever_it_was_saved(kind: type[Any], lane: Lane, source: Source) -> None:
    fresh, step = CURSORS[kind]

    assert_savable(lambda: fresh(source, lane), step, STEPS)


def test_every_cursor_is_held_to_the_contract() -> None:
    modules = [
        import_module(f"wdsctl.loader.stages.{found.name}")
        for found in pkgutil.iter_modules([str(Path(wdsctl.loader.stages.__file__).parent)])
    ]
    classes = {each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)}
    savable = {
        each
        for each in classes
        if each.__module__.startswith("wdsctl.loader.stages")
        and hasattr(each, "state_dict")
        and not getattr(each, "_is_protocol", False)
    }

    assert savable == set(CURSORS) - {LaneCursor}, "a new cursor: add it to CURSORS"


class Forgets:
    """A savable thing that breaks the contract in one way."""

    def __init__(self, fault: str) -> None:
        self.fault, self.at = fault, 0

    def step(self) -> int:
        self.at += 1
        return self.at

    def state_dict(self) -> dict[str, Any]:
        if self.fault == "changes by asking":
            self.at += 1
        if self.fault == "other types":
            return {"at": self.at if self.at % 3 else str(self.at)}
        if self.fault == "no JSON":
            return {"at": (self.at,)}
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        at = state["at"]
        self.at = int(at[0] if isinstance(at, list) else at)
        if self.fault == "forgets":
            self.at = 0
        if self.fault == "eats its argument":
            state.clear()


@pytest.mark.parametrize("fault", ["changes by asking", "other types", "no JSON", "forgets", "eats its argument"])
def test_the_contract_finds_a_cursor_that_breaks_it(fault: str) -> None:
    assert_savable(lambda: Forgets(""), Forgets.step, 5)

    with pytest.raises(AssertionError):
        assert_savable(lambda: Forgets(fault), Forgets.step, 5)
