from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import Told, a_dataset, rewritten, samples
from tests.core.split_sets import a_divided, splits_of
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
from wdsctl.core.dataset.split_rules import Excludes, SplitRule
from wdsctl.core.errors import Finding, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.split.split import SplitRequest, split_by_ratios, split_dataset
from wdsctl.core.validate.quarantine import release_from_quarantine
from wdsctl.core.validate.validate import ValidateRequest, validate


def validated(root: str, *found: LocatedFinding, level: str = "content", reach: CheckReach = "all") -> None:
    """The ledger after a validation of all shards that found these."""
    place = locate(root)
    with Catalog(place.catalog) as catalog:
        rows = catalog.shards()
    by_shard = {row.path: [each for each in found if each.finding.shard == row.path] for row in rows}
    with Ledger.open(place.ledger) as ledger:
        store_checks(
            ledger,
            [
                StoredCheck(row.path, level, reach, row.layout_hash, b"", located_findings_to_json(by_shard[row.path]))
                for row in rows
            ],
        )


def found(
    shard: str, *places: int, code: str = "WDS121", key: str = "", count: int = 0, whole: bool = False
) -> LocatedFinding:
    said = Finding(code=code, severity="error", message="broken", shard=shard, key=key, count=count or len(places) or 1)
    return LocatedFinding(said, places, whole)


def excluding(root: str, *codes: str, told: Told | None = None, again: bool = False) -> set[str]:
    """Exclude by these codes, and say what is in no split."""
    request = SplitRequest(excludes=Excludes(codes=codes), again=again)
    split_dataset(root, request, progress=told or SILENT_PROGRESS)
    return out_of(root)


def out_of(root: str) -> set[str]:
    with Catalog(locate(root).catalog) as catalog:
        shards = {row.path for row in catalog.shards()}
    names = {f"{path}/{int(path[6:9]) * 5 + i:06d}" for path in shards for i in range(5)}
    return names - splits_of(root).keys()


