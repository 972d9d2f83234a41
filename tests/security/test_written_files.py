"""Nothing is written, deleted or changed outside the paths given by the user: links in data are not followed, names in
data cannot leave their folder, and swapping folders during a command does not redirect its writes.
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

from tests import children
from tests.build import RecordingProgress, a_folder, a_shard, samples, some_shards
from tests.cli.conftest import Wdsctl, wdsctl
from wdsctl.core.columns.column_file import read_column
from wdsctl.core.convert.convert import convert
from wdsctl.core.errors import InputError, StorageError, WdsctlError
from wdsctl.core.files import load_checked, open_file_draft, remove_tree, set_aside, write_text
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.joins.index import JoinIndex
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.preview import preview_samples
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.repair.repair import RepairRequest, repair
from wdsctl.core.shards.write import write_shard

__all__ = ["wdsctl"]

#: What may be planted in a dataset's folder: names of files, and of folders.
RECORD_FILES = ("catalog.sqlite", "ledger.sqlite", "dataset.yaml", "offsets-1.bin", "ledger.sqlite-journal")
FILES = (*RECORD_FILES, "ledger.sqlite-wal")
FOLDERS = ("work", "media", "columns", "joins", "splits")
COMMAND_LINES = {
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


def a_prepared_dataset(root: Path, shards: int = 2) -> Path:
    some_shards(root, shards)
    index(str(root))
    return root


def a_victim(folder: Path) -> Path:
    """Create a folder of foreign files, some with the names of wdsctl's files."""
    a_folder(folder, dict.fromkeys((*FILES, *(f"{each}/units/x" for each in FOLDERS), "lock", "a.tar"), b"theirs"))
    (folder / "empty").write_bytes(b"")
    return folder


def snapshot(folder: Path) -> Mapping[str, object]:
    """Return everything in a folder: names, kinds, modes, times and contents of files."""
    found: dict[str, object] = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            is_file = stat.S_ISREG(status.st_mode)
            data = blake2b(Path(path).read_bytes()).hexdigest() if is_file else ""
            found[os.path.relpath(path, folder)] = (status.st_mode, status.st_mtime_ns if is_file else 0, data)
    return found


def put_link(path: Path, by: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(by)


def commands(root: Path) -> Iterator[tuple[object, ...]]:
    for arguments in COMMAND_LINES.values():
        yield tuple(word.replace("ROOT", str(root)) for word in arguments)


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_linked_wdsctl_folder_is_neither_written_nor_read(wdsctl: Wdsctl, tmp_path: Path, command: str) -> None:
    root, victim = a_prepared_dataset(tmp_path / "d"), a_victim(tmp_path / "victim")
    put_link(root / ".wdsctl", victim)
    before = snapshot(victim)
    result = wdsctl(*(word.replace("ROOT", str(root)) for word in COMMAND_LINES[command]))
    assert snapshot(victim) == before
    assert result.code == 3
    assert "WDS415" in result.stderr
    assert "--catalog" in result.stderr


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, "offsets-2.bin", "names-1.bin", "keyframes-1.bin", "convert"])
def test_links_inside_wdsctl_folder_are_not_followed(wdsctl: Wdsctl, tmp_path: Path, name: str) -> None:
    root, victim = a_prepared_dataset(tmp_path / "d"), a_victim(tmp_path / "victim")
    target = victim / name
    before = snapshot(victim)
    for arguments in commands(root):
        put_link(root / ".wdsctl" / name, target)
        result = wdsctl(*arguments)
        assert snapshot(victim) == before, arguments
        assert result.code == 3, arguments
        assert "WDS415" in result.stderr, arguments


@pytest.mark.parametrize("name", RECORD_FILES)
def test_pipe_in_wdsctl_folder_is_refused_without_waiting(wdsctl: Wdsctl, tmp_path: Path, name: str) -> None:
    root = a_prepared_dataset(tmp_path / "d")
    (root / ".wdsctl" / name).unlink(missing_ok=True)
    os.mkfifo(root / ".wdsctl" / name)
    for arguments in commands(root):
        result = wdsctl(*arguments)
        assert result.code == 3, arguments
        assert "WDS417" in result.stderr, arguments


