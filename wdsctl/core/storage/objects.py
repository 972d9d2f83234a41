"""Read, write, list and delete whole objects of one store, and download them; `remote.py` reads ranges of them."""

from __future__ import annotations

import os
import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from wdsctl.core.errors import PreconditionFailed, StorageError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.files import open_without_links
from wdsctl.core.storage.filesystem import OpenRoot, call_each, list_files_below, open_root
from wdsctl.core.storage.object_drivers import (
    DRAFT_NAME,
    MemoryObjects,
    ObjectDriver,
    ObjectFacts,
    PlainObjects,
    UploadPart,
    UploadSession,
)
from wdsctl.core.storage.remote_errors import (
    RetryPolicy,
    call_with_retries,
    is_missing_error,
    is_precondition_error,
    is_transient,
    s3_error_code,
    translate_remote,
)
from wdsctl.core.storage.storage import FileRange
from wdsctl.core.urls import is_chained, is_signed, normalize_root, protocol, redact_secrets

T = TypeVar("T")

_DEFAULT_RETRY_POLICY = RetryPolicy()
_MAX_CONCURRENT_DELETES = 16
_DOWNLOAD_BYTES = 32 << 20  # that a download holds in memory
_TAG_OF_NOTHING = '"00000000000000000000000000000000"'  # the form of an ETag, which no object has


def check_writable_url(url: str) -> str:
    """Return the URL of objects. Raises UsageError for a URL that only reads: behind a cache, or signed."""
    if not (is_chained(url) or is_signed(url)):
        return url
    raise UsageError(
        "cannot write through a cache layer or to a signed URL",
        where=redact_secrets(url),
        hint="pass the URL of the store itself, and give its driver credentials",
    )


def driver_for(filesystem: Any) -> ObjectDriver:
    """Choose the calls for a filesystem by its class, since protocols have several names."""
    kinds = {kind.__name__ for kind in type(filesystem).__mro__}
    if "S3FileSystem" in kinds:
        from wdsctl.core.storage.s3_objects import S3Objects

        return S3Objects(filesystem)
    if "GCSFileSystem" in kinds:
        from wdsctl.core.storage.google_objects import GoogleObjects

        return GoogleObjects(filesystem)
    if "AzureBlobFileSystem" in kinds:
        from wdsctl.core.storage.azure_objects import AzureObjects

        return AzureObjects(filesystem)
    return MemoryObjects(filesystem) if "MemoryFileSystem" in kinds else PlainObjects(filesystem)


class StoredObject(NamedTuple):
    """One version of an object. `tag` identifies it: an ETag, Google's generation; "" if the store has neither.

    `modified`: seconds since 1970 by the store's clock, 0.0 if unknown. `number`: what a listing of shards gives in
    place of a modification time, 0 if unknown.
    """

    url: str
    size: int
    tag: str
    modified: float = 0.0
    number: int = 0


