from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from wdsctl.core.catalog.ledger import ShardRecord, ShardState, unpack_record_keys
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.request import MissingPolicy
from wdsctl.core.prepare.renames import Renames
from wdsctl.core.prepare.replan import WritePlan, can_be_source, replan
from wdsctl.core.samples.naming import RawPart, RawSample


def samples_of(keys: str, *, mtime_ns: int = 1) -> list[RawSample]:
    """A sample a letter."""
    return [RawSample(key, (RawPart("txt", 5, mtime_ns),)) for key in keys]


def planned(
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord] = (),
    on_disk: Mapping[str, int] | None = None,
    *,
    shard_samples: int = 2,
    template: str = "{index}.tar",
    missing: MissingPolicy = "error",
    renamed: Mapping[str, str] | None = None,
    former: Mapping[str, Mapping[str, str]] | None = None,
) -> WritePlan:
    return replan(
        samples,
        records,
        on_disk or {},
        shard_samples=shard_samples,
        shard_size=1 << 30,
        template=template,
        missing=missing,
        renames=Renames(renamed or {}),
        former_keys=former or {},
    )


def after_run(plan: WritePlan, *states: ShardState) -> tuple[list[ShardRecord], dict[str, int]]:
    """The records and the files that are there when each shard has got as far as its state says."""
    records = [record._replace(state=state) for record, state in zip(plan.records, states, strict=True)]
    return records, {record.name: record.size_bytes for record in records if record.state != "planned"}


def written(plan: WritePlan) -> dict[str, str]:
    return {task.name: "".join(sample.key for sample in task.samples) for task in plan.tasks}


def test_the_first_plan_writes_everything() -> None:
    plan = planned(samples_of("abcde"))

    assert written(plan) == {"0.tar": "ab", "1.tar": "cd", "2.tar": "e"}
    assert [unpack_record_keys(record) for record in plan.records] == [["a", "b"], ["c", "d"], ["e"]]


def test_nothing_changed_means_nothing_to_write() -> None:
    samples = samples_of("abcde")
    records, files = after_run(planned(samples), "done", "done", "done")

    plan = planned(samples, records, files)

    assert (plan.tasks, plan.kept_shards, plan.records) == ([], 3, records)


def test_what_was_planned_and_not_finished_is_written_with_the_same_members() -> None:
    samples = samples_of("abcde")
    records, files = after_run(planned(samples), "done", "planned", "planned")

    plan = planned(samples_of("abcdefg"), records, files, shard_samples=100, template="new-{index}.tar")

    assert written(plan) == {"1.tar": "cd", "2.tar": "e", "new-3.tar": "fg"}
    assert plan.kept_shards == 1


def test_new_samples_go_to_new_shards_after_the_last() -> None:
    records, files = after_run(planned(samples_of("bdf")), "done", "done")

    plan = planned(samples_of("abcdef"), records, files)

    assert written(plan) == {"2.tar": "ac", "3.tar": "e"}


def test_a_finished_shard_with_changed_files_is_written_again_with_the_same_keys() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")
    samples = [*samples_of("a"), RawSample("b", (RawPart("txt", 900, 2),)), *samples_of("cde")]

    plan = planned(samples, records, files)

    assert written(plan) == {"0.tar": "ab", "2.tar": "e"}
    assert plan.records[0].size_bytes == records[0].size_bytes + 512
    assert plan.records[0].state == "outdated"
    assert plan.records[1] == records[1]


def test_a_new_part_counts_as_a_change() -> None:
    records, files = after_run(planned(samples_of("ab")), "done")
    samples = [RawSample("a", (RawPart("json", 1, 1), RawPart("txt", 5, 1))), *samples_of("b")]

    assert written(planned(samples, records, files)) == {"0.tar": "ab"}


@pytest.mark.parametrize("size", [None, 7])
def test_a_finished_shard_whose_tar_is_gone_or_cut_is_written_again(size: int | None) -> None:
    records, files = after_run(planned(samples_of("abc")), "done", "done")
    files.pop("0.tar")
    if size is not None:
        files["0.tar"] = size

    plan = planned(samples_of("abc"), records, files)

    assert written(plan) == {"0.tar": "ab"}
    assert plan.kept_shards == 1


