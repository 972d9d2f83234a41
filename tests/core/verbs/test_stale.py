from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.build import rewritten, samples, some_shards
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.catalog.summary import Summary, read_summary
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place, locate
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.stale import look_at

URL = "faulty://store/shards"


def looked(root: str, spread: int) -> tuple[int, list[Finding]]:
    place, summary = read(root, spread)
    return look_at(place, summary)


def read(root: str, spread: int) -> tuple[Place, Summary]:
    place = locate(root)
    return place, read_summary(place.catalog, first=0, spread=spread)


def told(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [(found.code, found.shard, found.count) for found in findings]


@pytest.fixture
def changed(tmp_path: Path) -> str:
    """Twelve shards, of which 003 and 004 have changed, 006 and 007 are gone, and 012 is new."""
    root = some_shards(tmp_path, 12)
    index(root)
    for number in (3, 4):
        rewritten(tmp_path / f"shard-{number:03}.tar", samples(50, 1))
    for number in (6, 7):
        (tmp_path / f"shard-{number:03}.tar").unlink()
    return some_shards(tmp_path, 1, first=12)


def test_of_few_shards_all_are_looked_at(changed: str) -> None:
    number, findings = looked(changed, 12)

    assert number == 12
    assert [found.shard[6:9] for found in findings] == ["012", "003", "004", "006", "007"]


def test_of_many_shards_some_are_looked_at_and_new_ones_are_not_found(changed: str) -> None:
    number, findings = looked(changed, 4)

    assert number == 4
    assert [(found.shard[6:9], found.message) for found in findings] == [
        ("003", "has changed since it was indexed"),
        ("006", "is gone, and still in the catalog"),
    ]


@pytest.mark.parametrize(("spread", "first"), [(8, "shard-001.tar"), (4, ""), (2, "")])
def test_all_shards_that_were_kept_as_missing_are_counted(tmp_path: Path, spread: int, first: str) -> None:
    root = some_shards(tmp_path, 8)
    index(root)
    for number in (1, 5):
        (tmp_path / f"shard-{number:03}.tar").unlink()
    index(root, missing="keep")

    assert told(looked(root, spread)[1]) == [("WDS306", first, 2)]


def test_a_shard_that_is_there_again_is_told(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 8)
    index(root)
    for number in (0, 1):
        (tmp_path / f"shard-{number:03}.tar").rename(tmp_path / f"{number}.away")
    index(root, missing="keep")
    (tmp_path / "0.away").rename(tmp_path / "shard-000.tar")

    assert told(looked(root, 4)[1]) == [("WDS305", "shard-000.tar", 1), ("WDS306", "", 1)]


def test_no_more_files_are_asked_for_of_many_shards_than_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[int] = Counter()
    stat, access, scandir = os.stat, os.access, os.scandir
    for shards in (20, 60):
        root = some_shards(tmp_path / str(shards), shards)
        index(root)
        place, summary = read(root, 10)

        with monkeypatch.context() as patch:
            for name, call in (("stat", stat), ("access", access), ("scandir", scandir)):
                patch.setattr(os, name, lambda *words, call=call, at=shards: (asked.update([at]), call(*words))[1])
            assert look_at(place, summary) == (10, [])

    assert asked == {20: 20, 60: 20}


@pytest.mark.usefixtures("faulty_store")
def test_in_a_store_sizes_are_asked_for_and_nothing_is_listed(tmp_path: Path) -> None:
    local = some_shards(tmp_path / "local", 40)
    uploaded(local, URL)
    index(URL)
    rewritten(tmp_path / "local" / "shard-000.tar", b"shorter")
    (tmp_path / "local" / "shard-020.tar").unlink()
    FaultyFileSystem.reset()
    uploaded(local, URL)
    number, findings = looked(URL, 20)

    assert number == 2
    assert [(found.shard, found.message) for found in findings] == [
        ("shard-000.tar", "has changed since it was indexed"),
        ("shard-020.tar", "is gone, and still in the catalog"),
    ]
    assert [path.rsplit("/", 1)[1] for path in FaultyFileSystem.asked] == ["shard-000.tar", "shard-020.tar"]
