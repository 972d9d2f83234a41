from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from wdsctl.core.catalog.ledger import ShardRecord, ShardState, unpack_record_keys
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.request import MissingPolicy
from wdsctl.core.prepare.replan import WritePlan, can_be_source, replan
from wdsctl.core.samples.naming import RawPart, RawSample


def samples_of(keys: str, *, mtime_ns: int = 1) -> list[RawSample]:
    """One sample per letter."""
    return [RawSample(key, (RawPart("txt", 5, mtime_ns),)) for key in keys]


def make_plan(
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord] = (),
    on_disk: Mapping[str, int] | None = None,
    *,
    shard_samples: int = 2,
    template: str = "{index}.tar",
    missing: MissingPolicy = "error",
) -> WritePlan:
    return replan(
        samples,
        records,
        on_disk or {},
        shard_samples=shard_samples,
        shard_size=1 << 30,
        template=template,
        missing=missing,
    )


def after_run(plan: WritePlan, *states: ShardState) -> tuple[list[ShardRecord], dict[str, int]]:
    """The records and files that exist when the shards have reached these states."""
    records = [record._replace(state=state) for record, state in zip(plan.records, states, strict=True)]
    return records, {record.name: record.size_bytes for record in records if record.state != "planned"}


def keys_by_shard(plan: WritePlan) -> dict[str, str]:
    return {task.name: "".join(sample.key for sample in task.samples) for task in plan.tasks}


def test_first_plan_writes_everything() -> None:
    plan = make_plan(samples_of("abcde"))

    assert keys_by_shard(plan) == {"0.tar": "ab", "1.tar": "cd", "2.tar": "e"}
    assert [unpack_record_keys(record) for record in plan.records] == [["a", "b"], ["c", "d"], ["e"]]


def test_unchanged_samples_need_no_writes() -> None:
    samples = samples_of("abcde")
    records, files = after_run(make_plan(samples), "done", "done", "done")

    plan = make_plan(samples, records, files)

    assert (plan.tasks, plan.kept_shards, plan.records) == ([], 3, records)


def test_unfinished_shards_are_written_as_planned() -> None:
    samples = samples_of("abcde")
    records, files = after_run(make_plan(samples), "done", "planned", "planned")

    plan = make_plan(samples_of("abcdefg"), records, files, shard_samples=100, template="new-{index}.tar")

    assert keys_by_shard(plan) == {"1.tar": "cd", "2.tar": "e", "new-3.tar": "fg"}
    assert plan.kept_shards == 1


def test_new_samples_are_written_to_new_shards() -> None:
    records, files = after_run(make_plan(samples_of("bdf")), "done", "done")

    plan = make_plan(samples_of("abcdef"), records, files)

    assert keys_by_shard(plan) == {"2.tar": "ac", "3.tar": "e"}


def test_finished_shard_with_changed_files_is_rewritten_with_same_keys() -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")
    samples = [*samples_of("a"), RawSample("b", (RawPart("txt", 900, 2),)), *samples_of("cde")]

    plan = make_plan(samples, records, files)

    assert keys_by_shard(plan) == {"0.tar": "ab", "2.tar": "e"}
    assert plan.records[0].size_bytes == records[0].size_bytes + 512
    assert plan.records[0].state == "outdated"
    assert plan.records[1] == records[1]


def test_new_part_rewrites_shard() -> None:
    records, files = after_run(make_plan(samples_of("ab")), "done")
    samples = [RawSample("a", (RawPart("json", 1, 1), RawPart("txt", 5, 1))), *samples_of("b")]

    assert keys_by_shard(make_plan(samples, records, files)) == {"0.tar": "ab"}


