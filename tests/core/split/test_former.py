from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, a_shard, memory_reader, rewrite_shard, samples
from tests.core.raw_folders import a_folder
from tests.core.split_sets import BALANCED, a_video_dataset, split_by_rule, splits_of, video_shards
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import QuarantineEntry, add_to_quarantine
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import SplitMembership
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.index.vacuum import catalog_vacuum
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.split.allocate import NEW_SAMPLE, SampleOrigins
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitBy, SplitRule
from wdsctl.core.validate.quarantine import release_from_quarantine

EIGHT_ONE_ONE: dict[str, float] = {"train": 8, "val": 1, "test": 1}
HALVES: dict[str, float] = {"train": 3, "val": 2, "test": 2}
SHARDS = 10

#: A rule of every kind, and the number of folds that it makes.
RULES: dict[str, tuple[SplitRule, int]] = {
    "shard": (SplitRule(HALVES, "shard"), 0),
    "sample": (SplitRule(HALVES, "sample"), 0),
    "key": (SplitRule(HALVES, "key"), 0),
    "group": (SplitRule(HALVES, group_by="json:film.id"), 0),
    "stratum": (SplitRule(HALVES, stratify="json:label"), 0),
    "balanced": (BALANCED, 0),
    "pattern": (SplitRule({}, patterns={"val": ("shard-00{0..3}.tar",)}, rest="train"), 0),
    "folds by key": (SplitRule({}, by="key"), 3),
    "folds by group": (SplitRule({}, group_by="json:film.id"), 3),
    "balanced folds": (replace(BALANCED, shares={}), 3),
}


def key_of(member: str) -> str:
    return member.rsplit(".", 1)[0]


