from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.core.prepare.plan import plan_shards, sample_digest, sample_size_bytes, tar_size_bytes
from wdsctl.core.samples.naming import RawPart, RawSample

TEMPLATE = "s-{index:03d}.tar"
PART = 512 + 512  # tar bytes of a header and up to 512 bytes of data
END = 1024


def sample(key: str, *sizes: int) -> RawSample:
    return RawSample(key, tuple(RawPart(f"p{i}", size, 1) for i, size in enumerate(sizes)))


samples_of = st.lists(st.lists(st.integers(0, 5_000), min_size=1, max_size=3), max_size=40).map(
    lambda sizes: [sample(f"{i:04d}", *row) for i, row in enumerate(sizes)]
)


@given(samples_of, st.integers(1, 10), st.integers(1, 40_000))
def test_planned_shards_cover_all_samples_once_in_order(samples: list[RawSample], max_samples: int, size: int) -> None:
    shards = plan_shards(samples, max_samples, size, TEMPLATE)

    borders = [0, *(shard.stop for shard in shards)]
    assert [shard.start for shard in shards] == borders[:-1]
    assert borders[-1] == len(samples)
    assert all(shard.start < shard.stop for shard in shards)


@given(samples_of, st.integers(1, 10), st.integers(1, 40_000))
def test_planned_shards_respect_both_limits_unless_one_sample_is_larger(
    samples: list[RawSample], max_samples: int, size: int
) -> None:
    for shard in plan_shards(samples, max_samples, size, TEMPLATE):
        count = shard.stop - shard.start
        assert count <= max_samples
        assert shard.size_bytes <= size or count == 1


@given(samples_of, st.integers(1, 10), st.integers(1, 40_000))
def test_planned_shard_is_closed_only_at_a_limit(samples: list[RawSample], max_samples: int, size: int) -> None:
    for shard in plan_shards(samples, max_samples, size, TEMPLATE)[:-1]:
        next_size = sample_size_bytes(samples[shard.stop])
        assert shard.stop - shard.start == max_samples or shard.size_bytes + next_size > size


@given(samples_of)
def test_planned_size_counts_headers_padding_and_end_mark(samples: list[RawSample]) -> None:
    for shard in plan_shards(samples, 3, 1 << 30, TEMPLATE):
        members = samples[shard.start : shard.stop]
        data = sum(512 + part.size_bytes + -part.size_bytes % 512 for one in members for part in one.parts)
        assert shard.size_bytes == data + END == tar_size_bytes(members)


def test_plan_shards_fills_size_limit_exactly() -> None:
    samples = [sample(f"{i}", 512) for i in range(4)]

    assert [s.size_bytes for s in plan_shards(samples, 99, 2 * PART + END, TEMPLATE)] == [2 * PART + END] * 2
    assert len(plan_shards(samples, 99, 2 * PART + END - 1, TEMPLATE)) == 4


def test_long_name_adds_size_of_pax_header() -> None:
    assert sample_size_bytes(sample("k" * 300, 512)) == sample_size_bytes(sample("k", 512)) + 1024


def test_shard_numbers_increase_and_skip_taken_names() -> None:
    samples = [sample(f"{i}", 1) for i in range(3)]

    shards = plan_shards(samples, 1, 1 << 30, TEMPLATE, first_index=5, taken_names={"s-006.tar"})

    assert [(shard.name, shard.ordinal) for shard in shards] == [("s-005.tar", 5), ("s-007.tar", 7), ("s-008.tar", 8)]


@pytest.mark.parametrize(
    "other",
    [
        RawSample("k", (RawPart("jpg", 2, 3),)),
        RawSample("k", (RawPart("jpg", 1, 4),)),
        RawSample("k", (RawPart("png", 1, 3),)),
        RawSample("l", (RawPart("jpg", 1, 3),)),
        RawSample("k", (RawPart("jpg", 1, 3), RawPart("txt", 1, 3))),
    ],
)
def test_sample_digest_changes_with_key_part_size_and_mtime(other: RawSample) -> None:
    before = RawSample("k", (RawPart("jpg", 1, 3),))

    assert sample_digest(before) == sample_digest(RawSample("k", (RawPart("jpg", 1, 3),)))
    assert sample_digest(before) != sample_digest(other)
    assert plan_shards([before], 1, 1, TEMPLATE)[0].digest != plan_shards([other], 1, 1, TEMPLATE)[0].digest


@pytest.mark.parametrize(("max_samples", "size"), [(0, 1), (-1, 1), (1, 0), (1, -5)])
def test_limits_below_one_are_refused(max_samples: int, size: int) -> None:
    with pytest.raises(UsageError):
        plan_shards([sample("a", 1)], max_samples, size, TEMPLATE)


def test_plan_shards_without_samples_is_empty() -> None:
    assert plan_shards([], 10, 10, TEMPLATE) == []
