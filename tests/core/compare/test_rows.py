from __future__ import annotations

import sqlite3
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.compare.samples import _INSERT_ROW_SQL, DiffRow, SampleMatch, SplitDriftCounter, open_diff_rows
from wdsctl.core.errors import StorageError

SAMPLES = st.lists(
    st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 2), st.sampled_from([b"1", b"2"])), max_size=8
)


def match_samples(first: list[tuple[bytes, int, bytes]], second: list[tuple[bytes, int, bytes]]) -> list[SampleMatch]:
    with open_diff_rows() as rows:
        for side, samples in enumerate((first, second)):
            rows._connection.executemany(
                _INSERT_ROW_SQL,
                [DiffRow(key, side, path, i, parts, b"") for i, (key, path, parts) in enumerate(samples)],
            )
        return list(rows.matches())


@given(SAMPLES, SAMPLES)
def test_matches_contain_every_sample_once_and_most_equal_pairs(
    first: list[tuple[bytes, int, bytes]], second: list[tuple[bytes, int, bytes]]
) -> None:
    matches = match_samples(first, second)
    assert sorted(match.first.offsets_row for match in matches if match.first) == list(range(len(first)))
    assert sorted(match.second.offsets_row for match in matches if match.second) == list(range(len(second)))
    pairs = [match for match in matches if match.first and match.second]
    assert all(match.first and match.second and match.first.key == match.second.key for match in pairs)
    assert sum(m.has_same_parts and not m.is_moved for m in pairs) == (Counter(first) & Counter(second)).total()
    alike = Counter((key, parts) for key, _, parts in first) & Counter((key, parts) for key, _, parts in second)
    assert sum(match.has_same_parts for match in pairs) == alike.total()
    keys = Counter(key for key, *_ in first) & Counter(key for key, *_ in second)
    assert len(pairs) == keys.total()


def test_full_disk_error_has_hint() -> None:
    with pytest.raises(StorageError, match="cannot sort samples") as caught, open_diff_rows():
        raise sqlite3.OperationalError("database or disk is full")
    assert (caught.value.code, "SQLITE_TMPDIR" in caught.value.hint) == ("WDS401", True)


def test_split_drift_is_counted_by_split() -> None:
    drift = SplitDriftCounter(["train", "val"])
    for before, after in ((b"\1", b"\2"), (b"\1", b"\1"), (b"\0", b"\2"), (b"\1", b"\2")):
        drift.add(before, after)
    drift.finish()
    assert (drift.left["train"], drift.entered["train"], drift.entered["val"]) == (2, 0, 3)
