"""Publish the changes that a command made in a mirror.

The files are uploaded first, then the pointer is replaced, on condition that it is still the one that the changes are
based on. So the published catalog is complete at every moment, and of two publishers the second learns who was first.
Nothing that the first run finished is lost: its changes stay in the mirror, and finished units are removed only after
the catalog with their results is published (`after_publication`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from typing import NamedTuple

from wdsctl.core.errors import (
    CatalogError,
    PermissionDenied,
    PreconditionFailed,
    StorageError,
    WdsctlError,
    translate_os_errors,
)
from wdsctl.core.files import copy_file, remove_tree
from wdsctl.core.remote_catalogs.mirror import (
    CATALOG_NAME,
    FileStamp,
    Mirror,
    MirrorRecord,
    file_sha256,
    last_generation,
    sqlite_schema_version,
)
from wdsctl.core.remote_catalogs.pointer import FILES_FOLDER, KNOWN_SCHEMAS, Pointer, PublishedFile, new_pointer
from wdsctl.core.remote_catalogs.pull import pull_for_writing
from wdsctl.core.remote_catalogs.store import CatalogStore
from wdsctl.core.sqlite_file import open_in_place
from wdsctl.core.text import pluralize

#: The age in seconds from which objects are removed that neither this pointer nor the one before names: readers of the
#: one before may still fetch its objects, and a publisher may not have written its pointer yet. By the store's clock.
GRACE_SECONDS = 24 * 3600.0

_LEDGER_NAME = "ledger.sqlite"
_NO_CONDITIONS_CODE = "WDS419"
_BUSY_TIMEOUT_SECONDS = 10.0
_MAX_COPIED_BYTES = 1 << 20  # larger files than this are only ever replaced as a whole

#: Folder -> what to call once its catalog is published, for the mirrors that this process changes now.
_AFTER_PUBLICATION: dict[str, list[Callable[[], None]]] = {}


@contextmanager
def publishing(folder: str, url: str, note: Callable[[str], None], *, is_record: bool = False) -> Iterator[None]:
    """Publish what the block changes in the mirror in `folder`, if it succeeds. Blocks may be nested.

    `is_record`: the block only records its run in the ledger; if that cannot be published, `note` receives the reason.
    Without permission to write to the store, the changes stay in the mirror, and `note` receives a line.
    Raises CatalogError WDS308 if another publisher was first, and what the store raises.
    """
    if folder in _AFTER_PUBLICATION:
        yield
        return
    mirror, store = Mirror(folder, url), CatalogStore(url)
    mirror.hold_for_use()
    base = pull_for_writing(mirror, store, note)
    calls = _AFTER_PUBLICATION[folder] = []
    try:
        with mirror.lock("writers", shared=True):  # nobody else may replace the files until they are published
            yield
            with mirror.lock("sync"):
                try:
                    _publish(mirror, store, base, note)
                except WdsctlError as error:
                    if not (_is_read_only_error(error) or (is_record and isinstance(error, CatalogError))):
                        raise
                    note(
                        f"cannot publish the catalog ({error.message}): its changes are only on this machine, in "
                        f"{folder}"
                    )
        for call in calls:
            call()
    finally:
        del _AFTER_PUBLICATION[folder]


def call_when_published(folder: str, call: Callable[[], None]) -> None:
    """Call `call` once the changes of the mirror in `folder` are published; at once if nobody publishes them."""
    if folder in _AFTER_PUBLICATION:
        _AFTER_PUBLICATION[folder].append(call)
    else:
        call()


def _is_read_only_error(error: WdsctlError) -> bool:
    return isinstance(error, PermissionDenied) or error.code == _NO_CONDITIONS_CODE


def _publish(mirror: Mirror, store: CatalogStore, base: MirrorRecord | None, note: Callable[[str], None]) -> None:
    """Publish the files of the mirror, if they differ from those of `base`. The caller holds the lock `sync`."""
    if mirror.stamp(CATALOG_NAME) is None:
        return
    outgoing = mirror.control_path("outgoing")
    remove_tree(outgoing)
    try:
        found = _collect_files(mirror, base, outgoing)
        if base is not None and set(found) == set(base.pointer.files):
            mirror.write_record(base.pointer, base.tag, {file.name: each.stamp for file, each in found.items()})
            return
        pointer = _next_pointer(mirror, base, list(found))
        former = set() if base is None else {file.object_name for file in base.pointer.files}
        new = [file for file in pointer.files if file.object_name not in former]
        store.abort_pending(new)
        _upload_missing(mirror, store, found, new)
        try:
            tag = store.put_pointer(pointer, None if base is None else base.tag)
        except PreconditionFailed as error:
            raise _conflict_error(store) from error
        # Another publisher may have removed objects that no pointer named before this one.
        _upload_missing(mirror, store, found, pointer.files)
        mirror.write_record(pointer, tag, {file.name: each.stamp for file, each in found.items()})
    finally:
        remove_tree(outgoing)
    if any(file.name != _LEDGER_NAME for file in new):
        size = sum(file.size for file in new)
        note(f"published the catalog to {store.display_url}: {pluralize(len(new), 'new file')}, {size:,} bytes")
    _remove_unused(store, pointer, former, note)


class _Source(NamedTuple):
    """Where the content of a file is, and the stamp that the file had in the mirror."""

    path: str
    stamp: FileStamp


def _upload_missing(
    mirror: Mirror, store: CatalogStore, sources: Mapping[PublishedFile, _Source], files: Sequence[PublishedFile]
) -> None:
    present = {(each.url, each.size) for each in store.list_objects()}
    for file in files:
        if (f"{store.url}/{file.object_name}", file.size) in present:
            continue
        path, stamp = sources[file]
        if mirror.is_partial(file, stamp.size):
            raise store.damaged_error(file, "is missing")
        store.put_file(file, path)
        if path == mirror.path(file.name) and mirror.stamp(file.name) != stamp:
            raise CatalogError(
                "the file changed during its upload",
                where=path,
                hint="run the same command again: finished work is kept",
                code="WDS302",
            )


def _collect_files(mirror: Mirror, base: MirrorRecord | None, outgoing: str) -> dict[PublishedFile, _Source]:
    """The files of the mirror as they are now. Copies files that may change at any time: the ledger and small ones."""
    known = {} if base is None else {file.name: file for file in base.pointer.files}
    found: dict[PublishedFile, _Source] = {}
    for name in mirror.names():
        path, stamp = mirror.path(name), mirror.stamp(name)
        if stamp is None:  # a reader's file, which the reader is replacing
            continue
        if name in known and mirror.is_unchanged(known[name], base):
            found[known[name]] = _Source(path, stamp)
            continue
        if name == _LEDGER_NAME:
            path = _copy_ledger(path, outgoing)
        elif stamp.size <= _MAX_COPIED_BYTES:
            path = _copy(path, os.path.join(outgoing, name))
        found[PublishedFile(name, os.path.getsize(path), file_sha256(path))] = _Source(path, stamp)
    return found


def _copy(path: str, copy: str) -> str:
    copy_file(path, copy)
    return copy


def _copy_ledger(path: str, outgoing: str) -> str:
    """Copy the ledger between two transactions. Returns the path of the copy."""
    with translate_os_errors(path, "read"):
        try:
            with closing(open_in_place(path, timeout_seconds=_BUSY_TIMEOUT_SECONDS)) as ledger:
                ledger.execute("BEGIN")
                ledger.execute("SELECT count(*) FROM sqlite_master").fetchone()  # takes SQLite's shared lock
                return _copy(path, os.path.join(outgoing, _LEDGER_NAME))
        except sqlite3.Error as error:
            raise CatalogError(
                f"cannot read the ledger to publish it: {error}",
                where=path,
                hint="run the same command again: a damaged ledger is set aside",
                code="WDS302",
            ) from error


def _next_pointer(mirror: Mirror, base: MirrorRecord | None, files: Sequence[PublishedFile]) -> Pointer:
    names = [file.name for file in files]
    schemas = {name: sqlite_schema_version(mirror.path(name)) for name in names if name in KNOWN_SCHEMAS}
    return new_pointer(1 if base is None else base.pointer.revision + 1, last_generation(names), files, schemas)


def _conflict_error(store: CatalogStore) -> CatalogError:
    found = store.read_pointer()
    first = "another process" if found is None else found.pointer.describe_publisher()
    return CatalogError(
        f"another wdsctl published a catalog of this dataset first: {first}",
        where=store.display_url,
        hint="run the same command again: it starts from the newer catalog and keeps finished work",
        code="WDS308",
    )


def _remove_unused(
    store: CatalogStore, pointer: Pointer, former: AbstractSet[str], note: Callable[[str], None]
) -> None:
    """Remove old objects that no pointer names. An error is noted: the catalog is published already.

    `former`: the names of objects of the pointer before.
    """
    try:
        objects = store.list_objects()
        now = max((each.modified for each in objects if each.url == store.pointer_url), default=0.0)
        named = {f"{store.url}/{name}" for name in {*former, *(file.object_name for file in pointer.files)}}
        unused = [
            each.url
            for each in objects
            if each.url.startswith(f"{store.url}/{FILES_FOLDER}/")
            and each.url not in named
            and 0 < each.modified < now - GRACE_SECONDS
        ]
        if not unused:
            return
        current = store.read_pointer()
        if current is not None and current.pointer.id == pointer.id:
            store.delete(unused)
    except (StorageError, PermissionDenied) as error:
        note(f"cannot remove unused files of older catalogs from the store: {error.message} ({error.where})")
