"""Nothing is written, deleted or changed outside of what the user named: no link that came with data is followed, no
name in data leads out of its folder, and nobody who changes folders while a command runs has it write elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.build import Told, a_folder, a_shard, samples, some_shards
from tests.cli.conftest import Wdsctl, wdsctl
from wdsctl.core.columns.column_file import read_column
from wdsctl.core.convert.convert import convert
from wdsctl.core.errors import InputError, StorageError, WdsctlError
from wdsctl.core.files import load_checked, open_file_draft, remove_tree, set_aside, write_text
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.joins.index import JoinIndex
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.preview import preview_sample_type
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.repair.repair import RepairRequest, repair
from wdsctl.core.shards.write import write_shard

__all__ = ["wdsctl"]

#: What may be planted in a dataset's folder: names of files, and of folders.
MINE = ("catalog.sqlite", "ledger.sqlite", "dataset.yaml", "offsets-1.bin", "ledger.sqlite-journal")
FILES = (*MINE, "ledger.sqlite-wal")
FOLDERS = ("work", "media", "columns", "joins", "splits")
WRITING = {
    "prepare": ("prepare", "ROOT"),
    "index": ("index", "ROOT", "--rebuild"),
    "media": ("index", "ROOT", "--media", "txt"),
    "split": ("split", "ROOT", "1,1"),
    "validate": ("validate", "ROOT", "--quarantine"),
    "vacuum": ("catalog", "vacuum", "ROOT"),
    "view": ("view", "create", "ROOT@some", "--where", "key != ''"),
    "repair": ("repair", "ROOT", "--in-place", "--yes"),
    "inspect": ("inspect", "ROOT"),
    "log": ("log", "ROOT"),
}


def a_prepared(root: Path, shards: int = 2) -> Path:
    some_shards(root, shards)
    index(str(root))
    return root


def a_victim(folder: Path) -> Path:
    """Somebody else's files, among them such as have the names of ours."""
    a_folder(folder, dict.fromkeys((*FILES, *(f"{each}/units/x" for each in FOLDERS), "lock", "a.tar"), b"theirs"))
    (folder / "empty").write_bytes(b"")
    return folder


def looks(folder: Path) -> Mapping[str, object]:
    """All that is there: kinds, modes, times of files, names and contents."""
    found: dict[str, object] = {}
    for above, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(above, name)
            seen = os.lstat(path)
            is_file = stat.S_ISREG(seen.st_mode)
            data = blake2b(Path(path).read_bytes()).hexdigest() if is_file else ""
            found[os.path.relpath(path, folder)] = (seen.st_mode, seen.st_mtime_ns if is_file else 0, data)
    return found


def replaced(path: Path, by: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(by)


def commands(root: Path) -> Iterator[tuple[object, ...]]:
    for words in WRITING.values():
        yield tuple(word.replace("ROOT", str(root)) for word in words)


@pytest.mark.parametrize("command", WRITING)
def test_a_folder_of_ours_that_is_a_link_is_neither_written_nor_read(
    wdsctl: Wdsctl, tmp_path: Path, command: str
) -> None:
    root, victim = a_prepared(tmp_path / "d"), a_victim(tmp_path / "victim")
    replaced(root / ".wdsctl", victim)
    before = looks(victim)
    answer = wdsctl(*(word.replace("ROOT", str(root)) for word in WRITING[command]))
    assert looks(victim) == before
    assert answer.code == 3
    assert "WDS415" in answer.stderr
    assert "--catalog" in answer.stderr


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, "offsets-2.bin", "names-1.bin", "keyframes-1.bin", "convert"])
def test_no_link_in_our_folder_is_followed(wdsctl: Wdsctl, tmp_path: Path, name: str) -> None:
    root, victim = a_prepared(tmp_path / "d"), a_victim(tmp_path / "victim")
    target = victim / name
    before = looks(victim)
    for words in commands(root):
        replaced(root / ".wdsctl" / name, target)
        answer = wdsctl(*words)
        assert looks(victim) == before, words
        assert answer.code == 3, words
        assert "WDS415" in answer.stderr, words


@pytest.mark.parametrize("name", MINE)
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(wdsctl: Wdsctl, tmp_path: Path, name: str) -> None:
    root = a_prepared(tmp_path / "d")
    (root / ".wdsctl" / name).unlink(missing_ok=True)
    os.mkfifo(root / ".wdsctl" / name)
    for words in commands(root):
        answer = wdsctl(*words)
        assert answer.code == 3, words
        assert "WDS417" in answer.stderr, words


