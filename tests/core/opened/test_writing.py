from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import RecordingProgress, some_shards, split_by_ratios
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import Finding, PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.writing import RunRecord, recording, writing

BAD = Finding(code="WDS101", severity="error", message="no tar")
ODD = Finding(code="WDS111", severity="note", message="a link", count=4)


def a_place(root: Path) -> DatasetLocation:
    (root / "meta").mkdir()
    return DatasetLocation(str(root), str(root / "meta"))


def last_run(place: DatasetLocation) -> tuple[str, str, dict[str, Any]]:
    with Ledger.open_for_reading(place.ledger_path) as ledger:
        run = ledger.runs()[-1]
    return run["command"], run["status"], {"findings": run["details"]["findings"]}


def record(place: DatasetLocation, *findings: Finding, error: BaseException | None = None) -> None:
    with OpenDataset(place) as dataset, recording(dataset, "index", ["data"], RecordingProgress()) as entry:
        entry.findings += findings
        if error is not None:
            raise error


@pytest.mark.parametrize(("findings", "status"), [((), "ok"), ((ODD,), "ok"), ((ODD, BAD), "partial")])
def test_recording_status_depends_on_findings(tmp_path: Path, findings: tuple[Finding, ...], status: str) -> None:
    place = a_place(tmp_path)
    record(place, *findings)

    assert last_run(place)[:2] == ("index", status)
    assert last_run(place)[2] == {"findings": {found.code: found.count for found in findings}}


@pytest.mark.parametrize(
    ("error", "status"), [(UsageError("no", hint="yes"), "failed"), (KeyboardInterrupt(), "interrupted")]
)
def test_recording_records_and_reraises_failure(tmp_path: Path, error: BaseException, status: str) -> None:
    place = a_place(tmp_path)

    with pytest.raises(type(error)):
        record(place, error=error)
    assert last_run(place)[1] == status


def test_damaged_ledger_is_replaced_with_note(tmp_path: Path) -> None:
    place, progress = a_place(tmp_path), RecordingProgress()
    Path(place.ledger_path).write_bytes(b"rubbish" * 1000)
    with OpenDataset(place) as dataset, recording(dataset, "index", [], progress):
        pass

    assert last_run(place)[1] == "ok"
    assert len(progress.notes) == 1
    assert "damaged" in progress.notes[0]


def test_unwritable_ledger_does_not_stop_run(public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]) -> None:
    place = a_place(public_path)
    record(place)
    os.chmod(place.meta, 0o777)  # noqa: S103 - the point of it
    os.chmod(place.ledger_path, 0o644)

    def run() -> tuple[RunRecord, list[str]]:
        progress = RecordingProgress()
        with OpenDataset(place) as dataset, recording(dataset, "validate", [], progress) as entry:
            return entry, progress.notes

    entry, notes = as_nobody(run)
    assert entry.ledger is None
    assert isinstance(entry.ledger_error, PermissionDenied)
    assert [note.startswith("this run is not recorded in the ledger") for note in notes] == [True]


@pytest.mark.parametrize("error", [None, UsageError("no", hint="yes")])
def test_ledger_error_at_end_keeps_outcome_of_run(tmp_path: Path, error: UsageError | None) -> None:
    place, progress = a_place(tmp_path), RecordingProgress()

    def run() -> None:
        with OpenDataset(place) as dataset, recording(dataset, "index", [], progress) as entry:
            with closing(sqlite3.connect(place.ledger_path)) as connection:
                connection.execute("DROP TABLE run")
            entry.findings.append(ODD)
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(UsageError, match="no"):
            run()
    assert len(progress.notes) == 1


def test_recording_writes_nothing_in_read_only_folder(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    place = a_place(public_path)

    def run() -> RunRecord:
        with OpenDataset(place) as dataset, recording(dataset, "validate", [], RecordingProgress()) as entry:
            return entry

    assert as_nobody(run) == RunRecord(None)
    assert os.listdir(place.meta) == []


def test_unrecorded_run_reads_the_newest_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    with open_dataset(root) as dataset:
        assert dataset.catalog.splits() == []
        split_by_ratios(root, {"train": 1.0})
        with closing(sqlite3.connect(dataset.location.ledger_path)) as connection:
            connection.execute("PRAGMA user_version = 2")
        with writing(dataset, "validate", [], RecordingProgress()) as entry:
            assert entry.ledger_error is not None
            assert [split.name for split in dataset.catalog.splits()] == ["train"]
