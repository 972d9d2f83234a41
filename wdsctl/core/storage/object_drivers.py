"""The calls that write whole objects, for each kind of store; `objects.py` retries them and translates their errors.

fsspec's own interface has no conditions, no versions and no unfinished uploads, so S3, Google and Azure each have a
module with the calls of their driver. All other stores, and `memory://`, are written through fsspec's generic calls.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from wdsctl.core.storage.filesystem import list_files_below
from wdsctl.core.storage.remote_errors import etag_number


class ObjectFacts(NamedTuple):
    """`tag`: identifies the version; "" if unknown. `modified`: seconds since 1970, by the store's clock; 0.0 too.

    `number`: what `etag_number` gives for the object in a listing, 0 if unknown.
    """

    size: int
    tag: str
    modified: float = 0.0
    number: int = 0


class UploadPart(NamedTuple):
    number: int  # from 1
    offset: int  # bytes
    data: bytes
    is_last: bool


class UploadSession(Protocol):
    """One upload in parts. The object appears when `complete` returns."""

    upload_id: str = ""  # aborts the upload after a crash; "" if the store removes unfinished uploads by itself
    max_in_flight: int  # parts that may be sent at the same time

    def send(self, part: UploadPart) -> Future[str]:
        """Begin to send a part. The result is the receipt for `complete`."""

    def complete(self, receipts: Sequence[str]) -> ObjectFacts:
        """Make the object appear, and return its facts as the store reports them."""

    def abort(self) -> None:
        """Drop the parts, if the store does not remove them by itself: they are invisible."""
        return


class ObjectDriver(Protocol):
    """Reads and writes whole objects. Paths are as the driver spells them. Raises the driver's errors.

    A failed condition raises an error for which `is_precondition_error` is true.
    """

    filesystem: Any
    has_conditions: bool = True  # whether the driver can send conditions; the store may still ignore them
    are_conditions_certain: bool = False

    def get(self, path: str) -> tuple[bytes, str]: ...

    def stat(self, path: str) -> ObjectFacts: ...

    def facts_of(self, listed: Mapping[str, Any]) -> ObjectFacts:
        """Convert the facts of a listing."""

    def put(self, path: str, data: bytes, if_tag: str | None, if_absent: bool) -> ObjectFacts: ...

    def begin_upload(self, path: str, if_absent: bool) -> UploadSession: ...

    def unfinished_uploads(self, folder: str) -> list[tuple[str, str]]:  # noqa: ARG002
        """(path, ID) of the uploads that were neither finished nor aborted; none if the store removes them itself."""
        return []

    def abort_upload(self, path: str, upload_id: str) -> None:  # noqa: ARG002
        """Abort an upload of any process, if the store does not remove it by itself. It may be gone already."""
        return


class BodyStream(io.BytesIO):
    """The body of a request. aiohttp closes a stream that it has sent, and drivers send it again when they retry."""

    def close(self) -> None:
        pass


def timestamp(when: Any) -> float:
    """Convert a driver's time to seconds since 1970; 0.0 if it has none."""
    if isinstance(when, datetime):
        return when.timestamp()
    return float(when) if isinstance(when, int | float) else 0.0


#: The name of a file that a generic driver is writing.
DRAFT_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.partial")


