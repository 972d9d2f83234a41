from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests import children
from wdsctl.core.dataset.lock import (
    LOCAL_TIMEOUT_SECONDS,
    MAX_LOCK_BYTES,
    REMOTE_TIMEOUT_SECONDS,
    LockHolder,
    break_locks,
    check_lock_held,
    describe_lock_holder,
    hold_lock,
)
from wdsctl.core.errors import CatalogError, StorageError

HOLD = """
import sys, time
from wdsctl.core.dataset.lock import hold_lock
with hold_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def write_lock(path: Path, holder: LockHolder, *, age: float = 0.0) -> None:
    path.write_text(json.dumps(asdict(holder)))
    mtime = time.time() - age
    os.utime(path, (mtime, mtime))


def read_token(path: Path) -> str:
    return str(json.loads(path.read_text())["token"])


def make_local_holder(tmp_path: Path, pid: int, born: str) -> LockHolder:
    """A holder as a process of this host and pid namespace writes it."""
    with hold_lock(str(tmp_path / "any")):
        current_holder = LockHolder(**json.loads((tmp_path / "any").read_text()))
    return replace(current_holder, pid=pid, born=born)


def get_dead_pid() -> int:
    with children.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_lock_file_exists_only_during_block(tmp_path: Path) -> None:
    path = tmp_path / "meta" / "lock"
    with hold_lock(str(path)):
        holder = json.loads(path.read_text())
        assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())

    assert os.listdir(tmp_path / "meta") == []


def test_lock_is_released_if_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_lock(str(tmp_path / "lock")):
        raise ZeroDivisionError

    assert os.listdir(tmp_path) == []


def test_live_holder_is_named_in_error(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    command = [sys.executable, "-c", HOLD, path]
    with children.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with (
            pytest.raises(CatalogError, match=f"process {holder.pid} on {socket.gethostname()}") as caught,
            hold_lock(path),
        ):
            pass
        holder.kill()
    assert (caught.value.code, caught.value.where) == ("WDS304", path)
    assert "`--break-lock`" in caught.value.hint
    with hold_lock(path):
        pass


def test_same_process_cannot_take_lock_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with hold_lock(path), pytest.raises(CatalogError), hold_lock(path):
        pass

    assert os.listdir(tmp_path) == []


def test_reused_pid_does_not_hold_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_lock(path, make_local_holder(tmp_path, os.getpid(), "1"))

    with hold_lock(str(path)):
        assert json.loads(path.read_text())["born"] != "1"


def test_lock_of_dead_local_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_lock(path, make_local_holder(tmp_path, get_dead_pid(), "123"))

    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("age", "is_free"), [(0.0, False), (LOCAL_TIMEOUT_SECONDS / 2, False), (LOCAL_TIMEOUT_SECONDS + 1, True)]
)
def test_lock_of_other_container_expires_after_local_timeout(tmp_path: Path, age: float, is_free: bool) -> None:
    path = tmp_path / "lock"
    write_lock(path, replace(make_local_holder(tmp_path, get_dead_pid(), "123"), space="another"), age=age)

    if is_free:
        with hold_lock(str(path)):
            pass
    else:
        with pytest.raises(CatalogError, match="another wdsctl"), hold_lock(str(path)):
            pass


@pytest.mark.parametrize(
    ("age", "is_free"), [(0.0, False), (REMOTE_TIMEOUT_SECONDS / 2, False), (REMOTE_TIMEOUT_SECONDS + 1, True)]
)
def test_lock_of_other_machine_expires_after_remote_timeout(tmp_path: Path, age: float, is_free: bool) -> None:
    path = tmp_path / "lock"
    write_lock(path, LockHolder("another", 1, "1", 0.0, "far"), age=age)

    if is_free:
        with hold_lock(str(path)):
            pass
    else:
        with pytest.raises(CatalogError, match="process 1 on another"), hold_lock(str(path)):
            pass
        assert read_token(path) == "far"


def test_clock_that_is_ahead_does_not_expire_live_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    write_lock(path, LockHolder("another", 1, "1", 0.0, "far"))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * REMOTE_TIMEOUT_SECONDS)

    with pytest.raises(CatalogError, match="process 1 on another"), hold_lock(str(path)):
        pass
    assert read_token(path) == "far"


def test_full_disk_leaves_no_temporary_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(json, "dump", fill)

    with pytest.raises(StorageError) as caught, hold_lock(str(tmp_path / "lock")):
        pass
    assert caught.value.code == "WDS401"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", ["", "rubbish", "[]", '{"pid": 3}'])
def test_unreadable_lock_is_respected_until_it_is_old(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lock"
    path.write_text(content)

    with pytest.raises(CatalogError), hold_lock(str(path)):
        pass
    os.utime(path, (0, 0))
    with hold_lock(str(path)):
        pass


def test_concurrent_takers_hold_lock_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_lock(path, make_local_holder(tmp_path, get_dead_pid(), "123"))
    inside, most, won = [0], [0], [0]

    def take() -> None:
        for _ in range(20):
            try:
                with hold_lock(str(path)):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    won[0] += 1
                    time.sleep(0.001)
                    inside[0] -= 1
            except CatalogError:
                time.sleep(0.001)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1]
    assert won[0] > 0
    assert os.listdir(tmp_path) == []


def test_claim_of_killed_taker_expires(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    dead = make_local_holder(tmp_path, get_dead_pid(), "123")
    write_lock(path, dead)
    claim = tmp_path / f"lock.{dead.token}.dead"
    claim.write_text("")

    with pytest.raises(CatalogError), hold_lock(str(path)):
        pass
    os.utime(claim, (0, 0))
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_old_holder_does_not_remove_taken_over_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(str(path)):
        write_lock(path, LockHolder("another", 1, "1", 0.0, "new"))

    assert read_token(path) == "new"


def test_check_lock_held_raises_after_takeover(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(str(path)):
        check_lock_held(str(path))
        write_lock(path, LockHolder("another", os.getpid(), "1", 0.0, "new"))
        with pytest.raises(CatalogError, match="another process took the lock") as caught:
            check_lock_held(str(path))
        path.unlink()
        with pytest.raises(CatalogError, match="another process took the lock"):
            check_lock_held(str(path))
    assert (caught.value.code, caught.value.where) == ("WDS304", str(path))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_lock_works_without_hard_links(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "lock")
    with hold_lock(path):
        check_lock_held(path)
        with pytest.raises(CatalogError, match=f"process {os.getpid()}"), hold_lock(path):
            pass

    assert os.listdir(tmp_path) == []


def test_deleted_temporary_lock_file_is_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def link_and_unlink(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool) -> None:
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        os.unlink(source, dir_fd=src_dir_fd)

    monkeypatch.setattr(os, "link", link_and_unlink)
    with hold_lock(str(tmp_path / "lock")):
        assert os.listdir(tmp_path) == ["lock"]


def test_zombie_holder_counts_as_dead(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    code = (
        "import sys, time; from wdsctl.core.dataset.lock import hold_lock\n"
        "with hold_lock(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(CatalogError), hold_lock(path):
            pass
        holder.kill()
        while Path(f"/proc/{holder.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            time.sleep(0.01)

        with hold_lock(path):
            pass


def test_waiting_takes_lock_when_released_and_notes_holder_once(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    notes: list[str] = []
    with children.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        def note(message: str) -> None:
            notes.append(message)
            holder.kill()

        with hold_lock(path, wait=60, note=note):
            assert json.loads(Path(path).read_text())["pid"] == os.getpid()

    assert len(notes) == 1
    assert f"process {holder.pid} on {socket.gethostname()}, since " in notes[0]
    assert "(-c " in notes[0]


def test_waiting_times_out_and_names_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_lock(path, LockHolder("another", 1, "1", 0.0, "far", "wdsctl index s3://b/x"))
    start = time.monotonic()
    with (
        pytest.raises(CatalogError, match=r"process 1 on another, since .* \(wdsctl index s3://b/x\)") as caught,
        hold_lock(str(path), wait=0.2),
    ):
        pass
    assert caught.value.exit_code == 6
    assert time.monotonic() - start >= 0.2


def test_command_in_lock_file_contains_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/wdsctl", "index", "s3://user:secret@bucket/x", "y" * 1000])
    path = tmp_path / "lock"
    with hold_lock(str(path)):
        command = json.loads(path.read_text())["command"]
    assert command.startswith("wdsctl index s3://bucket/x yyy")
    assert len(command) == 200


@pytest.mark.parametrize("ahead", [REMOTE_TIMEOUT_SECONDS + 60, 10 * 365 * 86_400.0])
def test_heartbeat_in_future_counts_as_expired(tmp_path: Path, ahead: float) -> None:
    path = tmp_path / "lock"
    write_lock(path, LockHolder("another", 1, "1", 0.0, "far"), age=-ahead)
    assert describe_lock_holder(str(path)) == ""
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_process_of_other_boot_holds_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Path("/proc/1/stat").read_text().rsplit(")", 1)[1].split()[19]
    write_lock(path, LockHolder(socket.gethostname(), 1, first, 0.0, "first", space=""), age=REMOTE_TIMEOUT_SECONDS + 1)
    with hold_lock(str(path)):
        pass


def test_special_file_at_lock_path_is_replaced(tmp_path: Path) -> None:
    path, outside = tmp_path / "meta" / "lock", tmp_path / "outside"
    outside.write_text("kept")
    path.parent.mkdir()
    creators: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to(outside),
        lambda: path.symlink_to(tmp_path / "absent"),
        lambda: path.symlink_to(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: os.mkfifo(path),
        path.mkdir,
    )
    for create in creators:
        create()
        assert describe_lock_holder(str(path)) == ""
        with hold_lock(str(path)):
            assert json.loads(path.read_text())["pid"] == os.getpid()
        assert os.listdir(path.parent) == []
    assert outside.read_text() == "kept"
    assert not (tmp_path / "absent").exists()


def test_non_empty_folder_at_lock_path_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "mine").write_text("")
    with (
        pytest.raises(CatalogError, match="the path of the lock file is a folder") as caught,
        hold_lock(str(tmp_path / "lock")),
    ):
        pass
    assert (caught.value.code, caught.value.where) == ("WDS304", str(tmp_path / "lock"))
    assert os.listdir(tmp_path / "lock") == ["mine"]


GARBAGE = {
    "empty": b"",
    "no text": b"\xff\x00",
    "deep": b"[" * MAX_LOCK_BYTES,
    "huge": b" " * (MAX_LOCK_BYTES + 1),
    "no object": b"7",
    "other fields": b'{"host": "a", "more": 1}',
    "a pid that is a path": json.dumps(asdict(LockHolder("h", 1, "1", 0.0, "t")) | {"pid": "../../etc"}).encode(),
    "a pid that is no number of one": json.dumps(asdict(LockHolder("h", 1, "1", 0.0, "t")) | {"pid": 1 << 70}).encode(),
    "a time beyond all": json.dumps(asdict(LockHolder("h", 1, "1", 1e300, "t"))).encode(),
    "no time": json.dumps(asdict(LockHolder("h", 1, "1", float("nan"), "t"))).encode(),
    "a large number": json.dumps(asdict(LockHolder("h", 1, "1", 0.0, "t")) | {"since": 10**400}).encode(),
    "a text for a time": json.dumps(asdict(LockHolder("h", 1, "1", 0.0, "t")) | {"since": "x"}).encode(),
    "a path for a token": json.dumps(asdict(LockHolder("h", 1, "1", 0.0, "/../../outside"))).encode(),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_in_lock_file_is_respected_until_old_with_message(tmp_path: Path, case: str) -> None:
    path = tmp_path / "lock"
    path.write_bytes(GARBAGE[case])
    with pytest.raises(CatalogError, match="the lock file does not name the process"), hold_lock(str(path)):
        pass
    mtime = time.time() - REMOTE_TIMEOUT_SECONDS - 1
    os.utime(path, (mtime, mtime))
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_huge_lock_file_is_read_only_up_to_limit(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    start = time.monotonic()
    assert "does not name the process" in describe_lock_holder(str(path))
    assert time.monotonic() - start < 5


def test_token_with_path_cannot_delete_other_files(tmp_path: Path) -> None:
    path = tmp_path / "meta" / "lock"
    (tmp_path / "meta" / "lock.").mkdir(parents=True)  # the path `lock./../../victim` would pass through it
    (tmp_path / "victim.dead").write_text("kept")
    os.utime(tmp_path / "victim.dead", (0, 0))
    write_lock(path, LockHolder("another", 1, "1", 0.0, "/../../victim"), age=REMOTE_TIMEOUT_SECONDS + 1)
    with hold_lock(str(path)):
        pass
    assert (tmp_path / "victim.dead").read_text() == "kept"


def test_claim_with_future_mtime_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    dead = make_local_holder(tmp_path, get_dead_pid(), "123")
    write_lock(path, dead)
    claim = tmp_path / f"lock.{dead.token}.dead"
    claim.write_text("")
    os.utime(claim, (2**33, 2**33))
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_describe_lock_holder_removes_control_characters_and_secrets(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_lock(path, LockHolder("a\x1b]0;x\x07\u202e" + "h" * 9999, 1, "1", 0.0, "far", "x\x9b2J https://u:secret@h/"))
    description = describe_lock_holder(str(path))
    assert description.isprintable()
    assert "secret" not in description
    assert len(description) < 1000


def test_break_locks_takes_lock_and_notes_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    write_lock(path, LockHolder("another", 7, "1", 0.0, "far", "wdsctl index d"))
    notes: list[str] = []
    with break_locks(notes.append), hold_lock(str(path)):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert len(notes) == 1
    assert notes[0].startswith("breaking the lock of another wdsctl: process 7 on another, since ")
    assert notes[0].endswith("(wdsctl index d)")
    assert os.listdir(tmp_path) == []


def test_break_locks_without_lock_adds_no_note(tmp_path: Path) -> None:
    notes: list[str] = []
    with break_locks(notes.append), hold_lock(str(tmp_path / "lock")):
        pass
    assert notes == []


def test_lock_of_running_local_process_is_broken_only_with_breaks_running(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    notes: list[str] = []
    with children.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with (
            pytest.raises(CatalogError, match="is alive on this machine") as caught,
            break_locks(notes.append),
            hold_lock(path),
        ):
            pass
        assert notes == []
        assert "`--break-lock --yes`" in caught.value.hint
        with break_locks(notes.append, breaks_running=True), hold_lock(path):
            check_lock_held(path)
        assert f"process {holder.pid} on" in notes[0]
        holder.kill()