@pytest.mark.parametrize("size", [None, 7])
def test_finished_shard_with_missing_or_truncated_tar_is_rewritten(size: int | None) -> None:
    records, files = after_run(make_plan(samples_of("abc")), "done", "done")
    files.pop("0.tar")
    if size is not None:
        files["0.tar"] = size

    plan = make_plan(samples_of("abc"), records, files)

    assert keys_by_shard(plan) == {"0.tar": "ab"}
    assert plan.kept_shards == 1


def test_missing_samples_of_finished_shard_are_counted_and_shard_is_kept() -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")

    plan = make_plan(samples_of("bcd"), records, files)

    assert (plan.tasks, plan.kept_shards, plan.vanished_keys, plan.records) == ([], 2, ["a"], records)


@pytest.mark.parametrize("state", ["done", "outdated"])
def test_rewrite_that_would_lose_samples_is_refused(state: ShardState) -> None:
    records, files = after_run(make_plan(samples_of("abcd")), state, "done")

    with pytest.raises(DatasetError) as caught:
        make_plan(samples_of("a", mtime_ns=2) + samples_of("cd"), records, files)

    assert caught.value.code == "WDS203"
    assert "0.tar" in caught.value.message


@pytest.mark.parametrize(("state", "is_advised"), [("done", True), ("outdated", False)])
def test_missing_keep_is_advised_only_if_it_helps(state: ShardState, is_advised: bool) -> None:
    """A shard that a killed run did not write again cannot be kept."""
    records, files = after_run(make_plan(samples_of("ab")), state)

    with pytest.raises(DatasetError) as caught:
        make_plan(samples_of("a", mtime_ns=2), records, files)

    assert ("--missing keep" in caught.value.hint) is is_advised


def test_missing_samples_of_missing_tar_are_refused() -> None:
    records, _ = after_run(make_plan(samples_of("ab")), "done")

    with pytest.raises(DatasetError, match="lacks files of their samples"):
        make_plan(samples_of("a"), records, {})


def test_unwritten_shard_with_changed_samples_is_replanned() -> None:
    records, files = after_run(make_plan(samples_of("abcdef")), "done", "planned", "planned")

    plan = make_plan(samples_of("ab") + samples_of("cd", mtime_ns=2) + samples_of("efg"), records, files)

    assert keys_by_shard(plan) == {"2.tar": "ef", "3.tar": "cd", "4.tar": "g"}
    assert [record.name for record in plan.records] == ["0.tar", "2.tar", "3.tar", "4.tar"]


def test_replanned_last_shard_keeps_its_number() -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "planned")

    plan = make_plan(samples_of("abc"), records, files)

    assert keys_by_shard(plan) == {"1.tar": "c"}
    assert plan.leftover_shards == []


def test_unrecorded_shard_is_removed_when_its_samples_are_replanned() -> None:
    """Otherwise its samples would be in the dataset twice."""
    records, files = after_run(make_plan(samples_of("abcdef")), "done", "planned", "planned")
    files["1.tar"] = 3_072

    plan = make_plan(samples_of("ab") + samples_of("cd", mtime_ns=2) + samples_of("ef"), records, files)

    assert plan.leftover_shards == ["1.tar"]
    assert keys_by_shard(plan) == {"2.tar": "ef", "3.tar": "cd"}


def test_outdated_shard_is_rewritten_after_second_change() -> None:
    records, files = after_run(make_plan(samples_of("ab")), "outdated")

    plan = make_plan(samples_of("ab", mtime_ns=3), records, files)

    assert keys_by_shard(plan) == {"0.tar": "ab"}
    assert plan.leftover_shards == []


def test_new_limits_apply_to_new_shards_only() -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")

    plan = make_plan(samples_of("abcdefghij"), records, files, shard_samples=5)

    assert keys_by_shard(plan) == {"2.tar": "efghi", "3.tar": "j"}