def test_each_sample_that_findings_of_a_code_are_about_is_excluded_and_no_other(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    before = splits_of(root)
    validated(root, found("shard-000.tar", 1, 3), found("shard-001.tar", 0, code="WDS110"))
    assert excluding(root, "WDS121") == {"shard-000.tar/000001", "shard-000.tar/000003"}
    assert {sample: before[sample] for sample in splits_of(root)} == splits_of(root)


GONE = {"shard-000.tar/000001"}


@pytest.mark.parametrize(
    ("level", "reach"), [("structure", "all"), ("content", "some"), ("content", "none"), ("hashes", "all")]
)
def test_excludes_stay_when_less_was_validated_than_found_them(tmp_path: Path, level: str, reach: CheckReach) -> None:
    root = a_divided(tmp_path)
    validated(root, found("shard-000.tar", 1))
    assert excluding(root, "WDS121") == GONE
    validated(root, level=level, reach=reach)
    a_dataset(tmp_path, {"shard-006.tar": samples(30, 5)})
    index(root)
    assert out_of(root) == GONE
    split_by_ratios(root, {"train": 1}, may_move=True)
    assert out_of(root) == GONE


def test_excludes_stay_after_a_release_and_can_be_made_after_one(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    validated(root, found("shard-000.tar", 1))
    release_from_quarantine(root)
    assert excluding(root, "WDS121") == GONE
    release_from_quarantine(root)
    assert index(root).up_to_date
    assert out_of(root) == GONE
    split_dataset(root, SplitRequest(rule=SplitRule({"train": 1}), may_move=True))
    assert out_of(root) == GONE


def test_what_a_run_over_all_samples_finds_sound_comes_back_and_is_told(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    before = splits_of(root)
    validated(root, found("shard-000.tar", 1, 2))
    excluding(root, "WDS121")
    validated(root, found("shard-000.tar", 2), found("shard-002.tar", 0))
    told = Told()
    index(root, progress=told)
    assert out_of(root) == {"shard-000.tar/000002", "shard-002.tar/000010"}
    assert told.notes == ["no longer excluded: 1 sample"]
    validated(root)
    index(root)
    assert splits_of(root) == before


def test_a_shard_that_was_written_anew_is_not_excluded_by_what_it_was_and_that_is_told(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    validated(root, found("shard-000.tar", 1), found("shard-001.tar", 0))
    excluding(root, "WDS121")
    rewritten(tmp_path / "shard-000.tar", samples(0, 5, size=9))
    told = Told()
    index(root, progress=told)
    assert out_of(root) == {"shard-001.tar/000005"}
    [note] = told.notes
    assert note.startswith("1 new or changed shard is not validated for WDS121: run `wdsctl validate ")
    assert note.endswith(" --level content`")


def test_a_shard_that_was_only_touched_or_renamed_stays_excluded(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    validated(root, found("shard-000.tar", 1), found("shard-001.tar", 0))
    excluding(root, "WDS121")
    os.utime(tmp_path / "shard-000.tar", (9, 9))
    (tmp_path / "shard-001.tar").rename(tmp_path / "shard-008.tar")
    index(root)
    split_by_ratios(root, {"train": 1}, may_move=True)
    assert len(splits_of(root)) == 28
    assert not {"shard-000.tar/000001", "shard-008.tar/000005"} & splits_of(root).keys()


def test_where_the_ledger_is_gone_what_was_excluded_stays_so(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    validated(root, found("shard-000.tar", 1))
    excluding(root, "WDS121")
    Path(locate(root).ledger).unlink()
    a_dataset(tmp_path, {"shard-006.tar": samples(30, 5)})
    told = Told()
    index(root, progress=told)
    assert out_of(root) == GONE
    [note] = told.notes
    assert note.startswith(
        "no `validate` run has checked the dataset for WDS121, so excluded samples stay excluded: run `wdsctl validate "
    )
    split_by_ratios(root, {"train": 1}, may_move=True)
    assert out_of(root) == GONE
    split_dataset(root, SplitRequest(replace_excludes=True))
    assert out_of(root) == set()


def test_findings_that_name_no_single_sample_exclude_the_shard_and_say_so(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    validated(
        root,
        found("shard-000.tar", key="000001", count=3),
        found("shard-000.tar"),
        found("shard-001.tar", whole=True),
        found("shard-002.tar", key="000012"),
    )
    told = Told()
    gone = excluding(root, "WDS121", told=told)

    assert {sample[:9] for sample in splits_of(root)} == {f"shard-00{i}" for i in range(2, 6)}
    assert "shard-002.tar/000012" in gone
    assert told.notes == ["2 shards excluded completely, because their findings do not name individual samples"]


def test_samples_without_a_part_they_need_are_excluded_one_by_one_whatever_was_validated(tmp_path: Path) -> None:
    files = samples(0, 40)
    del files["000007.txt"], files["000031.txt"]
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    split_by_ratios(root, {"train": 1}, by="sample")
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS108",))))
    names = {f"a.tar/{i:06d}" for i in range(40)}
    assert names - splits_of(root).keys() == {"a.tar/000007", "a.tar/000031"}
    assert index(root).up_to_date


def test_of_keys_in_several_shards_all_samples_but_the_first_are_excluded(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5), "b.tar": samples(3, 5), "c.tar": samples(4, 3)})
    index(root)
    split_by_ratios(root, {"train": 1}, may_move=True)
    before = splits_of(root)
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS106",))))
    gone = {"b.tar/000003", "b.tar/000004", "c.tar/000004", "c.tar/000005", "c.tar/000006"}
    assert before.keys() - splits_of(root).keys() == gone


def test_a_code_that_nothing_is_known_by_is_refused(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    validated(root, found("shard-000.tar", 1))
    for codes in (("WDS110",), ("WDS121", "WDS106")):
        with pytest.raises(UsageError, match=f"has a finding with code {codes[-1]}") as caught:
            excluding(root, *codes)
        assert caught.value.code == "WDS214"
        assert out_of(root) == set()
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS110",)), allow_empty=True))


def test_damage_that_was_found_once_stays_out_of_training(tmp_path: Path) -> None:
    files = {f"{s}.tar": {f"{s}{i}.json": b"{" if i == s else b"{}" for i in range(5)} for s in range(3)}
    root = a_dataset(tmp_path, files)
    index(root)
    split_by_ratios(root, {"train": 1}, may_move=True)
    content = ValidateRequest(levels=("structure", "headers", "content"))
    validate(root, content)
    split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS144",))))
    gone = {"0.tar/00", "1.tar/11", "2.tar/22"}
    for request in (ValidateRequest(), replace(content, share=0.2, again=True), replace(content, shards=("1.tar",))):
        validate(root, request)
        a_dataset(tmp_path, {f"new-{len(splits_of(root))}.tar": {f"n{len(splits_of(root))}.json": b"{}"}})
        index(root)
        assert not gone & splits_of(root).keys()
    rewritten(tmp_path / "1.tar", {f"1{i}.json": b"{}" for i in range(5)})
    index(root)
    assert gone & splits_of(root).keys() == {"1.tar/11"}


def test_codes_of_a_dataset_that_nobody_validated_are_refused(tmp_path: Path) -> None:
    root = a_divided(tmp_path)
    with pytest.raises(InputError, match="has not been validated") as caught:
        split_dataset(root, SplitRequest(excludes=Excludes(codes=("WDS121",))))
    assert "wdsctl validate" in caught.value.hint
