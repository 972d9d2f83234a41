from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.films import a_film
from tests.core.medley import clip
from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import PAGE, ByteRange
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.media.seeking import keyframes_of
from wdsctl.core.storage import LocalStorage


def test_the_index_is_that_of_the_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"x" * 9 + clip())
    data = keyframes_of(ByteRange.whole(LocalStorage("/"), str(path), 9, len(clip())), "mp4")

    assert data is not None
    index = KeyframeIndex.from_bytes(data)
    assert (index.frames, index.numbers) == (8, (0,))


@pytest.mark.parametrize("cut", [40, 400])
def test_a_video_that_cannot_be_read_has_no_index(cut: int) -> None:
    assert keyframes_of(ByteRange.in_memory(clip()[:cut]), "mp4") is None


def test_a_sound_has_no_index() -> None:
    assert keyframes_of(ByteRange.in_memory(a_film("mp4", audio="aac")), "mp4") is None


def test_a_bad_disk_is_no_missing_index() -> None:
    def bad_disk(offset: int, size: int) -> bytes:
        raise StorageError("cannot read", hint="look at the disk", where="a.tar")

    with pytest.raises(StorageError):
        keyframes_of(ByteRange(bad_disk, len(clip()), head=clip()[:32]), "mp4")


def test_a_file_that_is_read_from_end_to_end_keeps_few_pages() -> None:
    part = ByteRange(lambda _, size: bytes(size), 9 * PAGE, most=18 * PAGE, kept=2)

    assert len(part.read() or b"") == 9 * PAGE
    assert part.fetched == 9 * PAGE
    part.seek(0)
    assert part.read(1) == b"\0"
    assert part.fetched == 10 * PAGE
