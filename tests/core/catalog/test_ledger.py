from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.catalog.ledger import Ledger, ShardRecord
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, StorageError

FINDINGS = [
    Finding(code="WDS103", severity="error", message="damaged", shard="a.tar", offset=512),
    Finding(code="WDS108", severity="warning", message="missing", shard="é.tar", key="k", part="jpg", count=3),
]


def a_record(ordinal: int) -> ShardRecord:
    return ShardRecord(f"{ordinal}.tar", ordinal, 2, 3_072, "d1", b"keys\0", b"marks\xff", "planned")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / ".wdsctl" / "ledger.sqlite")


def test_ledger_records_begin_and_end_of_run(path: str) -> None:
    with Ledger.open(path) as ledger:
        first = ledger.begin_run("prepare", ["raw", "dést"], version="0.1")
        second = ledger.begin_run("index", [], version="0.1")
        ledger.finish_run(second, "ok", {"shards": 3})

    with Ledger.open(path) as ledger:
        unfinished, finished = ledger.runs()
    assert (unfinished["id"], unfinished["command"], unfinished["argv"], unfinished["status"]) == (
        first,
        "prepare",
        ["raw", "dést"],
        None,
    )
    assert (finished["id"], finished["status"], finished["details"]) == (second, "ok", {"shards": 3})
    assert unfinished["uuid"] != finished["uuid"]
    assert finished["started_at"] <= finished["finished_at"]


def test_ledger_findings_round_trip(path: str) -> None:
    with Ledger.open(path) as ledger:
        run = ledger.begin_run("validate", [], version="0.1")
        other = ledger.begin_run("validate", [], version="0.1")
        ledger.add_findings(run, FINDINGS)
        ledger.add_findings(other, [])

        assert ledger.findings(run) == FINDINGS
        assert ledger.findings(other) == []


def test_replace_plan_replaces_previous_plan(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(i) for i in range(3)])
        ledger.replace_plan([a_record(10), a_record(9)])

    with Ledger.open(path) as ledger:
        assert ledger.planned_shards() == [a_record(9), a_record(10)]
        ledger.replace_plan([])
        assert ledger.planned_shards() == []


@pytest.mark.parametrize("source", ["/raw", "/\udcff", None])
def test_plan_source_round_trips(path: str, source: str | None) -> None:
    with Ledger.open(path) as ledger:
        assert ledger.plan_source() is None
        ledger.replace_plan([a_record(0)], "/another")
        ledger.replace_plan([a_record(0)], source)

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.plan_source() == source


def test_ledger_opens_in_folder_with_non_utf8_name(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff/ledger.sqlite")
    Ledger.open(path).close()

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.runs() == []
    assert os.path.exists(path)


def test_set_shard_state_marks_shard_done(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(0), a_record(1)])
        ledger.set_shard_state("1.tar")

        assert [record.state for record in ledger.planned_shards()] == ["planned", "done"]


def test_ledger_file_has_application_id_and_version(path: str) -> None:
    Ledger.open(path).close()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0x5744534C,)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def damage(path: str, kind: str) -> None:
    if kind == "no database":
        Path(path).write_bytes(b"this is no database, however long it goes on" * 100)
    elif kind == "somebody else's":
        Path(path).unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
    elif kind == "cut":
        os.truncate(path, os.path.getsize(path) // 2)
    else:
        with open(path, "r+b") as file:
            file.seek(4_096)
            file.write(os.urandom(os.path.getsize(path) - 4_096))


@pytest.mark.parametrize("kind", ["no database", "somebody else's", "cut", "scrambled"])
def test_damaged_ledger_is_renamed_and_recreated(path: str, kind: str) -> None:
    for n in (1, 2):
        with Ledger.open(path) as ledger:
            ledger.replace_plan([a_record(0)])
        damage(path, kind)
        before = Path(path).read_bytes()

        with Ledger.open(path) as ledger:
            assert ledger.planned_shards() == []
            assert ledger.runs() == []
            assert f"ledger.sqlite.damaged-{n}" in ledger.notes[0]
        assert Path(f"{path}.damaged-{n}").read_bytes() == before


def test_empty_file_is_opened_as_new_ledger(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).touch()

    with Ledger.open(path) as ledger:
        assert ledger.planned_shards() == []
        assert ledger.notes == ()


def test_ledger_of_newer_version_is_refused_and_unchanged(path: str) -> None:
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = Path(path).read_bytes()

    for open_ledger in (Ledger.open, Ledger.open_for_reading):
        with pytest.raises(CatalogError) as caught:
            open_ledger(path)
        assert (caught.value.code, caught.value.exit_code, caught.value.where) == ("WDS303", 6, path)
    assert Path(path).read_bytes() == before


def test_open_for_reading_creates_no_file(path: str, tmp_path: Path) -> None:
    with Ledger.open_for_reading(path) as ledger:
        assert ledger.planned_shards() == []

    assert os.listdir(tmp_path) == []


def test_open_for_reading_reads_plan(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(0)])

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.planned_shards() == [a_record(0)]


def test_open_for_reading_keeps_damaged_ledger(path: str) -> None:
    Ledger.open(path).close()
    damage(path, "no database")

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.planned_shards() == []

    assert os.listdir(os.path.dirname(path)) == ["ledger.sqlite"]


def test_two_ledgers_write_concurrently(path: str) -> None:
    with Ledger.open(path) as one, Ledger.open(path) as two:
        first, second = one.begin_run("index", [], version="1"), two.begin_run("validate", [], version="1")
        one.add_findings(first, FINDINGS[:1])
        two.add_findings(second, FINDINGS[1:])

        assert two.findings(first) == FINDINGS[:1]
        assert one.findings(second) == FINDINGS[1:]


def test_full_disk_keeps_previous_plan(a_disk: Callable[[str], Path]) -> None:
    large = a_record(1)._replace(marks=os.urandom(400_000))

    with Ledger.open(str(a_disk("256k") / "ledger.sqlite")) as ledger:
        ledger.replace_plan([a_record(0)])
        with pytest.raises(StorageError) as caught:
            ledger.replace_plan([large])

        assert caught.value.code == "WDS401"
        assert ledger.planned_shards() == [a_record(0)]


def test_unwritable_ledger_raises_permission_denied(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    path = str(public_path / "meta" / "ledger.sqlite")
    Ledger.open(path).close()

    def write() -> None:
        with Ledger.open(path) as ledger:
            ledger.begin_run("index", [], version="1")

    assert isinstance(as_nobody(write), PermissionDenied)
