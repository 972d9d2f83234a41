from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image, rewritten, samples, some_shards, tree
from tests.core.dumps import catalog_of
from tests.core.films import a_film, a_wav
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.inspect.inspect import PartSummary, inspect
from wdsctl.core.media.facts import AudioFacts, Unreadable, VideoFacts
from wdsctl.core.split.split import split_by_ratios


@pytest.mark.usefixtures("place")
def test_counts_are_those_of_the_shards(tmp_path: Path) -> None:
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
def test_the_first_samples_are_shown_part_by_part(tmp_path: Path) -> None:
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
def test_media_among_the_first_samples_have_their_facts(tmp_path: Path) -> None:
    film = a_film("mp4", video="libx264", audio="aac")
    root = a_dataset(
        tmp_path, {"a.tar": {"1.mp4": film, "1.wav": a_wav(), "1.txt": b"words", "1.png": b"\x89PNG\r\n\x1a\n"}}
    )
    index(root)

    video, sound, text, image = inspect(root, samples=1).first[0].parts
    assert video.preview == "64x48 h264 24 fps 0.33 s, sound: aac 2 ch 48 kHz"
    assert isinstance(video.facts, VideoFacts)
    assert isinstance(sound.facts, AudioFacts)
    assert text.facts is None
    assert image.facts == Unreadable(reason="its header is damaged or cut off")


def test_splits_and_dataset_yaml_are_told(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 10)
    index(root)
    split_by_ratios(root, {"train": 9, "val": 1})
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text(
        "sample_type: CaptioningSample\nfield_map: {image: jpg, caption: txt}\n"
    )
    report = inspect(root)

    assert [(s.name, s.share, s.shards, s.samples) for s in report.splits] == [("train", 9, 9, 45), ("val", 1, 1, 5)]
    assert (report.sample_type, report.field_map) == ("CaptioningSample", {"image": "jpg", "caption": "txt"})


def test_what_is_out_of_date_is_told_shard_by_shard(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    rewritten(tmp_path / "shard-001.tar", samples(50, 1))
    (tmp_path / "shard-002.tar").unlink()
    some_shards(tmp_path, 1, first=3)
    report = inspect(root, samples=12)

    assert [(found.code, found.shard) for found in report.stale] == [
        ("WDS305", "shard-003.tar"),
        ("WDS305", "shard-001.tar"),
        ("WDS305", "shard-002.tar"),
    ]
    assert report.samples == 15
    assert report.first[-1].parts[0].preview == "missing"


@pytest.mark.usefixtures("place")
def test_a_shard_that_shrank_does_not_stop_it(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    rewritten(tmp_path / "shard-000.tar", b"tiny")

    assert inspect(root).first[0].parts[0].preview == "cannot be read"


def test_shards_that_were_excluded_are_not_called_new(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root, exclude=["*-001.tar"])

    assert inspect(root).stale == ()


@pytest.mark.parametrize(("content", "word"), [(None, "missing"), (b"rubbish" * 99, "damaged")])
@pytest.mark.parametrize("has_rows", [True, False])
def test_without_the_offsets_file_all_is_shown_that_the_catalog_has(
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


def test_where_samples_have_no_rows_the_first_ones_come_from_the_offsets_file(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    of_rows = inspect(root).first
    index(root, sample_rows=False)

    assert inspect(root).first == of_rows


def test_a_catalog_without_totals_is_told_as_one_with_them(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.jpg": an_image("JPEG"), "1.txt": b"a"}, "b.tar": b"no tar"})
    index(root, media=MediaRequest(selection="jpg"))
    before = inspect(root)
    with closing(sqlite3.connect(catalog_of(root))) as connection, connection:
        connection.execute("DELETE FROM meta WHERE key = 'totals'")

    assert inspect(root) == replace(before, catalog_bytes=catalog_of(root).stat().st_size)
    assert before.media is not None
    assert before.statuses == {"bad": 1, "ok": 1}


def test_shards_beyond_the_first_thousand_are_counted_and_not_listed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1_003)
    index(root)
    report = inspect(root)

    assert (report.shards, report.looked_at, report.statuses) == (1_003, 1_000, {"ok": 1_003})
    assert [line.path for line in report.shard_list] == sorted(f"shard-{i:03}.tar" for i in range(1_003))[:1_000]


def test_nothing_is_written(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    before = tree(root)
    inspect(root)

    assert tree(root) == before


def test_without_a_catalog_it_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        inspect(some_shards(tmp_path, 1))
    assert caught.value.code == "WDS301"
    assert "wdsctl prepare" in caught.value.hint
