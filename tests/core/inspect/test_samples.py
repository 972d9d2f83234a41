from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder, an_image, rewrite_shard, some_shards, split_by_ratios
from tests.core.dumps import catalog_of
from tests.core.media_files import a_media_file
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.inspect.samples import SampleQuery, inspect_samples
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.media.thumbnail import RgbImage


def keys(root: str, query: SampleQuery, **options: str) -> list[str]:
    return [sample.key for sample in inspect_samples(root, query, catalog=options.get("catalog"))[0].shown]


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "d", 6)
    index(root)
    split_by_ratios(root, {"train": 5, "val": 1}, by="sample")
    return root


def test_inspect_samples_returns_first_samples_of_dataset_or_split(root: str) -> None:
    everything = [f"{i:06d}" for i in range(30)]
    assert keys(root, SampleQuery(count=3)) == everything[:3]
    train, val = (keys(root, SampleQuery(count=99, split=name)) for name in ("train", "val"))
    assert (len(train), len(val)) == (25, 5)
    assert sorted(train + val) == everything
    with pytest.raises(InputError, match="it has train, val"):
        keys(root, SampleQuery(split="test"))


def test_inspect_samples_with_seed_is_reproducible_without_repeats(root: str) -> None:
    sampled = keys(root, SampleQuery(count=7, seed=1))
    assert sampled == keys(root, SampleQuery(count=7, seed=1)) == sorted(set(sampled))
    assert sampled != keys(root, SampleQuery(count=7, seed=2))
    assert set(keys(root, SampleQuery(count=3, seed=1, split="val"))) <= set(
        keys(root, SampleQuery(count=99, split="val"))
    )
    assert len(keys(root, SampleQuery(count=99, seed=1))) == 30


def test_inspect_samples_by_key_returns_every_match(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"k.txt": b"one"}, "b.tar": {"k.txt": b"two", "k.jpg": an_image("JPEG")}})
    index(root, media=MediaRequest(selection="jpg"))
    report, pictures = inspect_samples(root, SampleQuery(key="k"), thumbnail_size=(8, 8))
    assert [(each.shard, each.parts[0].text) for each in report.shown] == [("a.tar", "one"), ("b.tar", "two")]
    assert isinstance(report.shown[1].parts[1].facts, ImageFacts)
    assert {place: type(picture) for place, picture in pictures.items()} == {(1, 1): RgbImage}
    assert [each.shard for each in inspect_samples(root, SampleQuery(key="k", shard="b.tar"))[0].shown] == ["b.tar"]
    with pytest.raises(InputError, match="no sample 'none'"):
        inspect_samples(root, SampleQuery(key="none"))


def test_inspect_samples_reports_unreadable_parts_and_shows_others(root: str) -> None:
    (Path(root) / "shard-000.tar").unlink()
    Path(root, "shard-001.tar").write_bytes(b"")
    report, _ = inspect_samples(root, SampleQuery(count=11))
    problems = [bool(sample.parts[0].problem) for sample in report.shown]
    assert problems == [True] * 10 + [False]
    assert "has 0 bytes" in report.shown[5].parts[0].problem


def test_inspect_samples_reports_replaced_shard_of_same_size(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"one", "2.txt": b"two"}, "b.tar": {"3.txt": b"three"}})
    index(root)
    rewrite_shard(tmp_path / "a.tar", {"2.txt": b"two", "1.txt": b"one"})
    report, _ = inspect_samples(root, SampleQuery(count=3))
    problems = [part.problem for sample in report.shown for part in sample.parts]
    assert [bool(each) for each in problems] == [True, True, False]
    assert "the shard differs from the indexed one: no 1.txt at byte 0" in problems


def test_inspect_samples_supports_media_folder(tmp_path: Path) -> None:
    video = a_media_file("mp4", video="libx264")
    root = a_folder(tmp_path, {"b.mp4": video, "a/x.png": an_image("PNG"), "notes.png": b"no picture"})
    index_media_folder(root, media=MediaRequest(selection="auto"))
    report, pictures = inspect_samples(root, SampleQuery(count=9), thumbnail_size=(16, 16))
    assert [sample.key for sample in report.shown] == ["a/x.png", "b.mp4", "notes.png"]
    assert sorted(pictures) == [(0, 0), (1, 0)]
    assert keys(root, SampleQuery(count=1, seed=0)) == keys(root, SampleQuery(count=1, seed=0))
    assert keys(root, SampleQuery(key="b.mp4")) == ["b.mp4"]


@pytest.mark.usefixtures("faulty_store")
def test_inspect_samples_reads_remote_samples_by_range(root: str, tmp_path: Path) -> None:
    url = upload_shards(root, "faulty://bucket/d")
    catalog = str(tmp_path / "c")
    index(url, catalog=catalog)
    FaultyFileSystem.reads.clear()
    report, _ = inspect_samples(url, SampleQuery(count=2), catalog=catalog)
    assert [part.text for part in report.shown[0].parts] == ["0 jpg ..", "0 txt .."]
    assert sum(stop - start for _, start, stop in FaultyFileSystem.reads) < 10_000


def test_inspect_summary_reads_no_sample_rows(root: str) -> None:
    before = inspect(root, samples=0)
    connection = sqlite3.connect(catalog_of(root))
    connection.execute("DELETE FROM sample")
    connection.commit()
    connection.close()
    after = inspect(root, samples=0)
    assert (after.samples, after.parts, after.splits) == (before.samples, before.parts, before.splits) != (0, (), ())