def test_a_dangling_link_makes_no_file_where_it_leads(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_prepared(tmp_path / "d")
    for name in ("ledger.sqlite", "catalog.sqlite", "dataset.yaml"):
        (root / ".wdsctl" / name).unlink(missing_ok=True)
        (root / ".wdsctl" / name).symlink_to(tmp_path / "made")
        assert wdsctl("index", root).code == 3
        (root / ".wdsctl" / name).unlink()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["ledger.sqlite", "catalog.sqlite", "dataset.yaml", "lock", "offsets-1.bin"])
def test_a_second_name_of_a_file_of_ours_keeps_what_it_has(wdsctl: Wdsctl, tmp_path: Path, name: str) -> None:
    root = a_prepared(tmp_path / "d")
    other = tmp_path / "theirs"
    mine = root / ".wdsctl" / name
    if not mine.exists():
        mine.write_text("sample_type: TextSample\nfield_map: {text: txt}\n" if name == "dataset.yaml" else "{}")
    os.utime(mine, (1, 1))
    os.link(mine, other)
    before = (other.read_bytes(), other.stat().st_mtime_ns)
    assert wdsctl("split", root, "1,1").code == 0
    assert wdsctl("index", root, "--rebuild").code == 0
    assert (other.read_bytes(), other.stat().st_mtime_ns) == before


def test_a_journal_that_is_another_file_is_not_written(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_prepared(tmp_path / "d")
    (tmp_path / "theirs").write_bytes(b"theirs")
    os.link(tmp_path / "theirs", root / ".wdsctl" / "ledger.sqlite-journal")
    wdsctl("split", root, "1,1")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_the_folder_may_be_named_where_it_is(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_prepared(tmp_path / "d")
    (root / ".wdsctl").rename(tmp_path / "fast")
    (root / ".wdsctl").symlink_to(tmp_path / "fast")
    assert wdsctl("inspect", root).code == 3
    assert wdsctl("inspect", root, "--catalog", tmp_path / "fast").code == 0
    assert wdsctl("split", root, "1,1", "--catalog", root / ".wdsctl").code == 0  # named by the user, link and all


def test_links_on_the_way_to_what_the_user_names_are_followed(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "disk" / "data").mkdir(parents=True)
    home = tmp_path / "home"
    home.symlink_to(tmp_path / "disk")
    a_folder(tmp_path / "disk" / "raw", samples(0, 6))
    (tmp_path / "disk" / "linked").symlink_to("data")
    assert wdsctl("prepare", home / "raw", home / "linked", "--split", "1,1", "--yes").code in {0, 1}
    assert (tmp_path / "disk" / "data" / ".wdsctl" / "catalog.sqlite").is_file()
    for words in (*commands(home / "linked"), ("convert", home / "linked", home / "c", "--no-split")[:3]):
        assert wdsctl(*words).code in {0, 1}, words
    assert wdsctl("repair", home / "linked", home / "fixed", "--all").code in {0, 1}
    assert wdsctl("get", home / "linked", "000001", "--part", "txt", "-o", home / "out").code == 0
    assert (tmp_path / "disk" / "out").exists()
    assert not os.path.islink(tmp_path / "disk" / "data" / ".wdsctl")


def test_temporary_files_may_lie_behind_a_link(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "tmp").symlink_to("disk")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    raw, root = a_folder(tmp_path / "raw", samples(0, 6)), some_shards(tmp_path / "d", 2)
    assert preview_sample_type(raw, str(tmp_path / "out"), PrepareRequest()) is not None
    assert preview_sample_type(root, None, PrepareRequest()) is not None
    assert wdsctl("convert", root, tmp_path / "out", "--dry-run").code == 0
    assert wdsctl("split", root, "1,1").code == 6
    assert wdsctl("prepare", raw, tmp_path / "out", "--dry-run").code == 0


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("where", ["columns", "joins", "work"])
def test_what_lies_deeper_in_our_folder_is_no_link_or_pipe_either(tmp_path: Path, where: str, kind: str) -> None:
    path = a_prepared(tmp_path / "d") / ".wdsctl" / where / "x-1.bin"
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "d" / "shard-000.tar")
    opens: dict[str, Callable[[], object]] = {
        "columns": lambda: read_column(str(path)),
        "joins": lambda: JoinIndex(str(path), "", 1, []),
        "work": lambda: load_checked(str(path)),
    }
    with pytest.raises(InputError) as raised:
        opens[where]()
    assert raised.value.code == ("WDS417" if kind == "pipe" else "WDS415")


def test_no_shard_is_written_or_repaired_below_a_linked_folder(tmp_path: Path) -> None:
    victim = a_victim(tmp_path / "victim")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "sub").symlink_to(victim)
    before = looks(victim)
    raw = a_folder(tmp_path / "raw", samples(0, 6))
    with pytest.raises(InputError) as raised:
        prepare(raw, str(tmp_path / "d"), PrepareRequest(template="sub/shard-{index:06d}.tar"))
    assert raised.value.code == "WDS415"
    with pytest.raises(InputError, match="link"):
        write_shard(str(tmp_path / "d" / "sub" / "a.tar"), raw, [])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.tar").write_bytes(a_shard(samples(0, 3))[:-1500])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.tar").symlink_to(victim / "a.tar")
    repair(str(tmp_path / "s"), RepairRequest(in_place=True, backup=True))
    with suppress(WdsctlError):
        repair(str(tmp_path / "s"), RepairRequest(dest=str(tmp_path / "out")))
    assert looks(victim) == before


