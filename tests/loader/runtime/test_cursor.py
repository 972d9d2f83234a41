"""Every cursor of the loader satisfies the contract of cursors."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import wdsctl.loader.pipeline
from tests.contracts.savable import assert_savable
from tests.core.catalog.readers import read_split
from tests.loader.datasets import a_dataset, numbered
from tests.loader.pipeline.fake_stages import failures_of, hook_of
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import locate
from wdsctl.core.offsets.read import Offsets
from wdsctl.loader import SkipSample
from wdsctl.loader.lanes.mixture import Mixture
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.packing import hook_stage
from wdsctl.loader.packing.hook_stage import HookPackCursor, HookPackStage
from wdsctl.loader.pipeline.batches import BatchCursor, BatchStage
from wdsctl.loader.pipeline.grouping import GroupCursor, GroupStage, ItemBatches, PlainSampleBatches
from wdsctl.loader.pipeline.pipeline import LaneCursor, Pipeline
from wdsctl.loader.pipeline.references import RefCursor, RefStage
from wdsctl.loader.pipeline.samples import SampleCursor, SampleStage
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.components import Component, SourceRange
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.runtime.failures import reraise_exception
from wdsctl.loader.runtime.stats import Stats

SAMPLES, STEPS = 40, 24

LANES = [Lane(0), Lane(1, (LaneSplit(7, 3, 0),)), Lane(1, (LaneSplit(7, 3, 2),))]
IDS = ["a whole lane", "the first third of a lane", "the last third"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> SplitSource:
    root = a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=11, parts=numbered)
    place = locate(root)
    offsets = Offsets(place.offsets_path(1))
    selection = SampleSelection(offsets, read_split(place.catalog_path, "train"))
    return SplitSource(root, offsets, selection, DatasetConfig(sample_type="CrudeSample"), None)


def encode(sample: Any) -> Iterator[Any]:
    """Yields none, one or two copies, or skips the sample."""
    number = int(sample["__key__"])
    if number % 5 == 3:
        raise SkipSample
    for copy in range(number % 3):
        yield {**sample, "copy": copy}


def select(samples: list[Any]) -> list[list[Any]]:
    """Returns pairs and leaves an odd sample out."""
    return [list(pair) for pair in zip(samples[::2], samples[1::2], strict=False)]


def pack(samples: list[Any]) -> Iterator[Any]:
    for sample in samples:
        yield {**sample, "pack": [each["__key__"] for each in samples]}


def criterion(sample: Any) -> tuple[int, int | None]:
    return int(sample["__key__"]) % 4, None if int(sample["__key__"]) % 2 else 2


def refs_of(source: SplitSource, lane: Lane) -> RefCursor:
    """Opens a blend of the dataset and of a part of it, repeated one and a half times."""
    orders = [ShuffledOrder(n=n, slice_samples=2, window_samples=6, seed=n, passes=1, lanes=2) for n in (source.n, 22)]
    components = [
        Component(orders[0], [SourceRange(source, 0, source.n, source.n)]),
        Component(orders[1], [SourceRange(source, 10, 15, 22)]),
    ]
    return RefStage(components, [Mixture((3, 1))], 5).open(lane)


def samples_of(source: SplitSource, lane: Lane, *hooks: Any) -> SampleCursor:
    failures = failures_of(reraise_exception)
    return SampleStage({}, tuple(map(hook_of, hooks)), 100).open(refs_of(source, lane), failures, failures.stats)


def packs_of(source: SplitSource, lane: Lane) -> HookPackCursor:
    failures = failures_of(reraise_exception)
    stage = HookPackStage(5, hook_of(select, "select"), hook_of(pack, "pack"), None)
    return stage.open(samples_of(source, lane, encode), None, failures, failures.stats)


def groups_of(source: SplitSource, lane: Lane) -> GroupCursor:
    failures = failures_of(reraise_exception)
    return GroupStage(criterion, 3, 4).open(packs_of(source, lane), failures, failures.stats)


def batch_stage() -> BatchStage:
    def halves(samples: list[Any]) -> Iterator[Any]:
        yield samples[:1]
        yield samples[1:]

    return BatchStage(3, True, list, hook_of(halves, "batch"), None, ())


def batches_of(source: SplitSource, lane: Lane) -> BatchCursor:
    failures = failures_of(reraise_exception)
    return batch_stage().open(groups_of(source, lane), failures, failures.stats)


class PipelineLane:
    """A lane of a pipeline with all stages, whose state is passed when it is opened."""

    def __init__(self, source: SplitSource, lane: Lane) -> None:
        refs = refs_of(source, lane)._stage
        self._pipeline = Pipeline(
            refs=RefStage(refs.components, [Mixture((3, 1)), Mixture((1, 4))], 5),
            samples=SampleStage({}, (hook_of(encode),), 100),
            pack=HookPackStage(5, hook_of(select, "select"), hook_of(pack, "pack"), None),
            group=GroupStage(criterion, 3, 4),
            batch=batch_stage(),
            bulk=None,
            error_handler=reraise_exception,
            bans=Bans((("000007",),)),
            segment_starts=(0, 11),
        )
        self._lane = lane
        self._number = 0
        self._cursor = self._open(None)

    def next(self) -> Any:
        self._number += 1
        return self._cursor.draw(self._number - 1)

    def state(self) -> Any:
        return {"number": self._number, "lane": self._cursor.state()}

    def load(self, state: Any) -> None:
        self._number, self._cursor = state["number"], self._open(state["lane"])

    def _open(self, state: Any) -> LaneCursor:
        return self._pipeline.open(self._lane, Stats(), state)


class SavableCursor:
    """A cursor with the method names of the contract."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.cursor.draws if isinstance(self.cursor, RefCursor) else self.cursor.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        (self.cursor.seek if isinstance(self.cursor, RefCursor) else self.cursor.load)(state["at"])


