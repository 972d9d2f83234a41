from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import a_dataset, samples, some_shards
from wdsctl.core.catalog.history import read_log, read_run
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.index.index import index
from wdsctl.core.split.split import split_by_ratios

DIES = """
import os, signal, sys
from wdsctl.core.dataset.location import locate
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.catalog.history import record_run
with record_run(locate(sys.argv[1]), "index", ["data"], SILENT_PROGRESS):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "a", 2)
    index(root)
    return root


def test_runs_tell_what_they_made_of_what(root: str) -> None:
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


def test_only_the_last_runs_are_listed(root: str) -> None:
    for _ in range(3):
        index(root)
    report = read_log(root, limit=2)
    assert (report.total, [run.id for run in report.runs]) == (4, [4, 3])


def test_a_run_that_was_killed_is_told_from_one_that_runs(root: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", DIES, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def test_a_run_on_another_machine_that_noted_no_end_is_unfinished(root: str) -> None:
    with sqlite3.connect(Path(root) / ".wdsctl" / "ledger.sqlite") as ledger:
        (details,) = ledger.execute("SELECT details FROM run").fetchone()
        told = json.loads(details)
        told["process"]["host"] = "elsewhere"
        ledger.execute("UPDATE run SET status = NULL, finished_at = NULL, details = ?", (json.dumps(told),))
    ledger.close()
    assert [run.status for run in read_log(root).runs] == ["unfinished"]


@pytest.mark.parametrize("details", [None, "", "{]", "[1]", '{"findings": {"WDS101": 1}}'])
def test_runs_of_older_versions_are_listed_with_what_they_noted(root: str, details: str | None) -> None:
    with sqlite3.connect(Path(root) / ".wdsctl" / "ledger.sqlite") as ledger:
        ledger.execute("UPDATE run SET details = ?", (details,))
    ledger.close()
    (run,) = read_log(root).runs
    assert (run.before, run.after, run.host, run.pid) == (None, None, "", None)


def test_one_run_has_its_findings(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"0.tar": samples(0, 2), "1.tar": b"no tar" * 200})
    index(root)
    report = read_run(root, 1)
    assert report.run.status == "partial"
    assert [found.code for found in report.findings] == ["WDS101"] == list(report.run.findings)


def test_a_run_that_there_is_not_is_refused(root: str) -> None:
    with pytest.raises(InputError, match="the history has no run 9"):
        read_run(root, 9)


def test_a_dataset_on_which_nothing_ran_has_no_runs_and_gets_no_ledger(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 1)
    assert read_log(root).runs == ()
    assert not os.path.exists(f"{root}/.wdsctl")


def test_of_many_runs_only_those_that_are_listed_are_read(root: str) -> None:
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
    with Ledger.open_for_reading(locate(root).ledger) as opened:
        with opened.transaction() as connection:
            connection.set_trace_callback(statements.append)
        opened.runs(20)
    assert [statement for statement in statements if statement.endswith("LIMIT 20")]


def test_a_call_from_python_is_noted_with_what_it_asked_for(root: str) -> None:
    index(root, missing="keep")
    split_by_ratios(root, {"train": 8, "val": 1}, seed=3)
    assert [(run.command, run.argv) for run in read_log(root, limit=2).runs] == [
        ("split", (root, "shares=train=8,val=1", "seed=3")),
        ("index", (root, "missing=keep")),
    ]


def test_how_long_a_run_took_is_told_in_milliseconds(root: str) -> None:
    (run,) = read_log(root).runs
    assert run.finished_at is not None
    assert [len(moment.partition(".")[2].partition("+")[0]) for moment in (run.started_at, run.finished_at)] == [3, 3]


def test_a_ledger_that_is_damaged_is_not_one_without_runs(root: str) -> None:
    path = Path(locate(root).ledger)
    path.write_bytes(b"x" * 5000)

    for ask in (lambda: read_log(root), lambda: read_run(root, 1)):
        with pytest.raises(CatalogError, match="cannot read the run history") as caught:
            ask()
        assert (caught.value.code, caught.value.where) == ("WDS302", str(path))
    assert path.read_bytes() == b"x" * 5000
