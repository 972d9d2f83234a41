from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from tests.build import a_dataset, an_image, samples, some_shards, split_by_ratios
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, Finding, InputError, count_by_code
from wdsctl.core.index.index import index
from wdsctl.core.invocation import recording_invocation
from wdsctl.core.opened.history import read_log, read_run
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.writing import recording
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.progress import SILENT_PROGRESS

HANGING_RUN = """
import os, signal, sys
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.writing import recording
from wdsctl.core.progress import SILENT_PROGRESS
with open_dataset(sys.argv[1]) as dataset, recording(dataset, "index", ["data"], SILENT_PROGRESS):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "a", 2)
    index(root)
    return root


def test_read_log_returns_state_before_and_after_runs(root: str) -> None:
    split_by_ratios(root, {"train": 1, "val": 1})
    a_dataset(Path(root), {"z.tar": samples(50, 3)})
    index(root)
    last, middle, first = read_log(root).runs
    assert [run.command for run in (first, middle, last)] == ["index", "split", "index"]
    assert first.before is None
    assert first.after == middle.before == middle.after == last.before
    assert last.after is not None
    assert (last.after.generation, last.after.shards, last.after.samples) == (2, 3, 13)
    assert {run.status for run in (first, middle, last)} == {"ok"}


def test_read_log_limit_returns_last_runs(root: str) -> None:
    for _ in range(3):
        index(root)
    report = read_log(root, limit=2)
    assert (report.total, [run.id for run in report.runs]) == (4, [4, 3])


def test_read_log_distinguishes_killed_from_running(root: str) -> None:
    process = children.Popen(
        [sys.executable, "-c", HANGING_RUN, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    with process, process.stdout, process.stdin:
        assert process.stdout.readline() == "begun\n"
        (run, *_) = read_log(root).runs
        assert (run.status, run.pid, run.seconds) == ("running", process.pid, None)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert read_log(root).runs[0].status == "killed"


def test_run_of_other_host_without_end_is_unfinished(root: str) -> None:
    with sqlite3.connect(Path(root) / ".wdsctl" / "ledger.sqlite") as ledger:
        (details,) = ledger.execute("SELECT details FROM run").fetchone()
        record = json.loads(details)
        record["process"]["host"] = "elsewhere"
        ledger.execute("UPDATE run SET status = NULL, finished_at = NULL, details = ?", (json.dumps(record),))
    ledger.close()
    assert [run.status for run in read_log(root).runs] == ["unfinished"]


@pytest.mark.parametrize("details", [None, "", "{]", "[1]", '{"findings": {"WDS101": 1}}'])
def test_read_log_accepts_runs_of_older_versions(root: str, details: str | None) -> None:
    with sqlite3.connect(Path(root) / ".wdsctl" / "ledger.sqlite") as ledger:
        ledger.execute("UPDATE run SET details = ?", (details,))
    ledger.close()
    (run,) = read_log(root).runs
    assert (run.before, run.after, run.host, run.pid) == (None, None, "", None)


def test_read_run_returns_findings(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"0.tar": samples(0, 2), "1.tar": b"no tar" * 200})
    index(root)
    report = read_run(root, 1)
    assert report.run.status == "partial"
    assert [found.code for found in report.findings] == ["WDS101"] == list(report.run.findings)


def test_read_run_refuses_unknown_run(root: str) -> None:
    with pytest.raises(InputError, match="the history has no run 9"):
        read_run(root, 9)


def test_read_log_without_runs_creates_no_ledger(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 1)
    assert read_log(root).runs == ()
    assert not os.path.exists(f"{root}/.wdsctl")


def test_read_log_reads_only_listed_runs(root: str) -> None:
    with sqlite3.connect(Path(root) / ".wdsctl" / "ledger.sqlite") as ledger:
        (row,) = ledger.execute("SELECT command, argv, version, started_at FROM run").fetchall()
        ledger.executemany(
            "INSERT INTO run (uuid, command, argv, version, started_at) VALUES (?, ?, ?, ?, ?)",
            [(str(i), *row) for i in range(20_000)],
        )
    ledger.close()
    report = read_log(root)
    assert (report.total, len(report.runs)) == (20_001, 20)

    statements: list[str] = []
    with Ledger.open_for_reading(locate(root).ledger_path) as run_ledger:
        with run_ledger.transaction() as connection:
            connection.set_trace_callback(statements.append)
        run_ledger.runs(20)
    assert [statement for statement in statements if statement.endswith("LIMIT 20")]


def test_api_calls_are_recorded_with_arguments(root: str) -> None:
    index(root, missing="keep")
    split_by_ratios(root, {"train": 8, "val": 1}, seed=3)
    assert [(run.command, run.argv) for run in read_log(root, limit=2).runs] == [
        ("split", (root, "shares=train=8,val=1", "seed=3")),
        ("index", (root, "missing=keep")),
    ]


def test_read_log_has_one_run_of_each_prepare(tmp_path: Path) -> None:
    """A table is converted and then prepared in place; both steps have findings."""
    table = tmp_path / "t.csv"
    table.write_text("image,caption\na.jpg,a cat\nmissing.jpg,a dog\n")
    (tmp_path / "a.jpg").write_bytes(an_image("jpeg"))
    dest = str(tmp_path / "made")
    prepare(str(table), dest)

    (run,) = read_log(dest).runs
    assert (run.command, run.argv, run.status) == ("prepare", (str(table), dest), "partial")
    assert run.before is None
    assert run.after is not None
    assert run.findings == dict(count_by_code(read_run(dest, 1).findings))

    with recording_invocation("prepare", ["t.csv", "made"]):
        prepare(str(table), dest)
    assert [run.argv for run in read_log(dest).runs] == [("t.csv", "made"), (str(table), dest)]


def test_continued_run_stores_each_finding_once(root: str) -> None:
    finding = Finding(code="WDS101", severity="error", message="broken", shard="a.tar")
    with recording_invocation("prepare", ["x"]):
        for more in ([], [Finding(code="WDS102", severity="warning", message="odd")]):
            with open_dataset(root) as dataset, recording(dataset, "index", [], SILENT_PROGRESS) as entry:
                assert read_log(root).runs[0].status == "running"
                entry.findings += [finding, *more]

    report = read_run(root, 2)
    assert [each.code for each in report.findings] == ["WDS101", "WDS102"]
    assert (report.run.status, report.run.findings) == ("partial", {"WDS101": 1, "WDS102": 1})


def test_run_times_have_milliseconds(root: str) -> None:
    (run,) = read_log(root).runs
    assert run.finished_at is not None
    assert [len(moment.partition(".")[2].partition("+")[0]) for moment in (run.started_at, run.finished_at)] == [3, 3]


def test_read_log_reports_damaged_ledger(root: str) -> None:
    path = Path(locate(root).ledger_path)
    path.write_bytes(b"x" * 5000)

    for read in (lambda: read_log(root), lambda: read_run(root, 1)):
        with pytest.raises(CatalogError, match="cannot read the run history") as caught:
            read()
        assert (caught.value.code, caught.value.where) == ("WDS302", str(path))
    assert path.read_bytes() == b"x" * 5000