class PlainObjects(ObjectDriver):
    """Any store, through fsspec's generic calls. It has no conditions; a draft beside the file replaces the file."""

    has_conditions = False

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def get(self, path: str) -> tuple[bytes, str]:
        return self.filesystem.cat_file(path), ""

    def stat(self, path: str) -> ObjectFacts:
        self.filesystem.invalidate_cache()
        facts = self.filesystem.info(path)
        if facts["type"] == "directory":
            raise FileNotFoundError(path)
        return self.facts_of(facts)

    def facts_of(self, listed: Mapping[str, Any]) -> ObjectFacts:
        times = (timestamp(listed.get(name)) for name in ("mtime", "modified", "last_modified", "created"))
        return ObjectFacts(listed["size"], "", next((each for each in times if each), 0.0), etag_number(listed))

    def put(self, path: str, data: bytes, if_tag: str | None, if_absent: bool) -> ObjectFacts:  # noqa: ARG002
        session = self.begin_upload(path, if_absent=False)
        try:
            session.send(UploadPart(1, 0, data, is_last=True)).result()
            return session.complete(())
        except BaseException:  # Ctrl-C too: nobody else knows the draft, so nobody else would remove it
            session.abort()
            raise

    def begin_upload(self, path: str, if_absent: bool) -> UploadSession:
        return _DraftUpload(self, path, if_absent)

    def unfinished_uploads(self, folder: str) -> list[tuple[str, str]]:
        try:
            names = list(list_files_below(self.filesystem, folder))
        except FileNotFoundError:
            return []
        found = []
        for draft in names:
            above, name = posixpath.split(draft)
            if DRAFT_NAME.fullmatch(name):
                found.append((posixpath.join(above, name[1:].rsplit(".", 2)[0]), draft))
        return found

    def abort_upload(self, path: str, upload_id: str) -> None:  # noqa: ARG002
        with suppress(FileNotFoundError):
            self.filesystem.rm_file(upload_id)

    def move(self, draft: str, path: str, if_absent: bool) -> ObjectFacts:  # noqa: ARG002
        self.filesystem.mv(draft, path)
        return self.stat(path)


class _DraftUpload(UploadSession):
    """Writes a draft, and renames it."""

    max_in_flight = 1

    def __init__(self, driver: PlainObjects, path: str, if_absent: bool) -> None:
        folder, name = posixpath.split(path)
        self.upload_id = f"{folder}/.{name}.{os.urandom(8).hex()}.partial"
        self._driver = driver
        self._path = path
        self._if_absent = if_absent
        with suppress(NotImplementedError, FileExistsError):  # most stores have no folders
            driver.filesystem.makedirs(folder, exist_ok=True)
        self._file = driver.filesystem.open(self.upload_id, "wb")
        self._size = 0

    def send(self, part: UploadPart) -> Future[str]:
        future: Future[str] = Future()
        try:
            self._file.write(part.data)
        except Exception as error:  # noqa: BLE001 - drivers are third-party code, and may raise any class
            future.set_exception(error)
        else:
            self._size = part.offset + len(part.data)
            future.set_result("")
        return future

    def complete(self, receipts: Sequence[str]) -> ObjectFacts:  # noqa: ARG002
        self._file.close()
        sent = self._driver.stat(self.upload_id).size
        if sent != self._size:
            raise OSError(f"the store has {sent:,} of {self._size:,} bytes")
        return self._driver.move(self.upload_id, self._path, self._if_absent)

    def abort(self) -> None:
        with suppress(Exception):  # closing sends the rest, which may fail again
            self._file.close()
        self._driver.abort_upload(self._path, self.upload_id)


_MEMORY_LOCK = threading.RLock()


class MemoryObjects(PlainObjects):
    """`memory://`, whose files belong to one process. The tag is a hash of the contents."""

    has_conditions = True
    are_conditions_certain = True

    def get(self, path: str) -> tuple[bytes, str]:
        data = self.filesystem.cat_file(path)
        return data, _hash(data)

    def facts_of(self, listed: Mapping[str, Any]) -> ObjectFacts:
        file = self.filesystem.store[listed["name"]]
        number = etag_number({"created": file.created.timestamp()})
        return ObjectFacts(file.size, _hash(file.getbuffer()), file.modified.timestamp(), number)

    def put(self, path: str, data: bytes, if_tag: str | None, if_absent: bool) -> ObjectFacts:
        with _MEMORY_LOCK:
            self._check(path, if_tag, if_absent)
            self.filesystem.pipe_file(path, data)
            return self.stat(path)

    def move(self, draft: str, path: str, if_absent: bool) -> ObjectFacts:
        with _MEMORY_LOCK:
            self._check(path, None, if_absent)
            self.filesystem.pipe_file(path, self.filesystem.cat_file(draft))
            self.filesystem.rm_file(draft)
            return self.stat(path)

    def _check(self, path: str, if_tag: str | None, if_absent: bool) -> None:
        file = self.filesystem.store.get(path)
        if (file is not None and if_absent) or (
            if_tag is not None and (file is None or _hash(file.getbuffer()) != if_tag)
        ):
            raise FileExistsError(path)


def _hash(data: bytes | memoryview) -> str:
    return blake2b(data, digest_size=16).hexdigest()
