from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, rewrite_shard, samples, split_by_ratios
from tests.core.split_sets import a_split_dataset, splits_of
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import (
    CheckReach,
    LocatedFinding,
    StoredCheck,
    located_findings_to_json,
    store_checks,
)
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import Finding, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.validate.quarantine import release_from_quarantine
from wdsctl.core.validate.validate import ValidateRequest, validate


def store_validation(root: str, *findings: LocatedFinding, level: str = "content", reach: CheckReach = "all") -> None:
    """Stores the result of a validation of all shards with these findings in the ledger."""
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        rows = catalog.shards()
    by_shard = {row.path: [each for each in findings if each.finding.shard == row.path] for row in rows}
    with Ledger.open(place.ledger_path) as ledger:
        store_checks(
            ledger,
            [
                StoredCheck(row.path, level, reach, row.layout_hash, b"", located_findings_to_json(by_shard[row.path]))
                for row in rows
            ],
        )


def make_finding(
    shard: str, *places: int, code: str = "WDS121", key: str = "", count: int = 0, whole: bool = False
) -> LocatedFinding:
    finding = Finding(
        code=code, severity="error", message="broken", shard=shard, key=key, count=count or len(places) or 1
    )
    return LocatedFinding(finding, places, whole)


def exclude_codes(root: str, *codes: str, progress: RecordingProgress | None = None, again: bool = False) -> set[str]:
    """Excludes samples by these codes, and returns the samples that are in no split."""
    request = SplitRequest(excludes=Excludes(codes=codes), again=again)
    split_dataset(root, request, progress=progress or SILENT_PROGRESS)
    return excluded_samples(root)


def excluded_samples(root: str) -> set[str]:
    with Catalog.open(locate(root).catalog_path) as catalog:
        shards = {row.path for row in catalog.shards()}
    names = {f"{path}/{int(path[6:9]) * 5 + i:06d}" for path in shards for i in range(5)}
    return names - splits_of(root).keys()


