"""The content of a join: partners by key, skipped samples, and errors for samples without a partner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.key_indexes import index_of
from wdsctl.core.errors import CatalogError, DatasetError
from wdsctl.core.joins import index
from wdsctl.core.joins.index import JoinIndex, JoinSide, Nonmatch, join_fingerprint, write_join


def make_side(
    keys: Sequence[str], rows: Sequence[int] | None = None, nonmatch: Nonmatch = "error", name: str = "d"
) -> JoinSide:
    chosen = np.array(range(len(keys)) if rows is None else rows, np.int64)
    return JoinSide(name, index_of(keys), lambda: chosen, str(chosen.tolist()), nonmatch)


def make_join(path: Path, primary: JoinSide, *members: JoinSide) -> JoinIndex:
    fingerprint = join_fingerprint(primary, members)
    write_join(str(path), fingerprint, primary, members)
    return JoinIndex(
        str(path), fingerprint, len(primary.index.key_start) - 1, [len(m.index.key_start) - 1 for m in members]
    )


def test_join_partners_map_primary_rows_to_member_rows(tmp_path: Path) -> None:
    join = make_join(
        tmp_path / "join", make_side(["a", "b", "c"]), make_side(["c", "x", "a", "b"]), make_side(["b", "c", "a"])
    )

    assert join.partners(0, np.array([0, 1, 2])).tolist() == [2, 3, 0]
    assert join.partners(1, np.array([2, 0])).tolist() == [1, 2]
    assert (join.skipped, join.kept) == (0, None)


def test_nonmatch_none_gives_minus_one_and_skip_drops_sample(tmp_path: Path) -> None:
    join = make_join(
        tmp_path / "join",
        make_side(["a", "b", "c"]),
        make_side(["a"], nonmatch="none"),
        make_side(["c", "a"], nonmatch="skip"),
    )

    assert join.partners(0, np.array([0, 2])).tolist() == [0, -1]
    assert join.skipped == 1
    assert join.kept is not None
    assert join.kept.tolist() == [True, False, True]


def test_join_covers_only_samples_of_splits(tmp_path: Path) -> None:
    join = make_join(
        tmp_path / "join", make_side("abcd", [1, 3]), make_side("abcd", [0, 1, 3]), make_side("abcd", [0, 1], "none")
    )

    assert join.partners(0, np.arange(4)).tolist() == [-1, 1, -1, 3]
    assert join.partners(1, np.arange(4)).tolist() == [-1, 1, -1, -1]


def test_skipped_sample_needs_no_partner_in_other_members(tmp_path: Path) -> None:
    join = make_join(tmp_path / "join", make_side(["a", "b"]), make_side(["a"]), make_side(["a"], nonmatch="skip"))

    assert join.skipped == 1


def test_samples_without_partner_raise_with_count_and_first_keys(tmp_path: Path) -> None:
    primary = make_side([f"key {i}" for i in range(20)], name="labels")

    with pytest.raises(DatasetError, match=r"17 of 20 samples of labels have no partner.*'key 0', 'key 2'") as raised:
        make_join(tmp_path / "join", primary, make_side(["key 1", "key 7", "key 9"], name="images"))

    assert (raised.value.code, raised.value.where) == ("WDS607", "dataset images")


def test_duplicate_key_in_member_raises_with_key_and_shards(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="the key 'b' is not unique in a member of a join") as raised:
        make_join(tmp_path / "join", make_side(["a"]), make_side(["a", "b", "c", "d", "b"], name="images"))

    assert raised.value.code == "WDS608"
    assert raised.value.where == "dataset images, shards shard-0.tar and shard-1.tar"


def test_duplicate_key_in_primary_joins_same_sample_twice(tmp_path: Path) -> None:
    assert make_join(tmp_path / "join", make_side(["a", "b", "a"]), make_side(["b", "a"])).partners(
        0, np.arange(3)
    ).tolist() == [
        1,
        0,
        1,
    ]


@given(st.sets(st.integers(0, 40)), st.lists(st.sets(st.integers(0, 40)), max_size=3), st.integers(1, 9))
def test_join_equals_dict_lookup(rows: set[int], members: list[set[int]], block: int) -> None:
    keys = [f"k{i * 7 % 41}" for i in range(41)]
    modes: list[Nonmatch] = ["skip", "none", "skip"]
    sides = [make_side([f"k{i}" for i in sorted(member)], nonmatch=modes[i]) for i, member in enumerate(members)]
    kept_rows = [
        r for r in sorted(rows) if all(r * 7 % 41 in members[i] for i in range(len(members)) if modes[i] == "skip")
    ]

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(index, "WRITE_BLOCK_ROWS", block)
        join = make_join(Path(folder) / "join", make_side(keys, sorted(rows)), *sides)
        assert join.skipped == len(rows) - len(kept_rows)
        for number, member in enumerate(members):
            expected = {key: row for row, key in enumerate(sorted(member))}
            assert join.partners(number, np.array(kept_rows, np.int64)).tolist() == [
                expected.get(r * 7 % 41, -1) for r in kept_rows
            ]


def test_join_fingerprint_depends_on_keys_splits_and_nonmatch() -> None:
    primary = make_side(["a", "b"])
    others = [
        make_side(["a", "b"]),
        make_side(["a", "c"]),
        make_side(["a", "b"], [0]),
        make_side(["a", "b"], nonmatch="none"),
    ]

    assert len({join_fingerprint(primary, [each]) for each in others}) == 4
    assert join_fingerprint(primary, others[:1]) == join_fingerprint(make_side(["a", "b"]), [make_side(["a", "b"])])


@pytest.mark.parametrize("keep", [0, 8, 100, 300])
def test_join_index_refuses_truncated_file(keep: int, tmp_path: Path) -> None:
    primary, member = make_side([str(i) for i in range(40)]), make_side([str(i) for i in range(20)], nonmatch="skip")
    make_join(tmp_path / "join", primary, member)
    data = (tmp_path / "join").read_bytes()
    (tmp_path / "join").write_bytes(data[:keep])

    with pytest.raises((ValueError, CatalogError)):
        JoinIndex(str(tmp_path / "join"), join_fingerprint(primary, [member]), 40, [20])


def test_join_index_refuses_other_fingerprint(tmp_path: Path) -> None:
    make_join(tmp_path / "join", make_side(["a"]), make_side(["a"]))

    with pytest.raises(ValueError, match="another join"):
        JoinIndex(str(tmp_path / "join"), "0" * 32, 1, [1])
