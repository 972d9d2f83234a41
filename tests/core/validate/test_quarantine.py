from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import AsNobody, a_dataset, an_image, rewrite_shard, split_by_ratios, tree
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import read_quarantine
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.validate.quarantine import release_from_quarantine
from wdsctl.core.validate.validate import ValidateRequest, validate

CONTENT = ValidateRequest(levels=("structure", "headers", "content"), quarantine=True)


def a_broken_dataset(root: Path) -> str:
    """Three shards of ten samples; the third sample of each is not JSON."""
    files = {f"{i}.tar": {f"{i}{j}.json": b"{" if j == 2 else b"{}" for j in range(10)} for i in range(3)}
    path = a_dataset(root, files)
    index(path)
    split_by_ratios(path, {"train": 1}, by="sample")
    return path


def sizes(root: str) -> dict[str, int]:
    with Catalog.open(locate(root).catalog_path) as catalog:
        return {each.name: each.samples for each in catalog.splits()}


@pytest.mark.usefixtures("place")
def test_broken_samples_are_quarantined_and_shards_are_not_changed(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    before = {name: facts for name, facts in tree(root).items() if name.endswith(".tar")}
    report = validate(root, CONTENT)

    assert report.quarantine is not None
    assert (report.quarantine.samples, report.quarantine.shards, report.quarantine.splits) == (3, 0, {"train": 27})
    assert sizes(root) == {"train": 27}
    assert {name: facts for name, facts in tree(root).items() if name.endswith(".tar")} == before
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        quarantine = [(row.shard, row.position, row.key, row.code) for row in read_quarantine(ledger)]
    assert quarantine == [(f"{i}.tar", 2, f"{i}2", "WDS144") for i in range(3)]


def test_invalid_lines_are_quarantined(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n{"a": }\n{"a": NaN}\n[1]\n{"b"}\n'})
    index(root)
    split_by_ratios(root, {"train": 1}, by="sample")
    quarantine = validate(root, ValidateRequest(quarantine=True)).quarantine
    assert quarantine is not None
    assert (quarantine.samples, quarantine.shards, quarantine.splits) == (3, 0, {"train": 2})
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        entries = [(row.position, row.key, row.code) for row in read_quarantine(ledger)]
    assert entries == [(1, "a/1", "WDS123"), (3, "a/3", "WDS121"), (4, "a/4", "WDS123")]


def test_empty_media_are_quarantined_and_empty_texts_are_not(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.jpg": b"", "0.txt": b"a", "1.jpg": an_image("JPEG"), "1.txt": b""}})
    index(root)
    assert validate(root, CONTENT).quarantine is not None
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        assert [(row.key, row.code) for row in read_quarantine(ledger)] == [("0", "WDS140")]


def test_quarantined_samples_are_not_added_twice(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    validate(root, CONTENT)
    quarantine = validate(root, CONTENT).quarantine
    assert quarantine is not None
    assert (quarantine.samples, quarantine.shards, quarantine.all_samples, quarantine.all_shards) == (0, 0, 3, 0)
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        assert len(read_quarantine(ledger)) == 3
    assert sizes(root) == {"train": 27}


def test_report_separates_new_from_all_quarantined_samples(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    validate(root, replace(CONTENT, shards=("0.tar",)))
    (tmp_path / "1.tar.sha256").write_text("0" * 64)
    quarantine = validate(root, replace(CONTENT, levels=(*CONTENT.levels, "hashes"))).quarantine
    assert quarantine is not None
    assert (quarantine.samples, quarantine.shards, quarantine.all_samples, quarantine.all_shards) == (2, 1, 3, 1)


@pytest.mark.parametrize("pattern", ["1.*", "glob:[1]*", "re:1.+", "{1..1}.tar"])
def test_release_selects_shards_by_patterns(tmp_path: Path, pattern: str) -> None:
    root = a_broken_dataset(tmp_path)
    validate(root, CONTENT)

    with pytest.raises(UsageError, match="no shard in quarantine matches"):
        release_from_quarantine(root, shards=[pattern, "nope*"])
    assert release_from_quarantine(root, shards=[pattern]).splits == {"train": 28}


@pytest.mark.usefixtures("place")
def test_released_samples_return_to_splits(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    validate(root, CONTENT)
    assert release_from_quarantine(root, shards=["1.tar"]).splits == {"train": 28}
    report = release_from_quarantine(root)
    assert (report.released, report.splits, sizes(root)) == (2, {"train": 30}, {"train": 30})


def test_samples_without_required_part_are_quarantined(tmp_path: Path) -> None:
    files = {f"{i:03d}.{part}": b"x" for i in range(50) for part in ("jpg", "txt")}
    del files["007.txt"]
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    split_by_ratios(root, {"train": 1}, by="sample")
    report = validate(root, ValidateRequest(quarantine=True))
    assert report.quarantine is not None
    assert (report.quarantine.samples, sizes(root)) == (0, {"train": 50})  # no field map requires the part

    yaml = Path(locate(root).config_path)
    yaml.write_text("sample_type: CaptioningSample\nfield_map: {image: jpg, caption: txt}\n")
    report = validate(root, ValidateRequest(quarantine=True))
    assert report.quarantine is not None
    assert (report.quarantine.samples, sizes(root)) == (1, {"train": 49})


def test_shard_with_changed_bytes_is_quarantined_as_whole(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    (tmp_path / "1.tar.sha256").write_text("0" * 64)
    report = validate(root, ValidateRequest(levels=("structure", "hashes"), quarantine=True))
    assert report.quarantine is not None
    assert (report.quarantine.shards, sizes(root)) == (1, {"train": 20})


def test_no_sample_of_rewritten_shard_is_quarantined(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    rewrite_shard(tmp_path / "1.tar", {"new.json": b"{", **{f"1{j}.json": b"{}" for j in range(10)}})
    report = validate(root, CONTENT)

    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        assert [(row.shard, row.key) for row in read_quarantine(ledger)] == [("0.tar", "02"), ("2.tar", "22")]
    assert ("WDS305", "1.tar") in [(found.code, found.shard) for found in report.findings]


def test_release_fails_when_ledger_is_read_only(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_broken_dataset(public_path / "data")
    validate(root, CONTENT)
    place = locate(root)
    os.chmod(place.meta, 0o777)  # noqa: S103 - the point of it
    os.chmod(place.ledger_path, 0o644)

    error = as_nobody(lambda: release_from_quarantine(root))

    assert isinstance(error, PermissionDenied)
    assert error.where == place.ledger_path
    assert sizes(root) == {"train": 27}


def test_ledger_of_newer_schema_is_refused_with_reason(tmp_path: Path) -> None:
    root = a_broken_dataset(tmp_path)
    with closing(sqlite3.connect(locate(root).ledger_path)) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    with pytest.raises(CatalogError, match="schema version 99"):
        validate(root, CONTENT)
    with pytest.raises(CatalogError, match="schema version 99"):
        release_from_quarantine(root)
