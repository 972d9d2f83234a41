from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import Told, a_dataset, a_shard, rewritten, tree
from tests.core.split_sets import BALANCED, EACH, FILM, by_film, film_shards, films, make, splits_of
from wdsctl.core.dataset_yaml import load
from wdsctl.core.errors import DatasetError, InputError, StorageError, UsageError
from wdsctl.core.place import locate
from wdsctl.core.split_rules import Excludes, SplitRule
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.prepare import PrepareOptions, prepare
from wdsctl.core.verbs.split import SplitRequest, split, split_by

EIGHT_ONE_ONE: dict[str, float] = {"train": 8, "val": 1, "test": 1}


def test_a_key_keeps_its_split_when_samples_are_added_and_shards_are_written_anew(tmp_path: Path) -> None:
    root = films(tmp_path, 15)
    split(root, EIGHT_ONE_ONE, by="key")
    before = {sample.split("/", 1)[1]: name for sample, name in splits_of(root).items()}
    a_dataset(tmp_path, film_shards(15, 5))
    shards = film_shards(0, 2)
    rewritten(tmp_path / "shard-000.tar", dict(sorted(shards["shard-001.tar"].items(), reverse=True)))
    rewritten(tmp_path / "shard-001.tar", shards["shard-000.tar"])
    index(root)
    after = splits_of(root)

    assert len(after) == 200
    assert all(before.get(sample.split("/", 1)[1], name) == name for sample, name in after.items())
    assert set(after.values()) == {"train", "val", "test"}
    assert index(root).up_to_date


@pytest.mark.parametrize("value", ["json:film.id", "part:json[film][id]", "key:^(film\\d+)/"])
def test_a_group_never_straddles_splits_and_new_samples_of_it_join_it(tmp_path: Path, value: str) -> None:
    root = films(tmp_path, 17)
    make(root, SplitRule({"train": 2, "val": 1, "test": 1}, group_by=value))
    before = splits_of(root)
    a_dataset(tmp_path, film_shards(17, 3))  # the first film of it began in the shard before
    index(root)
    after = splits_of(root)

    assert len(after) == 200
    assert {sample: after[sample] for sample in before} == before
    assert all(len(names) == 1 for names in by_film(after).values())
    assert len(by_film(after)) == 200 // FILM


def test_the_number_of_workers_changes_no_group_and_no_stratum(tmp_path: Path) -> None:
    root = films(tmp_path)
    for rule in (
        SplitRule({"a": 1, "b": 1}, group_by="json:film.id"),
        SplitRule({"a": 1, "b": 1}, stratify="part:cls"),
        BALANCED,
    ):
        found = []
        for workers in (1, 3):
            make(root, rule, workers=workers)
            found.append(splits_of(root))
        assert found[0] == found[1]


def test_each_stratum_is_divided_by_the_shares_to_less_than_one_sample(tmp_path: Path) -> None:
    root = films(tmp_path)
    report = make(root, SplitRule({"train": 7, "val": 3}, stratify="json:label"))
    counts = {line.stratum: (line.samples, line.splits) for line in report.strata}

    assert {name: samples for name, (samples, _) in counts.items()} == {"cat": 53, "dog": 54, "eel": 53, "rare": 40}
    for samples, splits in counts.values():
        assert sum(splits.values()) == samples
        assert abs(splits["train"] - samples * 0.7) < 1
    assert report.drift == max(line.drift for line in report.strata) < 1 / 40
    assert Counter(splits_of(root).values())["train"] == sum(splits["train"] for _, splits in counts.values())


def test_later_samples_of_a_stratum_go_where_its_shares_are_short(tmp_path: Path) -> None:
    root = films(tmp_path, 1)
    make(root, SplitRule({"train": 7, "val": 3}, stratify="part:cls", allow_empty=True))
    for first in range(1, 20):
        a_dataset(tmp_path, film_shards(first, 1))
        index(root)
    after = splits_of(root)

    by_label = Counter((int(sample[-5:]) % 4, name) for sample, name in after.items())
    assert len(after) == 200
    assert all(abs(by_label[label, "train"] - 35) <= 1 for label in range(4))


