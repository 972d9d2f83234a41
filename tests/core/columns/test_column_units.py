from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.build import a_dataset, samples, some_shards
from tests.remote import FaultyFileSystem, uploaded
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


def a_unit(root: str, *functions: str, shard: int = 0, zero: bool = False) -> ColumnUnit:
    """A unit of an indexed dataset, a task a function."""
    tasks = tuple(
        ColumnTask(
            f"c{i}", parse_column_spec(text if ":" in text else f"tests.core.counting:{text}"), root, f"c{i}", zero
        )
        for i, text in enumerate(functions)
    )
    return ColumnUnit(root, locate(root).offsets_path(1), shard, tasks)


@pytest.fixture
def root(tmp_path: Path) -> str:
    found = some_shards(tmp_path, 2, 6)
    index(found)
    return found


def test_every_task_gets_its_values_of_the_one_shard(root: str) -> None:
    made = compute_values(a_unit(root, "number", "words", shard=1))
    assert [each.values.tolist() for each in made] == [[6, 7, 8, 9, 10, 11], [3] * 6]
    assert [(each.failed_count, each.findings) for each in made] == [(0, ())] * 2


def test_a_function_gets_key_and_parts_as_bytes_or_those_that_it_names(root: str) -> None:
    given, words = compute_values(a_unit(root, "given", "words"))
    assert given.values.tolist() == [3] * 6
    assert words.failed_count == 0


def test_no_function_sees_what_another_did_to_its_sample(root: str) -> None:
    emptied, given = compute_values(a_unit(root, "emptied", "given"))
    assert emptied.values.tolist() == given.values.tolist() == [3] * 6


@pytest.mark.usefixtures("faulty_store")
def test_only_the_parts_that_are_named_are_read(tmp_path: Path) -> None:
    shard = {f"{i}.{part}": bytes(size) for i in range(3) for part, size in (("jpg", 600_000), ("txt", 7))}
    url, catalog = uploaded(a_dataset(tmp_path / "disk", {"a.tar": shard}), "faulty://bucket/d"), str(tmp_path / "c")
    index(url, catalog=catalog)
    task = ColumnTask("c", parse_column_spec("chars:txt"), str(tmp_path), "values")
    FaultyFileSystem.reads.clear()
    [made] = compute_values(ColumnUnit(url, locate(url, catalog).offsets_path(1), 0, (task,)))

    assert made.values.tolist() == [7] * 3
    assert sum(stop - start for _, start, stop in FaultyFileSystem.reads) == 3 * 7


@pytest.mark.parametrize(("together", "at_once"), [(1, 1000), (1 << 20, 1), (20, 4)])
def test_values_do_not_depend_on_what_is_read_together(
    root: str, monkeypatch: pytest.MonkeyPatch, together: int, at_once: int
) -> None:
    monkeypatch.setattr(read_parts, "READ_BATCH_BYTES", together)
    monkeypatch.setattr(read_parts, "READ_BATCH_ITEMS", at_once)
    [made] = compute_values(a_unit(root, "number"))
    assert made.values.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("function", "said"),
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
def test_what_is_no_whole_number_from_zero_on_is_no_value(root: str, function: str, said: str) -> None:
    [made] = compute_values(a_unit(root, function))
    assert (made.failed_count, len(made.values)) == (6, 0)
    first = made.findings[0]
    assert said in first.message
    assert (first.code, first.severity, first.shard, first.key) == ("WDS313", "error", "shard-000.tar", "000000")


def test_a_function_that_raises_names_shard_and_key_and_only_the_first_few_stand_alone(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 100)})
    index(root)
    [made] = compute_values(a_unit(root, "not_fives"))

    assert made.failed_count == sum(finding.count for finding in made.findings) == 10
    assert [finding.key for finding in made.findings] == ["000005", "000015", "000025", "000035", "000045", "000055"]
    assert made.findings[0].message == "column c0: KeyError: 'fives'"


def test_zero_takes_the_place_of_a_value_that_could_not_be_had(root: str) -> None:
    [made] = compute_values(a_unit(root, "not_fives", zero=True))
    assert (made.values.tolist(), made.failed_count) == ([1, 1, 1, 1, 1, 0], 1)
    assert [finding.severity for finding in made.findings] == ["warning"]


@pytest.mark.parametrize("zero", [False, True])
def test_a_shard_that_cannot_be_read_has_no_values_whatever_is_asked_for(root: str, zero: bool) -> None:
    shard = Path(root, "shard-000.tar")
    shard.write_bytes(shard.read_bytes()[:-512])
    unit = a_unit(root, "number", "words", zero=zero)

    assert [(each.failed_count, len(each.values)) for each in compute_values(unit)] == [(6, 0)] * 2
    [outcome, _] = run_column_unit(unit)
    assert (outcome.is_saved, outcome.failed_count, outcome.findings[0].code) == (False, 6, "WDS403")
    assert (outcome.findings[0].severity, outcome.findings[0].count) == ("error", 6)


def test_what_functions_print_goes_beside_the_answer(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    compute_values(a_unit(root, "loud"))
    assert capsys.readouterr().out == ""


def test_a_unit_leaves_a_file_a_task_but_for_those_that_failed(root: str) -> None:
    outcomes = run_column_unit(a_unit(root, "number", "not_fives"))
    assert [(outcome.name, outcome.is_saved, outcome.failed_count) for outcome in outcomes] == [
        ("c0", True, 0),
        ("c1", False, 1),
    ]
    results = column_results(root)
    made = results.load("c0")
    assert made is not None
    assert made.values.tolist() == list(range(6))
    assert not os.path.exists(results.path("c1"))


def test_zeros_in_the_place_of_values_are_no_finished_unit(root: str) -> None:
    run_column_unit(a_unit(root, "not_fives", zero=True))
    results = column_results(root)
    assert results.load("c0") is None
    assert results.load(failed_name("c0")) is not None


def test_saved_values_come_back_and_damaged_ones_do_not(tmp_path: Path) -> None:
    results = column_results(str(tmp_path))
    finding = Finding(code="WDS313", severity="warning", message="m", key="k", count=2)
    results.save(["x"], [ComputedValues(np.array([1, 2], np.int64), 1, (finding,))])
    made = results.load("x")
    assert made is not None
    assert (made.values.tolist(), made.failed_count, made.findings) == ([1, 2], 1, (finding,))

    path = Path(results.path("x"))
    data = path.read_bytes()
    for damage in (b"", data[:-1], data[:-1] + b"?"):
        path.write_bytes(damage)
        assert results.load("x") is None
