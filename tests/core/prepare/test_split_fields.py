"""Fields of samples that name their splits: `prepare` in place applies them, or warns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, split_by_ratios
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.request import PrepareRequest

ROWS = [{"text": f"text {n}", "split": "val" if n % 4 == 0 else "Train"} for n in range(8)]
UNSURE = PrepareRequest(accept_type=True)


def some_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def sizes(report: PrepareReport) -> dict[str, int]:
    assert report.split is not None
    return {split.name: split.samples for split in report.split.splits}


def codes(report: PrepareReport) -> list[str]:
    assert report.index is not None
    return [finding.code for finding in report.index.findings]


@pytest.mark.parametrize("field", ["split", "Subset", "partition"])
def test_prepare_makes_splits_that_lines_name(tmp_path: Path, field: str) -> None:
    rows = [{"text": row["text"], field: row["split"]} for row in ROWS]
    report = prepare(some_lines(tmp_path / "a.jsonl", rows), None, UNSURE)

    assert sizes(report) == {"train": 6, "val": 2}
    assert report.split is not None
    assert report.split.rule == f"by json:{field}"
    assert codes(report) == []


def test_prepare_makes_splits_that_lines_of_folder_name(tmp_path: Path) -> None:
    some_lines(tmp_path / "d/a.jsonl", ROWS[:4])
    some_lines(tmp_path / "d/b.jsonl", ROWS[4:])
    assert sizes(prepare(str(tmp_path / "d"), None, UNSURE)) == {"train": 6, "val": 2}

    some_lines(tmp_path / "d/c.jsonl", [{"text": "x", "split": "test"}])
    assert sizes(prepare(str(tmp_path / "d"), None, UNSURE)) == {"train": 6, "val": 2, "test": 1}


def test_prepare_counts_lines_that_name_no_split(tmp_path: Path) -> None:
    report = prepare(some_lines(tmp_path / "a.jsonl", [*ROWS, {"text": "x"}]), None, UNSURE)
    assert sizes(report) == {"train": 6, "val": 2}
    assert codes(report) == ["WDS215"]


@pytest.mark.parametrize("values", [["red", "blue"], ["a", "b", "train"], [1, 0], [True, False]])
def test_field_whose_values_are_no_usual_names_makes_no_splits(tmp_path: Path, values: list[Any]) -> None:
    rows = [{"text": "x", "split": value} for value in values]
    report = prepare(some_lines(tmp_path / "a.jsonl", rows), None, UNSURE)
    assert (sizes(report), codes(report)) == ({"train": len(values)}, [])


def test_requested_split_wins_over_field(tmp_path: Path) -> None:
    source = some_lines(tmp_path / "a.jsonl", ROWS)
    report = prepare(source, None, PrepareRequest(accept_type=True, split={"train": 1}))
    assert (sizes(report), codes(report)) == ({"train": 8}, [])


def test_names_of_files_win_over_field(tmp_path: Path) -> None:
    some_lines(tmp_path / "d/train.jsonl", ROWS[:4])
    some_lines(tmp_path / "d/test.jsonl", ROWS[4:])
    assert sizes(prepare(str(tmp_path / "d"), None, UNSURE)) == {"train": 4, "test": 4}


def test_earlier_splits_stay_and_prepare_warns_of_unused_field(tmp_path: Path) -> None:
    source = some_lines(tmp_path / "a.jsonl", ROWS)
    prepare(source, None, PrepareRequest(accept_type=True, split={"train": 1}))
    report = prepare(source, None, UNSURE)
    assert (sizes(report), codes(report)) == ({"train": 8}, ["WDS259"])

    split_by_ratios(source, {"train": 1, "val": 1}, by="sample")
    report = prepare(source, None, UNSURE)
    assert (sizes(report), codes(report)) == ({"train": 4, "val": 4}, [])


def test_prepare_does_not_warn_of_field_that_is_train_for_every_sample(tmp_path: Path) -> None:
    files = {}
    for n in range(8):
        files[f"{n}.json"] = json.dumps({"text": "a", "split": "train"}).encode()
        files[f"{n}.txt"] = b"text"
    root = a_dataset(tmp_path, {"a.tar": files})

    assert codes(prepare(root, None, UNSURE)) == []


@pytest.mark.parametrize(("part", "value"), [("json", "json:split"), ("split.txt", "part:split.txt")])
def test_prepare_warns_of_field_in_tars(tmp_path: Path, part: str, value: str) -> None:
    files = {}
    for n, row in enumerate(ROWS):
        files[f"{n}.txt"] = b"text"
        files[f"{n}.{part}"] = json.dumps(row).encode() if part == "json" else row["split"].encode()
    root = a_dataset(tmp_path, {"a.tar": files})
    report = prepare(root, None, UNSURE)

    assert (sizes(report), codes(report)) == ({"train": 8}, ["WDS259"])
    assert report.index is not None
    assert f"`wdsctl split {root} --by-value {value}`" in report.index.findings[0].message


def test_field_that_importer_ignores_makes_no_splits(tmp_path: Path) -> None:
    source = some_lines(tmp_path / "a.jsonl", ROWS)
    request = PrepareRequest(accept_type=True, format_options={"split": ""})
    report = prepare(source, str(tmp_path / "out"), request)
    assert (sizes(report), codes(report)) == ({"train": 8}, [])
