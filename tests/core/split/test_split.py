from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, rewrite_shard, samples, some_shards, split_by_ratios, tree
from tests.core.catalog.readers import read_split
from tests.core.dumps import split_of
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, DatasetError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.split.split import SplitReport, ensure_split
from wdsctl.core.split_rules.rule import SplitBy, SplitRule

EIGHT_ONE_ONE: dict[str, float] = {"train": 8, "val": 1, "test": 1}


def an_indexed(root: Path, count: int, each: int = 5, *, first: int = 0) -> str:
    path = some_shards(root, count, each, first=first)
    index(path)
    return path


def counts(report: SplitReport) -> dict[str, tuple[int, int]]:
    return {each.name: (each.shards, each.samples) for each in report.splits}


@pytest.mark.usefixtures("place")
def test_split_by_shard_meets_shares_exactly(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 20)
    report = split_by_ratios(root, EIGHT_ONE_ONE)

    assert report.by == "shard"
    assert counts(report) == {"train": (16, 80), "val": (2, 10), "test": (2, 10)}
    assignments = split_of(root)
    assert len(assignments) == 100
    assert all(len({assignments[f"shard-{i:03d}.tar", j] for j in range(5)}) == 1 for i in range(20))


@pytest.mark.usefixtures("place")
def test_split_by_sample_meets_shares_exactly_in_every_shard(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 3, 50)
    report = split_by_ratios(root, EIGHT_ONE_ONE, by="sample")

    assert counts(report) == {"train": (3, 120), "val": (3, 15), "test": (3, 15)}
    per_shard = Counter((shard, name) for (shard, _), name in split_of(root).items())
    expected = {"train": 40, "val": 5, "test": 5}
    assert per_shard == {(f"shard-{i:03d}.tar", name): count for i in range(3) for name, count in expected.items()}


@pytest.mark.parametrize(("shards", "by"), [(10, "shard"), (2, "sample"), (1, "sample")])
def test_auto_splits_by_shard_unless_a_split_would_be_empty(tmp_path: Path, shards: int, by: str) -> None:
    assert split_by_ratios(an_indexed(tmp_path, shards, 20), EIGHT_ONE_ONE).by == by


@pytest.mark.parametrize(("by", "hint"), [("shard", "--by sample"), ("sample", "larger share")])
def test_empty_split_is_refused_without_changes(tmp_path: Path, by: SplitBy, hint: str) -> None:
    root = an_indexed(tmp_path, 2, 2)
    split_by_ratios(root, {"train": 1, "val": 1})
    before = split_of(root)

    with pytest.raises(UsageError, match="test would be empty") as caught:
        split_by_ratios(root, {"train": 98, "val": 98, "test": 1}, by=by)
    assert (caught.value.code, hint in caught.value.hint) == ("WDS210", True)
    assert split_of(root) == before


def test_split_depends_on_seed_and_is_reproducible(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 30)
    assignments = []
    for seed in (1, 2, 1):
        split_by_ratios(root, EIGHT_ONE_ONE, seed=seed, allow_split_changes=True)
        assignments.append(split_of(root))

    assert assignments[0] == assignments[2] != assignments[1]


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_added_shards_move_no_sample_and_meet_shares(tmp_path: Path, by: SplitBy) -> None:
    root = an_indexed(tmp_path, 10, first=100)
    split_by_ratios(root, EIGHT_ONE_ONE, by=by)
    for first, count in ((0, 1), (1, 2), (3, 7), (200, 10)):
        before = split_of(root)
        some_shards(tmp_path, count, first=first)
        index(root)
        after = split_of(root)
        assert {place: after[place] for place in before} == before

    assert Counter(after.values()) == {"train": 120, "val": 15, "test": 15}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("by", ["shard", "sample"])
def test_touched_shard_moves_no_sample(tmp_path: Path, by: SplitBy) -> None:
    root = an_indexed(tmp_path, 10)
    split_by_ratios(root, EIGHT_ONE_ONE, by=by)
    before = split_of(root)
    rewrite_shard(tmp_path / "shard-004.tar", samples(20, 5))
    report = index(root)

    assert (report.changed, report.unchanged) == (0, 10)
    assert split_of(root) == before