def test_dangling_link_in_wdsctl_folder_creates_no_file(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_prepared_dataset(tmp_path / "d")
    for name in ("ledger.sqlite", "catalog.sqlite", "dataset.yaml"):
        (root / ".wdsctl" / name).unlink(missing_ok=True)
        (root / ".wdsctl" / name).symlink_to(tmp_path / "made")
        assert wdsctl("index", root).code == 3
        (root / ".wdsctl" / name).unlink()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["ledger.sqlite", "catalog.sqlite", "dataset.yaml", "lock", "offsets-1.bin"])
def test_hard_links_to_wdsctl_files_keep_their_content(wdsctl: Wdsctl, tmp_path: Path, name: str) -> None:
    root = a_prepared_dataset(tmp_path / "d")
    other = tmp_path / "theirs"
    own_file = root / ".wdsctl" / name
    if not own_file.exists():
        own_file.write_text("sample_type: TextSample\nfield_map: {text: txt}\n" if name == "dataset.yaml" else "{}")
    os.utime(own_file, (1, 1))
    os.link(own_file, other)
    before = (other.read_bytes(), other.stat().st_mtime_ns)
    assert wdsctl("split", root, "1,1").code == 0
    assert wdsctl("index", root, "--rebuild").code == 0
    assert (other.read_bytes(), other.stat().st_mtime_ns) == before


def test_journal_that_is_hard_link_is_not_written(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_prepared_dataset(tmp_path / "d")
    (tmp_path / "theirs").write_bytes(b"theirs")
    os.link(tmp_path / "theirs", root / ".wdsctl" / "ledger.sqlite-journal")
    wdsctl("split", root, "1,1")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_linked_wdsctl_folder_is_used_when_named_by_catalog_option(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_prepared_dataset(tmp_path / "d")
    (root / ".wdsctl").rename(tmp_path / "fast")
    (root / ".wdsctl").symlink_to(tmp_path / "fast")
    assert wdsctl("inspect", root).code == 3
    assert wdsctl("inspect", root, "--catalog", tmp_path / "fast").code == 0
    assert wdsctl("split", root, "1,1", "--catalog", root / ".wdsctl").code == 0  # the user named the link itself


def test_links_in_paths_given_by_user_are_followed(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "disk" / "data").mkdir(parents=True)
    home = tmp_path / "home"
    home.symlink_to(tmp_path / "disk")
    a_folder(tmp_path / "disk" / "raw", samples(0, 6))
    (tmp_path / "disk" / "linked").symlink_to("data")
    assert wdsctl("prepare", home / "raw", home / "linked", "--split", "1,1", "--yes").code in {0, 1}
    assert (tmp_path / "disk" / "data" / ".wdsctl" / "catalog.sqlite").is_file()
    for arguments in (*commands(home / "linked"), ("convert", home / "linked", home / "c", "--no-split")[:3]):
        assert wdsctl(*arguments).code in {0, 1}, arguments
    assert wdsctl("repair", home / "linked", home / "fixed", "--all").code in {0, 1}
    assert wdsctl("get", home / "linked", "000001", "--part", "txt", "-o", home / "out").code == 0
    assert (tmp_path / "disk" / "out").exists()
    assert not os.path.islink(tmp_path / "disk" / "data" / ".wdsctl")


def test_linked_temporary_folder_is_used(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "tmp").symlink_to("disk")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    raw, root = a_folder(tmp_path / "raw", samples(0, 6)), some_shards(tmp_path / "d", 2)
    assert preview_samples(raw, str(tmp_path / "out"), PrepareRequest()) is not None
    assert preview_samples(root, None, PrepareRequest()) is not None
    assert wdsctl("convert", root, tmp_path / "out", "--dry-run").code == 0
    assert wdsctl("split", root, "1,1").code == 6
    assert wdsctl("prepare", raw, tmp_path / "out", "--dry-run").code == 0


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("subfolder", ["columns", "joins", "work"])
def test_readers_refuse_links_and_pipes_in_subfolders_of_wdsctl_folder(
    tmp_path: Path, subfolder: str, kind: str
) -> None:
    path = a_prepared_dataset(tmp_path / "d") / ".wdsctl" / subfolder / "x-1.bin"
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "d" / "shard-000.tar")
    readers: dict[str, Callable[[], object]] = {
        "columns": lambda: read_column(str(path)),
        "joins": lambda: JoinIndex(str(path), "", 1, []),
        "work": lambda: load_checked(str(path)),
    }
    with pytest.raises(InputError) as raised:
        readers[subfolder]()
    assert raised.value.code == ("WDS417" if kind == "pipe" else "WDS415")


def test_shards_are_not_written_or_repaired_below_linked_folder(tmp_path: Path) -> None:
    victim = a_victim(tmp_path / "victim")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "sub").symlink_to(victim)
    before = snapshot(victim)
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
    assert snapshot(victim) == before


