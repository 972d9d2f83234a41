from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image, rewrite_shard, samples, some_shards, split_by_ratios, tree
from tests.core.dumps import catalog_of
from tests.core.media_files import a_media_file, a_wav
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.inspect.inspect import PartSummary, inspect
from wdsctl.core.media.facts import AudioFacts, Unreadable, VideoFacts


@pytest.mark.usefixtures("place")
def test_inspect_counts_match_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.jpg": b"abc", "1.txt": b""}, "b.tar": {"2.jpg": b"de"}})
    index(root)
    report = inspect(root)

    assert (report.shards, report.samples, report.generation) == (2, 2, 1)
    assert report.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert report.catalog_bytes == catalog_of(root).stat().st_size
    assert [(p.name, p.samples, p.share, p.size_bytes, p.empty) for p in report.parts] == [
        ("jpg", 2, 1.0, 5, 0),
        ("txt", 1, 0.5, 0, 1),
    ]
    assert [(line.path, line.samples, line.status) for line in report.shard_list] == [
        ("a.tar", 1, "ok"),
        ("b.tar", 1, "ok"),
    ]
    assert (report.stale, report.splits, report.sample_type) == ((), (), "CrudeSample")


@pytest.mark.usefixtures("place")
def test_inspect_shows_parts_of_first_samples(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"hello\nworld", "1.bin": b""}, "b.tar": {"2.txt": b"two"}})
    index(root)

    (first,) = inspect(root, samples=1).first
    assert (first.key, first.shard) == ("1", "a.tar")
    assert first.parts == (
        PartSummary(name="txt", size_bytes=11, preview="hello world"),
        PartSummary(name="bin", size_bytes=0, preview="empty"),
    )
    assert [line.key for line in inspect(root, samples=9).first] == ["1", "2"]
    assert inspect(root, samples=0).first == ()


@pytest.mark.usefixtures("place")
def test_inspect_shows_media_facts_of_first_samples(tmp_path: Path) -> None:
    mp4_bytes = a_media_file("mp4", video="libx264", audio="aac")
    root = a_dataset(
        tmp_path, {"a.tar": {"1.mp4": mp4_bytes, "1.wav": a_wav(), "1.txt": b"words", "1.png": b"\x89PNG\r\n\x1a\n"}}
    )
    index(root)

    video, sound, text, image = inspect(root, samples=1).first[0].parts
    assert video.preview == "64x48 h264 24 fps 0.33 s, sound: aac 2 ch 48 kHz"
    assert isinstance(video.facts, VideoFacts)
    assert isinstance(sound.facts, AudioFacts)
    assert text.facts is None
    assert image.facts == Unreadable(reason="its header is damaged or cut off")


def test_inspect_reports_splits_and_dataset_yaml(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 10)
    index(root)
    split_by_ratios(root, {"train": 9, "val": 1})
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text(
        "sample_type: CaptioningSample\nfield_map: {image: jpg, caption: txt}\n"
    )
    report = inspect(root)

    assert [(s.name, s.share, s.shards, s.samples) for s in report.splits] == [("train", 9, 9, 45), ("val", 1, 1, 5)]
    assert (report.sample_type, report.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})


def test_inspect_reports_stale_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    rewrite_shard(tmp_path / "shard-001.tar", samples(50, 1))
    (tmp_path / "shard-002.tar").unlink()
    some_shards(tmp_path, 1, first=3)
    report = inspect(root, samples=12)

    assert [(found.code, found.shard) for found in report.stale] == [
        ("WDS305", "shard-003.tar"),
        ("WDS305", "shard-001.tar"),
        ("WDS305", "shard-002.tar"),
    ]
    assert [(shard.path, shard.status) for shard in report.shard_list] == [
        ("shard-000.tar", "ok"),
        ("shard-001.tar", "changed"),
        ("shard-002.tar", "missing"),
    ]
    assert report.samples == 15
    assert report.first[-1].parts[0].preview == "missing"


