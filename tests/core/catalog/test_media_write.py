from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_scan, a_shard, samples
from tests.core.catalog.drafts import open_draft
from tests.core.dumps import query
from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.media.catalog_facts import MediaMeasures, SharedFacts
from wdsctl.core.media.media_scan import ScannedMedium
from wdsctl.core.shards.list import ShardFile

JPEG = SharedFacts("image", "JPEG", "RGB", orientation=1)
CLIP = SharedFacts("video", "mp4", codec="h264", rotation=0, frames_are="stated", has_audio=0)


def image(row: int, width: int, part: str = "jpg") -> ScannedMedium:
    return ScannedMedium(row, part, 100 + row, JPEG, MediaMeasures(width, 2 * width))


def clip(row: int, seconds: float | None, keyframes: bytes | None = None) -> ScannedMedium:
    return ScannedMedium(row, "mp4", 1000, CLIP, MediaMeasures(64, 48, seconds), keyframes)


def put(draft: CatalogDraft, shard: int, *media: ScannedMedium) -> None:
    data = a_shard(samples(shard * 10, 5))
    if draft.next_shard_ids(1)[0] == shard:
        draft.add_shard(shard, ShardFile(f"{shard}.tar", len(data), 1), a_scan(data))
    draft.media.put_shard(shard, b"mark", media)


def counts(path: str) -> list[object]:
    return query(path, "SELECT shard, name, kind, media, bytes FROM media_count JOIN ext ON ext.id = ext "
                       "JOIN media_form ON media_form.id = form ORDER BY 1, 2, 3")  # fmt: skip


def test_put_shard_writes_media_rows_and_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    with open_draft(path) as draft:
        put(draft, 1, image(0, 30), image(4, 10), clip(2, 1.5, b"k"), clip(3, None), clip(4, 0.5))

    assert query(path, "SELECT sample & 268435455, width, height, seconds FROM media WHERE sample >> 28 = 1") == [
        (0, 30, 60, None),
        (2, 64, 48, 1.5),
        (3, 64, 48, None),
        (4, 10, 20, None),
        (4, 64, 48, 0.5),
    ]
    assert query(path, "SELECT media, bytes, width_min, width_max, height_min, height_max FROM media_count") == [
        (2, 204, 10, 30, 20, 60),
        (3, 3000, 64, 64, 48, 48),
    ]
    assert query(path, "SELECT seconds, seconds_min, seconds_max FROM media_count") == [
        (None, None, None),
        (2.0, 0.5, 1.5),
    ]
    assert query(path, "SELECT sample & 268435455, data FROM keyframes") == [(2, b"k")]
    assert query(path, "SELECT * FROM media_shard") == [(1, b"mark")]


def test_put_shard_replaces_previous_media(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    with open_draft(path) as draft:
        put(draft, 1, image(0, 30), clip(2, 1.0, b"k"))
        put(draft, 2, image(0, 30))
        draft.media.put_shard(1, b"new", [image(1, 7)])

    assert counts(path) == [(1, "jpg", "image", 1, 101), (2, "jpg", "image", 1, 100)]
    assert query(path, "SELECT count(*) FROM keyframes") == [(0,)]
    assert query(path, "SELECT mark FROM media_shard") == [(b"new",), (b"mark",)]


@pytest.mark.parametrize("method", ["remove_shard", "clear"])
def test_removed_media_leave_no_rows(tmp_path: Path, method: str) -> None:
    path = str(tmp_path / "c.sqlite")
    with open_draft(path) as draft:
        put(draft, 1, image(0, 30), clip(2, 1.0, b"k"))
    with open_draft(path) as draft:
        if method == "clear":
            draft.media.clear()
        else:
            draft.remove_shard(1)

    for table in ("media", "media_count", "media_shard", "keyframes"):
        assert query(path, f"SELECT count(*) FROM {table}") == [(0,)]


def test_media_form_is_stored_once_across_drafts(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    for shard in (1, 2):
        with open_draft(path) as draft:
            put(draft, shard, image(0, 30), image(1, 40), clip(2, 1.0))
    assert query(path, "SELECT kind FROM media_form") == [("image",), ("video",)]


def test_files_are_added_changed_and_removed_with_facts(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    files = [ShardFile(name, size, 1) for name, size in (("a.jpg", 10), ("b.mp4", 20), ("c.txt", 30))]
    with open_draft(path) as draft:
        draft.media.put_files(files, [image(0, 30), clip(1, 2.0, b"k")])
        draft.media.count_files()
    assert query(path, "SELECT path, kind, width, seconds FROM v_file ORDER BY path") == [
        ("a.jpg", "image", 30, None),
        ("b.mp4", "video", 64, 2.0),
        ("c.txt", None, None, None),
    ]
    assert counts(path) == [(0, "jpg", "image", 1, 10), (0, "mp4", "video", 1, 20)]

    with open_draft(path) as draft:
        draft.media.put_files([ShardFile("a.jpg", 11, 2)], [image(0, 5)])
        draft.media.remove_files(["b.mp4", "never there"])
        draft.media.count_files()
    assert query(path, "SELECT path, size, width FROM v_file ORDER BY path") == [("a.jpg", 11, 5), ("c.txt", 30, None)]
    assert counts(path) == [(0, "jpg", "image", 1, 11)]
    assert query(path, "SELECT count(*) FROM keyframes") == [(0,)]
    assert query(path, "SELECT id FROM file WHERE path = 'a.jpg'") == [(4,)]
