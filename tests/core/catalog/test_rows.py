from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.catalog.drafts import open_draft
from tests.core.dumps import query
from wdsctl.core.catalog.rows import parse_shard_columns, sample_rows
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.shard_scan import ShardScan, split_texts

SIZES = st.integers(0, 3) | st.integers(0, 10**6)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4)
SAMPLES = st.tuples(KEYS, st.lists(st.tuples(st.integers(0, 2), SIZES), min_size=1, max_size=3))


def a_scan_of(samples: list[tuple[str, list[tuple[int, int]]]]) -> ShardScan:
    """A scan of contiguous parts, each after a header of 512 bytes."""
    parts = np.array([part for _, sample_parts in samples for part in sample_parts], np.int64).reshape(-1, 2)
    counts = np.array([len(sample_parts) for _, sample_parts in samples], np.uint32)
    ends = np.append(0, np.cumsum(parts[:, 1] + 512))
    bounds = ends[np.append(0, np.cumsum(counts, dtype=np.int64))]
    keys = [key.encode() for key, _ in samples]
    return ShardScan(
        status="ok",
        keys=b"".join(keys),
        key_sizes=np.array([len(key) for key in keys], np.uint32),
        offsets=bounds[:-1],
        sizes=np.diff(bounds),
        counts=counts,
        extensions=("jpg", "json", "txt"),
        part_names=parts[:, 0].astype(np.uint32),
        part_offsets=ends[:-1] + 512,
        part_sizes=parts[:, 1],
        findings=(),
    )


@given(st.lists(SAMPLES, min_size=1, max_size=12))
def test_sample_rows_round_trip_through_parse_shard_columns(
    samples: list[tuple[str, list[tuple[int, int]]]],
) -> None:
    scan = a_scan_of(samples)

    rows = list(sample_rows(2, scan, np.array([4, 0, 7])))

    assert [row[0] for row in rows] == [(2 << 28) + i for i in range(len(samples))]
    assert [row[1] for row in rows] == [key for key, _ in samples]
    assert [row[3] for row in rows] == scan.sizes.tolist()
    actual = [[(name, size) for name, _, size in json.loads(row[4])] for row in rows]
    assert actual == [[((4, 0, 7)[name], size) for name, size in parts] for _, parts in samples]
    restored = parse_shard_columns((key, offset, parts) for _, key, offset, _, parts in rows)
    assert restored.keys == scan.keys
    assert restored.part_offsets.tolist() == scan.part_offsets.tolist()


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 70])
def test_draft_writes_every_sample_once(tmp_path: Path, count: int) -> None:
    scan = a_scan_of([(f"k{i}", [(0, i)]) for i in range(count)])
    path = str(tmp_path / "catalog.sqlite")

    with open_draft(path) as draft:
        draft.add_shard(draft.next_shard_ids(1)[0], ShardFile("a.tar", 1, 1), scan)

    rows = list(sample_rows(1, scan, np.array([0])))
    assert query(path, "SELECT id, key, offset, size, parts FROM sample ORDER BY id") == rows


@given(st.lists(KEYS, max_size=5), st.lists(KEYS, max_size=3))
def test_split_texts_returns_texts_between_bounds(before: list[str], expected: list[str]) -> None:
    every = [*before, *expected]
    bounds = np.cumsum([0, *(len(text.encode()) for text in every)])

    found = split_texts("".join(every).encode(), bounds[len(before) :])

    assert found == expected
