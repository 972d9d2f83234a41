from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from tests.core.catalog.drafts import open_draft
from tests.core.dumps import catalog_of
from tests.core.media_samples import an_image, media_shards, members, rotated_clip
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import MediaSummary, media_counts
from wdsctl.core.catalog.values import MediaSettings, parse_media_settings
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.catalog_facts import MediaMeasures, SharedFacts
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.media_scan import ScannedMedium
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import sniff

ALL = MediaRequest(selection="auto")


def test_catalog_facts_equal_facts_of_headers(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    with Catalog.open(str(catalog_of(root))) as catalog:
        found = catalog.media_reader.facts([1 << 28 | i for i in range(3)] + [2 << 28 | i for i in range(3)])

    expected = {}
    for shard, (_, files) in enumerate(media_shards().items(), 1):
        keys = sorted({name.partition(".")[0] for name in files})
        for name, data in files.items():
            key, _, part = name.partition(".")
            if sniff(data).kind in ("image", "audio", "video"):
                sample = shard << 28 | keys.index(key)
                expected[sample, part] = probe_media(ByteRangeFile.from_bytes(data), sniff(data))
    assert {place: facts for place, facts in found.items() if not isinstance(facts, Unreadable)} == expected
    assert len(expected) == 5
    assert found[1 << 28 | 1, "jpg"] == Unreadable(reason="its content is not an image, audio or video")


def test_media_summaries_add_up_shards(tmp_path: Path) -> None:
    images = {f"{i}.jpg": an_image("JPEG" if i % 2 else "PNG", (10 + i, 40 - i)) for i in range(9)}
    names = list(images)
    shards = {f"{i}.tar": {name: images[name] for name in names[3 * i : 3 * i + 3]} for i in range(3)}
    root = a_dataset(tmp_path, shards)
    index(root, media=ALL)
    with Catalog.open(str(catalog_of(root))) as catalog:
        lines = catalog.media_reader.summaries()

    assert lines == [
        MediaSummary(
            part="jpg",
            kind="image",
            media=9,
            size_bytes=sum(map(len, images.values())),
            forms={"PNG RGB": 5, "JPEG RGB": 4},
            width=(10, 18),
            height=(32, 40),
        )
    ]
    assert media_counts(lines) == {"image": 9}


def test_media_summaries_separate_kinds(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    with Catalog.open(str(catalog_of(root))) as catalog:
        lines = {(line.part, line.kind): line for line in catalog.media_reader.summaries()}

    assert {place: line.media for place, line in lines.items()} == {
        ("jpg", "image"): 1,
        ("seg.png", "image"): 1,
        ("mp4", "video"): 1,
        ("wav", "audio"): 1,
        ("bin", "image"): 1,
        ("jpg", "unreadable"): 2,
    }
    assert lines["wav", "audio"].seconds == pytest.approx(0.1)
    assert lines["mp4", "video"].forms == {"mp4 h264": 1}
    assert lines["jpg", "unreadable"].forms == {"its content is not an image, audio or video": 1, "it is empty": 1}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("display_width", [(0, 40)]), ("width", [(0, 60)]), ("seconds", []), ("width * height", [(0, 2400)])],
)
def test_media_numbers_are_returned_by_position_in_shard(
    tmp_path: Path, expression: str, expected: list[object]
) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    with Catalog.open(str(catalog_of(root))) as catalog:
        assert catalog.media_reader.numbers(1, "jpg", expression) == expected


def test_shard_digests_exist_only_with_media_facts(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root)
    with Catalog.open(str(catalog_of(root))) as catalog:
        assert not catalog.has_media_facts
    index(root, media=ALL)
    with Catalog.open(str(catalog_of(root))) as catalog:
        assert catalog.has_media_facts
        assert sorted(catalog.media_reader.shard_digests()) == [1, 2]


def test_v_media_has_display_sizes(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.mp4": rotated_clip(), "2.jpg": an_image(size=(60, 40), orientation=8)}})
    index(root, media=ALL)
    with closing(sqlite3.connect(catalog_of(root))) as connection:
        rows = connection.execute("SELECT width, height, display_width, display_height FROM v_media").fetchall()
    assert sorted(rows) == [(60, 40, 40, 60), (64, 48, 48, 64)]


def test_media_folder_files_are_listed_by_path(tmp_path: Path) -> None:
    root = a_folder(tmp_path, members())
    index_media_folder(root)
    with Catalog.open(str(catalog_of(root))) as catalog:
        files, first = catalog.media_reader.files(), catalog.media_reader.first_files(2)
        count, size = catalog.media_reader.file_totals()

    assert [file.path for file in files] == sorted(name for name in members() if not name.endswith((".txt", ".json")))
    assert (count, size) == (len(files), sum(file.size for file in files))
    assert [file for file, _ in first] == files[:2]
    assert [type(facts).__name__ for _, facts in first] == ["ImageFacts", "Unreadable"]


def test_media_settings_round_trip() -> None:
    settings = MediaSettings("jpg,*.seg.png", keyframes=True)
    assert parse_media_settings(settings.as_text()) == settings
    assert parse_media_settings(None) is None


@pytest.mark.parametrize("text", ["[", '{"color": 1}', "[1, 2, 3]"])
def test_invalid_media_settings_are_reported_as_damage(tmp_path: Path, text: str) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    with closing(sqlite3.connect(catalog_of(root))) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'media'", (text,))

    with Catalog.open(str(catalog_of(root))) as catalog, pytest.raises(CatalogError) as caught:
        catalog.media_settings()
    assert caught.value.code == "WDS302"
    with pytest.raises(CatalogError), open_draft(str(catalog_of(root))):
        pass


def test_image_facts_take_less_than_30_bytes_and_are_queryable(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    draw, form = random.Random(1), SharedFacts("image", "JPEG", "RGB", orientation=1)
    sizes = [(draw.randint(64, 4096), draw.randint(64, 4096)) for _ in range(50_000)]
    with open_draft(path):
        pass
    empty = Path(path).stat().st_size
    with open_draft(path) as draft:
        media = [ScannedMedium(i, "jpg", 1, form, MediaMeasures(*size)) for i, size in enumerate(sizes)]
        draft.media.put_shard(1, b"", media)

    assert (Path(path).stat().st_size - empty) / len(sizes) < 30
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM v_media WHERE width >= 512").fetchone()
    assert found == sum(width >= 512 for width, _ in sizes)
