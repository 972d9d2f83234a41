"""The keyframes of a catalog, written to a file for processes that do not open the catalog."""

from __future__ import annotations

import os
from pathlib import Path

from tests.build import a_dataset, a_shard
from tests.core.media_files import a_media_file
from wdsctl.core.catalog.browse import NameLookup
from wdsctl.core.catalog.keyframe_file import KeyframeFile, open_keyframes
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.offsets.read import Offsets

KEYFRAMES = MediaRequest(selection="auto", keyframes=True)
VIDEO = a_media_file("matroska", video="mpeg4")


def open_file(root: Path, generation: int = 1) -> KeyframeFile | None:
    return open_keyframes(locate(str(root)), generation)


def make_videos(root: Path) -> Path:
    """Two shards: samples with videos in one or two parts, and samples without a video."""
    shorter = a_media_file("matroska", video="mpeg4", times=range(3))
    first = {"0.left.mkv": VIDEO, "0.mkv": shorter, "0.txt": b"0", "1.txt": b"1", "2.mkv": shorter}
    a_dataset(root, {"a.tar": first, "b.tar": {"3.mkv": VIDEO}})
    index(str(root), media=KEYFRAMES)
    return root


def test_keyframe_file_finds_video_by_sample_id_and_part(tmp_path: Path) -> None:
    keyframes = open_file(make_videos(tmp_path))

    assert keyframes is not None
    with NameLookup(locate(str(tmp_path)).catalog_path) as names:
        for name in ("0.left.mkv", "0.mkv", "2.mkv", "3.mkv"):
            (place,) = names.find(name)
            assert keyframes.find(place.sample, name.partition(".")[2]) == names.keyframes(place)
    assert KeyframeIndex.from_bytes(keyframes.find(1 << 28, "left.mkv")).frames == 8
    assert KeyframeIndex.from_bytes(keyframes.find(1 << 28, "mkv")).frames == 3


def test_keyframe_file_returns_nothing_for_other_parts(tmp_path: Path) -> None:
    keyframes = open_file(make_videos(tmp_path))

    assert keyframes is not None
    for sample, part in ((1 << 28, "txt"), (1 << 28, "webm"), ((1 << 28) + 1, "mkv"), (9 << 28, "mkv"), (-1, "mkv")):
        assert keyframes.find(sample, part) == b""


def test_keyframe_file_is_not_written_without_videos(tmp_path: Path) -> None:
    a_dataset(tmp_path, {"a.tar": {"0.txt": b"0"}})
    index(str(tmp_path))
    without_media = open_file(tmp_path)
    index(str(tmp_path), media=KEYFRAMES)

    assert (without_media, open_file(tmp_path)) == (None, None)
    assert not list((tmp_path / ".wdsctl").glob("keyframes-*"))


def test_keyframe_file_is_written_once(tmp_path: Path) -> None:
    open_file(make_videos(tmp_path))
    path = tmp_path / ".wdsctl" / "keyframes-1.bin"
    first_stat = path.stat()

    open_file(tmp_path)

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first_stat.st_ino, first_stat.st_mtime_ns)


def test_keyframe_file_is_rewritten_if_damaged_or_outdated(tmp_path: Path) -> None:
    path = make_videos(tmp_path) / ".wdsctl" / "keyframes-1.bin"
    open_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    open_file(tmp_path)
    rewritten = path.read_bytes()
    index(str(tmp_path), media=MediaRequest(selection="left.mkv", keyframes=True))
    keyframes = open_file(tmp_path)

    assert rewritten == whole
    assert keyframes is not None
    assert (bool(keyframes.find(1 << 28, "left.mkv")), keyframes.find(1 << 28, "mkv")) == (True, b"")


def test_keyframe_file_distinguishes_replaced_shard(tmp_path: Path) -> None:
    make_videos(tmp_path)
    (tmp_path / "a.tar").write_bytes(a_shard({"0.mkv": a_media_file("matroska", video="mpeg4", times=range(5))}))
    index(str(tmp_path))
    keyframes = open_file(tmp_path, 2)
    place = locate(str(tmp_path))
    ids = {shard.path: shard.id for shard in Offsets(place.offsets_path(2)).shards}

    assert keyframes is not None
    assert keyframes.find(1 << 28, "mkv") == b"", "that was the shard as it was"
    assert KeyframeIndex.from_bytes(keyframes.find(ids["a.tar"] << 28, "mkv")).frames == 5
    assert keyframes.find(ids["b.tar"] << 28, "mkv") == keyframes.find(2 << 28, "mkv") != b""


def test_keyframe_files_of_old_generations_are_deleted(tmp_path: Path) -> None:
    make_videos(tmp_path)
    meta = tmp_path / ".wdsctl"
    (meta / "keyframes-7.bin").write_bytes(b"")

    open_file(tmp_path)

    assert [path.name for path in sorted(meta.glob("keyframes-*"))] == ["keyframes-1.bin"]


def test_open_keyframes_falls_back_to_memory_if_unwritable(tmp_path: Path) -> None:
    meta = make_videos(tmp_path) / ".wdsctl"
    os.mkdir(meta / "keyframes-1.bin")  # no file can replace this folder, whatever the user's rights

    keyframes = open_file(tmp_path)

    assert keyframes is not None
    assert KeyframeIndex.from_bytes(keyframes.find(2 << 28, "mkv")).frames == 8
