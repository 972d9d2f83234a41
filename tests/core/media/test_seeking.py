from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.media_files import a_media_file
from tests.core.media_samples import clip
from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import PAGE_BYTES, ByteRangeFile
from wdsctl.core.media.keyframes import KeyframeIndex, read_keyframe_index
from wdsctl.core.storage.storage import LocalStorage


def test_read_keyframe_index_returns_index_of_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"x" * 9 + clip())
    data = read_keyframe_index(ByteRangeFile.for_full_read(LocalStorage("/"), str(path), 9, len(clip())), "mp4")

    assert data is not None
    index = KeyframeIndex.from_bytes(data)
    assert (index.frames, index.frame_numbers) == (8, (0,))


@pytest.mark.parametrize("cut", [40, 400])
def test_read_keyframe_index_of_unreadable_video_is_none(cut: int) -> None:
    assert read_keyframe_index(ByteRangeFile.from_bytes(clip()[:cut]), "mp4") is None


def test_read_keyframe_index_of_audio_is_none() -> None:
    assert read_keyframe_index(ByteRangeFile.from_bytes(a_media_file("mp4", audio="aac")), "mp4") is None


def test_read_keyframe_index_raises_storage_error() -> None:
    def bad_disk(offset: int, size: int) -> bytes:
        raise StorageError("cannot read", hint="look at the disk", where="a.tar")

    with pytest.raises(StorageError):
        read_keyframe_index(ByteRangeFile(bad_disk, len(clip()), head=clip()[:32]), "mp4")


def test_byte_range_file_full_read_keeps_few_pages() -> None:
    part = ByteRangeFile(lambda _, size: bytes(size), 9 * PAGE_BYTES, max_read_bytes=18 * PAGE_BYTES, max_kept_pages=2)

    assert len(part.read() or b"") == 9 * PAGE_BYTES
    assert part.fetched_bytes == 9 * PAGE_BYTES
    part.seek(0)
    assert part.read(1) == b"\0"
    assert part.fetched_bytes == 10 * PAGE_BYTES
