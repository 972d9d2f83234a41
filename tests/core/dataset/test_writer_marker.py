from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.remote import FaultyFileSystem
from wdsctl.core.dataset import writer_marker
from wdsctl.core.dataset.lock import break_locks
from wdsctl.core.dataset.writer_marker import hold_writer_marker
from wdsctl.core.errors import CatalogError
from wdsctl.core.storage.objects import ObjectStore

ROOT = "memory://marked/data"
URL = f"{ROOT}/.wdsctl/writer.json"


@pytest.fixture(autouse=True)
def _empty_store() -> None:
    FaultyFileSystem.reset()


def read_marker() -> dict[str, object]:
    marker: dict[str, object] = json.loads(ObjectStore(ROOT).get(URL)[0])
    return marker


def leave_marker(*, host: str = "node-17", born: str = "1", ended: bool = False) -> None:
    with hold_writer_marker(ROOT):
        marker = read_marker()
    holder = {**marker["holder"], "host": host, "born": born}  # type: ignore[dict-item]
    ObjectStore(ROOT).put(URL, json.dumps({**marker, "holder": holder, "ended": ended}).encode())


def test_second_writer_is_refused_and_first_is_named() -> None:
    with (
        hold_writer_marker(ROOT),
        pytest.raises(CatalogError, match=f"process {os.getpid()} on") as caught,
        hold_writer_marker(ROOT),
    ):
        pass
    assert caught.value.code == "WDS304"


def test_marker_of_ended_run_blocks_nobody() -> None:
    with hold_writer_marker(ROOT):
        assert read_marker()["ended"] is False
    assert read_marker()["ended"] is True
    with hold_writer_marker(ROOT):
        assert read_marker()["ended"] is False


def test_marker_of_dead_local_writer_blocks_nobody() -> None:
    leave_marker(host=os.uname().nodename)
    with hold_writer_marker(ROOT):
        pass


def test_marker_of_other_machine_expires_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_marker()
    with pytest.raises(CatalogError, match="node-17"), hold_writer_marker(ROOT):
        pass
    monkeypatch.setattr(writer_marker, "_store_time", lambda _store, _url: 1e12)
    with hold_writer_marker(ROOT):
        pass


def test_clock_of_local_machine_does_not_expire_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_marker()
    monkeypatch.setattr("time.time", lambda: 1e12)
    with pytest.raises(CatalogError, match="node-17"), hold_writer_marker(ROOT):
        pass
    assert [each.url for each in ObjectStore(ROOT).list(ROOT)] == [URL]


def test_break_locks_breaks_marker() -> None:
    leave_marker()
    notes: list[str] = []
    with break_locks(notes.append), hold_writer_marker(ROOT, note=notes.append):
        pass
    assert "taking over from another wdsctl" in notes[0]


def test_writer_that_lost_its_marker_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_marker, "HEARTBEAT_SECONDS", 0.01)
    with ExitStack() as stack:
        check = stack.enter_context(hold_writer_marker(ROOT))
        ObjectStore(ROOT).put(URL, b"{}")
        time.sleep(0.5)
        with pytest.raises(CatalogError, match="has taken over"):
            check()
        with pytest.raises(CatalogError, match="has taken over"):
            stack.close()


def test_heartbeats_update_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_marker, "HEARTBEAT_SECONDS", 0.01)
    with hold_writer_marker(ROOT) as check:
        time.sleep(0.5)
        assert read_marker()["beat"] != 0
        check()
    assert read_marker()["ended"] is True


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"ended": false, "holder": 3}', b"\xff" * 100])
def test_invalid_marker_is_respected_until_it_is_old(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    ObjectStore(ROOT).put(URL, data)
    with pytest.raises(CatalogError, match="does not name the process"), hold_writer_marker(ROOT):
        pass
    monkeypatch.setattr(writer_marker, "_store_time", lambda _store, _url: 1e12)
    with hold_writer_marker(ROOT):
        pass


def test_store_without_conditional_writes_adds_note(tmp_path: Path) -> None:
    notes: list[str] = []
    with hold_writer_marker(f"local://{tmp_path}/data", note=notes.append) as check:
        check()
    assert "no other machine writes" in notes[0]
