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


def a_lock_of(path: Path, holder: LockHolder, *, age: float = 0.0) -> None:
    path.write_text(json.dumps(asdict(holder)))
    then = time.time() - age
    os.utime(path, (then, then))


def token(path: Path) -> str:
    return str(json.loads(path.read_text())["token"])


def a_holder_here(tmp_path: Path, pid: int, born: str) -> LockHolder:
    """As a process of this host and pid namespace would write it."""
    with hold_lock(str(tmp_path / "any")):
        mine = LockHolder(**json.loads((tmp_path / "any").read_text()))
    return replace(mine, pid=pid, born=born)


def a_dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_the_lock_is_there_for_the_block_and_gone_after_it(tmp_path: Path) -> None:
    path = tmp_path / "meta" / "lock"
    with hold_lock(str(path)):
        holder = json.loads(path.read_text())
        assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())

    assert os.listdir(tmp_path / "meta") == []


def test_it_goes_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_lock(str(tmp_path / "lock")):
        raise ZeroDivisionError

    assert os.listdir(tmp_path) == []


def test_a_living_holder_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
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


def test_the_same_process_cannot_take_it_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with hold_lock(path), pytest.raises(CatalogError), hold_lock(path):
        pass

    assert os.listdir(tmp_path) == []


def test_a_pid_that_was_given_out_again_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, a_holder_here(tmp_path, os.getpid(), "1"))

    with hold_lock(str(path)):
        assert json.loads(path.read_text())["born"] != "1"


def test_a_dead_holder_on_this_machine_is_taken_over_from_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, a_holder_here(tmp_path, a_dead_pid(), "123"))

    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("age", "is_free"), [(0.0, False), (LOCAL_TIMEOUT_SECONDS / 2, False), (LOCAL_TIMEOUT_SECONDS + 1, True)]
)
def test_a_holder_in_another_container_of_this_name_lives_while_its_heart_beats(
    tmp_path: Path, age: float, is_free: bool
) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, replace(a_holder_here(tmp_path, a_dead_pid(), "123"), space="another"), age=age)

    if is_free:
        with hold_lock(str(path)):
            pass
    else:
        with pytest.raises(CatalogError, match="another wdsctl"), hold_lock(str(path)):
            pass


@pytest.mark.parametrize(
    ("age", "is_free"), [(0.0, False), (REMOTE_TIMEOUT_SECONDS / 2, False), (REMOTE_TIMEOUT_SECONDS + 1, True)]
)
def test_a_holder_on_another_machine_lives_while_its_heart_beats(tmp_path: Path, age: float, is_free: bool) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, LockHolder("another", 1, "1", 0.0, "far"), age=age)

    if is_free:
        with hold_lock(str(path)):
            pass
    else:
        with pytest.raises(CatalogError, match="process 1 on another"), hold_lock(str(path)):
            pass
        assert token(path) == "far"


def test_a_clock_that_is_ahead_takes_no_living_holder_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, LockHolder("another", 1, "1", 0.0, "far"))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * REMOTE_TIMEOUT_SECONDS)

    with pytest.raises(CatalogError, match="process 1 on another"), hold_lock(str(path)):
        pass
    assert token(path) == "far"


def test_a_full_disk_leaves_no_draft_of_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(json, "dump", fill)

    with pytest.raises(StorageError) as caught, hold_lock(str(tmp_path / "lock")):
        pass
    assert caught.value.code == "WDS401"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", ["", "rubbish", "[]", '{"pid": 3}'])
