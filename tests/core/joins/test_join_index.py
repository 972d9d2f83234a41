"""What a join comes to: partners by key, who is skipped, and what is told where there is none."""

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


def side(
    keys: Sequence[str], rows: Sequence[int] | None = None, nonmatch: Nonmatch = "error", name: str = "d"
) -> JoinSide:
    chosen = np.array(range(len(keys)) if rows is None else rows, np.int64)
    return JoinSide(name, index_of(keys), lambda: chosen, str(chosen.tolist()), nonmatch)


def made(path: Path, primary: JoinSide, *members: JoinSide) -> JoinIndex:
    fingerprint = join_fingerprint(primary, members)
    write_join(str(path), fingerprint, primary, members)
    return JoinIndex(
        str(path), fingerprint, len(primary.index.key_start) - 1, [len(m.index.key_start) - 1 for m in members]
    )


def test_partners_are_rows_of_the_members_by_row_of_the_primary(tmp_path: Path) -> None:
    join = made(tmp_path / "join", side(["a", "b", "c"]), side(["c", "x", "a", "b"]), side(["b", "c", "a"]))

    assert join.partners(0, np.array([0, 1, 2])).tolist() == [2, 3, 0]
    assert join.partners(1, np.array([2, 0])).tolist() == [1, 2]
    assert (join.skipped, join.kept) == (0, None)


def test_none_is_minus_one_and_skip_leaves_the_sample_out(tmp_path: Path) -> None:
    join = made(
        tmp_path / "join", side(["a", "b", "c"]), side(["a"], nonmatch="none"), side(["c", "a"], nonmatch="skip")
    )

    assert join.partners(0, np.array([0, 2])).tolist() == [0, -1]
    assert join.skipped == 1
    assert join.kept is not None
    assert join.kept.tolist() == [True, False, True]


def test_only_the_samples_of_the_splits_are_joined(tmp_path: Path) -> None:
    join = made(tmp_path / "join", side("abcd", [1, 3]), side("abcd", [0, 1, 3]), side("abcd", [0, 1], "none"))

    assert join.partners(0, np.arange(4)).tolist() == [-1, 1, -1, 3]
    assert join.partners(1, np.arange(4)).tolist() == [-1, 1, -1, -1]


def test_a_sample_that_is_skipped_needs_no_partner_elsewhere(tmp_path: Path) -> None:
    join = made(tmp_path / "join", side(["a", "b"]), side(["a"]), side(["a"], nonmatch="skip"))

    assert join.skipped == 1


def test_samples_without_a_partner_are_an_error_with_their_number_and_the_first_keys(tmp_path: Path) -> None:
    primary = side([f"key {i}" for i in range(20)], name="labels")

    with pytest.raises(DatasetError, match=r"17 of 20 samples of labels have no partner.*'key 0', 'key 2'") as raised:
        made(tmp_path / "join", primary, side(["key 1", "key 7", "key 9"], name="images"))

    assert (raised.value.code, raised.value.where) == ("WDS607", "dataset images")


def test_a_key_twice_in_a_member_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="the key 'b' is not unique in a member of a join") as raised:
        made(tmp_path / "join", side(["a"]), side(["a", "b", "c", "d", "b"], name="images"))

    assert raised.value.code == "WDS608"
    assert raised.value.where == "dataset images, shards shard-0.tar and shard-1.tar"


def test_a_key_twice_in_the_primary_joins_the_same_sample_twice(tmp_path: Path) -> None:
    assert made(tmp_path / "join", side(["a", "b", "a"]), side(["b", "a"])).partners(0, np.arange(3)).tolist() == [
        1,
        0,
        1,
    ]


@given(st.sets(st.integers(0, 40)), st.lists(st.sets(st.integers(0, 40)), max_size=3), st.integers(1, 9))
def test_a_join_is_what_dicts_would_make_of_it(rows: set[int], members: list[set[int]], block: int) -> None:
    keys = [f"k{i * 7 % 41}" for i in range(41)]
    modes: list[Nonmatch] = ["skip", "none", "skip"]
    sides = [side([f"k{i}" for i in sorted(member)], nonmatch=modes[i]) for i, member in enumerate(members)]
    kept = [r for r in sorted(rows) if all(r * 7 % 41 in members[i] for i in range(len(members)) if modes[i] == "skip")]

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(index, "WRITE_BLOCK_ROWS", block)
        join = made(Path(folder) / "join", side(keys, sorted(rows)), *sides)
        assert join.skipped == len(rows) - len(kept)
        for number, member in enumerate(members):
            truth = {key: row for row, key in enumerate(sorted(member))}
            assert join.partners(number, np.array(kept, np.int64)).tolist() == [truth.get(r * 7 % 41, -1) for r in kept]


def test_the_fingerprint_names_shards_keys_splits_and_what_becomes_of_the_rest() -> None:
    primary = side(["a", "b"])
    others = [side(["a", "b"]), side(["a", "c"]), side(["a", "b"], [0]), side(["a", "b"], nonmatch="none")]

    assert len({join_fingerprint(primary, [each]) for each in others}) == 4
    assert join_fingerprint(primary, others[:1]) == join_fingerprint(side(["a", "b"]), [side(["a", "b"])])


@pytest.mark.parametrize("keep", [0, 8, 100, 300])
def test_a_file_that_is_cut_short_is_refused(keep: int, tmp_path: Path) -> None:
    primary, member = side([str(i) for i in range(40)]), side([str(i) for i in range(20)], nonmatch="skip")
    made(tmp_path / "join", primary, member)
    data = (tmp_path / "join").read_bytes()
    (tmp_path / "join").write_bytes(data[:keep])

    with pytest.raises((ValueError, CatalogError)):
        JoinIndex(str(tmp_path / "join"), join_fingerprint(primary, [member]), 40, [20])


def test_a_file_of_another_fingerprint_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "join", side(["a"]), side(["a"]))

    with pytest.raises(ValueError, match="another join"):
        JoinIndex(str(tmp_path / "join"), "0" * 32, 1, [1])