def test_hostile_plan_in_ledger_of_destination_deletes_nothing_outside(tmp_path: Path) -> None:
    """The ledger of a destination names its shards; shards that are no longer planned are removed."""
    raw = a_folder(tmp_path / "raw", samples(0, 6))
    dest = tmp_path / "d"
    prepare(raw, str(dest), PrepareRequest(shard_samples=3, accept_type=True))
    (tmp_path / "theirs.tar").write_bytes(b"theirs")
    with closing(sqlite3.connect(dest / ".wdsctl" / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("UPDATE planned_shard SET name = '../theirs.tar' WHERE ordinal = 1")
    for name in ("000003.jpg", "000003.txt", "000004.jpg", "000004.txt", "000005.jpg", "000005.txt"):
        (tmp_path / "raw" / name).unlink()
    with suppress(WdsctlError):
        prepare(raw, str(dest), PrepareRequest(shard_samples=3, index=IndexRequest(missing="drop")))
    assert (tmp_path / "theirs.tar").read_bytes() == b"theirs"


def test_hostile_convert_plan_in_destination_deletes_nothing_outside(wdsctl: Wdsctl, tmp_path: Path) -> None:
    source, dest = a_prepared_dataset(tmp_path / "s"), tmp_path / "d"
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
    result = wdsctl("convert", source, dest, "--yes")
    assert (tmp_path / "theirs" / "a.tar").read_bytes() == b"theirs"
    assert result.code == 6


def test_hostile_lock_removes_no_file_outside(wdsctl: Wdsctl, tmp_path: Path) -> None:
    """The token in an expired lock is part of the name of a file that is created and removed."""
    root = a_prepared_dataset(tmp_path / "d")
    (tmp_path / "theirs.dead").write_bytes(b"theirs")
    holder = {"host": "x", "pid": 1, "born": "1", "since": 0.0, "token": "/../../../theirs", "command": "", "space": ""}
    lock = root / ".wdsctl" / "lock"
    (root / ".wdsctl" / "lock.").mkdir()
    lock.write_text(json.dumps(holder))
    os.utime(lock, (1, 1))
    wdsctl("split", root, "1,1")
    assert (tmp_path / "theirs.dead").read_bytes() == b"theirs"


#: Repeatedly replaces a folder by a link to another one and back; prints how often.
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
LENGTHS = (0.7, pytest.param(3.0, marks=pytest.mark.slow))  # seconds of a race
MIN_FLIPS = 100  # minimum number of flips during a test


@contextmanager
def flip_folder(path: Path, victim: Path, seconds: float) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Flip a folder in another process. Yields a function that repeats an action and ignores its errors."""
    trash = path.with_name(f"{path.name}-trash")
    trash.mkdir()

    def repeat(action: Callable[[], object]) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            # A path may vanish between any two calls: the CLI reports the OSError, and only writes matter here.
            with suppress(WdsctlError, OSError):
                action()

    command = [sys.executable, "-c", FLIP, str(path), str(victim), str(trash)]
    with children.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout is not None
        attacker.stdout.readline()
        try:
            yield repeat
        finally:
            (trash / "end").touch()
        assert int(attacker.stdout.readline()) > MIN_FLIPS


def _replace_by_link(folder: Path, victim: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    os.rename(folder, folder.with_name("moved"))
    os.symlink(victim, folder)


@pytest.mark.parametrize("seconds", LENGTHS)
def test_nothing_is_written_outside_while_wdsctl_folder_is_swapped_with_link(tmp_path: Path, seconds: float) -> None:
    root, victim = a_prepared_dataset(tmp_path / "d"), tmp_path / "victim"
    shutil.copytree(root / ".wdsctl", victim)
    for name in FOLDERS:
        (victim / name).mkdir(exist_ok=True)
        (victim / name / "theirs").write_bytes(b"theirs")
    before = snapshot(victim)
    with flip_folder(root / ".wdsctl", victim, seconds) as repeat:
        repeat(lambda: index(str(root), rebuild=True))
        repeat(lambda: prepare(str(root), None, PrepareRequest(split=None)))
    # SQLite itself creates the ledger's journal by path; decision 31 describes this remaining gap.
    (victim / "ledger.sqlite-journal").unlink(missing_ok=True)
    assert snapshot(victim) == before


@pytest.mark.parametrize("seconds", LENGTHS)
def test_nothing_is_written_outside_while_shard_folder_is_swapped_with_link(tmp_path: Path, seconds: float) -> None:
    raw = a_folder(tmp_path / "raw", samples(0, 40))
    (tmp_path / "d" / "sub").mkdir(parents=True)
    victim = a_victim(tmp_path / "victim")
    before = snapshot(victim)
    options = PrepareRequest(template="sub/shard-{index:06d}.tar", shard_samples=2)
    with flip_folder(tmp_path / "d" / "sub", victim, seconds) as repeat:
        repeat(lambda: prepare(raw, str(tmp_path / "d"), options))
        repeat(lambda: write_shard(str(tmp_path / "d" / "sub" / "a.tar"), raw, []))
    assert snapshot(victim) == before


@pytest.mark.parametrize("seconds", LENGTHS)
def test_file_functions_write_nothing_outside_while_folder_is_swapped(tmp_path: Path, seconds: float) -> None:
    folder, victim = tmp_path / "d" / "here", a_victim(tmp_path / "victim")
    folder.mkdir(parents=True)
    before = snapshot(victim)

    def action() -> None:
        write_text(str(folder / "work"), "x")
        remove_tree(str(folder / "work"))
        write_text(str(folder / "lock"), "x")
        set_aside(str(folder / "lock"), "old")
        with open_file_draft(str(folder / "columns")) as draft:
            os.makedirs(os.path.join(draft.path, "deep"))
            draft.publish()
        remove_tree(str(folder / "columns"))

    with flip_folder(folder, victim, seconds) as repeat:
        repeat(action)
    assert snapshot(victim) == before


@pytest.mark.parametrize("verb", ["prepare", "convert"])
def test_run_stops_without_writing_outside_when_destination_is_replaced(tmp_path: Path, verb: str) -> None:
    raw, dest, victim = a_folder(tmp_path / "raw", samples(0, 20)), tmp_path / "d", a_victim(tmp_path / "victim")
    before = snapshot(victim)
    progress = RecordingProgress(at_advance=lambda: _replace_by_link(dest, victim))
    actions: dict[str, Callable[[], object]] = {
        "prepare": lambda: prepare(raw, str(dest), PrepareRequest(shard_samples=2), progress=progress),
        "convert": lambda: convert([some_shards(tmp_path / "s", 4)], str(dest), progress=progress),
    }
    with pytest.raises(WdsctlError) as raised:
        actions[verb]()
    assert dest.is_symlink()
    assert raised.value.code in {"WDS304", "WDS415", "WDS416"}
    assert snapshot(victim) == before


def test_publish_creates_no_file_when_folder_was_moved(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with open_file_draft(str(tmp_path / "d" / "x")) as draft:
        Path(draft.path).write_text("x")
        os.rename(tmp_path / "d", tmp_path / "moved")
        (tmp_path / "d").mkdir()
        with pytest.raises(StorageError) as raised:
            draft.publish()
    assert raised.value.code == "WDS416"
    assert os.listdir(tmp_path / "d") == os.listdir(tmp_path / "moved") == []
