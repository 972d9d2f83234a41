"""Remember the unfinished uploads of this machine in a folder, so that the run after a kill can abort them.

One small file an upload, whose name is a hash of the URL: only one process at a time writes an object.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import blake2b

from wdsctl.core.errors import PermissionDenied, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.files import MALFORMED_ERRORS, make_folder, open_own, remove_file, write_pieces
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import open_named
from wdsctl.core.storage.objects import PART_BYTES, ObjectStore, PendingUpload, StoredObject, Upload
from wdsctl.core.urls import url_identity

_SUFFIX = ".upload"
_CONCURRENT_FILES = 4  # of a folder; each may hold a part of 16 MiB


def put_file_journaled(store: ObjectStore, path: str, url: str, folder: str) -> StoredObject:
    """Write a local file, and keep the ID of the upload in `folder` until it is finished or aborted."""
    with journaled_upload(store, url, folder) as upload, translate_os_errors(path, "read"):
        with open_named(path) as file:
            while piece := file.read(PART_BYTES):
                upload.write(piece)
        return upload.finish()


@contextmanager
def journaled_upload(store: ObjectStore, url: str, folder: str) -> Iterator[Upload]:
    """Open an upload, and keep its ID in `folder` until it is finished or aborted."""
    path = os.path.join(folder, blake2b(url_identity(url).encode(), digest_size=16).hexdigest() + _SUFFIX)

    def note(upload_id: str) -> None:
        if upload_id:
            below = url.removeprefix(store.root).lstrip("/")
            write_pieces(path, [json.dumps({"path": below, "id": upload_id}).encode()], durable=False)

    with store.open_upload(url, on_begin=note) as upload:
        yield upload
    remove_file(path)  # after `abort`, which may fail: the file then stays for the next run


def put_folder_journaled(store: ObjectStore, folder: str, url: str, journal: str) -> None:
    """Write all files of a local folder below a URL, four at a time. Replaces objects of the same names."""
    names = [
        os.path.relpath(os.path.join(above, name), folder) for above, _, found in os.walk(folder) for name in found
    ]
    if names:
        store.stat(f"{url}/{names[0]}")  # connects, once for all threads

    def put(name: str) -> None:
        put_file_journaled(store, os.path.join(folder, name), f"{url}/{name}", journal)

    with ThreadPoolExecutor(_CONCURRENT_FILES) as pool:
        for _ in pool.map(put, sorted(names)):
            pass


def abort_left_uploads(store: ObjectStore, folder: str, is_own: Callable[[str], bool]) -> int:
    """Abort the uploads that killed runs left below the store's root. Returns their number.

    These are the uploads in `folder`, and those that the store lists for objects that are ours, since a process can be
    killed before it notes an upload. `is_own` receives the path of an object below the root. Call this while no other
    process writes these objects.
    """
    make_folder(folder)
    aborted = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith(_SUFFIX):
            path = os.path.join(folder, name)
            with translate_os_errors(path, "read"), open_own(path) as file:
                upload = _parse(read_whole(file, path), store.root)
            if upload is not None:
                store.abort_upload(upload)
                aborted += 1
            remove_file(path)
    prefix = f"{store.root}/"
    with suppress(PermissionDenied):  # to list uploads is a permission of its own, and the journal has almost all
        aborted += store.abort_pending(store.root, is_own=lambda url: is_own(url.removeprefix(prefix)))
    return aborted


def _parse(data: bytes, root: str) -> PendingUpload | None:
    """Return the upload in a file of the journal; None if the file is damaged."""
    try:
        facts = read_json(data)
        below, upload_id = facts["path"], facts["id"]
    except MALFORMED_ERRORS:
        return None
    is_below = isinstance(below, str) and ".." not in below.split("/")
    return PendingUpload(f"{root}/{below}", upload_id) if is_below and isinstance(upload_id, str) else None