class ObjectStore:
    """The objects below `root`, a URL; every URL that a method takes begins with it.

    Opens nothing before its first call, pickles by value, and works after a fork. Retries after transient errors.
    Raises PermissionDenied WDS402, InputError WDS002 for a bucket that does not exist, StorageDown WDS408, and
    StorageError.
    """

    def __init__(self, root: str, *, retry_policy: RetryPolicy = _DEFAULT_RETRY_POLICY) -> None:
        self.root = check_writable_url(normalize_root(root))
        self._retry_policy = retry_policy
        self._reset()

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "_retry_policy": self._retry_policy}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def get(self, url: str) -> tuple[bytes, str]:
        """Return the contents and the tag of one version. Raises StorageError WDS404 if there is no object."""
        path, driver = self._open(url)
        return self._call(lambda: driver.get(path), url, "read")

    def stat(self, url: str) -> StoredObject | None:
        """Return the facts of an object, None if it does not exist."""
        path, driver = self._open(url)

        def request() -> ObjectFacts | None:
            try:
                return driver.stat(path)
            except Exception as error:
                if is_missing_error(error):
                    return None
                raise

        facts = self._call(request, url, "read")
        return None if facts is None else StoredObject(url, *facts)

    def list(self, prefix_url: str) -> list[StoredObject]:
        """List all objects below a folder, sorted by URL. Cost: a request per 1,000 objects."""
        folder, driver = self._open(prefix_url)
        filesystem = driver.filesystem

        def find() -> dict[str, Any]:
            filesystem.invalidate_cache()
            try:
                found: Any = list_files_below(filesystem, folder)
                return found if isinstance(found, dict) else {}  # adlfs returns a list if the URL is that of an object
            except FileNotFoundError as error:
                if s3_error_code(error) == "NoSuchBucket":
                    raise
                return {}

        base = f"{folder.rstrip('/')}/"
        found = self._call(find, prefix_url, "list")
        listed = {
            f"{prefix_url.rstrip('/')}/{name.removeprefix(base)}": driver.facts_of(facts)
            for name, facts in found.items()
            if name.startswith(base) and not name.endswith("/") and not DRAFT_NAME.fullmatch(posixpath.basename(name))
        }
        return [StoredObject(url, *listed[url]) for url in sorted(listed)]

    def put(self, url: str, data: bytes, *, if_tag: str | None = None, if_absent: bool = False) -> StoredObject:
        """Write a small object in one request. `if_tag`: replace only this version. `if_absent`: only create.

        An object that already has exactly these bytes counts as written: a repeated request may find its own result.
        Raises PreconditionFailed WDS418 if another writer was first, StorageError WDS419 if the store or its driver
        has no conditions.
        """
        is_conditional = if_tag is not None or if_absent
        if is_conditional:
            self._check_conditions(url)
        path, driver = self._open(url)

        def request() -> ObjectFacts:
            try:
                return driver.put(path, data, if_tag, if_absent)
            except Exception as error:
                if s3_error_code(error) == "ConditionalRequestConflict":
                    raise ConnectionError("another request writes this object now") from error
                is_failed = is_precondition_error(error) or (if_tag is not None and is_missing_error(error))
                if not is_conditional or not is_failed or s3_error_code(error) == "NoSuchBucket":
                    raise
                return self._own_object(path, data, url, error)

        return self._checked(url, len(data), self._call(request, url, "write"))

    def put_file(self, path: str, url: str, *, if_absent: bool = False) -> StoredObject:
        """Write a local file, in parts if it is large. Conditions as for `put`."""
        with translate_os_errors(path, "read"):
            file = open(open_without_links(path), "rb", buffering=0)  # noqa: SIM115 - the next line closes it
        with file, self.open_upload(url, if_absent=if_absent) as upload:
            while True:
                with translate_os_errors(path, "read"):
                    piece = file.read(PART_BYTES)
                if not piece:
                    break
                upload.write(piece)
            return upload.finish()

    def open_upload(
        self, url: str, *, if_absent: bool = False, on_begin: Callable[[str], None] = lambda _: None
    ) -> Upload:
        """Open a stream of bytes to one object. `on_begin` receives the ID of an upload in parts, to abort it later."""
        return Upload(self, url, if_absent=if_absent, on_begin=on_begin)

    def delete(self, urls: Iterable[str]) -> None:
        """Delete objects with concurrent requests. Missing ones are fine."""
        remaining = list(urls)
        for start in range(0, len(remaining), _MAX_CONCURRENT_DELETES):
            batch = remaining[start : start + _MAX_CONCURRENT_DELETES]
            paths = [self._open(url)[0] for url in batch]
            filesystem = self._open(batch[0])[1].filesystem

            def request(filesystem: Any = filesystem, batch: list[str] = batch, paths: list[str] = paths) -> None:
                for url, error in zip(batch, call_each(filesystem, "rm_file", paths), strict=True):
                    if not isinstance(error, Exception) or is_missing_error(error):
                        continue
                    if is_transient(error):
                        raise error  # all are deleted again
                    raise translate_remote(error, url, "delete")

            self._call(request, batch[0], "delete")

    def pending(self, prefix_url: str) -> Sequence[PendingUpload]:
        """List the unfinished uploads below a folder, of any writer. Google and Azure list none, and remove them."""
        folder, driver = self._open(prefix_url)
        base = f"{folder.rstrip('/')}/"
        found = self._call(lambda: driver.unfinished_uploads(folder), prefix_url, "list")
        return [
            PendingUpload(f"{prefix_url.rstrip('/')}/{each.removeprefix(base)}", upload_id) for each, upload_id in found
        ]

    def abort_upload(self, upload: PendingUpload) -> None:
        """Abort an upload of any process. It may be gone already."""
        path, driver = self._open(upload.url)
        self._call(lambda: driver.abort_upload(path, upload.upload_id), upload.url, "abort the upload")

    def abort_pending(self, prefix_url: str, *, is_own: Callable[[str], bool] = lambda _: True) -> int:
        """Abort the unfinished uploads below a folder whose URLs are ours. Returns their number.

        Call this while no other process writes these objects.
        """
        found = [each for each in self.pending(prefix_url) if is_own(each.url)]
        for each in found:
            self.abort_upload(each)
        return len(found)

    def _reset(self) -> None:
        self._opened: tuple[OpenRoot, ObjectDriver] | None = None
        self._pid = os.getpid()
        self._has_checked_conditions = False

    def _open(self, url: str) -> tuple[str, ObjectDriver]:
        """Return the path of a URL as the driver spells it, and the calls of the driver."""
        if url != self.root and not url.startswith(f"{self.root}/"):
            hint = "open the folder that contains the object"
            raise UsageError(f"the object is not below {redact_secrets(self.root)}", where=url, hint=hint)
        if self._opened is None or self._pid != os.getpid():
            opened = open_root(self.root)
            self._reset()
            self._opened = opened, driver_for(opened.filesystem)
        return self._opened[0].path(url), self._opened[1]

    def _call(self, call: Callable[[], T], url: str, verb: str) -> T:
        return call_with_retries(call, url, verb, self._retry_policy)

    def _begin_upload(self, url: str, if_absent: bool, on_begin: Callable[[str], None]) -> UploadSession:
        if if_absent:
            self._check_conditions(url)
        path, driver = self._open(url)
        session = self._call(lambda: driver.begin_upload(path, if_absent), url, "write")
        on_begin(session.upload_id)
        return session

    def _finish_upload(self, url: str, session: UploadSession, receipts: Sequence[str], size: int) -> StoredObject:
        def complete() -> ObjectFacts:
            try:
                return session.complete(receipts)
            except Exception as error:
                if is_precondition_error(error):
                    raise _precondition_failed(url) from error
                raise

        return self._checked(url, size, self._call(complete, url, "write"))

    def _own_object(self, path: str, data: bytes, url: str, error: Exception) -> ObjectFacts:
        """Return the facts of an object that refused a condition, if it has these bytes. Raises PreconditionFailed."""
        driver = self._open(url)[1]
        with suppress(FileNotFoundError):
            contents, tag = driver.get(path)
            if contents == data:
                return ObjectFacts(len(data), tag)
        raise _precondition_failed(url) from error

    def _checked(self, url: str, size: int, facts: ObjectFacts) -> StoredObject:
        """Return the object that was written. Raises StorageError WDS420 if the store has another size."""
        if facts.size == size:
            return StoredObject(url, *facts)
        self.delete([url])
        raise StorageError(
            f"the store received {facts.size:,} bytes, expected {size:,}; wdsctl removed the object",
            where=redact_secrets(url),
            hint="run the same command again; if the error repeats, check the network and any proxy between here "
            "and the store",
            code="WDS420",
        )

    def _check_conditions(self, url: str) -> None:
        """Raise StorageError WDS419 if the store ignores conditions, which servers do without an error.

        Cost, once per instance: five requests about a small object beside `url`.
        """
        path, driver = self._open(url)
        if self._has_checked_conditions or driver.are_conditions_certain:
            return
        if not driver.has_conditions:
            raise _no_conditions_error(url, f"wdsctl does not support conditional writes for {protocol(url)}://")
        folder = posixpath.dirname(url)
        probe = f"{folder}/.wdsctl-probe-{os.urandom(8).hex()}"
        inner = f"{posixpath.dirname(path)}/{posixpath.basename(probe)}"
        self.put(probe, b"probe")
        try:
            for if_tag, if_absent in ((None, True), (_TAG_OF_NOTHING, False)):
                self._check_refused(probe, lambda: driver.put(inner, b"other", if_tag, if_absent))  # noqa: B023
        finally:
            self.delete([probe])
        self._has_checked_conditions = True

    def _check_refused(self, probe: str, call: Callable[[], ObjectFacts]) -> None:
        def is_refused() -> bool:
            try:
                call()
            except NotImplementedError as error:
                raise _no_conditions_error(probe, str(error)) from error
            except Exception as error:
                if not is_precondition_error(error):
                    raise
                return True
            return False

        if not self._call(is_refused, probe, "write"):
            raise _no_conditions_error(probe, "the store ignores the conditions If-Match and If-None-Match")