@pytest.mark.parametrize(
    ("keys", "changed", "expected"),
    [
        ("abcd", "", True),
        ("abcdef", "", True),
        ("d", "", True),
        ("xyz", "", False),
        ("", "abcd", False),
        ("abc", "d", False),
    ],
)
def test_can_be_source_needs_common_and_no_changed_samples(keys: str, changed: str, expected: bool) -> None:
    records, _ = after_run(make_plan(samples_of("abcd")), "done", "outdated")

    assert can_be_source([*samples_of(keys), *samples_of(changed, mtime_ns=2)], records) is expected


def test_can_be_source_is_true_for_only_planned_shards() -> None:
    records, _ = after_run(make_plan(samples_of("ab")), "planned")

    assert can_be_source(samples_of("xyz"), records)


def test_missing_keep_keeps_shard_and_writes_new_samples() -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")

    plan = make_plan(samples_of("a", mtime_ns=2) + samples_of("cde"), records, files, missing="keep")

    assert keys_by_shard(plan) == {"2.tar": "e"}
    assert (plan.kept_shards, plan.vanished_keys, plan.stale_shards, plan.records[:2]) == (2, ["b"], 1, records)


def test_missing_drop_drops_samples_and_removes_empty_shards() -> None:
    records, files = after_run(make_plan(samples_of("abcdef")), "done", "done", "done")

    plan = make_plan(samples_of("aefg"), records, files, missing="drop")

    assert keys_by_shard(plan) == {"0.tar": "a", "3.tar": "g"}
    assert (plan.dropped_keys, plan.leftover_shards, plan.kept_shards) == (["b", "c", "d"], ["1.tar"], 1)
    assert unpack_record_keys(plan.records[0]) == ["a"]
    replanned = make_plan(samples_of("aefg"), *after_run(plan, "done", "done", "done"), missing="drop")
    assert (replanned.tasks, replanned.dropped_keys, replanned.kept_shards) == ([], [], 3)


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_renamed_sample_stays_in_its_shard_and_is_added(missing: MissingPolicy) -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")

    plan = make_plan(samples_of("acdx"), records, files, missing=missing)

    assert keys_by_shard(plan) == {"2.tar": "x"}
    assert (plan.vanished_keys, plan.dropped_keys, plan.added_samples) == (["b"], [], 1)
    assert plan.records[:2] == records


def test_missing_drop_drops_old_key_of_renamed_sample() -> None:
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")

    plan = make_plan(samples_of("acdx"), records, files, missing="drop")

    assert keys_by_shard(plan) == {"0.tar": "a", "2.tar": "x"}
    assert (plan.vanished_keys, plan.dropped_keys, plan.added_samples) == ([], ["b"], 1)


def test_shard_with_state_of_older_version_is_rewritten() -> None:
    """The ledger of an older version says `renamed` if a shard has other keys than its record."""
    records, files = after_run(make_plan(samples_of("abcd")), "done", "done")
    records[0] = records[0]._replace(state=cast(ShardState, "renamed"))

    assert keys_by_shard(make_plan(samples_of("abcd"), records, files)) == {"0.tar": "ab"}
    assert keys_by_shard(make_plan(samples_of("bcd"), records, files, missing="drop")) == {"0.tar": "b"}
    for missing in ("error", "keep"):
        with pytest.raises(DatasetError) as caught:
            make_plan(samples_of("bcd"), records, files, missing=missing)
        assert caught.value.code == "WDS203"


def test_new_sample_with_key_kept_in_shard_is_refused() -> None:
    records, files = after_run(
        make_plan([RawSample("a.b", samples_of("a")[0].parts), *samples_of("cd")]), "done", "done"
    )

    for missing in ("error", "keep"):
        with pytest.raises(DatasetError) as caught:
            make_plan([RawSample("a_b", samples_of("a")[0].parts), *samples_of("cd")], records, files, missing=missing)
        assert caught.value.code == "WDS249"
    plan = make_plan([RawSample("a_b", samples_of("a")[0].parts), *samples_of("cd")], records, files, missing="drop")
    assert unpack_record_keys(plan.records[0]) == ["c"]