def test_a_plan_that_came_with_the_destination_deletes_nothing_outside(tmp_path: Path) -> None:
    """The ledger of a destination names its shards, and those that are not planned any more are removed."""
    raw = a_folder(tmp_path / "raw", samples(0, 6))
    dest = tmp_path / "d"
    prepare(raw, str(dest), PrepareRequest(shard_samples=3, take_unsure=True))
    (tmp_path / "theirs.tar").write_bytes(b"theirs")
    with closing(sqlite3.connect(dest / ".wdsctl" / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("UPDATE planned_shard SET name = '../theirs.tar' WHERE ordinal = 1")
    for name in ("000003.jpg", "000003.txt", "000004.jpg", "000004.txt", "000005.jpg", "000005.txt"):
        (tmp_path / "raw" / name).unlink()
    with suppress(WdsctlError):
        prepare(raw, str(dest), PrepareRequest(shard_samples=3, index=IndexRequest(missing="drop")))
    assert (tmp_path / "theirs.tar").read_bytes() == b"theirs"


def test_the_plan_of_a_conversion_that_came_with_the_destination_deletes_nothing_outside(
    wdsctl: Wdsctl, tmp_path: Path
) -> None:
    source, dest = a_prepared(tmp_path / "s"), tmp_path / "d"
    assert wdsctl("convert", source, dest).code == 0
    work = dest / ".wdsctl" / "convert"
    shutil.rmtree(work)
    work.mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a.tar").write_bytes(b"theirs")
    with closing(sqlite3.connect(work / "plan.sqlite")) as plan, plan:
        plan.executescript(
            "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
            "INSERT INTO meta VALUES ('fingerprint', 'another');"
            "CREATE TABLE grp(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
            "INSERT INTO grp VALUES (1, '../theirs');"
            "CREATE TABLE unit(id INTEGER PRIMARY KEY, stream TEXT NOT NULL, grp INTEGER NOT NULL, name TEXT NOT NULL,"
            " first INTEGER NOT NULL, last INTEGER NOT NULL, samples INTEGER NOT NULL, size INTEGER NOT NULL);"
            "INSERT INTO unit VALUES (0, '', 1, 'a.tar', 0, 1, 1, 1);"
        )
    answer = wdsctl("convert", source, dest, "--yes")
    assert (tmp_path / "theirs" / "a.tar").read_bytes() == b"theirs"
    assert answer.code == 6


def test_a_lock_names_no_file_outside(wdsctl: Wdsctl, tmp_path: Path) -> None:
    """What a dead lock says of itself is part of the name of a file that is made and removed."""
    root = a_prepared(tmp_path / "d")
    (tmp_path / "theirs.dead").write_bytes(b"theirs")
    holder = {"host": "x", "pid": 1, "born": "1", "since": 0.0, "token": "/../../../theirs", "command": "", "space": ""}
    lock = root / ".wdsctl" / "lock"
    (root / ".wdsctl" / "lock.").mkdir()
    lock.write_text(json.dumps(holder))
    os.utime(lock, (1, 1))
    wdsctl("split", root, "1,1")
    assert (tmp_path / "theirs.dead").read_bytes() == b"theirs"


#: Takes a folder away again and again, and puts a link to another one in its place; then says how often.
FLIP = """
import os, sys
from contextlib import suppress
path, victim, trash = sys.argv[1:]
flips = tries = 0
print("begun", flush=True)
while not os.path.exists(trash + "/end"):
    tries += 1
    with suppress(OSError):  # the command has made the folder again meanwhile
        os.rename(path, f"{trash}/{tries}")
        os.symlink(victim, path)
        flips += 1
        os.unlink(path)
        os.rename(f"{trash}/{tries}", path)
    with suppress(OSError):
        os.mkdir(path)
print(flips)
"""
SECONDS = 3.0
LEAST = 100  # flips that a test must have stood


@contextmanager
def flipping(path: Path, victim: Path) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Somebody who flips a folder. Gives what does something again and again, whatever errors of ours it ends in."""
    trash = path.with_name(f"{path.name}-trash")
    trash.mkdir()

    def attacked(do: Callable[[], object]) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            with suppress(WdsctlError):
                do()

    command = [sys.executable, "-c", FLIP, str(path), str(victim), str(trash)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout is not None
        attacker.stdout.readline()
        try:
            yield attacked
        finally:
            (trash / "end").touch()
        assert int(attacker.stdout.readline()) > LEAST


def _replace_by_link(folder: Path, victim: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    os.rename(folder, folder.with_name("moved"))
    os.symlink(victim, folder)


def test_nothing_is_written_elsewhere_while_somebody_flips_our_folder(tmp_path: Path) -> None:
    root, victim = a_prepared(tmp_path / "d"), tmp_path / "victim"
    shutil.copytree(root / ".wdsctl", victim)
    for name in FOLDERS:
        (victim / name).mkdir(exist_ok=True)
        (victim / name / "theirs").write_bytes(b"theirs")
    before = looks(victim)
    with flipping(root / ".wdsctl", victim) as attacked:
        attacked(lambda: index(str(root), rebuild=True))
        attacked(lambda: prepare(str(root), None, PrepareRequest(split=None)))
    # SQLite makes the ledger's journal by itself, by its path: decision 31 says what remains of that.
    (victim / "ledger.sqlite-journal").unlink(missing_ok=True)
    assert looks(victim) == before


def test_nothing_is_written_elsewhere_while_somebody_flips_a_folder_of_shards(tmp_path: Path) -> None:
    raw = a_folder(tmp_path / "raw", samples(0, 40))
    (tmp_path / "d" / "sub").mkdir(parents=True)
    victim = a_victim(tmp_path / "victim")
    before = looks(victim)
    options = PrepareRequest(template="sub/shard-{index:06d}.tar", shard_samples=2)
    with flipping(tmp_path / "d" / "sub", victim) as attacked:
        attacked(lambda: prepare(raw, str(tmp_path / "d"), options))
        attacked(lambda: write_shard(str(tmp_path / "d" / "sub" / "a.tar"), raw, []))
    assert looks(victim) == before


def test_the_door_alone_holds_against_flips(tmp_path: Path) -> None:
    here, victim = tmp_path / "d" / "here", a_victim(tmp_path / "victim")
    here.mkdir(parents=True)
    before = looks(victim)

    def do() -> None:
        write_text(str(here / "work"), "x")
        remove_tree(str(here / "work"))
        write_text(str(here / "lock"), "x")
        set_aside(str(here / "lock"), "old")
        with open_file_draft(str(here / "columns")) as draft:
            os.makedirs(os.path.join(draft.path, "deep"))
            draft.publish()
        remove_tree(str(here / "columns"))

    with flipping(here, victim) as attacked:
        attacked(do)
    assert looks(victim) == before


@pytest.mark.parametrize("verb", ["prepare", "convert"])
def test_a_destination_that_is_replaced_meanwhile_ends_the_run_and_nothing_is_written_elsewhere(
    tmp_path: Path, verb: str
) -> None:
    raw, dest, victim = a_folder(tmp_path / "raw", samples(0, 20)), tmp_path / "d", a_victim(tmp_path / "victim")
    before = looks(victim)
    told = Told(at_advance=lambda: _replace_by_link(dest, victim))
    runs: dict[str, Callable[[], object]] = {
        "prepare": lambda: prepare(raw, str(dest), PrepareRequest(shard_samples=2), progress=told),
        "convert": lambda: convert([some_shards(tmp_path / "s", 4)], str(dest), progress=told),
    }
    with pytest.raises(WdsctlError) as raised:
        runs[verb]()
    assert dest.is_symlink()
    assert raised.value.code in {"WDS304", "WDS415", "WDS416"}
    assert looks(victim) == before


def test_a_folder_that_is_moved_while_a_file_is_made_in_it_gets_no_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with open_file_draft(str(tmp_path / "d" / "x")) as draft:
        Path(draft.path).write_text("x")
        os.rename(tmp_path / "d", tmp_path / "moved")
        (tmp_path / "d").mkdir()
        with pytest.raises(StorageError) as raised:
            draft.publish()
    assert raised.value.code == "WDS416"
    assert os.listdir(tmp_path / "d") == os.listdir(tmp_path / "moved") == []
