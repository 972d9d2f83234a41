"""Answers of Google to the parts of an upload, which its emulator does not give."""

from __future__ import annotations

from typing import Any

import pytest
from fsspec.asyn import get_loop

from wdsctl.core.storage.google_objects import GoogleObjects, GoogleUpload
from wdsctl.core.storage.object_drivers import UploadPart

DATA = bytes(range(100))
OBJECT = b'{"size": "100", "generation": "7"}'


class ScriptedFileSystem:
    """gcsfs with answers in a given order. `sent`: the Content-Range and the body of each request."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.loop = get_loop()
        self.answers = list(answers)
        self.sent: list[tuple[str, bytes]] = []

    async def _request(self, _method: str, _path: str, *, headers: dict[str, str], data: Any) -> Any:
        self.sent.append((headers["Content-Range"], data.read()))
        status, answer_headers, answer = self.answers.pop(0)
        return status, answer_headers, None, answer


def send(filesystem: ScriptedFileSystem, part: UploadPart) -> GoogleUpload:
    upload = GoogleUpload(GoogleObjects(filesystem), "bucket/a.tar", "http://127.0.0.1:9/upload")
    upload.send(part).result()
    return upload


def test_rest_of_part_that_google_kept_in_part_is_sent_again() -> None:
    filesystem = ScriptedFileSystem((308, {"Range": "bytes=0-59"}, b""), (308, {"Range": "bytes=0-99"}, b""))
    send(filesystem, UploadPart(1, 0, DATA, is_last=False))

    assert filesystem.sent == [("bytes 0-99/*", DATA), ("bytes 60-99/*", DATA[60:])]


def test_answer_308_without_range_means_that_google_kept_nothing() -> None:
    with pytest.raises(ConnectionError, match="kept 0 of 100 bytes"):
        send(ScriptedFileSystem((308, {}, b"")), UploadPart(1, 0, DATA, is_last=False))


def test_object_is_requested_if_google_kept_last_part_without_completing_upload() -> None:
    filesystem = ScriptedFileSystem((308, {"Range": "bytes=0-99"}, b""), (200, {}, OBJECT))
    upload = send(filesystem, UploadPart(1, 0, DATA, is_last=True))

    assert filesystem.sent == [("bytes 0-99/100", DATA), ("bytes */100", b"")]
    assert upload.complete([""]).size == 100
