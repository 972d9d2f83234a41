"""Write objects to S3 and to servers that speak its protocol, and read ranges of one version, through s3fs.

Every request carries the MD5 of its bytes, so that the store refuses what was damaged on the way. The size of an object
that was written in parts is compared at the end. Its ETag follows from the MD5s on most servers, but not on all.
"""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from wdsctl.core.errors import StorageError
from wdsctl.core.storage.filesystem import begin_call, run_call
from wdsctl.core.storage.object_drivers import ObjectDriver, ObjectFacts, UploadPart, UploadSession, timestamp
from wdsctl.core.storage.remote_errors import etag_number, replaced_error, s3_error_code

_PIECE_BYTES = 1 << 20


async def read_s3_range(filesystem: Any, path: str, start: int, stop: int, mark: int) -> bytes:
    """Read a range of the version of an object whose ETag has this number (`etag_number`), or of any with 0.

    Raises `replaced_error` if the store has another version, as s3fs drops the ETag of what it reads, and StorageError
    if it sends more than the range, which s3fs would read.
    """
    bucket, key, version = filesystem.split_path(path)
    options = {"VersionId": version} if version else {}
    response = await filesystem._call_s3(  # noqa: SLF001 - so s3fs names it
        "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}", **options
    )
    async with response["Body"] as body:
        if mark and etag_number({"etag": response["ETag"]}) != mark:
            raise replaced_error(f"s3://{path}")
        return await _read_body(body, stop - start, path)


async def _read_body(body: Any, limit: int | None, path: str) -> bytes:
    from wdsctl.core.storage.http_client import read_bounded

    return await read_bounded(partial(body.read, _PIECE_BYTES), limit, f"s3://{path}")


class S3Objects(ObjectDriver):
    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def get(self, path: str) -> tuple[bytes, str]:
        async def read() -> tuple[bytes, str]:
            response = await self._request("get_object", path)
            async with response["Body"] as body:
                return await _read_body(body, None, path), response["ETag"]

        return run_call(self.filesystem, read())

    def stat(self, path: str) -> ObjectFacts:
        found = run_call(self.filesystem, self._request("head_object", path))
        return _facts(found["ContentLength"], found["ETag"], timestamp(found.get("LastModified")))

    def facts_of(self, listed: Mapping[str, Any]) -> ObjectFacts:
        return _facts(listed["size"], listed.get("ETag", ""), timestamp(listed.get("LastModified")))

    def put(self, path: str, data: bytes, if_tag: str | None, if_absent: bool) -> ObjectFacts:
        checksum = _md5(data)
        conditions = {
            **({"IfMatch": if_tag} if if_tag is not None else {}),
            **({"IfNoneMatch": "*"} if if_absent else {}),
        }
        run_call(self.filesystem, self._check_supported("put_object", conditions))
        response = run_call(
            self.filesystem,
            self._request("put_object", path, Body=data, ContentMD5=b64encode(checksum).decode(), **conditions),
        )
        tag = response["ETag"]
        return _facts(len(data), tag) if tag.strip('"') == checksum.hex() else self.stat(path)

    def begin_upload(self, path: str, if_absent: bool) -> S3Upload:
        if if_absent:
            run_call(self.filesystem, self._check_supported("complete_multipart_upload", {"IfNoneMatch": "*"}))
        response = run_call(self.filesystem, self._request("create_multipart_upload", path))
        return S3Upload(self, path, response["UploadId"], if_absent)

    def unfinished_uploads(self, folder: str) -> list[tuple[str, str]]:
        bucket, key, _ = self.filesystem.split_path(folder)
        prefix = f"{key}/" if key else ""
        found = []
        markers: dict[str, str] = {}
        while True:
            try:
                page = run_call(
                    self.filesystem,
                    self.filesystem._call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix, **markers),  # noqa: SLF001
                )
            except FileNotFoundError as error:
                if s3_error_code(error) == "NoSuchUpload":  # rclone's answer if there are none
                    return []
                raise
            found += [(f"{bucket}/{each['Key']}", each["UploadId"]) for each in page.get("Uploads", ())]
            if not page.get("IsTruncated"):
                # Some servers ignore the prefix.
                return [each for each in found if each[0].startswith(f"{bucket}/{prefix}")]
            before = markers
            markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
            if markers == before:
                raise StorageError(
                    "the list of unfinished uploads has no end: the store names the same next page again",
                    where=f"s3://{folder}",
                    hint="check the store",
                )

    def abort_upload(self, path: str, upload_id: str) -> None:
        try:
            run_call(self.filesystem, self._request("abort_multipart_upload", path, UploadId=upload_id))
        except FileNotFoundError as error:
            if s3_error_code(error) == "NoSuchBucket":
                raise

    async def _request(self, method: str, path: str, **options: Any) -> Any:
        bucket, key, _ = self.filesystem.split_path(path)
        return await self.filesystem._call_s3(method, Bucket=bucket, Key=key, **options)  # noqa: SLF001 - so s3fs names it

    async def _check_supported(self, method: str, conditions: Mapping[str, str]) -> None:
        """s3fs silently drops arguments that the installed botocore does not know."""
        await self.filesystem.set_session()
        known = self.filesystem._kwargs_helper.filter_dict(method, conditions)  # noqa: SLF001
        if len(known) < len(conditions):
            raise NotImplementedError(f"the installed botocore has no conditions for {method}: update s3fs")


class S3Upload(UploadSession):
    max_in_flight = 4

    def __init__(self, driver: S3Objects, path: str, upload_id: str, if_absent: bool) -> None:
        self.upload_id = upload_id
        self._driver = driver
        self._path = path
        self._if_absent = if_absent
        self._checksums: dict[int, bytes] = {}

    def send(self, part: UploadPart) -> Future[str]:
        return begin_call(self._driver.filesystem, self._send(part))

    def complete(self, receipts: Sequence[str]) -> ObjectFacts:
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(receipts, 1)]
        condition = {"IfNoneMatch": "*"} if self._if_absent else {}
        whole = _md5(b"".join(self._checksums[number] for number in range(1, len(parts) + 1)))
        expected = f"{whole.hex()}-{len(parts)}"
        try:
            run_call(
                self._driver.filesystem,
                self._driver._request(  # noqa: SLF001 - one class in two parts
                    "complete_multipart_upload",
                    self._path,
                    UploadId=self.upload_id,
                    MultipartUpload={"Parts": parts},
                    **condition,
                ),
            )
        except FileNotFoundError:
            # A repeated request finds no upload if the first one succeeded and its answer was lost.
            facts = self._driver.stat(self._path)
            if facts.tag.strip('"') != expected:
                raise
            return facts
        # The answer has no size, and with some servers another tag than the object.
        return self._driver.stat(self._path)

    def abort(self) -> None:
        self._driver.abort_upload(self._path, self.upload_id)

    async def _send(self, part: UploadPart) -> str:
        # In a thread: the caller reads the next part meanwhile, and the event loop sends others.
        checksum = self._checksums[part.number] = await asyncio.to_thread(_md5, part.data)
        response = await self._driver._request(  # noqa: SLF001
            "upload_part",
            self._path,
            UploadId=self.upload_id,
            PartNumber=part.number,
            Body=part.data,
            ContentMD5=b64encode(checksum).decode(),
        )
        return str(response["ETag"])


def _facts(size: int, tag: str, modified: float = 0.0) -> ObjectFacts:
    quoted = f'"{tag}"' if tag and not tag.startswith('"') else tag  # some servers do not quote it in listings
    return ObjectFacts(size, quoted, modified, etag_number({"etag": tag}))


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
