"""Write objects to Google Cloud Storage through gcsfs, with its JSON interface.

The tag of an object is its generation. Google refuses small objects whose MD5 differs; the MD5 of an upload in parts is
compared at the end. Google removes unfinished uploads after a week, and lists none.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

from wdsctl.core.json_text import read_json
from wdsctl.core.storage.filesystem import begin_call, run_call
from wdsctl.core.storage.object_drivers import (
    BodyStream,
    ObjectDriver,
    ObjectFacts,
    UploadPart,
    UploadSession,
    timestamp,
)
from wdsctl.core.storage.remote_errors import etag_number

_BOUNDARY = "==wdsctl=="
_INCOMPLETE_STATUS = 308  # "Resume Incomplete"


class GoogleObjects(ObjectDriver):
    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def get(self, path: str) -> tuple[bytes, str]:
        async def read() -> tuple[bytes, str]:
            generation = (await self._resource(path))["generation"]
            _, data = await self.filesystem._call("GET", self.filesystem.url(path, generation=generation))  # noqa: SLF001
            return data, str(generation)

        return run_call(self.filesystem, read())

    def stat(self, path: str) -> ObjectFacts:
        return self._facts(run_call(self.filesystem, self._resource(path)))

    def facts_of(self, listed: Mapping[str, Any]) -> ObjectFacts:
        tag = str(listed.get("generation") or "")
        return ObjectFacts(listed["size"], tag, timestamp(listed.get("mtime")), etag_number(listed))

    def put(self, path: str, data: bytes, if_tag: str | None, if_absent: bool) -> ObjectFacts:
        bucket, key, _ = self.filesystem.split_path(path)
        resource = {"name": key, "md5Hash": b64encode(_md5(data).digest()).decode()}
        # One request with the resource and the bytes, as RFC 2387 writes it.
        head = (
            f"--{_BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(resource)}\r\n"
            f"--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        body = b"".join([head.encode(), data, f"\r\n--{_BOUNDARY}--".encode()])
        created = run_call(
            self.filesystem,
            self.filesystem._call(  # noqa: SLF001 - so gcsfs names its coroutines
                "POST",
                self._upload_url(bucket),
                uploadType="multipart",
                headers={"Content-Type": f'multipart/related; boundary="{_BOUNDARY}"'},
                data=BodyStream(body),
                json_out=True,
                ifGenerationMatch="0" if if_absent else if_tag,
            ),
        )
        return self._facts(created)

    def begin_upload(self, path: str, if_absent: bool) -> GoogleUpload:
        bucket, key, _ = self.filesystem.split_path(path)
        headers, _ = run_call(
            self.filesystem,
            self.filesystem._call(  # noqa: SLF001
                "POST",
                self._upload_url(bucket),
                uploadType="resumable",
                name=key,
                json={"name": key},
                headers={"X-Upload-Content-Type": "application/octet-stream"},
                ifGenerationMatch="0" if if_absent else None,
            ),
        )
        return GoogleUpload(self, path, headers["Location"])

    async def _resource(self, path: str) -> dict[str, Any]:
        bucket, key, _ = self.filesystem.split_path(path)
        found: dict[str, Any] = await self.filesystem._call("GET", "b/{}/o/{}", bucket, key, json_out=True)  # noqa: SLF001
        return found

    def _facts(self, resource: Mapping[str, Any]) -> ObjectFacts:
        updated = resource.get("updated")
        modified = timestamp(self.filesystem._parse_timestamp(updated)) if updated else 0.0  # noqa: SLF001
        tag = str(resource.get("generation", ""))
        return ObjectFacts(int(resource.get("size", 0)), tag, modified, etag_number(resource))

    def _upload_url(self, bucket: str) -> str:
        return f"{self.filesystem._location}/upload/storage/v1/b/{quote(bucket, safe='')}/o"  # noqa: SLF001


class GoogleUpload(UploadSession):
    max_in_flight = 1  # Google takes the parts of one upload in order

    def __init__(self, driver: GoogleObjects, path: str, address: str) -> None:
        self._driver = driver
        self._path = path
        self._address = address
        self._checksum = _md5(b"")
        self._received = 0
        self._finished: dict[str, Any] = {}

    def send(self, part: UploadPart) -> Future[str]:
        if part.offset == self._received:  # a repeated part is summed once
            self._checksum.update(part.data)
            self._received += len(part.data)
        return begin_call(self._driver.filesystem, self._send(part))

    def complete(self, receipts: Sequence[str]) -> ObjectFacts:  # noqa: ARG002
        expected = b64encode(self._checksum.digest()).decode()
        if self._finished.get("md5Hash", expected) != expected:
            self._driver.filesystem.rm_file(self._path)
            raise OSError("the bytes in the store differ from the bytes sent: wdsctl removed the object")
        return self._driver._facts(self._finished)  # noqa: SLF001 - one class in two parts

    async def _send(self, part: UploadPart) -> str:
        """Send a part, and again the bytes of it that the store did not keep.

        Until an upload is complete, Google answers 308 with the range that it keeps; without a range, it keeps nothing.
        """
        start, stop = part.offset, part.offset + len(part.data)
        total = str(stop) if part.is_last else "*"
        while True:
            body = BodyStream(part.data[start - part.offset :])
            span = f"bytes {start}-{stop - 1}/{total}" if stop > start else f"bytes */{total}"
            status, headers, _, answer = await self._driver.filesystem._request(  # noqa: SLF001
                "POST", self._address, headers={"Content-Range": span}, data=body
            )
            if status != _INCOMPLETE_STATUS:
                break
            kept = int(headers["Range"].rpartition("-")[2]) + 1 if "Range" in headers else 0
            if kept >= stop and not part.is_last:
                break
            if kept <= start:
                raise ConnectionError(f"the store kept {kept:,} of {stop:,} bytes")
            start = min(kept, stop)  # if it has all bytes of the last part, ask for the object
        if part.is_last:
            self._finished = read_json(answer)
        return ""


def _md5(data: bytes) -> Any:
    return hashlib.md5(data, usedforsecurity=False)
