from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.build import RecordingProgress
from wdsctl.core.errors import StorageError
from wdsctl.core.files import BytesLike
from wdsctl.core.job_results import EncodedResult, ResultFolder
from wdsctl.core.jobs import BatchLimits, LocalProcesses, UnitSize, batch_spans, run_units

UnitT = TypeVar("UnitT")
ResultT = TypeVar("ResultT")


def square(unit: tuple[str, int]) -> int:
    """Appends the number of the unit to the log, whose path is in the unit."""
    with open(unit[0], "a", encoding="ascii") as log:
        log.write(f"{unit[1]}\n")
    return unit[1] ** 2


def fail_at_three(unit: tuple[str, int]) -> int:
    if unit[1] == 3:
        raise StorageError("three", hint="not three", code="WDS404")
    return square(unit)


def name_of(unit: tuple[str, int]) -> str:
    return f"unit-{unit[1]}"


def encode(_unit: tuple[str, int], result: int) -> EncodedResult | None:
    """25 stands for a result that must not be kept."""
    pieces: list[BytesLike] = [bytes(result)]
    return None if result == 25 else ({"result": result}, pieces)


def decode(_unit: tuple[str, int], facts: Mapping[str, Any], data: memoryview) -> int:
    if len(data) != facts["result"]:
        raise ValueError(len(data))
    return int(facts["result"])


def a_folder(tmp_path: Path) -> ResultFolder[tuple[str, int], int]:
    return ResultFolder(str(tmp_path / "results"), name_of, encode, decode)


def some_units(tmp_path: Path, n: int) -> list[tuple[str, int]]:
    return [(str(tmp_path / "log"), i) for i in range(n)]


def log_of(tmp_path: Path) -> list[int]:
    log = tmp_path / "log"
    return sorted(map(int, log.read_text().split())) if log.exists() else []


class ReversedExecutor:
    """An executor that pickles nothing and finishes units from last to first."""

    shares_files = True

    workers = 4

    def run(self, fn: Callable[[UnitT], ResultT], units: Iterable[UnitT]) -> Generator[tuple[int, ResultT], None, None]:
        yield from reversed([(i, fn(unit)) for i, unit in enumerate(units)])


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch", [BatchLimits(1, 0), BatchLimits(5, 1 << 20)])
@pytest.mark.parametrize("is_kept", [False, True])
def test_run_units_yields_every_unit_once_with_its_result(
    tmp_path: Path, workers: int, batch: BatchLimits, is_kept: bool
) -> None:
    units = some_units(tmp_path, 50)
    results = a_folder(tmp_path) if is_kept else None
    found = run_units(square, units, LocalProcesses(workers), results=results, batch=batch)

    assert sorted((each.index, each.unit, each.result()) for each in found) == [
        (i, unit, i * i) for i, unit in enumerate(units)
    ]
    assert log_of(tmp_path) == list(range(50))


@pytest.mark.parametrize("is_kept", [False, True])
def test_ordered_run_yields_units_in_input_order(tmp_path: Path, is_kept: bool) -> None:
    units = some_units(tmp_path, 9)
    results = a_folder(tmp_path) if is_kept else None
    list(run_units(square, units[3:5], LocalProcesses(1), results=results))
    found = run_units(square, units, ReversedExecutor(), results=results, is_ordered=True)

    assert [(each.index, each.result()) for each in found] == [(i, i * i) for i in range(9)]


@pytest.mark.parametrize("workers", [1, 2])
def test_units_finished_before_error_do_not_run_again(tmp_path: Path, workers: int) -> None:
    units, results = some_units(tmp_path, 5), a_folder(tmp_path)
    with pytest.raises(StorageError):
        list(run_units(fail_at_three, units[:4], LocalProcesses(workers), results=results))
    saved = {name.removesuffix(".result") for name in os.listdir(results.folder)}
    (tmp_path / "log").unlink()
    found = list(run_units(square, units, LocalProcesses(workers), results=results))

    assert sorted(each.result() for each in found) == [0, 1, 4, 9, 16]
    assert log_of(tmp_path) == [i for i in range(5) if f"unit-{i}" not in saved]
    assert workers > 1 or saved == {"unit-0", "unit-1", "unit-2"}


def test_batched_units_share_result_file_and_are_found_singly(tmp_path: Path) -> None:
    units, results = some_units(tmp_path, 40), a_folder(tmp_path)
    list(run_units(square, units, LocalProcesses(1), results=results, batch=BatchLimits(10, 1 << 20)))
    (tmp_path / "log").unlink()

    assert len(os.listdir(results.folder)) == 4
    found = list(run_units(square, units[7:], LocalProcesses(1), results=results, batch=BatchLimits(10, 1 << 20)))
    assert sorted(each.result() for each in found) == [i * i for i in range(7, 40)]
    assert log_of(tmp_path) == []