@pytest.mark.usefixtures("place")
def test_inspect_continues_with_truncated_shard(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    rewrite_shard(tmp_path / "shard-000.tar", b"tiny")

    assert inspect(root).first[0].parts[0].preview == "cannot be read"


def test_inspect_does_not_report_excluded_shards_as_new(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root, exclude=["*-001.tar"])

    assert inspect(root).stale == ()


@pytest.mark.parametrize(("content", "word"), [(None, "missing"), (b"rubbish" * 99, "damaged")])
@pytest.mark.parametrize("has_rows", [True, False])
def test_inspect_without_offsets_file_shows_catalog_content(
    tmp_path: Path, content: bytes | None, word: str, *, has_rows: bool
) -> None:
    root = some_shards(tmp_path, 2)
    index(root, sample_rows=has_rows)
    path = tmp_path / ".wdsctl" / "offsets-1.bin"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    report = inspect(root)

    assert (report.samples, len(report.shard_list), len(report.first)) == (10, 2, 3 if has_rows else 0)
    (finding,) = report.stale
    assert finding.code == "WDS302"
    assert finding.message == f"the offsets file is {word}; run `wdsctl index {root}` to write it again"


def test_inspect_without_sample_rows_reads_first_samples_from_offsets(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    samples_of_rows = inspect(root).first
    index(root, sample_rows=False)

    assert inspect(root).first == samples_of_rows


def test_inspect_of_catalog_without_totals_is_identical(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.jpg": an_image("JPEG"), "1.txt": b"a"}, "b.tar": b"no tar"})
    index(root, media=MediaRequest(selection="jpg"))
    before = inspect(root)
    with closing(sqlite3.connect(catalog_of(root))) as connection, connection:
        connection.execute("DELETE FROM meta WHERE key = 'totals'")

    assert inspect(root) == replace(before, catalog_bytes=catalog_of(root).stat().st_size)
    assert before.media is not None
    assert before.statuses == {"bad": 1, "ok": 1}


def test_inspect_lists_at_most_1000_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1_003)
    index(root)
    report = inspect(root)

    assert (report.shards, report.looked_at, report.statuses) == (1_003, 1_000, {"ok": 1_003})
    assert [line.path for line in report.shard_list] == sorted(f"shard-{i:03}.tar" for i in range(1_003))[:1_000]


@pytest.mark.usefixtures("faulty_store")
def test_inspect_of_many_remote_shards_compares_size_of_those_it_reads(tmp_path: Path) -> None:
    url = "faulty://store/shards"
    local = some_shards(tmp_path, 1_001)
    upload_shards(local, url)
    index(url)
    rewrite_shard(tmp_path / "shard-001.tar", samples(50, 1))
    upload_shards(local, url)
    FaultyFileSystem.metadata_requests.clear()
    report = inspect(url, samples=12)

    assert [(found.code, found.shard) for found in report.stale] == [("WDS403", "shard-001.tar")]
    assert len(FaultyFileSystem.metadata_requests) < 150


def test_inspect_writes_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    before = tree(root)
    inspect(root)

    assert tree(root) == before


def test_inspect_without_catalog_hints_at_prepare(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        inspect(some_shards(tmp_path, 1))
    assert caught.value.code == "WDS301"
    assert "wdsctl prepare" in caught.value.hint


def test_inspect_counts_samples_without_mapped_fields(tmp_path: Path) -> None:
    files = {**samples(0, 7, "jpg", "cls"), **samples(7, 1, "png", "cls"), **samples(8, 4, "jpg", "cls")}
    del files["000003.cls"]
    index(root := a_dataset(tmp_path, {"a.tar": files}))
    yaml = catalog_of(root).with_name("dataset.yaml")
    yaml.write_text("sample_type: ImageClassificationSample\nfield_map: {image: 'jpg,png', label: cls}\n")
    assert inspect(root).absent_fields == {"label": 1}
    yaml.write_text("sample_type: ImageSample\nfield_map: {image: jpg}\n")
    assert inspect(root).absent_fields == {"image": 1}
    yaml.write_text("sample_type: CrudeSample\nfield_map: {images: '*.jpg'}\n")
    assert inspect(root).absent_fields == {}
