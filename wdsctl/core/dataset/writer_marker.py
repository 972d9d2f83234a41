"""The marker of the one command that writes shards to a store: the object `.wdsctl/writer.json` beside them.

The lock of a dataset (`lock.py`) is a local file, which other machines do not see. The marker is created and replaced
with conditions, so that one of two commands is first and the other learns who. It stays when its command has ended,
and says so; nothing is ever deleted, which a store could not do conditionally.

Ages are differences between two times of the store: clocks of machines may be wrong.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from wdsctl.core.dataset.location import META_FOLDER
from wdsctl.core.dataset.lock import (
    POLL_SECONDS,
    LockHolder,
    holder_text,
    is_process_running,
    is_seen_running,
    lock_breaking,
    parse_holder,
    still_running_error,
    this_process_as_holder,
)
from wdsctl.core.errors import CatalogError, PreconditionFailed, StorageError, WdsctlError
from wdsctl.core.json_text import read_json
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.urls import redact_secrets

WRITER_FILE = "writer.json"
HEARTBEAT_SECONDS = 30.0
#: Without a heartbeat for this long, the command that wrote the marker counts as dead.
TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class WriterMarker:
    """`tag`: the version of the marker that was read. `modified`: its time by the store's clock, 0.0 if unknown."""

    holder: LockHolder
    has_ended: bool
    tag: str
    modified: float


class _LostMarker:
    """Whether a heartbeat found the marker of another command."""

    def __init__(self) -> None:
        self.error: WdsctlError | None = None


@contextmanager
def hold_writer_marker(
    root: str, *, wait: float = 0.0, note: Callable[[str], None] = lambda _: None
) -> Iterator[Callable[[], None]]:
    """Be the only writer of the dataset at the URL `root` for the duration of the block.

    Yields a function that raises CatalogError WDS304 if another command has taken the marker since. `wait`: seconds to
    wait for another writer. Raises CatalogError WDS304, which names the writer. In a store without conditional writes,
    notes that there is no marker, and goes on.
    """
    store = ObjectStore(root)
    url = f"{store.root}/{META_FOLDER}/{WRITER_FILE}"
    holder = this_process_as_holder()
    try:
        tag = _take_or_wait(store, url, holder, wait, note)
    except StorageError as error:
        if error.code != "WDS419":
            raise
        note(f"{error.message}; make sure that no other machine writes to {redact_secrets(root)}")
        tag = ""
    if not tag:
        yield lambda: None
        return
    stop, lost = threading.Event(), _LostMarker()
    tags = [tag]
    heartbeat = threading.Thread(
        target=_send_heartbeats, args=(store, url, holder, tags, stop, lost), daemon=True, name="wdsctl-writer"
    )
    heartbeat.start()

    def check() -> None:
        if lost.error is not None:
            raise lost.error

    try:
        yield check
        check()
    finally:
        stop.set()
        heartbeat.join()
        if lost.error is None:
            _end(store, url, holder, tags[0], note)


def read_writer_marker(store: ObjectStore, url: str) -> WriterMarker | None:
    """Read the marker; None if there is none. One that does not parse has a holder without a host."""
    if store.stat(url) is None:
        return None
    data, tag = store.get(url)
    stored = store.stat(url)
    try:
        facts = read_json(data)
        has_ended, holder = facts["ended"] is True, parse_holder(json.dumps(facts["holder"]).encode())
    except (ValueError, TypeError, KeyError, RecursionError):
        has_ended, holder = False, parse_holder(b"")
    # A heartbeat between the two requests makes the time newer than the tag: it then is no older than what was read.
    return WriterMarker(holder, has_ended, tag, stored.modified if stored is not None else 0.0)


def is_written_by_another(root: str) -> bool:
    """Whether another process writes to the dataset at the URL `root` now: what is there may be the beginning of it.

    `hold_writer_marker` names that process, or waits for it; the caller then checks the destination again.
    """
    store = ObjectStore(root)
    url = f"{store.root}/{META_FOLDER}/{WRITER_FILE}"
    found = read_writer_marker(store, url)
    if found is None or found.has_ended or _process_of(found.holder) == _process_of(this_process_as_holder()):
        return False
    return not _is_dead(store, url, found)


