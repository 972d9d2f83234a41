from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from tests.core.catalog.test_schema import restore_golden_catalog
from tests.core.dumps import catalog_of
from tests.core.media_samples import an_image, media_shards, members
from wdsctl.core.catalog.browse import NameLookup
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.keyframes import KeyframeIndex

ALL = MediaRequest(selection="auto", keyframes=True)


def open_names(root: str) -> NameLookup:
    return NameLookup(str(catalog_of(root)))


def test_name_lookup_finds_byte_range_of_every_member(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root)
    with open_names(root) as names:
        for name, data in members().items():
            [place] = names.find(name)
            read = Path(root, place.path).read_bytes()[place.offset : place.offset + place.size]
            assert read == data
            assert (names.facts(place), names.keyframes(place)) == (None, None)


def test_name_lookup_finds_files_of_media_folder_by_path(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {f"deep/{name}": data for name, data in members().items()})
    index_media_folder(root, media=ALL)
    with open_names(root) as names:
        [place] = names.find("deep/3.mp4")
        index_bytes = names.keyframes(place)
        facts = names.facts(place)

    assert (place.path, place.offset, place.size) == ("deep/3.mp4", 0, len(members()["3.mp4"]))
    assert facts is not None
    assert (facts.kind, KeyframeIndex.from_bytes(index_bytes or b"").frames) == ("video", 8)


def test_name_lookup_returns_facts_and_keyframes_of_part(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    with open_names(root) as names:
        found = {name: names.facts(names.find(name)[0]) for name in members()}
        indexed = [name for name in members() if names.keyframes(names.find(name)[0]) is not None]

    assert {name: facts.kind for name, facts in found.items() if facts is not None} == {
        "1.jpg": "image",
        "2.jpg": "unreadable",
        "2.seg.png": "image",
        "3.mp4": "video",
        "4.wav": "audio",
        "5.bin": "image",
        "6.jpg": "unreadable",
    }
    assert found["6.jpg"] == Unreadable(reason="it is empty")
    assert indexed == ["3.mp4"]


@pytest.mark.parametrize("name", ["9.jpg", "1.gif", "1", "", ".jpg", "1.", "x/1.jpg", "'; DROP TABLE sample; --.jpg"])
def test_name_lookup_returns_nothing_for_unknown_name(tmp_path: Path, name: str) -> None:
    tars, folder = a_dataset(tmp_path / "tars", media_shards()), a_folder(tmp_path / "folder", members())
    index(tars)
    index_media_folder(folder)
    for root in (tars, folder):
        with open_names(root) as names:
            assert names.find(name) == []


def test_name_lookup_finds_repeated_key_in_every_shard(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {f"{i}.tar": {"1.jpg": an_image(size=(9 + i, 9))} for i in range(2)})
    index(root, media=ALL)
    with open_names(root) as names:
        places = names.find("1.jpg")
        widths = [facts.width for place in places if (facts := names.facts(place)) and facts.kind == "image"]

    assert ([place.path for place in places], widths) == (["0.tar", "1.tar"], [9, 10])


def test_name_lookup_returns_last_of_duplicate_parts(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": [("1.txt", b"first"), ("1.txt", b"last")]})
    index(root)
    with open_names(root) as names:
        [place] = names.find("1.txt")
    assert (tmp_path / "a.tar").read_bytes()[place.offset : place.offset + place.size] == b"last"


def test_name_lookup_reports_missing_or_damaged_catalog(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no catalog"):
        NameLookup(str(tmp_path / "catalog.sqlite"))
    path = restore_golden_catalog(tmp_path)
    data = bytearray(Path(path).read_bytes())
    data[100:4096] = b"?" * 3996
    Path(path).write_bytes(data)
    with pytest.raises(CatalogError, match="damaged"):
        NameLookup(path)