def test_vanished_files_of_a_finished_shard_are_counted_and_the_shard_is_kept() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("bcd"), records, files)

    assert (plan.tasks, plan.kept_shards, plan.vanished_keys, plan.records) == ([], 2, ["a"], records)


@pytest.mark.parametrize("state", ["done", "outdated"])
def test_a_shard_is_never_written_again_without_its_vanished_samples(state: ShardState) -> None:
    records, files = after_run(planned(samples_of("abcd")), state, "done")

    with pytest.raises(DatasetError) as caught:
        planned(samples_of("a", mtime_ns=2) + samples_of("cd"), records, files)

    assert caught.value.code == "WDS203"
    assert "0.tar" in caught.value.message


def test_vanished_samples_of_a_shard_whose_tar_is_gone_are_refused() -> None:
    records, _ = after_run(planned(samples_of("ab")), "done")

    with pytest.raises(DatasetError, match="lacks files of their samples"):
        planned(samples_of("a"), records, {})


def test_a_shard_that_was_never_written_and_changed_is_planned_anew() -> None:
    records, files = after_run(planned(samples_of("abcdef")), "done", "planned", "planned")

    plan = planned(samples_of("ab") + samples_of("cd", mtime_ns=2) + samples_of("efg"), records, files)

    assert written(plan) == {"2.tar": "ef", "3.tar": "cd", "4.tar": "g"}
    assert [record.name for record in plan.records] == ["0.tar", "2.tar", "3.tar", "4.tar"]


def test_the_last_shard_planned_anew_keeps_its_number() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "planned")

    plan = planned(samples_of("abc"), records, files)

    assert written(plan) == {"1.tar": "c"}
    assert plan.leftover_shards == []


def test_a_shard_finished_but_not_recorded_is_removed_if_its_samples_go_elsewhere() -> None:
    """Else its samples would be in the dataset twice."""
    records, files = after_run(planned(samples_of("abcdef")), "done", "planned", "planned")
    files["1.tar"] = 3_072

    plan = planned(samples_of("ab") + samples_of("cd", mtime_ns=2) + samples_of("ef"), records, files)

    assert plan.leftover_shards == ["1.tar"]
    assert written(plan) == {"2.tar": "ef", "3.tar": "cd"}


def test_a_shard_that_was_to_be_written_again_still_is_after_another_change() -> None:
    records, files = after_run(planned(samples_of("ab")), "outdated")

    plan = planned(samples_of("ab", mtime_ns=3), records, files)

    assert written(plan) == {"0.tar": "ab"}
    assert plan.leftover_shards == []


def test_other_limits_touch_new_shards_only() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("abcdefghij"), records, files, shard_samples=5)

    assert written(plan) == {"2.tar": "efghi", "3.tar": "j"}


@pytest.mark.parametrize(
    ("keys", "changed", "may_be"),
    [
        ("abcd", "", True),
        ("abcdef", "", True),
        ("d", "", True),
        ("xyz", "", False),
        ("", "abcd", False),
        ("abc", "d", False),
    ],
)
def test_finished_shards_come_from_a_folder_that_has_samples_of_theirs_and_none_that_changed(
    keys: str, changed: str, may_be: bool
) -> None:
    records, _ = after_run(planned(samples_of("abcd")), "done", "outdated")

    assert can_be_source([*samples_of(keys), *samples_of(changed, mtime_ns=2)], records) is may_be


def test_shards_that_were_only_planned_come_from_anywhere() -> None:
    records, _ = after_run(planned(samples_of("ab")), "planned")

    assert can_be_source(samples_of("xyz"), records)


def test_a_shard_that_lost_samples_is_left_as_it_is_where_that_is_said_and_new_samples_are_taken() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("a", mtime_ns=2) + samples_of("cde"), records, files, missing="keep")

    assert written(plan) == {"2.tar": "e"}
    assert (plan.kept_shards, plan.vanished_keys, plan.stale_shards, plan.records[:2]) == (2, ["b"], 1, records)