class History:
    """A dataset with methods that change it, and the last split of every sample by set and key."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.rule, self.folds = RULES[name]
        self.draw = random.Random(f"{name} {seed}")
        self.folder = folder
        self.content = video_shards(0, SHARDS)
        self.now = dict(self.content)
        self.root = a_video_dataset(folder, SHARDS)
        split_by_rule(self.root, self.rule, folds=self.folds)
        split_by_rule(self.root, SplitRule({"a": 1, "b": 1}, "sample"), split_set="other")
        self.sets = ["other", *([f"fold-{i}" for i in range(self.folds)] if self.folds else [""])]
        self.steps: list[str] = []
        self.last: dict[tuple[str, str], str] = {}
        self.check("at first")

    def check(self, what: str) -> None:
        """Checks that every sample that was ever in a split is in that split or in none."""
        for of_set in self.sets:
            for sample, name in splits_of(self.root, of_set).items():
                key = sample.split("/", 1)[1]
                was = self.last.setdefault((of_set, key), name)
                assert name == was, f"{what} of {self.steps}: {key} of {of_set!r} was in {was}, and is in {name}"

    def some_shards(self) -> list[str]:
        return self.draw.sample(sorted(self.content), self.draw.randint(1, 3))

    def some_keys(self, *shards: str) -> tuple[str, ...]:
        keys = sorted({key_of(member) for name in shards or self.content for member in self.content[name]})
        return tuple(self.draw.sample(keys, 7))

    def exclude_shards(self) -> None:
        split_dataset(self.root, SplitRequest(excludes=Excludes(shards=tuple(self.some_shards())), allow_empty=True))

    def exclude_keys(self) -> None:
        split_dataset(self.root, SplitRequest(excludes=Excludes(keys=self.some_keys()), allow_empty=True))

    def no_excludes(self) -> None:
        split_dataset(self.root, SplitRequest(replace_excludes=True))

    def quarantine(self) -> None:
        place = locate(self.root)
        with Catalog.open(place.catalog_path) as catalog:
            rows = [row for row in catalog.shards() if row.samples]
        ledger = Ledger.open(place.ledger_path)
        for row in self.draw.sample(rows, 2):
            at = self.draw.choice([None, 0, row.samples - 1])
            bad = QuarantineEntry(shard=row.path, layout_hash=row.layout_hash, position=at, code="WDS106", run_id=0)
            add_to_quarantine(ledger, [bad])
        ledger.close()
        index(self.root)

    def release(self) -> None:
        release_from_quarantine(self.root)

    def new_shards(self) -> None:
        first = len(video_shards(0, SHARDS)) + self.draw.randint(0, 40)
        self.write(video_shards(first, 2))

    def lose_samples(self) -> None:
        """Rewrites existing shards without some of their samples."""
        present_shards = {sample.split("/", 1)[0] for sample in splits_of(self.root, "other")}
        for name in present_shards.intersection(self.some_shards()):
            removed_keys = self.some_keys(name)[:3]
            self.now[name] = {each: data for each, data in self.now[name].items() if key_of(each) not in removed_keys}
            rewrite_shard(self.folder / name, self.now[name])
        index(self.root, missing="drop")

    def restore(self) -> None:
        """Restores the content of all shards."""
        self.write(self.content)

    def leave_out(self) -> None:
        index(self.root, exclude=tuple(self.some_shards()), missing="drop")

    def take_in(self) -> None:
        index(self.root, exclude=("",))

    def rebuild(self) -> None:
        index(self.root, rebuild=True, missing="drop")

    def vacuum(self) -> None:
        catalog_vacuum(self.root, generations=1)

    def write(self, shards: dict[str, dict[str, bytes]]) -> None:
        for name, members in shards.items():
            self.content[name] = self.now[name] = members
            a_dataset(self.folder, {name: b""})
            rewrite_shard(self.folder / name, members)
        index(self.root, missing="drop")

    def divide_again(self) -> None:
        """Applies the same rule again; moves are refused."""
        with suppress(UsageError):
            split_by_rule(self.root, self.rule, folds=self.folds, allow_split_changes=False)


STEPS = sorted({name for name in vars(History) if name[0] != "_"} - {"check", "some_shards", "some_keys", "write"})


@pytest.mark.parametrize(("seed", "steps"), [(0, 7), pytest.param(1, 10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RULES)
def test_samples_never_change_split_in_random_histories(tmp_path: Path, name: str, seed: int, steps: int) -> None:
    history = History(tmp_path, name, seed)
    for _ in range(steps):
        step = history.draw.choice(STEPS)
        history.steps.append(step)
        getattr(history, step)()
        history.check(step)
    history.no_excludes()
    history.release()
    history.take_in()
    history.restore()
    history.check("at last")
    assert all(len(splits_of(history.root, of_set)) >= SHARDS * 10 for of_set in history.sets)


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_shards_return_to_their_splits_after_exclusion(tmp_path: Path, by: str) -> None:
    root = a_video_dataset(tmp_path, 20)
    split_by_rule(root, SplitRule(EIGHT_ONE_ONE, by=by))  # type: ignore[arg-type]
    before = splits_of(root)
    for count in range(1, 12, 3):
        shards = random.Random(count).sample(range(20), count)
        patterns = tuple(f"shard-{i:03d}.tar" for i in shards)
        split_dataset(root, SplitRequest(excludes=Excludes(shards=patterns), allow_empty=True))
        split_dataset(root, SplitRequest(replace_excludes=True))
        assert splits_of(root) == before


def test_reassignment_needs_allow_split_changes(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(EIGHT_ONE_ONE, "shard"))
    before = splits_of(root)
    rule = SplitRule({"train": 8, "val": 1}, "shard")
    dry_report = split_by_rule(root, rule, allow_split_changes=False, dry_run=True)
    with pytest.raises(UsageError) as caught:
        split_by_rule(root, rule, allow_split_changes=False)

    assert sorted((move.before, move.after, move.samples) for move in dry_report.reassigned) == [
        ("test", "val", 10),
        ("val", "train", 10),
    ]
    assert all(len(move.keys) == 3 and before[move.keys[0]] == move.before for move in dry_report.reassigned)
    assert caught.value.code == "WDS238"
    assert caught.value.message.startswith("20 samples would leave their split: 10 from ")
    assert "10 from test to val (such as shard-" in caught.value.message
    assert splits_of(root) == before
    assert split_by_rule(root, rule).reassigned == dry_report.reassigned
    assert splits_of(root) != before


def test_dataset_with_one_split_is_divided_without_allow_split_changes(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule({"train": 1}))

    assert split_by_rule(root, SplitRule(EIGHT_ONE_ONE), allow_split_changes=False).reassigned == ()


def test_rule_change_reports_reassignment_of_excluded_samples(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(HALVES, "shard"))
    before = splits_of(root)
    out = tuple(f"shard-{i:03d}.tar" for i in (1, 2, 3, 4))
    split_by_rule(root, None, excludes=Excludes(shards=out), allow_empty=True)
    report = split_by_rule(root, SplitRule(HALVES, "key"))
    remaining = splits_of(root)
    split_by_rule(root, None, replace_excludes=True, allow_split_changes=False)
    after = splits_of(root)

    moved = {sample for sample in before if before[sample] != after[sample]}
    assert any(sample.startswith(out) for sample in moved)
    assert sum(move.samples for move in report.reassigned) == len(moved)
    assert {sample: after[sample] for sample in remaining} == remaining


def test_exclude_that_empties_split_is_refused(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(EIGHT_ONE_ONE, "shard"))
    before = splits_of(root)
    only = next(sample.split("/")[0] for sample, name in before.items() if name == "val")
    with pytest.raises(UsageError, match="val would be empty: all its samples are excluded") as caught:
        split_by_rule(root, None, excludes=Excludes(shards=(only,)))

    assert caught.value.code == "WDS210"
    assert splits_of(root) == before
    split_by_rule(root, None, excludes=Excludes(shards=(only,)), allow_empty=True)
    assert "val" not in splits_of(root).values()


def test_exclude_that_empties_all_splits_error_lists_them(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(EIGHT_ONE_ONE, "shard"))

    with pytest.raises(UsageError, match="train, val and test would be empty: all their samples are excluded"):
        split_by_rule(root, None, excludes=Excludes(shards=("*.tar",)))


@pytest.mark.parametrize("by", ["shard", "sample", "key"])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_exclude_with_unchanged_shares_moves_no_other_sample(tmp_path: Path, by: SplitBy, allow_empty: bool) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(HALVES, by))
    before = splits_of(root)

    rule = SplitRule(HALVES, by if by == "key" else "auto", allow_empty=allow_empty)
    out = Excludes(shards=("shard-003.tar",))
    report = split_by_rule(root, rule, excludes=out, allow_empty=allow_empty, allow_split_changes=False)

    after = {sample: name for sample, name in before.items() if not sample.startswith("shard-003.tar")}
    assert splits_of(root) == after
    assert [(split.name, split.samples) for split in report.splits] == [
        (name, list(after.values()).count(name)) for name in HALVES
    ]
    report = split_by_rule(root, rule, replace_excludes=True, allow_split_changes=False)
    assert splits_of(root) == before
    assert sum(split.samples for split in report.splits) == len(before)


def test_exclude_with_changed_shares_needs_allow_split_changes(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(HALVES, "sample"))

    with pytest.raises(UsageError) as caught:
        split_by_rule(
            root,
            SplitRule(EIGHT_ONE_ONE, "sample"),
            excludes=Excludes(shards=("shard-003.tar",)),
            allow_split_changes=False,
        )
    assert caught.value.code == "WDS238"


def test_redundant_exclude_requests_are_noted(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_rule(root, SplitRule(HALVES, "shard"))
    progress = RecordingProgress()
    for request in (
        SplitRequest(replace_excludes=True),
        SplitRequest(excludes=Excludes(keys=("film000/00000",))),
        SplitRequest(excludes=Excludes(keys=("film000/00000",))),
    ):
        split_dataset(root, request, progress=progress)

    assert progress.notes == [
        "nothing to do: no rule excludes samples",
        "nothing to do: the dataset already excludes all of these",
    ]


def test_restored_samples_of_shard_return_to_their_splits(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 3)
    split_by_rule(root, SplitRule({"train": 1, "val": 1}, "sample"))
    before = splits_of(root)
    content = video_shards(0, 1)["shard-000.tar"]
    for lost in ("film000/00002", "film001/00007"):
        rewrite_shard(
            tmp_path / "shard-000.tar", {name: data for name, data in content.items() if key_of(name) != lost}
        )
        index(root)
        now = splits_of(root)
        assert now == {sample: name for sample, name in before.items() if sample != f"shard-000.tar/{lost}"}
        rewrite_shard(tmp_path / "shard-000.tar", content)
        index(root)
        assert splits_of(root) == before


@pytest.mark.parametrize("is_left_out", [True, False])
@pytest.mark.parametrize("name", ["shard", "sample", "stratum"])
def test_renamed_shard_returns_to_its_splits(tmp_path: Path, name: str, is_left_out: bool) -> None:
    root = a_video_dataset(tmp_path, SHARDS)
    split_by_rule(root, RULES[name][0])
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, "sample"), split_set="other")
    before = [splits_of(root, of_set) for of_set in ("", "other")]
    old, moved_path, new = tmp_path / "shard-003.tar", tmp_path / "aside", tmp_path / "moved.tar"
    if is_left_out:
        index(root, exclude=(old.name,))
    else:
        old.rename(moved_path)
        index(root, missing="drop")
        moved_path.rename(old)
    old.rename(new)
    index(root, exclude=("",))

    after = [splits_of(root, of_set) for of_set in ("", "other")]
    assert after == [
        {key.replace(old.name, new.name): split for key, split in assignment.items()} for assignment in before
    ]


def test_raw_samples_keep_split_when_others_are_dropped_or_renamed(tmp_path: Path) -> None:
    source, dest = a_folder(tmp_path / "raw", 30), str(tmp_path / "out")
    options = PrepareRequest(split={"train": 1, "val": 1}, split_by="sample", index=IndexRequest(missing="drop"))
    prepare(str(source), dest, options)
    before = splits_of(dest)
    for part in ("jpg", "txt"):
        (source / "0" / f"00000.{part}").unlink()
        (source / "1" / f"00004.{part}").rename(source / "1" / f"renamed.{part}")
    report = prepare(str(source), dest, options)
    after = splits_of(dest)

    assert report.folder is not None
    assert report.folder.dropped == ("0/00000", "1/00004")
    removed = {f"shard-000000.tar/{key}" for key in ("0/00000", "1/00004")}
    expected = {sample: name for sample, name in before.items() if sample not in removed}
    assert {sample: name for sample, name in after.items() if not sample.endswith("/1/renamed")} == expected
    assert len(after) == len(expected) + 1


@pytest.mark.parametrize("lost", ["a", "b", "c", "d"])
def test_excluded_sample_does_not_affect_splits_of_returned_shard(tmp_path: Path, lost: str) -> None:
    """One sample per shard was excluded under an earlier rule; other samples of a returning shard keep their splits."""
    root = a_dataset(tmp_path, {f"{s}.tar": {f"{s}{i}.txt": b"1" for i in range(6)} for s in "abcd"})
    index(root)
    split_by_rule(root, SplitRule({"train": 8, "val": 1, "test": 1}, "sample"))
    split_dataset(root, SplitRequest(excludes=Excludes(keys=tuple(f"{s}2" for s in "abcd"))))
    split_dataset(
        root, SplitRequest(rule=SplitRule({"train": 2, "val": 1, "test": 1}, "shard"), allow_split_changes=True)
    )
    before = splits_of(root, "")
    moved_path = tmp_path / "away"
    (tmp_path / f"{lost}.tar").rename(moved_path)
    index(root, missing="drop")
    moved_path.rename(tmp_path / f"{lost}.tar")
    index(root)
    assert splits_of(root, "") == before


@pytest.mark.parametrize(("left", "origin"), [("012", 3), ("01", NEW_SAMPLE)])
def test_renamed_sample_is_found_by_sizes_unless_they_are_ambiguous(tmp_path: Path, left: str, origin: int) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4)})
    index(root)
    with Catalog.open(locate(root).catalog_path) as catalog:
        (row,) = catalog.shards()
    origins = SampleOrigins(locate(root), 1, {"a.tar": SplitMembership(row.layout_hash or "", {}, row.samples, {})})
    data = a_shard({name: each for name, each in samples(0, 10).items() if name[5] in f"{left}9"})
    origins.add_scan("a.tar", scan_tar("a.tar", memory_reader(data), len(data)))

    assert origins.by_path["a.tar"].tolist() == [*map(int, left), origin]