def _process_of(holder: LockHolder) -> tuple[str, int, str, str]:
    return holder.host, holder.pid, holder.born, holder.space


def _take_or_wait(store: ObjectStore, url: str, holder: LockHolder, wait: float, note: Callable[[str], None]) -> str:
    deadline = time.monotonic() + wait
    reported = ""
    while True:
        try:
            return _take(store, url, holder, note)
        except PreconditionFailed:
            continue  # another command was first, and is now named by the marker
        except CatalogError as error:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            if error.message != reported:
                reported = error.message
                note(f"waiting: {error.message}")
            time.sleep(min(remaining, 10 * POLL_SECONDS))


def _take(store: ObjectStore, url: str, holder: LockHolder, note: Callable[[str], None]) -> str:
    """Write the marker and return its tag. Raises CatalogError if another command holds it, PreconditionFailed."""
    found = read_writer_marker(store, url)
    if found is None:
        return store.put(url, _encode(holder), if_absent=True).tag
    if not found.has_ended and not _is_dead(store, url, found):
        _break(found, url, note)
    return store.put(url, _encode(holder), if_tag=found.tag).tag


def _is_dead(store: ObjectStore, url: str, found: WriterMarker) -> bool:
    if is_process_running(asdict(found.holder)) is False:
        return True
    if is_seen_running(found.holder) or not found.modified:
        return False
    return _store_time(store, url) - found.modified > TIMEOUT_SECONDS


def _store_time(store: ObjectStore, url: str) -> float:
    """Return the time by the store's clock, which the store reports for a new object."""
    probe = f"{url.rpartition('/')[0]}/clock-{os.urandom(8).hex()}"
    store.put(probe, b"")
    try:
        stored = store.stat(probe)
        return stored.modified if stored is not None else 0.0
    finally:
        store.delete([probe])


def _break(found: WriterMarker, url: str, note: Callable[[str], None]) -> None:
    """Raise CatalogError WDS304 unless the marker may be taken from a writer that may be alive."""
    breaking = lock_breaking()
    if breaking is None:
        raise CatalogError(
            f"another wdsctl is writing to this dataset: {holder_text(found.holder)}",
            where=redact_secrets(url),
            hint="wait with `--wait` (up to a week) or `--wait SECONDS`; "
            f"the same command takes over {TIMEOUT_SECONDS / 60:.0f} minutes after the last heartbeat; only if that "
            "process has ended, pass `--break-lock`",
            code="WDS304",
        )
    if is_seen_running(found.holder) and not breaking.breaks_running:
        raise still_running_error(redact_secrets(url), found.holder)
    note(f"taking over from another wdsctl: {holder_text(found.holder)}")


def _send_heartbeats(
    store: ObjectStore, url: str, holder: LockHolder, tags: list[str], stop: threading.Event, lost: _LostMarker
) -> None:
    """Write the marker again and again, and keep its tag in `tags`. Ends when another command has taken it."""
    beat = 0
    while not stop.wait(HEARTBEAT_SECONDS):
        beat += 1
        try:
            tags[0] = store.put(url, _encode(holder, beat=beat), if_tag=tags[0]).tag
        except PreconditionFailed:
            lost.error = CatalogError(
                "another wdsctl has taken over this dataset, because this process sent no heartbeat",
                where=redact_secrets(url),
                hint="run the same command again: finished work is kept",
                code="WDS304",
            )
            return
        except WdsctlError:
            # The store does not answer now: the uploads report it, and the next heartbeat tries again.
            continue


def _end(store: ObjectStore, url: str, holder: LockHolder, tag: str, note: Callable[[str], None]) -> None:
    """Say in the marker that its command has ended."""
    try:
        store.put(url, _encode(holder, ended=True), if_tag=tag)
    except WdsctlError as error:  # it must not replace the result of the run, nor its own error
        note(
            f"cannot end the writer marker, so the next run on another machine waits {TIMEOUT_SECONDS / 60:.0f} "
            f"minutes: {error.message}"
        )


def _encode(holder: LockHolder, *, beat: int = 0, ended: bool = False) -> bytes:
    return json.dumps({"holder": asdict(holder), "beat": beat, "ended": ended}, indent=1).encode()