def test_vanished_samples_are_dropped_and_a_shard_without_samples_goes() -> None:
    records, files = after_run(planned(samples_of("abcdef")), "done", "done", "done")

    plan = planned(samples_of("aefg"), records, files, missing="drop")

    assert written(plan) == {"0.tar": "a", "3.tar": "g"}
    assert (plan.dropped_keys, plan.leftover_shards, plan.kept_shards) == (["b", "c", "d"], ["1.tar"], 1)
    assert unpack_record_keys(plan.records[0]) == ["a"]
    again = planned(samples_of("aefg"), *after_run(plan, "done", "done", "done"), missing="drop")
    assert (again.tasks, again.dropped_keys, again.kept_shards) == ([], [], 3)


def test_a_renamed_sample_stays_in_its_shard() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("acdx"), records, files, missing="drop", renamed={"b": "x"})

    assert written(plan) == {"0.tar": "ax"}
    assert (plan.renamed_keys, plan.dropped_keys) == ([("b", "x")], [])


def test_a_shard_with_a_renamed_sample_is_written_again_without_anything_being_said() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("acdx"), records, files, renamed={"b": "x"})

    assert written(plan) == {"0.tar": "ax"}
    assert (plan.renamed_keys, plan.pending_renames, plan.former_keys) == ([("b", "x")], [], {"0.tar": {"x": "b"}})
    assert plan.kept_shards == 1


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_a_shard_that_would_lose_samples_is_not_written_again_for_a_new_name_and_the_name_is_remembered(
    missing: MissingPolicy,
) -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("cdx"), records, files, missing=missing, renamed={"b": "x"})

    assert (plan.tasks, plan.vanished_keys, plan.pending_renames, plan.renamed_keys) == ([], ["a"], [("b", "x")], [])
    assert (plan.records[0].state, unpack_record_keys(plan.records[0])) == ("renamed", ["a", "x"])
    again = planned(samples_of("cdx"), plan.records, files, former=plan.former_keys)
    assert (again.tasks, again.records, again.pending_renames) == ([], plan.records, [("b", "x")])
    back = planned(samples_of("acdx"), plan.records, files, former=plan.former_keys)
    assert (written(back), back.renamed_keys, back.former_keys) == (
        {"0.tar": "ax"},
        [("b", "x")],
        {"0.tar": {"x": "b"}},
    )
    dropped = planned(samples_of("cdx"), plan.records, files, missing="drop", former=plan.former_keys)
    assert (written(dropped), dropped.renamed_keys, dropped.dropped_keys) == ({"0.tar": "x"}, [("b", "x")], ["a"])


def test_a_sample_that_was_renamed_twice_before_the_catalog_knew_has_the_name_that_the_catalog_has() -> None:
    records, files = after_run(planned(samples_of("ab")), "done")
    once = planned(samples_of("ax"), records, files, renamed={"b": "x"})

    twice = planned(samples_of("ay"), *after_run(once, "done"), renamed={"x": "y"}, former=once.former_keys)

    assert (written(twice), twice.former_keys) == ({"0.tar": "ay"}, {"0.tar": {"y": "b"}})
    back = planned(samples_of("ab"), *after_run(once, "done"), renamed={"x": "b"}, former=once.former_keys)
    assert (written(back), back.former_keys) == ({"0.tar": "ab"}, {})


def test_samples_that_changed_names_with_one_another_stay_in_their_places() -> None:
    records, files = after_run(planned(samples_of("abcd")), "done", "done")

    plan = planned(samples_of("abcd", mtime_ns=2), records, files, renamed={"a": "d", "d": "a"})

    assert written(plan) == {"0.tar": "db", "1.tar": "ca"}


def test_a_new_sample_with_the_key_that_another_one_keeps_in_a_shard_is_refused() -> None:
    records, files = after_run(planned([RawSample("a.b", samples_of("a")[0].parts), *samples_of("cd")]), "done", "done")

    for missing in ("error", "keep"):
        with pytest.raises(DatasetError) as caught:
            planned([RawSample("a_b", samples_of("a")[0].parts), *samples_of("cd")], records, files, missing=missing)
        assert caught.value.code == "WDS249"
    plan = planned([RawSample("a_b", samples_of("a")[0].parts), *samples_of("cd")], records, files, missing="drop")
    assert unpack_record_keys(plan.records[0]) == ["c"]