def test_shards_go_by_patterns_and_later_ones_too(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    patterns = {"train": ("shard-{000..003}.tar", "re:shard-01\\d\\.tar"), "val": ("glob:shard-00[45]*",)}
    make(root, SplitRule({}, patterns=patterns, allow_empty=True))
    assert Counter(splits_of(root).values()) == {"train": 40, "val": 20}
    a_dataset(tmp_path, film_shards(10, 1) | film_shards(30, 1))
    found = index(root).findings

    assert Counter(splits_of(root).values()) == {"train": 50, "val": 20}
    assert [(each.code, each.severity, each.count) for each in found] == [("WDS213", "warning", 10)]
    assert index(root).up_to_date


@pytest.mark.parametrize(
    ("patterns", "code", "words"),
    [
        ({"train": ("shard-{000..004}.tar",), "val": ("shard-{004..005}.tar",)}, "WDS212", "1 shard matches patterns"),
        ({"train": ("shard-000.tar",), "val": ("shard-001.tar",)}, "WDS213", "40 samples match no pattern"),
        ({"train": ("glob:*",), "val": ("val/*.tar", "re:x")}, "WDS214", "2 patterns match no shard: val/"),
    ],
)
def test_overlaps_gaps_and_patterns_without_shards_are_errors_with_counts(
    tmp_path: Path, patterns: dict[str, tuple[str, ...]], code: str, words: str
) -> None:
    root = films(tmp_path, 6)
    split(root, {"train": 1})
    before = splits_of(root)

    with pytest.raises(UsageError, match=words) as caught:
        make(root, SplitRule({}, patterns=patterns))
    assert caught.value.code == code
    assert splits_of(root) == before


def test_the_rest_of_patterns_may_go_somewhere_or_nowhere(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    make(root, SplitRule({}, patterns={"val": ("shard-000.tar",)}, rest="train"))
    assert Counter(splits_of(root).values()) == {"val": 10, "train": 50}
    make(root, SplitRule({}, patterns={"val": ("shard-000.tar",)}, rest="none"))
    assert Counter(splits_of(root).values()) == {"val": 10}
    assert index(root).up_to_date


def test_lists_of_keys_are_kept_beside_the_dataset_and_new_keys_go_to_the_rest(tmp_path: Path) -> None:
    listed = tmp_path / "val.txt"
    listed.write_bytes(b"\xef\xbb\xbffilm000/00001\r\n\r\nfilm003/00012\nfilm003/00012\n")
    root = films(tmp_path / "data", 3)
    Path(locate(root).dataset_yaml).write_text("sample_type: CrudeSample\n")
    make(root, SplitRule({}, keys={"val": str(listed)}, rest="train"), of_set="papers")
    listed.unlink()
    a_dataset(tmp_path / "data", film_shards(3, 1))
    index(root)
    found = splits_of(root, "papers")

    assert sorted(sample for sample, name in found.items() if name == "val") == [
        "shard-000.tar/film000/00001",
        "shard-001.tar/film003/00012",
    ]
    assert Counter(found.values()) == {"val": 2, "train": 38}
    rule = load(locate(root).dataset_yaml).split_sets["papers"]
    assert Path(locate(root).meta, rule.keys["val"]).is_file()


@pytest.mark.parametrize(
    ("lists", "rest", "code", "words"),
    [
        (
            {"val": "film000/00001\nnobody\n"},
            "train",
            "WDS214",
            "1 key of the list of val is not in the dataset: nobody",
        ),
        ({"val": "film000/00001\n"}, "", "WDS213", "29 samples are in no list"),
        ({"val": "film000/00001\n", "test": "film000/00001\n"}, "train", "WDS212", "1 sample is in the lists"),
    ],
)
def test_listed_keys_must_be_there_once_and_cover_all(
    tmp_path: Path, lists: dict[str, str], rest: str, code: str, words: str
) -> None:
    root = films(tmp_path / "data", 3)
    files = {}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
        files[name] = str(tmp_path / name)

    with pytest.raises(UsageError, match=words) as caught:
        make(root, SplitRule({}, keys=files, rest=rest))
    assert caught.value.code == code
    assert not Path(locate(root).meta, "splits").exists()


@pytest.mark.parametrize(("text", "words"), [(b"", "no keys"), (b"a\n\xff\n", "line 2 is no UTF-8")])
def test_a_list_of_keys_that_is_none_is_refused(tmp_path: Path, text: bytes, words: str) -> None:
    root = films(tmp_path / "data", 1)
    (tmp_path / "val.txt").write_bytes(text)

    with pytest.raises((InputError, DatasetError), match=words):
        make(root, SplitRule({}, keys={"val": str(tmp_path / "val.txt")}, rest="train"))
    with pytest.raises(InputError, match="does not exist"):
        make(root, SplitRule({}, keys={"val": str(tmp_path / "nowhere.txt")}, rest="train"))


def test_sets_stand_beside_one_another_and_each_is_replaced_alone(tmp_path: Path) -> None:
    root = films(tmp_path)
    split(root, EIGHT_ONE_ONE)
    plain = splits_of(root)
    make(root, SplitRule({"a": 1, "b": 1}, by="key"), of_set="two")
    make(root, SplitRule({"x": 1}), of_set="one")
    make(root, SplitRule({"a": 1, "b": 3}, by="shard", seed=1), of_set="two")

    assert splits_of(root) == plain
    assert Counter(splits_of(root, "two").values()) == {"a": 50, "b": 150}
    assert set(splits_of(root, "one").values()) == {"x"}
    split_by(root, SplitRequest(of_set="one", drop=True))
    assert splits_of(root, "one") == {}
    with pytest.raises(InputError, match="no set of splits 'one'; it has two"):
        split_by(root, SplitRequest(of_set="one", drop=True))


def test_counted_sets_are_dealt_new_shards_each_by_its_own_shares(tmp_path: Path) -> None:
    root = films(tmp_path, 10)
    split(root, EIGHT_ONE_ONE)
    make(root, SplitRule({"a": 1, "b": 1}, "sample"), of_set="two")
    before = splits_of(root), splits_of(root, "two")
    a_dataset(tmp_path, film_shards(10, 10))
    index(root)
    after = splits_of(root), splits_of(root, "two")

    assert [Counter(each.values()) for each in after] == [{"train": 160, "val": 20, "test": 20}, {"a": 100, "b": 100}]
    for one, other in zip(before, after, strict=True):
        assert {sample: other[sample] for sample in one} == one


def test_folds_are_sets_in_which_every_sample_is_once_in_val(tmp_path: Path) -> None:
    root = films(tmp_path)
    make(root, SplitRule({}, by="key"), folds=4)
    a_dataset(tmp_path, film_shards(20, 2))
    index(root)
    sets = [splits_of(root, f"fold-{i}") for i in range(4)]

    assert all(len(each) == 220 for each in sets)
    assert Counter(sample for each in sets for sample, name in each.items() if name == "val") == dict.fromkeys(
        sets[0], 1
    )
    make(root, SplitRule({}, group_by="json:film.id"), folds=3)
    assert splits_of(root, "fold-3") == {}
    assert all(len(names) == 1 for names in by_film(splits_of(root, "fold-2")).values())


def test_excluded_samples_are_in_no_split_and_nothing_else_moves(tmp_path: Path) -> None:
    root = films(tmp_path)
    split(root, EIGHT_ONE_ONE)
    make(root, SplitRule({"a": 1, "b": 1}, by="key"), of_set="two")
    before = splits_of(root), splits_of(root, "two")
    (tmp_path / "bad.txt").write_text("film001/00005\nfilm002/00008\n")
    named = Excludes(
        shards=("shard-003.tar",), keys=("film000/00001",), samples=("shard-019.tar/film04{8,9}/00{195..196}",)
    )
    with pytest.raises(UsageError, match=r"nothing to exclude is there by the name of shard-019\.tar/film048/00196"):
        make(root, None, excludes=named)
    named = Excludes(
        shards=("shard-003.tar",), keys=("film000/00001",), samples=("shard-019.tar/film048/00195",),
        key_files=(str(tmp_path / "bad.txt"),),
    )  # fmt: skip
    report = make(root, None, excludes=named)
    gone = {
        *(sample for sample in before[0] if sample.startswith("shard-003.tar/")),
        "shard-000.tar/film000/00001",
        "shard-000.tar/film001/00005",
        "shard-000.tar/film002/00008",
        "shard-019.tar/film048/00195",
    }

    assert report.excluded == len(gone) == 14
    for one, other in zip(before, (splits_of(root), splits_of(root, "two")), strict=True):
        assert other == {sample: name for sample, name in one.items() if sample not in gone}
    split(root, EIGHT_ONE_ONE)
    assert not gone & splits_of(root).keys()
    make(root, None, anew_excludes=True)
    assert splits_of(root, "two") == before[1]
    assert len(splits_of(root)) == 200


def test_excludes_hold_for_shards_that_come_later(tmp_path: Path) -> None:
    root = films(tmp_path, 4)
    split(root, {"train": 1, "val": 1})
    make(root, None, excludes=Excludes(shards=("shard-0{04..09}.tar",), keys=("film025/00102",)), allow_empty=True)
    a_dataset(tmp_path, film_shards(4, 1) | film_shards(10, 1))
    assert not index(root).up_to_date
    found = splits_of(root)

    assert len(found) == 49
    assert not any(sample.startswith("shard-004.tar") or sample.endswith("00102") for sample in found)


def test_a_dry_run_tells_what_would_move_and_writes_nothing(tmp_path: Path) -> None:
    root = films(tmp_path)
    split(root, EIGHT_ONE_ONE)
    before, files = splits_of(root), tree(root)
    (tmp_path / "val.txt").write_text("film000/00001\n")
    for rule in (
        SplitRule(EIGHT_ONE_ONE, by="key"),
        SplitRule(EIGHT_ONE_ONE, group_by="json:film.id"),
        SplitRule(EIGHT_ONE_ONE, stratify="json:label"),
        SplitRule(EIGHT_ONE_ONE, group_by="json:film.id", stratify="json:label"),
        SplitRule({}, keys={"val": str(tmp_path / "val.txt")}, rest="train"),
    ):
        files = tree(root)
        report = make(root, rule, dry_run=True)
        assert tree(root) == files
        make(root, rule)
        after = splits_of(root)
        moved = Counter((before[sample], after[sample]) for sample in before if before[sample] != after[sample])
        assert {(move.before, move.after): move.samples for move in report.moved} == moved
        before = after


def test_samples_without_a_group_are_an_error_unless_something_is_said_of_them(tmp_path: Path) -> None:
    shards: dict[str, Any] = film_shards(0, 4)
    shards["shard-004.tar"] = {
        "x/1.jpg": b"1",
        "x/2.json": b"{",
        "x/3.json": b'{"film": {"id": null}}',
        "x/4.json": b"[]",
    }
    root = a_dataset(tmp_path, shards)
    index(root)
    rule = SplitRule({"train": 1, "val": 1}, group_by="json:film.id")

    with pytest.raises(UsageError, match=r"4 samples have no json:film\.id: shard-004\.tar/x/1") as caught:
        make(root, rule)
    assert caught.value.code == "WDS215"
    make(root, SplitRule({"train": 1, "val": 1}, group_by="json:film.id", rest="val"))
    assert {name for sample, name in splits_of(root).items() if "/x/" in sample} == {"val"}
    make(root, SplitRule({"train": 1, "val": 1}, stratify="json:film.id"))
    assert len(splits_of(root)) == 44


def test_a_seed_is_named_by_which_few_groups_leave_no_split_empty(tmp_path: Path) -> None:
    root = films(tmp_path, 2)
    rule = SplitRule({"train": 8, "val": 1, "test": 1}, group_by="json:film.id")
    with pytest.raises(UsageError, match="would be empty") as caught:
        make(root, rule)
    found = re.search(r"`--seed (\d+)` leaves none empty", caught.value.hint)

    assert found is not None
    make(root, replace(rule, seed=int(found[1])))
    assert set(splits_of(root).values()) == {"train", "val", "test"}


def test_a_shard_that_cannot_be_read_ends_a_grouped_split_unless_it_is_excluded(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    split(root, {"train": 1})
    before = splits_of(root)
    (tmp_path / "shard-002.tar").unlink()
    rule = SplitRule({"train": 1, "val": 1}, group_by="json:film.id")

    with pytest.raises(StorageError, match="cannot be read"):
        make(root, rule)
    assert splits_of(root) == before
    make(root, rule, excludes=Excludes(shards=("shard-002.tar",)))
    assert len(splits_of(root)) == 50


def test_groups_may_be_numbers_of_a_column(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    index(root, columns={"size": "size:json"})
    make(root, SplitRule({"train": 1, "val": 1}, group_by="column:size"))
    found = splits_of(root)
    a_dataset(tmp_path, film_shards(6, 2))
    index(root)

    assert len(splits_of(root)) == 80
    assert {sample: splits_of(root)[sample] for sample in found} == found
    with pytest.raises(InputError, match="no column 'wide'"):
        make(root, SplitRule({"train": 1}, group_by="column:wide"))


def test_a_rebuilt_catalog_has_the_same_splits_by_the_rules_in_dataset_yaml(tmp_path: Path) -> None:
    (tmp_path / "val.txt").write_text("film000/00001\nfilm003/00012\n")
    root = films(tmp_path / "data", 8)
    prepare(root, options=PrepareOptions(split={"train": 8, "val": 2}))
    make(root, SplitRule(EIGHT_ONE_ONE, by="key", seed=3), of_set="k")
    make(root, SplitRule({"a": 1, "b": 1}, group_by="json:film.id"), of_set="g")
    make(root, SplitRule({"a": 1, "b": 1}, stratify="json:label"), of_set="s")
    make(root, BALANCED, of_set="b")
    make(root, SplitRule({}, patterns={"a": ("shard-00{0..3}.tar",)}, rest="b"), of_set="p")
    make(root, SplitRule({}, keys={"val": str(tmp_path / "val.txt")}, rest="train"), of_set="l")
    make(root, SplitRule({}, by="key"), folds=2)
    make(root, None, excludes=Excludes(keys=("film000/00002",)))
    sets = ("", "k", "g", "s", "b", "p", "l", "fold-0", "fold-1")
    before = [splits_of(root, name) for name in sets]
    assert index(root).up_to_date

    os.unlink(locate(root).catalog)
    prepare(root)
    assert [splits_of(root, name) for name in sets] == before
    index(root, rebuild=True)
    assert [splits_of(root, name) for name in sets] == before
    assert all(len(each) == 79 for each in before)


def test_rules_that_were_edited_are_applied_when_asked_for(tmp_path: Path) -> None:
    root = films(tmp_path, 8)
    prepare(root, options=PrepareOptions(split={"train": 8, "val": 2}))
    make(root, SplitRule({"a": 1, "b": 1}, by="key"), of_set="k")
    path = Path(locate(root).dataset_yaml)
    text = path.read_text().replace("  k: {shares: {a: 1, b: 1}", "  k: {shares: {a: 1, c: 1}")
    path.write_text(text + "exclude:\n  keys: [film000/00001]\n")
    index(root)
    assert set(splits_of(root, "k").values()) == {"a", "b"}
    split_by(root, SplitRequest(again=True))

    assert set(splits_of(root, "k").values()) == {"a", "c"}
    assert len(splits_of(root)) == 79
    assert path.read_text() == text + "exclude:\n  keys: [film000/00001]\n"


def test_prepare_names_the_command_for_a_rule_that_shares_cannot_say(tmp_path: Path) -> None:
    root = films(tmp_path, 8)
    prepare(root, options=PrepareOptions(split={"train": 8, "val": 2}))
    path = Path(locate(root).dataset_yaml)
    config = path.read_text().split("split:", maxsplit=1)[0]
    path.write_text(config + 'split: {shares: {train: 1, val: 1}, group_by: "json:film.id"}\n')
    told = Told()
    prepare(root, progress=told)

    assert any("in groups of json:film.id" in note and "--again` applies the other" in note for note in told.notes)


KILLED = """
import os, signal, sys
import wdsctl.core.verbs.split_read as read
from wdsctl.core.split_rules import SplitRule
from wdsctl.core.verbs.split import SplitRequest, split_by
run, left = read.run_value_unit, [3]
def dying(unit):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(unit)
read.run_value_unit = dying
split_by(sys.argv[1], SplitRequest(rule=SplitRule({"a": 1, "b": 1}, group_by="json:film.id")))
"""


def test_a_killed_run_changes_nothing_and_what_it_has_read_is_not_read_again(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    split(root, {"train": 1})
    before = splits_of(root)
    done = subprocess.run([sys.executable, "-c", KILLED, root], cwd=Path(__file__).parents[3], check=False)
    told = Told()

    assert done.returncode == -9
    assert splits_of(root) == before
    split_by(root, SplitRequest(rule=SplitRule({"a": 1, "b": 1}, group_by="json:film.id")), progress=told)
    assert [items for name, items, _ in told.phases if name == "read values"] == [4]
    assert set(splits_of(root).values()) == {"a", "b"}
    assert not Path(locate(root).work, "values").exists()


def test_odd_names_are_groups_and_keys_like_others(tmp_path: Path) -> None:
    odd = ["a'; DROP TABLE split;--", "ключ", "$(rm -rf)", "b c", "{x,y}"]
    members = {f"{key}/{i}.json": json.dumps({"g": key}).encode() for key in odd for i in range(4)}
    root = a_dataset(tmp_path / "data", {f"s {n}.tar": a_shard(members) for n in range(2)})
    index(root)
    (tmp_path / "keys").write_text("\n".join(f"{key}/0" for key in odd))
    make(root, SplitRule({}, keys={"a": str(tmp_path / "keys")}, rest="b"))
    assert Counter(splits_of(root).values()) == {"a": 10, "b": 30}
    make(root, SplitRule({"a": 1, "b": 1}, group_by="json:g", allow_empty=True))
    groups: dict[str, set[str]] = {}
    for sample, name in splits_of(root).items():
        groups.setdefault(sample.split("/", 1)[1].rpartition("/")[0], set()).add(name)
    assert groups.keys() == set(odd)
    assert all(len(names) == 1 for names in groups.values())


@pytest.mark.parametrize(
    "rule",
    [
        SplitRule({"train": 7, "val": 3}, stratify="json:label"),
        SplitRule({"train": 7, "val": 3}, group_by="json:film.id"),
        SplitRule({"train": 7, "val": 3}, by="key"),
    ],
)
def test_a_shard_that_grows_keeps_the_samples_that_it_had_where_they_were(tmp_path: Path, rule: SplitRule) -> None:
    root = films(tmp_path)
    make(root, rule)
    before = splits_of(root)
    shards = film_shards(0, 21)
    rewritten(tmp_path / "shard-003.tar", shards["shard-003.tar"] | shards["shard-020.tar"])
    index(root)
    after = splits_of(root)

    assert len(after) == len(before) + EACH
    assert {key: after.get(key) for key in before} == before