def test_unsaved_result_is_returned_and_computed_again(tmp_path: Path) -> None:
    units, results = some_units(tmp_path, 8), a_folder(tmp_path)
    for _ in range(2):
        found = list(run_units(square, units, LocalProcesses(2), results=results, is_ordered=True))
        assert [each.result() for each in found] == [i * i for i in range(8)]
        assert [each.index for each in found if not each.is_saved] == [5]
    assert log_of(tmp_path) == sorted([*range(8), 5])


@pytest.mark.parametrize("size", [0, 11, 30, -1])
def test_damaged_result_counts_as_missing(tmp_path: Path, size: int) -> None:
    units, results = some_units(tmp_path, 3), a_folder(tmp_path)
    list(run_units(square, units, LocalProcesses(1), results=results))
    path = Path(results.path(units[2]))
    path.write_bytes(path.read_bytes()[:size])

    assert results.load(units[2]) is None
    assert results.load_or_run(units[2], square) == 4
    assert [each.result() for each in run_units(square, units, LocalProcesses(2), results=results)] == [0, 1, 4]


def test_truncated_result_file_keeps_results_before_cut(tmp_path: Path) -> None:
    units, results = some_units(tmp_path, 4), a_folder(tmp_path)
    assert results.save(units, [0, 1, 4, 9]) == [True] * 4
    path = Path(results.path(units[0]))
    path.write_bytes(path.read_bytes()[:-1])
    found = list(run_units(square, units, LocalProcesses(1), results=results, batch=BatchLimits(10, 1 << 20)))

    assert [each.result() for each in found] == [0, 1, 4, 9]
    assert log_of(tmp_path) == [3]


def test_flipped_bit_is_detected_or_harmless(tmp_path: Path) -> None:
    units, results = some_units(tmp_path, 4), a_folder(tmp_path)
    results.save(units[3:], [9])
    path = Path(results.path(units[3]))
    good = path.read_bytes()
    for bit in range(len(good) * 8):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert results.load(units[3]) in (None, 9)


def test_result_of_another_unit_is_refused(tmp_path: Path) -> None:
    """Anyone who can write into the folder can compute checksums, too."""
    units, results = some_units(tmp_path, 2), a_folder(tmp_path)
    other = ResultFolder(results.folder, name_of, lambda _unit, _result: ({"result": 7}, []), decode)
    other.save(units[:1], [0])

    assert results.load(units[0]) is None


def test_files_that_are_not_results_are_ignored(tmp_path: Path) -> None:
    units, results = some_units(tmp_path, 2), a_folder(tmp_path)
    Path(results.folder, "values").mkdir(parents=True)
    Path(results.folder, ".unit-0.result.1.partial").write_bytes(b"cut")
    Path(results.folder, "unit-1.json").write_text(json.dumps({"result": 7}))

    assert results.find(units, are_batched=True) == {}
    assert [each.result() for each in run_units(square, units, LocalProcesses(1), results=results)] == [0, 1]


def test_progress_counts_only_remaining_units(tmp_path: Path) -> None:
    units, results = some_units(tmp_path, 6), a_folder(tmp_path)
    results.save(units[:1], [0])
    recorder = RecordingProgress()
    found = run_units(
        square,
        units,
        LocalProcesses(1),
        results=results,
        phase="scan",
        progress=recorder,
        size=lambda unit: UnitSize(2, unit[1]),
    )
    assert [each.index for each in found] == list(range(6))
    assert (recorder.phases, recorder.items, recorder.size_bytes) == ([("scan", 10, 15)], 10, 15)
    list(run_units(square, units[:5], LocalProcesses(1), results=results, phase="scan", progress=recorder))
    assert len(recorder.phases) == 1


def test_batch_spans_groups_small_units_and_isolates_large_ones() -> None:
    limits = BatchLimits(32, 4 << 20)
    sizes = [10] * 1000 + [limits.size_bytes] * 3 + [10] * 5
    spans = batch_spans(sizes, 2, limits)

    assert [first for first, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(sizes)
    assert max(end - first for first, end in spans) == limits.units
    assert all((i, i + 1) in spans or (i, i + 2) in spans for i in (1000, 1001))
    assert batch_spans(sizes, 1, limits) == spans
    assert len(batch_spans(sizes[:7], 2, limits)) == 7
    assert batch_spans([], 2, limits) == []
