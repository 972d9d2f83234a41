from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.catalog.ledger import FormerKeys, Ledger, ShardRecord
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


def test_a_run_is_noted_from_its_beginning_to_its_end(path: str) -> None:
    with Ledger.open(path) as ledger:
        first = ledger.begin_run("prepare", ["raw", "dést"], version="0.1")
        second = ledger.begin_run("index", [], version="0.1")
        ledger.finish_run(second, "ok", {"shards": 3})

    with Ledger.open(path) as ledger:
        begun, ended = ledger.runs()
    assert (begun["id"], begun["command"], begun["argv"], begun["status"]) == (first, "prepare", ["raw", "dést"], None)
    assert (ended["id"], ended["status"], ended["details"]) == (second, "ok", {"shards": 3})
    assert begun["uuid"] != ended["uuid"]
    assert ended["started_at"] <= ended["finished_at"]


def test_findings_come_back_as_they_were(path: str) -> None:
    with Ledger.open(path) as ledger:
        run = ledger.begin_run("validate", [], version="0.1")
        other = ledger.begin_run("validate", [], version="0.1")
        ledger.add_findings(run, FINDINGS)
        ledger.add_findings(other, [])

        assert ledger.findings(run) == FINDINGS
        assert ledger.findings(other) == []


def test_a_plan_takes_the_place_of_the_last_one(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(i) for i in range(3)])
        ledger.replace_plan([a_record(10), a_record(9)])

    with Ledger.open(path) as ledger:
        assert ledger.planned_shards() == [a_record(9), a_record(10)]
        ledger.replace_plan([])
        assert ledger.planned_shards() == []


@pytest.mark.parametrize("source", ["/raw", "/\udcff", None])
def test_a_plan_knows_what_it_was_made_from(path: str, source: str | None) -> None:
    with Ledger.open(path) as ledger:
        assert ledger.plan_source() is None
        ledger.replace_plan([a_record(0)], "/another")
        ledger.replace_plan([a_record(0)], source)

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.plan_source() == source


def test_former_keys_stay_until_the_shards_are_in_their_place(path: str) -> None:
    former = {
        a_record(0).name: FormerKeys("layout", {"new": "old", "a/b": "c.d"}),
        "1.tar": FormerKeys("", {"a": "b"}),
    }
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(0)._replace(state="renamed")], "/raw", former)
        ledger.forget_former_keys()
        assert ledger.former_keys() == former
        ledger.set_shard_state(a_record(0).name)
        ledger.forget_former_keys()
        assert ledger.former_keys() == {"1.tar": former["1.tar"]}


def test_a_ledger_in_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff/ledger.sqlite")
    Ledger.open(path).close()

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.runs() == []
    assert os.path.exists(path)


def test_a_shard_that_is_done_is_marked(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(0), a_record(1)])
        ledger.set_shard_state("1.tar")

        assert [record.state for record in ledger.planned_shards()] == ["planned", "done"]


def test_the_file_says_whose_it_is(path: str) -> None:
    Ledger.open(path).close()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0x5744534C,)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def spoil(path: str, how: str) -> None:
    if how == "no database":
        Path(path).write_bytes(b"this is no database, however long it goes on" * 100)
    elif how == "somebody else's":
        Path(path).unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
    elif how == "cut":
        os.truncate(path, os.path.getsize(path) // 2)
    else:
        with open(path, "r+b") as file:
            file.seek(4_096)
            file.write(os.urandom(os.path.getsize(path) - 4_096))


@pytest.mark.parametrize("how", ["no database", "somebody else's", "cut", "scrambled"])
def test_a_damaged_ledger_is_set_aside_and_begun_anew(path: str, how: str) -> None:
    for n in (1, 2):
        with Ledger.open(path) as ledger:
            ledger.replace_plan([a_record(0)])
        spoil(path, how)
        before = Path(path).read_bytes()

        with Ledger.open(path) as ledger:
            assert ledger.planned_shards() == []
            assert ledger.runs() == []
            assert f"ledger.sqlite.damaged-{n}" in ledger.notes[0]
        assert Path(f"{path}.damaged-{n}").read_bytes() == before


def test_an_empty_file_is_a_new_ledger(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).touch()

    with Ledger.open(path) as ledger:
        assert ledger.planned_shards() == []
        assert ledger.notes == ()


def test_a_ledger_from_a_newer_wdsctl_is_left_alone(path: str) -> None:
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = Path(path).read_bytes()

    for opened in (Ledger.open, Ledger.open_for_reading):
        with pytest.raises(CatalogError) as caught:
            opened(path)
        assert (caught.value.code, caught.value.exit_code, caught.value.where) == ("WDS303", 6, path)
    assert Path(path).read_bytes() == before


def test_peeking_makes_nothing(path: str, tmp_path: Path) -> None:
    with Ledger.open_for_reading(path) as ledger:
        assert ledger.planned_shards() == []

    assert os.listdir(tmp_path) == []


def test_peeking_sees_what_is_there(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.replace_plan([a_record(0)])

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.planned_shards() == [a_record(0)]


def test_peeking_at_a_damaged_ledger_leaves_it_in_place(path: str) -> None:
    Ledger.open(path).close()
    spoil(path, "no database")

    with Ledger.open_for_reading(path) as ledger:
        assert ledger.planned_shards() == []

    assert os.listdir(os.path.dirname(path)) == ["ledger.sqlite"]


def test_two_commands_may_note_things_at_the_same_time(path: str) -> None:
    with Ledger.open(path) as one, Ledger.open(path) as two:
        first, second = one.begin_run("index", [], version="1"), two.begin_run("validate", [], version="1")
        one.add_findings(first, FINDINGS[:1])
        two.add_findings(second, FINDINGS[1:])

        assert two.findings(first) == FINDINGS[:1]
        assert one.findings(second) == FINDINGS[1:]


def test_a_full_disk_keeps_the_last_plan(a_disk: Callable[[str], Path]) -> None:
    large = a_record(1)._replace(marks=os.urandom(400_000))

    with Ledger.open(str(a_disk("256k") / "ledger.sqlite")) as ledger:
        ledger.replace_plan([a_record(0)])
        with pytest.raises(StorageError) as caught:
            ledger.replace_plan([large])

        assert caught.value.code == "WDS401"
        assert ledger.planned_shards() == [a_record(0)]


def test_a_ledger_that_cannot_be_written(public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]) -> None:
    path = str(public_path / "meta" / "ledger.sqlite")
    Ledger.open(path).close()

    def write() -> None:
        with Ledger.open(path) as ledger:
            ledger.begin_run("index", [], version="1")

    assert isinstance(as_nobody(write), PermissionDenied)