def references(cursor: Any) -> list[Any]:
    return [(block.passes[i], block.ids[i]) for _, block, i in cursor.take(2)]


def plain(value: Any) -> Any:
    """Returns the fields of a sample, or of a list of samples."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {name: value[name] for name in ("__restore_key__", "copy", "pack") if name in value}


CURSORS: dict[type[Any], tuple[Callable[[SplitSource, Lane], Any], Callable[[Any], Any]]] = {
    RefCursor: (refs_of, references),
    SampleCursor: (lambda source, lane: samples_of(source, lane, encode), lambda each: plain(each.next().value)),
    HookPackCursor: (packs_of, lambda each: plain(each.next().value)),
    GroupCursor: (groups_of, lambda each: [plain(item.value) for item in each.next()]),
    ItemBatches: (
        lambda source, lane: ItemBatches(samples_of(source, lane, encode), 3, Stats()),
        lambda each: [plain(item.value) for item in each.next()],
    ),
    PlainSampleBatches: (
        lambda source, lane: PlainSampleBatches(samples_of(source, lane), 3, with_keys=True),
        lambda each: [(item.origin_hash, plain(item.value)) for item in each.next()],
    ),
    BatchCursor: (batches_of, lambda each: plain(each.draw())),
    LaneCursor: (PipelineLane, lambda each: plain(each.next())),
}


@pytest.mark.parametrize("kind", CURSORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lane", LANES, ids=IDS)
def test_cursor_resumes_from_any_saved_state(kind: type[Any], lane: Lane, source: SplitSource) -> None:
    open_cursor, step = CURSORS[kind]

    assert_savable(lambda: SavableCursor(open_cursor(source, lane)), lambda saved: step(saved.cursor), STEPS)


REBUILT: dict[type[Any], Callable[[SplitSource, Lane], Any]] = {
    SampleCursor: lambda source, lane: samples_of(source, lane, encode),
    HookPackCursor: packs_of,
}


@pytest.mark.parametrize("kind", REBUILT, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lane", LANES, ids=IDS)
def test_cursor_rebuilds_items_without_moving(kind: type[Any], lane: Lane, source: SplitSource) -> None:
    cursor, undisturbed = REBUILT[kind](source, lane), REBUILT[kind](source, lane)
    items = [cursor.next() for _ in range(30)]
    before = cursor.state()

    rebuilt = [cursor.rebuild(item.address) for item in reversed(items)][::-1]

    assert [(plain(item.value), item.origin_hash, item.restore_keys) for item in rebuilt] == [
        (plain(item.value), item.origin_hash, item.restore_keys) for item in items
    ]
    assert cursor.state() == before
    assert [plain(cursor.next().value) for _ in range(6)] == [
        plain(item.value) for item in [undisturbed.next() for _ in range(36)][30:]
    ]


def test_all_cursor_classes_are_in_contract_tests() -> None:
    modules = [
        hook_stage,
        *(
            import_module(f"wdsctl.loader.pipeline.{info.name}")
            for info in pkgutil.iter_modules([str(Path(wdsctl.loader.pipeline.__file__).parent)])
        ),
    ]
    classes = {each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)}
    savable = {
        each
        for each in classes
        if each.__module__.startswith(("wdsctl.loader.pipeline", "wdsctl.loader.packing.hook_stage"))
        and (hasattr(each, "state") or hasattr(each, "seek"))
        and not getattr(each, "_is_protocol", False)
    }

    assert savable == set(CURSORS), "a new cursor: add it to CURSORS"


class FaultySavable:
    """A savable object that breaks the contract in one way."""

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
def test_assert_savable_detects_faulty_cursor(fault: str) -> None:
    assert_savable(lambda: FaultySavable(""), FaultySavable.step, 5)

    with pytest.raises(AssertionError):
        assert_savable(lambda: FaultySavable(fault), FaultySavable.step, 5)