@pytest.mark.usefixtures("place")
def test_changed_shard_keeps_its_split_after_being_bad(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    split_by_ratios(root, EIGHT_ONE_ONE)
    before = split_of(root)
    for content in (b"bad", samples(20, 9)):
        rewrite_shard(tmp_path / "shard-004.tar", content)
        index(root)
    after = split_of(root)

    assert {after["shard-004.tar", i] for i in range(9)} == {before["shard-004.tar", 0]}
    assert {place: name for place, name in after.items() if place[0] != "shard-004.tar"} == {
        place: name for place, name in before.items() if place[0] != "shard-004.tar"
    }


def test_shards_without_samples_do_not_count_for_shares(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    split_by_ratios(root, EIGHT_ONE_ONE)
    a_dataset(tmp_path, {f"bad-{i}.tar": b"bad" for i in range(10)})
    index(root)
    some_shards(tmp_path, 10, first=10)
    index(root)

    assert Counter(split_of(root).values()) == {"train": 80, "val": 10, "test": 10}


def test_split_that_lost_its_last_shard_is_reported_empty(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    split_by_ratios(root, EIGHT_ONE_ONE)
    shard = next(place[0] for place, name in split_of(root).items() if name == "val")
    Path(root, shard).unlink()
    (found,) = index(root, missing="drop").findings

    assert (found.code, found.severity, "'val'" in found.message) == ("WDS210", "warning", True)


def test_rule_is_written_to_dataset_yaml_and_other_content_is_kept(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    path = Path(locate(root).config_path)
    path.write_text("# mine\nsample_type: CrudeSample  # and this\n")
    split_by_ratios(root, EIGHT_ONE_ONE, seed=7)

    assert load_config(str(path)).split == SplitRule(EIGHT_ONE_ONE, "shard", 7)
    assert path.read_text().startswith("# mine\nsample_type: CrudeSample  # and this\n")


def test_first_index_applies_rule_of_dataset_yaml(tmp_path: Path) -> None:
    one, two = an_indexed(tmp_path / "one", 10), some_shards(tmp_path / "two", 10)
    split_by_ratios(one, EIGHT_ONE_ONE, seed=7)
    Path(locate(two).meta).mkdir()
    rule = "{shares: {train: 8, val: 1, test: 1}, seed: 7}"
    Path(locate(two).config_path).write_text(f"sample_type: CrudeSample\nsplit: {rule}\n")
    index(two)

    assert split_of(two) == split_of(one)


def test_dry_run_reports_counts_and_writes_nothing(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    before = tree(root)
    report = split_by_ratios(root, EIGHT_ONE_ONE, dry_run=True)

    assert (counts(report)["train"], report.dry_run) == ((8, 40), True)
    assert tree(root) == before


def test_split_without_catalog_is_refused_without_writing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    before = tree(root)

    with pytest.raises(CatalogError) as caught:
        split_by_ratios(root, EIGHT_ONE_ONE)
    assert caught.value.code == "WDS301"
    assert tree(root) == before


def test_unknown_split_error_lists_existing_splits(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    split_by_ratios(root, EIGHT_ONE_ONE)

    assert [part.samples for part in read_split(locate(root).catalog_path, "val")] == [5]
    with pytest.raises(InputError, match="no split 'dev'; it has train, val, test") as caught:
        read_split(locate(root).catalog_path, "dev")
    assert caught.value.code == "WDS211"


def test_broken_dataset_yaml_stops_split_without_changes(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    split_by_ratios(root, {"train": 1})
    Path(locate(root).config_path).write_text("sample_type: [")
    before = split_of(root)

    with pytest.raises(DatasetError) as caught:
        split_by_ratios(root, EIGHT_ONE_ONE)
    assert caught.value.code == "WDS220"
    assert split_of(root) == before


def run_ensure_split(root: str, shares: dict[str, float] | None = None) -> tuple[bool, list[str]]:
    progress = RecordingProgress()
    place = locate(root)
    with OpenDataset(place) as dataset, hold_lock(place.lock):
        _, is_new = ensure_split(dataset, shares, "auto", 0, progress)
    return is_new, progress.notes


def test_ensure_split_records_rule_that_killed_run_did_not(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    path = Path(locate(root).config_path)
    path.write_text("sample_type: CrudeSample\nsplit: {shares: {train: 1}}\n")
    before = path.read_text()
    split_by_ratios(root, EIGHT_ONE_ONE)
    path.write_text(before)

    assert run_ensure_split(root, EIGHT_ONE_ONE) == (True, [])
    assert load_config(str(path)).split == SplitRule(EIGHT_ONE_ONE, "shard", 0)
    assert run_ensure_split(root, EIGHT_ONE_ONE) == (False, [])


def test_rule_of_user_is_applied_without_splits_and_noted_with_splits(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 10)
    path = Path(locate(root).config_path)
    path.write_text("sample_type: CrudeSample\nsplit: {shares: {train: 8, val: 2}}  # mine\n")

    assert run_ensure_split(root) == (True, [])
    assert Counter(split_of(root).values()) == {"train": 40, "val": 10}
    before = split_of(root)
    edited_yaml = "sample_type: CrudeSample\nsplit: {shares: {train: 5, dev: 5}, by: sample}  # mine\n"
    path.write_text(edited_yaml)
    is_new, (note,) = run_ensure_split(root)

    assert not is_new
    assert "train=8,val=2" in note
    assert f"wdsctl split {root} train=5,dev=5 --by sample --seed 0" in note
    assert (path.read_text(), split_of(root)) == (edited_yaml, before)


def test_default_split_is_train(tmp_path: Path) -> None:
    root = an_indexed(tmp_path, 3)

    assert run_ensure_split(root) == (True, [])
    assert set(split_of(root).values()) == {"train"}
    assert run_ensure_split(root) == (False, [])


def test_dataset_without_samples_has_no_splits(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"readme": b"1"}})
    index(root)

    with pytest.raises(DatasetError, match="no samples to split") as split_error:
        split_by_ratios(root, {"train": 1.0})
    with pytest.raises(InputError, match="no samples") as read_error:
        read_split(locate(root).catalog_path, "train")
    assert split_error.value.hint == read_error.value.hint == f"`wdsctl validate {root}` tells why"
    assert (split_error.value.code, read_error.value.code) == ("WDS119", "WDS211")
