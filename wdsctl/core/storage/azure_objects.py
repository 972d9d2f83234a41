"""Write blobs to Azure through the client of adlfs.

Every block carries its MD5, which Azure checks. Blocks that were never committed are invisible, and Azure removes them
after a week.
"""

from __future__ import annotations

import asyncio
import errno
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from wdsctl.core.storage.answer_limits import GRACE_SECONDS, MAX_WHOLE_BYTES, MIN_BYTES_PER_SECOND
from wdsctl.core.storage.filesystem import begin_call, run_call
from wdsctl.core.storage.object_drivers import (
    BodyStream,
    ObjectDriver,
    ObjectFacts,
    UploadPart,
    UploadSession,
    timestamp,
)
from wdsctl.core.storage.remote_errors import etag_number, ignored_range_error

_METADATA = {"is_directory": "false"}  # by which adlfs tells blobs from folders


async def read_azure_range(filesystem: Any, path: str, start: int, stop: int) -> bytes:
    """Read a range of a blob. Raises StorageError if the store sends more, which adlfs would read."""
    from azure.core.exceptions import ResourceNotFoundError

    container, key, version = filesystem.split_path(path)
    async with filesystem.service_client.get_blob_client(container, key) as blob:
        try:
            stream = await blob.download_blob(
                offset=start,
                length=stop - start,
                version_id=version,
                max_concurrency=1,
                raw_response_hook=partial(_check_length, path, stop - start),
            )
            data: bytes = await asyncio.wait_for(stream.readall(), _seconds_for(stop - start))
        except ResourceNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        return data


def _check_length(path: str, limit: int, response: Any) -> None:
    """Raise StorageError, before the answer is read, unless it states a length of at most `limit` bytes."""
    if response.http_response.status_code not in (200, 206):
        return
    stated = response.http_response.headers.get("Content-Length", "")
    if not stated.isdecimal() or int(stated) > limit:
        raise ignored_range_error(f"az://{path}", int(stated) if stated.isdecimal() else limit + 1, limit)


def _seconds_for(size: int) -> float:
    return GRACE_SECONDS + size / MIN_BYTES_PER_SECOND


class AzureObjects(ObjectDriver):
    are_conditions_certain = True

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def get(self, path: str) -> tuple[bytes, str]:
        async def read() -> tuple[bytes, str]:
            async with self._client(path) as blob:
                stream = await blob.download_blob(raw_response_hook=partial(_check_length, path, MAX_WHOLE_BYTES))
                return await stream.readall(), stream.properties.etag

        return run_call(self.filesystem, read())

    def stat(self, path: str) -> ObjectFacts:
        async def request() -> ObjectFacts:
            async with self._client(path) as blob:
                found = await blob.get_blob_properties()
                return _facts(found.size, found)

        return run_call(self.filesystem, request())

    def facts_of(self, listed: Mapping[str, Any]) -> ObjectFacts:
        return _facts(listed["size"], listed)

    def put(self, path: str, data: bytes, if_tag: str | None, if_absent: bool) -> ObjectFacts:
        async def request() -> ObjectFacts:
            async with self._client(path) as blob:
                written = await blob.upload_blob(
                    BodyStream(data),
                    length=len(data),
                    overwrite=True,  # the conditions below decide
                    metadata=_METADATA,
                    validate_content=True,
                    headers=_conditions(if_tag, if_absent),
                )
                return _facts(len(data), written)

        return run_call(self.filesystem, request())

    def begin_upload(self, path: str, if_absent: bool) -> AzureUpload:
        return AzureUpload(self, path, if_absent)

    def _client(self, path: str) -> Any:
        container, key, _ = self.filesystem.split_path(path)
        return self.filesystem.service_client.get_blob_client(container, key)


class AzureUpload(UploadSession):
    max_in_flight = 4

    def __init__(self, driver: AzureObjects, path: str, if_absent: bool) -> None:
        self._driver = driver
        self._path = path
        self._if_absent = if_absent
        self._token = os.urandom(8).hex()  # blocks of another upload of this blob must not be mixed in
        self._size = 0

    def send(self, part: UploadPart) -> Future[str]:
        self._size = max(self._size, part.offset + len(part.data))
        return begin_call(self._driver.filesystem, self._send(part))

    def complete(self, receipts: Sequence[str]) -> ObjectFacts:
        from azure.storage.blob import BlobBlock

        async def commit() -> ObjectFacts:
            async with self._driver._client(self._path) as blob:  # noqa: SLF001 - one class in two parts
                written = await blob.commit_block_list(
                    [BlobBlock(block) for block in receipts],
                    metadata=_METADATA,
                    headers=_conditions(None, self._if_absent),
                )
                return _facts(self._size, written)

        return run_call(self._driver.filesystem, commit())

    async def _send(self, part: UploadPart) -> str:
        block = b64encode(f"{self._token}-{part.number:06}".encode()).decode()
        async with self._driver._client(self._path) as blob:  # noqa: SLF001
            await blob.stage_block(block, BodyStream(part.data), length=len(part.data), validate_content=True)
        return block


def _facts(size: int, facts: Any) -> ObjectFacts:
    tag = facts.get("etag") or ""
    return ObjectFacts(size, tag, timestamp(facts.get("last_modified")), etag_number({"etag": tag}))


def _conditions(if_tag: str | None, if_absent: bool) -> dict[str, str]:
    return {"If-Match": if_tag} if if_tag is not None else {"If-None-Match": "*"} if if_absent else {}
