from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from tests.build import RecordingProgress, a_dataset, a_folder, an_image, rewrite_shard, split_by_ratios
from tests.core.media_files import a_media_file, a_wav
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.inspect.stats import Measure, StatsReport, inspect_stats


def an_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((2, 3), "f4"))
    return file.getvalue()


def a_medley(count: int) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for i in range(count):
        members |= {
            f"{i:03d}.jpg": an_image("JPEG"),
            f"{i:03d}.txt": b"two words" * (i + 1),
            f"{i:03d}.json": json.dumps({"n": i, "tags": ["a"] * i, "deep": {"s": "x" * i}}).encode(),
        }
        if i % 2:
            members |= {f"{i:03d}.npy": an_array(), f"{i:03d}.wav": a_wav()}
    return members


def measure(report: StatsReport, part: str, what: str) -> Measure:
    (found,) = [each for each in report.measures if (each.part, each.what) == (part, what)]
    return found


@pytest.fixture
def root(tmp_path: Path) -> str:
    medley = list(a_medley(10).items())
    return a_dataset(tmp_path / "d", {"a.tar": dict(medley[:16]), "b.tar": dict(medley[16:])})


def test_inspect_stats_sizes_cover_all_samples_and_contents_only_read_ones(root: str) -> None:
    index(root)
    progress = RecordingProgress()
    report = inspect_stats(root, count=4, seed=1, progress=progress)

    assert (report.samples, report.read, report.seed) == (10, 4, 1)
    sizes = measure(report, "", "bytes")
    assert (sizes.of, sizes.count, sizes.total) == ("catalog", 10, sum(map(len, a_medley(10).values())))
    assert measure(report, "npy", "bytes").count == 5
    assert (measure(report, "", "parts").min, measure(report, "", "parts").max) == (3, 5)
    assert (measure(report, "txt", "characters").of, measure(report, "txt", "characters").count) == ("sample", 4)
    assert progress.phases[-1] == ("samples", 4, None)
    assert inspect_stats(root, count=4, seed=1) == report


def test_inspect_stats_classifies_parts_by_content(root: str) -> None:
    index(root)
    report = inspect_stats(root)

    assert {(line.part, line.what): line.count for line in report.kinds} == {
        ("jpg", "JPEG RGB"): 10,
        ("txt", "text, utf-8"): 10,
        ("json", "json, object"): 10,
        ("npy", "array of float32, 2 x 3"): 5,
        ("wav", "pcm_s16le 1 ch 8 kHz"): 5,
    }
    words = measure(report, "txt", "words")
    assert (words.min, words.max) == (2, 11)
    assert (measure(report, "jpg", "width").max, measure(report, "wav", "seconds").max) == (48, 0.1)
    keys = {key.path: key for key in report.keys}
    assert set(keys) == {"n", "tags", "deep", "deep.s"}
    assert (keys["n"].min, keys["n"].max, keys["n"].types) == (0, 9, {"integer": 10})
    assert (keys["tags"].length_min, keys["tags"].length_max, keys["deep.s"].share) == (0, 9, 1.0)


def test_inspect_stats_uses_media_facts_of_catalog_without_reading(root: str) -> None:
    index(root)
    read = inspect_stats(root, count=2).read_bytes
    index(root, media=MediaRequest(selection="jpg,wav"))
    report = inspect_stats(root, count=2)

    assert report.read_bytes < read
    width = measure(report, "jpg", "width")
    assert (width.of, width.count, width.max) == ("catalog", 10, 48)
    assert ("wav", "pcm_s16le 1 ch 8 kHz", 5, "catalog") in [(k.part, k.what, k.count, k.of) for k in report.kinds]


def test_inspect_stats_of_split_covers_only_its_samples(root: str) -> None:
    index(root, media=MediaRequest(selection="jpg"))
    split_by_ratios(root, {"train": 7, "val": 3}, by="sample")
    parts = [inspect_stats(root, split=name) for name in ("train", "val")]
    assert [report.samples for report in parts] == [7, 3]
    assert (
        sum(measure(report, "", "bytes").total for report in parts) == measure(inspect_stats(root), "", "bytes").total
    )
    assert measure(parts[1], "jpg", "width").count == 3


def test_inspect_stats_counts_unreadable_samples(root: str) -> None:
    index(root)
    Path(root, "a.tar").write_bytes(b"short")
    report = inspect_stats(root)
    assert (sum(report.failed.values()) > 0, measure(report, "txt", "words").count) == (True, 6)


def test_inspect_stats_counts_parts_of_replaced_shard_of_same_size_as_failed(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"one", "2.txt": b"two"}, "b.tar": {"3.txt": b"three words here"}})
    index(root)
    rewrite_shard(tmp_path / "a.tar", {"2.txt": b"two", "1.txt": b"one"})
    report = inspect_stats(root)
    assert (sum(report.failed.values()), measure(report, "txt", "words").count) == (2, 1)


def test_inspect_stats_supports_media_folder(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.png": an_image("PNG"), "b/c.mp4": a_media_file("mp4", video="libx264")})
    index_media_folder(root, media=MediaRequest(selection="auto"))
    report = inspect_stats(root)
    assert (report.samples, measure(report, "mp4", "width").max) == (2, 64)