def test_exclude_by_code_excludes_exactly_affected_samples(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    before = splits_of(root)
    store_validation(root, make_finding("shard-000.tar", 1, 3), make_finding("shard-001.tar", 0, code="WDS110"))
    assert exclude_codes(root, "WDS121") == {"shard-000.tar/000001", "shard-000.tar/000003"}
    assert {sample: before[sample] for sample in splits_of(root)} == splits_of(root)


EXCLUDED = {"shard-000.tar/000001"}


@pytest.mark.parametrize(
    ("level", "reach"), [("structure", "all"), ("content", "some"), ("content", "none"), ("hashes", "all")]
)
def test_excludes_by_code_survive_smaller_validation(tmp_path: Path, level: str, reach: CheckReach) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(root, make_finding("shard-000.tar", 1))
    assert exclude_codes(root, "WDS121") == EXCLUDED
    store_validation(root, level=level, reach=reach)
    a_dataset(tmp_path, {"shard-006.tar": samples(30, 5)})
    index(root)
    assert excluded_samples(root) == EXCLUDED
    split_by_ratios(root, {"train": 1}, allow_split_changes=True)
    assert excluded_samples(root) == EXCLUDED


def test_excludes_by_code_are_independent_of_quarantine_release(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(root, make_finding("shard-000.tar", 1))
    release_from_quarantine(root)
    assert exclude_codes(root, "WDS121") == EXCLUDED
    release_from_quarantine(root)
    assert index(root).up_to_date
    assert excluded_samples(root) == EXCLUDED
    split_dataset(root, SplitRequest(rule=SplitRule({"train": 1}), allow_split_changes=True))
    assert excluded_samples(root) == EXCLUDED


def test_samples_found_sound_by_full_validation_are_restored_and_noted(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    before = splits_of(root)
    store_validation(root, make_finding("shard-000.tar", 1, 2))
    exclude_codes(root, "WDS121")
    store_validation(root, make_finding("shard-000.tar", 2), make_finding("shard-002.tar", 0))
    progress = RecordingProgress()
    index(root, progress=progress)
    assert excluded_samples(root) == {"shard-000.tar/000002", "shard-002.tar/000010"}
    assert progress.notes == ["no longer excluded: 1 sample"]
    store_validation(root)
    index(root)
    assert splits_of(root) == before


def test_rewritten_shard_is_not_excluded_by_old_findings_and_noted(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(root, make_finding("shard-000.tar", 1), make_finding("shard-001.tar", 0))
    exclude_codes(root, "WDS121")
    rewrite_shard(tmp_path / "shard-000.tar", samples(0, 5, size=9))
    progress = RecordingProgress()
    index(root, progress=progress)
    assert excluded_samples(root) == {"shard-001.tar/000005"}
    [note] = progress.notes
    assert note.startswith("1 new or changed shard is not validated for WDS121: run `wdsctl validate ")
    assert note.endswith(" --level content`")


def test_touched_or_renamed_shard_stays_excluded(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(root, make_finding("shard-000.tar", 1), make_finding("shard-001.tar", 0))
    exclude_codes(root, "WDS121")
    os.utime(tmp_path / "shard-000.tar", (9, 9))
    (tmp_path / "shard-001.tar").rename(tmp_path / "shard-008.tar")
    index(root)
    split_by_ratios(root, {"train": 1}, allow_split_changes=True)
    assert len(splits_of(root)) == 28
    assert not {"shard-000.tar/000001", "shard-008.tar/000005"} & splits_of(root).keys()


def test_excluded_samples_stay_excluded_without_ledger(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(root, make_finding("shard-000.tar", 1))
    exclude_codes(root, "WDS121")
    Path(locate(root).ledger_path).unlink()
    a_dataset(tmp_path, {"shard-006.tar": samples(30, 5)})
    progress = RecordingProgress()
    index(root, progress=progress)
    assert excluded_samples(root) == EXCLUDED
    [note] = progress.notes
    assert note.startswith(
        "no `validate` run has checked the dataset for WDS121, so excluded samples stay excluded: run `wdsctl validate "
    )
    split_by_ratios(root, {"train": 1}, allow_split_changes=True)
    assert excluded_samples(root) == EXCLUDED
    split_dataset(root, SplitRequest(replace_excludes=True))
    assert excluded_samples(root) == set()


def test_findings_without_sample_exclude_whole_shard_with_note(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(
        root,
        make_finding("shard-000.tar", key="000001", count=3),
        make_finding("shard-000.tar"),
        make_finding("shard-001.tar", whole=True),
        make_finding("shard-002.tar", key="000012"),
    )
    progress = RecordingProgress()
    expected = exclude_codes(root, "WDS121", progress=progress)

    assert {sample[:9] for sample in splits_of(root)} == {f"shard-00{i}" for i in range(2, 6)}
    assert "shard-002.tar/000012" in expected
    assert progress.notes == ["2 shards excluded completely, because their findings do not name individual samples"]


def test_code_wds108_excludes_incomplete_samples_without_validation(tmp_path: Path) -> None:
    files = samples(0, 40)
    del files["000007.txt"], files["000031.txt"]
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    split_by_ratios(root, {"train": 1}, by="sample")
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS108",))))
    names = {f"a.tar/{i:06d}" for i in range(40)}
    assert names - splits_of(root).keys() == {"a.tar/000007", "a.tar/000031"}
    assert index(root).up_to_date


def test_code_wds106_excludes_all_but_first_sample_of_repeated_key(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5), "b.tar": samples(3, 5), "c.tar": samples(4, 3)})
    index(root)
    split_by_ratios(root, {"train": 1}, allow_split_changes=True)
    before = splits_of(root)
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS106",))))
    expected = {"b.tar/000003", "b.tar/000004", "c.tar/000004", "c.tar/000005", "c.tar/000006"}
    assert before.keys() - splits_of(root).keys() == expected


def test_exclude_by_code_without_findings_is_refused(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    store_validation(root, make_finding("shard-000.tar", 1))
    for codes in (("WDS110",), ("WDS121", "WDS106")):
        with pytest.raises(UsageError, match=f"has a finding with code {codes[-1]}") as caught:
            exclude_codes(root, *codes)
        assert caught.value.code == "WDS214"
        assert excluded_samples(root) == set()
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS110",)), allow_empty=True))


def test_damaged_samples_stay_excluded_until_shard_is_rewritten(tmp_path: Path) -> None:
    files = {f"{s}.tar": {f"{s}{i}.json": b"{" if i == s else b"{}" for i in range(5)} for s in range(3)}
    root = a_dataset(tmp_path, files)
    index(root)
    split_by_ratios(root, {"train": 1}, allow_split_changes=True)
    content = ValidateRequest(levels=("structure", "headers", "content"))
    validate(root, content)
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS144",))))
    expected = {"0.tar/00", "1.tar/11", "2.tar/22"}
    for request in (ValidateRequest(), replace(content, share=0.2, again=True), replace(content, shards=("1.tar",))):
        validate(root, request)
        a_dataset(tmp_path, {f"new-{len(splits_of(root))}.tar": {f"n{len(splits_of(root))}.json": b"{}"}})
        index(root)
        assert not expected & splits_of(root).keys()
    rewrite_shard(tmp_path / "1.tar", {f"1{i}.json": b"{}" for i in range(5)})
    index(root)
    assert expected & splits_of(root).keys() == {"1.tar/11"}


def test_exclude_by_code_ignores_findings_about_some_samples(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"0.tar": {f"{i}.json": b"{" if i < 4 else b"{}" for i in range(5)}})
    index(root)
    split_by_ratios(root, {"train": 1}, allow_split_changes=True)
    content = ValidateRequest(levels=("structure", "headers", "content"))
    excludes = SplitRequest(excludes=Excludes(codes=("WDS144",)))
    before = splits_of(root).keys()
    assert validate(root, replace(content, share=0.5)).findings
    with pytest.raises(UsageError, match="has a finding with code WDS144") as caught:
        split_dataset(root, excludes)
    assert (caught.value.code, splits_of(root).keys()) == ("WDS214", before)
    validate(root, content)
    split_dataset(root, excludes)
    assert before - splits_of(root).keys() == {f"0.tar/{i}" for i in range(4)}


def test_exclude_by_code_without_validation_is_refused(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    with pytest.raises(InputError, match="has not been validated") as caught:
        split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS121",))))
    assert "wdsctl validate" in caught.value.hint
