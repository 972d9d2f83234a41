"""Bring a mirror up to date with the published catalog.

`pull` costs one small request if nothing is new. Otherwise one process of the machine fetches the files that the mirror
lacks, checks their content, and moves them into place, the catalog last; the others wait for it. A process that is
killed leaves files that are fetched and checked, and a note of what it was moving: the next `pull` finishes its work.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timezone

from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, StorageError, translate_os_errors
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, scale_limit
from wdsctl.core.files import copy_file, make_folder, move_path, remove_empty_folder, remove_file, remove_tree
from wdsctl.core.remote_catalogs.evict import evict_mirrors
from wdsctl.core.remote_catalogs.mirror import CATALOG_NAME, Mirror, MirrorRecord, file_sha256
from wdsctl.core.remote_catalogs.pointer import Pointer, PublishedFile
from wdsctl.core.remote_catalogs.ranges import create_partial_file, forget_ranges, is_fetched_in_part, remember_url
from wdsctl.core.remote_catalogs.store import CatalogStore, FoundPointer
from wdsctl.core.urls import redact_secrets

MAX_CATALOG_BYTES = 256 << 30  # of all files of a published catalog

logger = logging.getLogger("wdsctl.catalog")


def pull(folder: str, url: str) -> None:
    """Bring the mirror in `folder` up to date with the catalog published at `url`, for reading.

    Leaves a mirror alone while a process of this machine changes its catalog, and keeps unpublished changes if nothing
    was published since.
    Raises CatalogError WDS302 and WDS303 if the published catalog cannot be used, InputError WDS421 and StorageError
    WDS401 if it is too large, StorageDown, PermissionDenied.
    """
    mirror, store = Mirror(folder, url), CatalogStore(url)
    remember_url(folder, url)
    found = _read_pointer(mirror, store)
    if found is not None:
        mirror.hold_for_use()
        if not _is_current(mirror, mirror.read_record(), found):
            with mirror.lock("sync"), mirror.lock("writers", wait=False) as is_free:
                record = mirror.read_record()  # another process may have fetched the files meanwhile
                if is_free and not _is_current(mirror, record, found):
                    _replace(mirror, store, found, record, logger.warning)


def pull_for_writing(mirror: Mirror, store: CatalogStore, note: Callable[[str], None]) -> MirrorRecord | None:
    """Bring a mirror up to date before this process changes it. Returns the record of what the changes are based on.

    The caller holds the dataset's lock. Changes that were not published, because a run was killed, failed, or may not
    write to the store, stay in the mirror if nothing was published since; otherwise they are moved aside.
    """
    found = _read_pointer(mirror, store)
    with mirror.lock("sync"):
        record = mirror.read_record()
        if found is None:
            return None
        if _is_current(mirror, record, found):
            return record
        with mirror.lock("writers", wait=False) as is_free:
            if not is_free:
                raise CatalogError(
                    f"{found.pointer.describe_publisher()} published a newer catalog while another wdsctl on this "
                    "machine uses the old one",
                    where=mirror.folder,
                    hint="run the same command again when the other wdsctl has finished",
                    code="WDS304",
                )
            return _replace(mirror, store, found, record, note)


def _read_pointer(mirror: Mirror, store: CatalogStore) -> FoundPointer | None:
    """The published pointer. Without permission to read it, None, unless the mirror has been equal to one."""
    try:
        return store.read_pointer()
    except PermissionDenied:
        # Some stores deny access to objects that do not exist. If access is denied to all, the next request reports it.
        if mirror.read_record() is not None:
            raise
        return None


def _is_current(mirror: Mirror, record: MirrorRecord | None, found: FoundPointer) -> bool:
    """Whether the mirror has all files of the pointer. They may have unpublished changes."""
    return (
        record is not None
        and record.pointer.id == found.pointer.id
        and mirror.read_applying() is None
        and mirror.has_all(record)
    )


def _replace(
    mirror: Mirror, store: CatalogStore, found: FoundPointer, record: MirrorRecord | None, note: Callable[[str], None]
) -> MirrorRecord:
    """Make the mirror equal to the pointer, and move unpublished changes aside if they are based on an older one."""
    changed = mirror.changed_names(record)
    if changed and record is not None and record.pointer.id == found.pointer.id:
        missing = [file for file in found.pointer.files if mirror.stamp(file.name) is None]
        return _restore(mirror, store, record, missing)
    newest = {file.name: file for file in found.pointer.files}
    changed = [
        name
        for name in changed
        if mirror.stamp(name) is not None and not (name in newest and mirror.is_unchanged(newest[name], None))
    ]
    if changed:
        note(set_changes_aside(mirror, changed, found.pointer))
    return apply_pointer(mirror, store, found, record)


def set_changes_aside(mirror: Mirror, changed: list[str], newer: Pointer) -> str:
    """Move changed files into a folder of the mirror. Returns a line that tells the user where they are."""
    moment = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    aside = os.path.join(mirror.folder, f"unpublished-{moment}-{os.getpid()}")
    with translate_os_errors(mirror.folder):
        for name in changed:
            for each in (name, f"{name}-journal"):
                if os.path.exists(mirror.path(each)):
                    move_path(mirror.path(each), os.path.join(aside, each))
    return (
        f"{newer.describe_publisher()} published a newer catalog: moved the unpublished changes of this machine to "
        f"{aside}"
    )


def apply_pointer(
    mirror: Mirror, store: CatalogStore, found: FoundPointer, record: MirrorRecord | None
) -> MirrorRecord:
    """Make the mirror, which has no unpublished changes, equal to the pointer.

    The caller holds the locks `sync` and `writers`.
    """
    former = mirror.read_applying()
    missing = [file for file in found.pointer.files if not mirror.is_unchanged(file, record)]
    _check_sizes(mirror, found.pointer.files, missing)
    for file in missing:
        _fetch(mirror, store, file)
    mirror.write_applying(found.pointer)
    _move_into_place(mirror, missing)
    known = {file.name for each in (former, record and record.pointer) if each for file in each.files}
    _remove_files(mirror, known - {file.name for file in found.pointer.files})
    written = mirror.write_record(found.pointer, found.tag)
    forget_ranges(mirror, found.pointer.files)
    remove_tree(mirror.control_path("incoming"))
    evict_mirrors(mirror.folder)
    return written


def _restore(mirror: Mirror, store: CatalogStore, record: MirrorRecord, missing: list[PublishedFile]) -> MirrorRecord:
    """Fetch files that were removed from a mirror whose other files have unpublished changes."""
    _check_sizes(mirror, record.pointer.files, missing)
    for file in missing:
        _fetch(mirror, store, file)
    _move_into_place(mirror, missing)
    found = {file.name: mirror.stamp(file.name) for file in missing}
    stamps = {**record.stamps, **{name: stamp for name, stamp in found.items() if stamp is not None}}
    return mirror.write_record(record.pointer, record.tag, stamps)


def _check_sizes(mirror: Mirror, files: Sequence[PublishedFile], missing: Sequence[PublishedFile]) -> None:
    """Check sizes, which the pointer states, before a byte is fetched: a checksum is only known at the end of a file.

    Raises InputError WDS421 for a catalog over the limit, StorageError WDS401 if the disk has no room for it.
    """
    size, allowed = sum(file.size for file in files), scale_limit(MAX_CATALOG_BYTES)
    if size > allowed:
        raise InputError(
            f"the published catalog has {size:,} bytes, and wdsctl fetches up to {allowed:,}",
            where=redact_secrets(mirror.url),
            hint=f"check who published it; if it is valid, {RAISE_LIMITS_HINT}",
            code="WDS421",
        )
    needed = sum(file.size for file in missing if not is_fetched_in_part(file))
    with translate_os_errors(mirror.folder):
        free = shutil.disk_usage(mirror.folder).free
    if needed > free:
        raise StorageError(
            f"the published catalog takes {needed:,} bytes, and the disk has {free:,} left",
            where=mirror.folder,
            hint="free some space, or set XDG_DATA_HOME to a folder on a larger disk",
            code="WDS401",
        )


def _fetch(mirror: Mirror, store: CatalogStore, file: PublishedFile) -> None:
    """Fetch a file to its path in `incoming`, unless a killed process has."""
    path = mirror.incoming_path(file)
    make_folder(os.path.dirname(path))
    if is_fetched_in_part(file):
        create_partial_file(mirror, store, file, path)
        return
    if os.path.exists(path):
        if os.path.getsize(path) == file.size and file_sha256(path) == file.sha256:
            return
        remove_file(path)
    store.fetch(file, f"{path}.part")
    with translate_os_errors(path):
        move_path(f"{path}.part", path)


def _move_into_place(mirror: Mirror, files: list[PublishedFile]) -> None:
    """Move fetched files into place. The catalog is last: it names the others, and a reader may open it at any time."""
    with translate_os_errors(mirror.folder):
        for file in sorted(files, key=lambda file: (file.name == CATALOG_NAME, file.name)):
            target = mirror.path(file.name)
            if os.path.exists(f"{target}-journal"):  # SQLite would apply it to the new file
                remove_file(f"{target}-journal")
            source = mirror.incoming_path(file)
            if sum(each.sha256 == file.sha256 for each in files) == 1:
                move_path(source, target)
            else:  # two names with the same content
                copy_file(source, target)


def _remove_files(mirror: Mirror, names: set[str]) -> None:
    for name in sorted(names):
        path = mirror.path(name)
        remove_file(path)
        folder = os.path.dirname(path)
        if folder != mirror.folder:
            with suppress(OSError):  # other files are in it
                remove_empty_folder(folder)