def test_a_lock_that_cannot_be_read_is_honoured_until_it_is_old(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lock"
    path.write_text(content)

    with pytest.raises(CatalogError), hold_lock(str(path)):
        pass
    os.utime(path, (0, 0))
    with hold_lock(str(path)):
        pass


def test_of_many_takers_one_at_a_time_wins_and_all_see_a_dead_holder_off(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, a_holder_here(tmp_path, a_dead_pid(), "123"))
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


def test_what_a_taker_left_that_was_killed_while_it_took_over_is_in_the_way_for_a_moment_only(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    dead = a_holder_here(tmp_path, a_dead_pid(), "123")
    a_lock_of(path, dead)
    claim = tmp_path / f"lock.{dead.token}.dead"
    claim.write_text("")

    with pytest.raises(CatalogError), hold_lock(str(path)):
        pass
    os.utime(claim, (0, 0))
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_that_was_taken_over_is_not_removed_by_its_old_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(str(path)):
        a_lock_of(path, LockHolder("another", 1, "1", 0.0, "new"))

    assert token(path) == "new"


def test_a_holder_that_lost_the_lock_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(str(path)):
        check_lock_held(str(path))
        a_lock_of(path, LockHolder("another", os.getpid(), "1", 0.0, "new"))
        with pytest.raises(CatalogError, match="another process took the lock") as caught:
            check_lock_held(str(path))
        path.unlink()
        with pytest.raises(CatalogError, match="another process took the lock"):
            check_lock_held(str(path))
    assert (caught.value.code, caught.value.where) == ("WDS304", str(path))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_where_there_are_no_links_it_works_too(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "lock")
    with hold_lock(path):
        check_lock_held(path)
        with pytest.raises(CatalogError, match=f"process {os.getpid()}"), hold_lock(path):
            pass

    assert os.listdir(tmp_path) == []


def test_a_draft_that_somebody_swept_away_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def link_and_sweep(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool) -> None:
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        os.unlink(source, dir_fd=src_dir_fd)

    monkeypatch.setattr(os, "link", link_and_sweep)
    with hold_lock(str(tmp_path / "lock")):
        assert os.listdir(tmp_path) == ["lock"]


def test_a_holder_that_was_killed_and_not_waited_for_is_dead(tmp_path: Path) -> None:
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


def test_who_waits_gets_the_lock_when_it_is_free_and_is_told_once_of_whom_it_waits_for(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    notes: list[str] = []
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
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


def test_waiting_ends_and_the_holder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, LockHolder("another", 1, "1", 0.0, "far", "wdsctl index s3://b/x"))
    start = time.monotonic()
    with (
        pytest.raises(CatalogError, match=r"process 1 on another, since .* \(wdsctl index s3://b/x\)") as caught,
        hold_lock(str(path), wait=0.2),
    ):
        pass
    assert caught.value.exit_code == 6
    assert time.monotonic() - start >= 0.2


def test_the_command_in_a_lock_holds_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/wdsctl", "index", "s3://user:secret@bucket/x", "y" * 1000])
    path = tmp_path / "lock"
    with hold_lock(str(path)):
        command = json.loads(path.read_text())["command"]
    assert command.startswith("wdsctl index s3://bucket/x yyy")
    assert len(command) == 200


@pytest.mark.parametrize("ahead", [REMOTE_TIMEOUT_SECONDS + 60, 10 * 365 * 86_400.0])
def test_a_heart_that_beats_in_the_future_is_none(tmp_path: Path, ahead: float) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, LockHolder("another", 1, "1", 0.0, "far"), age=-ahead)
    assert describe_lock_holder(str(path)) == ""
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_a_process_that_is_on_every_machine_holds_no_lock_that_came_from_another_boot(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Path("/proc/1/stat").read_text().rsplit(")", 1)[1].split()[19]
    a_lock_of(path, LockHolder(socket.gethostname(), 1, first, 0.0, "first", space=""), age=REMOTE_TIMEOUT_SECONDS + 1)
    with hold_lock(str(path)):
        pass


def test_what_lies_in_the_place_of_a_lock_and_is_none_is_in_nobodys_way(tmp_path: Path) -> None:
    path, outside = tmp_path / "meta" / "lock", tmp_path / "outside"
    outside.write_text("kept")
    path.parent.mkdir()
    made: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to(outside),
        lambda: path.symlink_to(tmp_path / "absent"),
        lambda: path.symlink_to(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: os.mkfifo(path),
        path.mkdir,
    )
    for make in made:
        make()
        assert describe_lock_holder(str(path)) == ""
        with hold_lock(str(path)):
            assert json.loads(path.read_text())["pid"] == os.getpid()
        assert os.listdir(path.parent) == []
    assert outside.read_text() == "kept"
    assert not (tmp_path / "absent").exists()


def test_a_folder_in_the_place_of_a_lock_keeps_what_is_in_it(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("what", GARBAGE)
def test_a_lock_that_cannot_be_read_is_honoured_until_it_is_old_and_says_so(tmp_path: Path, what: str) -> None:
    path = tmp_path / "lock"
    path.write_bytes(GARBAGE[what])
    with pytest.raises(CatalogError, match="the lock file does not name the process"), hold_lock(str(path)):
        pass
    then = time.time() - REMOTE_TIMEOUT_SECONDS - 1
    os.utime(path, (then, then))
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_of_any_size_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    began = time.monotonic()
    assert "does not name the process" in describe_lock_holder(str(path))
    assert time.monotonic() - began < 5


def test_a_token_names_no_file_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "meta" / "lock"
    (tmp_path / "meta" / "lock.").mkdir(parents=True)  # what `lock./../../victim` would lead through
    (tmp_path / "victim.dead").write_text("kept")
    os.utime(tmp_path / "victim.dead", (0, 0))
    a_lock_of(path, LockHolder("another", 1, "1", 0.0, "/../../victim"), age=REMOTE_TIMEOUT_SECONDS + 1)
    with hold_lock(str(path)):
        pass
    assert (tmp_path / "victim.dead").read_text() == "kept"


def test_a_claim_from_the_future_is_in_the_way_for_a_moment_only(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    dead = a_holder_here(tmp_path, a_dead_pid(), "123")
    a_lock_of(path, dead)
    claim = tmp_path / f"lock.{dead.token}.dead"
    claim.write_text("")
    os.utime(claim, (2**33, 2**33))
    with hold_lock(str(path)):
        pass
    assert os.listdir(tmp_path) == []


def test_a_holder_is_named_with_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, LockHolder("a\x1b]0;x\x07\u202e" + "h" * 9999, 1, "1", 0.0, "far", "x\x9b2J https://u:secret@h/"))
    said = describe_lock_holder(str(path))
    assert said.isprintable()
    assert "secret" not in said
    assert len(said) < 1000


def test_a_lock_is_broken_on_request_and_it_is_said_whose_it_was(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    a_lock_of(path, LockHolder("another", 7, "1", 0.0, "far", "wdsctl index d"))
    notes: list[str] = []
    with break_locks(notes.append), hold_lock(str(path)):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert len(notes) == 1
    assert notes[0].startswith("breaking the lock of another wdsctl: process 7 on another, since ")
    assert notes[0].endswith("(wdsctl index d)")
    assert os.listdir(tmp_path) == []


def test_nothing_is_said_where_there_is_no_lock_to_break(tmp_path: Path) -> None:
    notes: list[str] = []
    with break_locks(notes.append), hold_lock(str(tmp_path / "lock")):
        pass
    assert notes == []


def test_a_holder_that_runs_here_loses_its_lock_only_on_request(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    notes: list[str] = []
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
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
