from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.build import a_dataset, samples, some_shards
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.columns.compute import (
    ColumnTask,
    ColumnUnit,
    ComputedValues,
    column_results,
    compute_values,
    failed_name,
    run_column_unit,
)
from wdsctl.core.columns.spec import parse_column_spec
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import Finding
from wdsctl.core.index.index import index
from wdsctl.core.shards import read_parts
from wdsctl.core.tar_header import TAR_BLOCK_BYTES


def a_unit(root: str, *functions: str, shard: int = 0, zero: bool = False) -> ColumnUnit:
    """A unit of an indexed dataset with one task per function."""
    tasks = tuple(
        ColumnTask(
            f"c{i}", parse_column_spec(text if ":" in text else f"tests.core.counting:{text}"), root, f"c{i}", zero
        )
        for i, text in enumerate(functions)
    )
    return ColumnUnit(root, locate(root).offsets_path(1), shard, tasks)


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = some_shards(tmp_path, 2, 6)
    index(path)
    return path


def test_unit_computes_values_of_its_shard_for_every_task(root: str) -> None:
    computed = compute_values(a_unit(root, "number", "words", shard=1))
    assert [each.values.tolist() for each in computed] == [[6, 7, 8, 9, 10, 11], [3] * 6]
    assert [(each.failed_count, each.findings) for each in computed] == [(0, ())] * 2


def test_function_receives_key_and_declared_parts_as_bytes(root: str) -> None:
    given_values, words = compute_values(a_unit(root, "given", "words"))
    assert given_values.values.tolist() == [3] * 6
    assert words.failed_count == 0


def test_functions_do_not_see_changes_of_other_functions(root: str) -> None:
    emptied_values, given_values = compute_values(a_unit(root, "emptied", "given"))
    assert emptied_values.values.tolist() == given_values.values.tolist() == [3] * 6


@pytest.mark.usefixtures("faulty_store")
def test_only_declared_parts_are_read(tmp_path: Path) -> None:
    shard = {f"{i}.{part}": bytes(size) for i in range(3) for part, size in (("jpg", 600_000), ("txt", 7))}
    url, catalog = (
        upload_shards(a_dataset(tmp_path / "disk", {"a.tar": shard}), "faulty://bucket/d"),
        str(tmp_path / "c"),
    )
    index(url, catalog=catalog)
    task = ColumnTask("c", parse_column_spec("chars:txt"), str(tmp_path), "values")
    FaultyFileSystem.reads.clear()
    [computed] = compute_values(ColumnUnit(url, locate(url, catalog).offsets_path(1), 0, (task,)))

    assert computed.values.tolist() == [7] * 3
    ends = 2 * TAR_BLOCK_BYTES  # the headers that show whether the shard is the indexed one
    assert sum(stop - start for _, start, stop in FaultyFileSystem.reads) == ends + 3 * 7


@pytest.mark.parametrize(("batch_bytes", "batch_items"), [(1, 1000), (1 << 20, 1), (20, 4)])
def test_values_do_not_depend_on_read_batch_size(
    root: str, monkeypatch: pytest.MonkeyPatch, batch_bytes: int, batch_items: int
) -> None:
    monkeypatch.setattr(read_parts, "READ_BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(read_parts, "READ_BATCH_ITEMS", batch_items)
    [computed] = compute_values(a_unit(root, "number"))
    assert computed.values.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("function", "expected_message"),
    [
        ("true", "returned True, expected a whole number"),
        ("numpy_true", "returned True, expected a whole number"),
        ("half", "returned 0.5, expected a whole number"),
        ("decimal", "returned Decimal, expected a whole number"),
        ("nothing", "returned nothing (None), expected a whole number"),
        ("below_zero", "returned -1, expected 0 to 2^63 - 1"),
        ("too_large", "returned 9223372036854775808, expected"),
    ],
)
def test_results_that_are_no_count_are_refused(root: str, function: str, expected_message: str) -> None:
    [computed] = compute_values(a_unit(root, function))
    assert (computed.failed_count, len(computed.values)) == (6, 0)
    first = computed.findings[0]
    assert expected_message in first.message
    assert (first.code, first.severity, first.shard, first.key) == ("WDS313", "error", "shard-000.tar", "000000")


def test_raising_function_reports_shard_and_key_of_first_failures(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 100)})
    index(root)
    [computed] = compute_values(a_unit(root, "not_fives"))

    assert computed.failed_count == sum(finding.count for finding in computed.findings) == 10
    assert [finding.key for finding in computed.findings] == [
        "000005",
        "000015",
        "000025",
        "000035",
        "000045",
        "000055",
    ]
    assert computed.findings[0].message == "column c0: KeyError: 'fives'"


def test_zero_option_replaces_failed_values(root: str) -> None:
    [computed] = compute_values(a_unit(root, "not_fives", zero=True))
    assert (computed.values.tolist(), computed.failed_count) == ([1, 1, 1, 1, 1, 0], 1)
    assert [finding.severity for finding in computed.findings] == ["warning"]


@pytest.mark.parametrize("zero", [False, True])
def test_unreadable_shard_has_no_values_with_any_option(root: str, zero: bool) -> None:
    shard = Path(root, "shard-000.tar")
    shard.write_bytes(shard.read_bytes()[:-512])
    unit = a_unit(root, "number", "words", zero=zero)

    assert [(each.failed_count, len(each.values)) for each in compute_values(unit)] == [(6, 0)] * 2
    [outcome, _] = run_column_unit(unit)
    assert (outcome.is_saved, outcome.failed_count, outcome.findings[0].code) == (False, 6, "WDS403")
    assert (outcome.findings[0].severity, outcome.findings[0].count) == ("error", 6)


def test_output_of_functions_does_not_reach_stdout(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    compute_values(a_unit(root, "loud"))
    assert capsys.readouterr().out == ""


def test_unit_saves_one_file_per_successful_task(root: str) -> None:
    outcomes = run_column_unit(a_unit(root, "number", "not_fives"))
    assert [(outcome.name, outcome.is_saved, outcome.failed_count) for outcome in outcomes] == [
        ("c0", True, 0),
        ("c1", False, 1),
    ]
    results = column_results(root)
    computed = results.load("c0")
    assert computed is not None
    assert computed.values.tolist() == list(range(6))
    assert not os.path.exists(results.path("c1"))


def test_values_replaced_by_zero_are_saved_as_failed(root: str) -> None:
    run_column_unit(a_unit(root, "not_fives", zero=True))
    results = column_results(root)
    assert results.load("c0") is None
    assert results.load(failed_name("c0")) is not None


def test_saved_values_round_trip_and_damaged_files_are_ignored(tmp_path: Path) -> None:
    results = column_results(str(tmp_path))
    finding = Finding(code="WDS313", severity="warning", message="m", key="k", count=2)
    results.save(["x"], [ComputedValues(np.array([1, 2], np.int64), 1, (finding,))])
    computed = results.load("x")
    assert computed is not None
    assert (computed.values.tolist(), computed.failed_count, computed.findings) == ([1, 2], 1, (finding,))

    path = Path(results.path("x"))
    data = path.read_bytes()
    for damage in (b"", data[:-1], data[:-1] + b"?"):
        path.write_bytes(damage)
        assert results.load("x") is None
