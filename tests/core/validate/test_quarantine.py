from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import AsNobody, a_dataset, an_image, rewritten, tree
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import read_quarantine
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.split.split import split_by_ratios
from wdsctl.core.validate.quarantine import release_from_quarantine
from wdsctl.core.validate.validate import ValidateRequest, validate

CONTENT = ValidateRequest(levels=("structure", "headers", "content"), quarantine=True)


def a_broken(root: Path) -> str:
    """Three shards of ten samples, of which the third of each is no JSON."""
    files = {f"{i}.tar": {f"{i}{j}.json": b"{" if j == 2 else b"{}" for j in range(10)} for i in range(3)}
    made = a_dataset(root, files)
    index(made)
    split_by_ratios(made, {"train": 1}, by="sample")
    return made


def sizes(root: str) -> dict[str, int]:
    with Catalog(locate(root).catalog) as published:
        return {each.name: each.samples for each in published.splits()}


@pytest.mark.usefixtures("place")
def test_broken_samples_are_kept_out_of_all_splits_and_no_shard_is_touched(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    before = {name: facts for name, facts in tree(root).items() if name.endswith(".tar")}
    report = validate(root, CONTENT)

    assert report.quarantine is not None
    assert (report.quarantine.samples, report.quarantine.shards, report.quarantine.splits) == (3, 0, {"train": 27})
    assert sizes(root) == {"train": 27}
    assert {name: facts for name, facts in tree(root).items() if name.endswith(".tar")} == before
    with Ledger.open_for_reading(locate(root).ledger) as ledger:
        kept = [(row.shard, row.position, row.key, row.code) for row in read_quarantine(ledger)]
    assert kept == [(f"{i}.tar", 2, f"{i}2", "WDS144") for i in range(3)]


def test_lines_that_do_not_parse_are_kept_out(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n{"a": }\n{"a": NaN}\n[1]\n{"b"}\n'})
    index(root)
    split_by_ratios(root, {"train": 1}, by="sample")
    kept = validate(root, ValidateRequest(quarantine=True)).quarantine
    assert kept is not None
    assert (kept.samples, kept.shards, kept.splits) == (3, 0, {"train": 2})
    with Ledger.open_for_reading(locate(root).ledger) as ledger:
        entries = [(row.position, row.key, row.code) for row in read_quarantine(ledger)]
    assert entries == [(1, "a/1", "WDS123"), (3, "a/3", "WDS121"), (4, "a/4", "WDS123")]


def test_empty_media_are_kept_out_and_empty_texts_stay(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.jpg": b"", "0.txt": b"a", "1.jpg": an_image("JPEG"), "1.txt": b""}})
    index(root)
    assert validate(root, CONTENT).quarantine is not None
    with Ledger.open_for_reading(locate(root).ledger) as ledger:
        assert [(row.key, row.code) for row in read_quarantine(ledger)] == [("0", "WDS140")]


def test_what_is_kept_out_already_is_not_kept_out_twice(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    validate(root, CONTENT)
    kept = validate(root, CONTENT).quarantine
    assert kept is not None
    assert (kept.samples, kept.shards, kept.all_samples, kept.all_shards) == (0, 0, 3, 0)
    with Ledger.open_for_reading(locate(root).ledger) as ledger:
        assert len(read_quarantine(ledger)) == 3
    assert sizes(root) == {"train": 27}


def test_the_report_says_what_is_new_and_how_much_there_is_in_all(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    validate(root, replace(CONTENT, shards=("0.tar",)))
    (tmp_path / "1.tar.sha256").write_text("0" * 64)
    kept = validate(root, replace(CONTENT, levels=(*CONTENT.levels, "hashes"))).quarantine
    assert kept is not None
    assert (kept.samples, kept.shards, kept.all_samples, kept.all_shards) == (2, 1, 3, 1)


@pytest.mark.parametrize("pattern", ["1.*", "glob:[1]*", "re:1.+", "{1..1}.tar"])
def test_what_is_released_is_named_by_patterns_as_what_is_validated(tmp_path: Path, pattern: str) -> None:
    root = a_broken(tmp_path)
    validate(root, CONTENT)

    with pytest.raises(UsageError, match="no shard in quarantine matches"):
        release_from_quarantine(root, shards=[pattern, "nope*"])
    assert release_from_quarantine(root, shards=[pattern]).splits == {"train": 28}


@pytest.mark.usefixtures("place")
def test_released_samples_come_back_into_the_splits(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    validate(root, CONTENT)
    assert release_from_quarantine(root, shards=["1.tar"]).splits == {"train": 28}
    report = release_from_quarantine(root)
    assert (report.released, report.splits, sizes(root)) == (2, {"train": 30}, {"train": 30})


def test_samples_without_a_part_they_need_are_kept_out(tmp_path: Path) -> None:
    files = {f"{i:03d}.{part}": b"x" for i in range(50) for part in ("jpg", "txt")}
    del files["007.txt"]
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    split_by_ratios(root, {"train": 1}, by="sample")
    report = validate(root, ValidateRequest(quarantine=True))
    assert report.quarantine is not None
    assert (report.quarantine.samples, sizes(root)) == (0, {"train": 50})  # nobody says that they need it

    yaml = Path(locate(root).dataset_yaml)
    yaml.write_text("sample_type: CaptioningSample\nfield_map: {image: jpg, caption: txt}\n")
    report = validate(root, ValidateRequest(quarantine=True))
    assert report.quarantine is not None
    assert (report.quarantine.samples, sizes(root)) == (1, {"train": 49})


def test_a_shard_whose_bytes_have_changed_is_kept_out_as_a_whole(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    (tmp_path / "1.tar.sha256").write_text("0" * 64)
    report = validate(root, ValidateRequest(levels=("structure", "hashes"), quarantine=True))
    assert report.quarantine is not None
    assert (report.quarantine.shards, sizes(root)) == (1, {"train": 20})


def test_no_other_sample_is_kept_out_of_a_shard_that_was_written_anew(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    rewritten(tmp_path / "1.tar", {"new.json": b"{", **{f"1{j}.json": b"{}" for j in range(10)}})
    report = validate(root, CONTENT)

    with Ledger.open_for_reading(locate(root).ledger) as ledger:
        assert [(row.shard, row.key) for row in read_quarantine(ledger)] == [("0.tar", "02"), ("2.tar", "22")]
    assert ("WDS305", "1.tar") in [(found.code, found.shard) for found in report.findings]


def test_a_release_that_cannot_be_noted_is_an_error_and_no_success(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_broken(public_path / "data")
    validate(root, CONTENT)
    place = locate(root)
    os.chmod(place.meta, 0o777)  # noqa: S103 - the point of it
    os.chmod(place.ledger, 0o644)

    refused = as_nobody(lambda: release_from_quarantine(root))

    assert isinstance(refused, PermissionDenied)
    assert refused.where == place.ledger
    assert sizes(root) == {"train": 27}


def test_a_ledger_that_takes_nothing_says_why(tmp_path: Path) -> None:
    root = a_broken(tmp_path)
    with closing(sqlite3.connect(locate(root).ledger)) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    with pytest.raises(CatalogError, match="schema version 99"):
        validate(root, CONTENT)
    with pytest.raises(CatalogError, match="schema version 99"):
        release_from_quarantine(root)