class PendingUpload(NamedTuple):
    """An upload in parts that was neither finished nor aborted."""

    url: str
    upload_id: str


def _precondition_failed(url: str) -> PreconditionFailed:
    return PreconditionFailed(
        "another writer created or replaced this object first",
        where=redact_secrets(url),
        hint="run the same command again: it continues from the new version",
    )


def _no_conditions_error(url: str, why: str) -> StorageError:
    return StorageError(
        f"{why}: two writers could overwrite each other unnoticed",
        where=redact_secrets(url),
        hint="use a store with conditional writes (S3, Google, Azure, MinIO, R2), or update the driver",
        code="WDS419",
    )


PART_BYTES = 16 << 20  # S3 takes parts of 5 MiB to 5 GiB
_PARTS_PER_SIZE = 1000  # parts before their size doubles: S3 takes 10,000, so that 5 TiB fit


class Upload:
    """Bytes on their way to one object, which appears when `finish` returns.

    Hold it in a `with` block, which aborts it unless it was finished. Memory: a part is filled while up to four are
    being sent, 80 MiB in all; parts grow after the first 16 GiB.
    """

    def __init__(self, store: ObjectStore, url: str, *, if_absent: bool, on_begin: Callable[[str], None]) -> None:
        self.url = url
        self.size_bytes = 0
        self._store = store
        self._if_absent = if_absent
        self._on_begin = on_begin
        self._part_bytes = PART_BYTES
        self._session: UploadSession | None = None
        self._pieces: list[bytes | memoryview] = []
        self._buffered_bytes = 0
        self._sent_bytes = 0
        self._part_count = 0
        self._in_flight: deque[tuple[UploadPart, Future[str]]] = deque()
        self._receipts: list[str] = []
        self._is_closed = False

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, which must not change later. Waits while too many parts are being sent."""
        rest: bytes | memoryview = data
        # The last part is sent by `finish`, so one byte always stays behind.
        while self._buffered_bytes + len(rest) > self._part_bytes:
            room = self._part_bytes - self._buffered_bytes
            view = memoryview(rest)
            self._pieces.append(rest if room == len(rest) else view[:room])
            self._buffered_bytes += room
            rest = view[room:]
            if self._session is None:
                self._session = self._store._begin_upload(self.url, self._if_absent, self._on_begin)  # noqa: SLF001
            self._send_part(self._session, is_last=False)
        self._pieces.append(rest)
        self._buffered_bytes += len(rest)
        self.size_bytes += len(data)

    def finish(self) -> StoredObject:
        """Send the rest and make the object appear. Raises what `ObjectStore.put` raises."""
        if self._session is None:
            stored = self._store.put(self.url, self._take_buffer(), if_absent=self._if_absent)
        else:
            self._send_part(self._session, is_last=True)
            while self._in_flight:
                self._wait_for_part(self._session)
            stored = self._store._finish_upload(self.url, self._session, self._receipts, self.size_bytes)  # noqa: SLF001
        self._is_closed = True
        return stored

    def abort(self) -> None:
        """Drop what was sent. Raises WdsctlErrors if the store does not answer; nothing has become visible."""
        if self._is_closed:
            return
        self._is_closed = True
        self._pieces = []
        for _, future in self._in_flight:
            future.cancel()
        self._in_flight.clear()
        if self._session is not None:
            self._store._call(self._session.abort, self.url, "abort the upload")  # noqa: SLF001

    def __enter__(self) -> Upload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The next run aborts what this one could not: the first error is the one to report.
        with suppress(WdsctlError):
            self.abort()

    def _take_buffer(self) -> bytes:
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._buffered_bytes = [], 0
        return bytes(piece)  # no copy if it is `bytes`

    def _send_part(self, session: UploadSession, *, is_last: bool) -> None:
        while len(self._in_flight) >= session.max_in_flight:
            self._wait_for_part(session)
        self._part_count += 1
        part = UploadPart(self._part_count, self._sent_bytes, self._take_buffer(), is_last)
        self._in_flight.append((part, session.send(part)))
        self._sent_bytes += len(part.data)
        if self._part_count % _PARTS_PER_SIZE == 0:
            self._part_bytes *= 2

    def _wait_for_part(self, session: UploadSession) -> None:
        """Wait for the oldest part, and send it again if that may help."""
        part, first = self._in_flight.popleft()
        futures = [first]

        def receive() -> str:
            return (futures.pop() if futures else session.send(part)).result()

        self._receipts.append(self._store._call(receive, self.url, "write"))  # noqa: SLF001


def download(objects: Sequence[StoredObject], path: str) -> None:
    """Write objects into one new file, one after another. Memory: 32 MiB, whatever their sizes."""
    from wdsctl.core.storage.remote import FsspecStorage

    folder = objects[0].url.rpartition("/")[0]
    ranges = [
        FileRange(each.url, start, min(_DOWNLOAD_BYTES, each.size - start))
        for each in objects
        for start in range(0, each.size, _DOWNLOAD_BYTES)
    ]
    with closing(FsspecStorage(folder)) as storage, translate_os_errors(path), open(path, "xb") as file:
        while ranges:
            count, total = 1, ranges[0].size
            while count < len(ranges) and total + ranges[count].size <= _DOWNLOAD_BYTES:
                total += ranges[count].size
                count += 1
            file.writelines(storage.read_many(ranges[:count]))
            del ranges[:count]
