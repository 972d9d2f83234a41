from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest

from wdsctl.core.convert.plan import write_plan
from wdsctl.core.convert.plan_file import PlanFile
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.importers.protocol import Part, SampleListing, Source, SourceEntry
from wdsctl.core.progress import SILENT_PROGRESS


class Numbers:
    """A source of `count` generated samples of one kilobyte each."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> Numbers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def entries(self) -> Iterator[SourceEntry]:
        return (SourceEntry(f"{i * 7919 % self.count:07d}", 1000) for i in range(self.count))

    def read(self, place: int) -> tuple[Part, ...]:
        return (Part("bin", bytes(place)),)

    def digest(self) -> bytes:
        return b""


def plan(path: Path, source: Source, request: ConvertRequest) -> PlanFile:
    write_plan(str(path), [source], ["numbers"], request, {"fingerprint": "x"}, SILENT_PROGRESS)
    return PlanFile(str(path))


def order(plan_file: PlanFile) -> list[int]:
    return [item.sample_index for unit in plan_file.units() for item in plan_file.samples(unit.first, unit.last)]


def test_units_contain_every_sample_once_in_order(tmp_path: Path) -> None:
    with plan(tmp_path / "p", Numbers(25), ConvertRequest(shard_samples=10)) as plan_file:
        assert [(unit.name, unit.samples) for unit in plan_file.units()] == [
            ("shard-000000.tar", 10),
            ("shard-000001.tar", 10),
            ("shard-000002.tar", 5),
        ]
        assert order(plan_file) == list(range(25))


@pytest.mark.parametrize("order_name", ["key", "shuffle"])
def test_key_and_shuffle_orders_contain_all_samples(tmp_path: Path, order_name: str) -> None:
    request = ConvertRequest(shard_samples=7, order="key" if order_name == "key" else "shuffle", seed=3)
    with plan(tmp_path / "p", Numbers(101), request) as plan_file:
        keys = [item.key for unit in plan_file.units() for item in plan_file.samples(unit.first, unit.last)]
        assert sorted(order(plan_file)) == list(range(101)) != order(plan_file)
        assert (keys == sorted(keys)) == (order_name == "key")


def test_memory_of_write_plan_does_not_grow_with_samples(tmp_path: Path) -> None:
    peaks = []
    for count in (25, 5_000, 20_000):  # the first plan imports modules
        tracemalloc.start()
        plan(tmp_path / str(count), Numbers(count), ConvertRequest(order="shuffle", shard_samples=1000)).close()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[2] < peaks[1] + 50_000


def test_failed_write_plan_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        plan(tmp_path / "p", Numbers(0), ConvertRequest())
    with pytest.raises(UsageError, match="needs a source that lists its parts"):
        plan(tmp_path / "p", Numbers(5), ConvertRequest(layout="polylithic", media=("mp4",)))

    assert list(tmp_path.iterdir()) == []


class NumbersWithSplits(Numbers):
    """Samples that are in the splits 0 and 1 of their source."""

    split_names = ("lost", "kept")

    def list_samples(self) -> Iterator[SampleListing]:
        return (SampleListing(i, str(i), (("bin", 1),), 1 + i) for i in range(self.count))

    def read_selected(self, place: int, is_selected: Callable[[str], bool]) -> tuple[Part, ...]:
        return tuple(part for part in self.read(place) if is_selected(part.name))

    def prefetch(self, places: list[int]) -> None: ...


def test_unmapped_split_is_dropped(tmp_path: Path) -> None:
    path = str(tmp_path / "p")
    write_plan(path, [NumbersWithSplits(2)], ["numbers"], ConvertRequest(), {}, SILENT_PROGRESS, splits=[[-1, 5]])
    with PlanFile(path) as plan_file:
        assert [item.splits for item in plan_file.samples(0, 1)] == [0, 1 << 5]
