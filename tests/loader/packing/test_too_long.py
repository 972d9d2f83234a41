"""Too long samples are handled by the policy, and pieces refer to their samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loader.packing.fakes import Fake
from wdsctl.loader.packing import Packing
from wdsctl.loader.packing.candidates import ColumnCandidates, PackCandidate
from wdsctl.loader.packing.too_long import fit_candidates, piece_bounds, rebuild_candidate, sample_address
from wdsctl.loader.runtime.failures import FailureTracker


def packing(too_long: Any) -> Packing:
    return Packing(length="tokens", capacity=10, too_long=too_long)


def candidates(length: int) -> ColumnCandidates:
    lane = Fake(lambda _: (length,), packing("drop"))
    lane.open()
    return ColumnCandidates(("tokens",), lane.samples, lane.refs, None)  # type: ignore[arg-type]  # nothing fails here


@given(st.integers(0, 95))
def test_split_pieces_cover_sample_once_within_capacity(length: int) -> None:
    fit, too_long = fit_candidates([PackCandidate(7, (length,), None)], packing("split"), candidates(length))

    spans = [piece_bounds(entry.address) or (0, length) for entry in fit]
    assert [i for start, stop in spans for i in range(start, stop)] == list(range(length))
    assert all(stop - start <= 10 for start, stop in spans)
    assert too_long == (length > 10)


@pytest.mark.parametrize(
    ("policy", "expected"), [("drop", []), ("truncate", [(0, 10)]), ("split", [(0, 10), (10, 13)])]
)
def test_too_long_sample_is_counted_and_dropped_truncated_or_split(
    policy: str, expected: list[tuple[int, int]]
) -> None:
    fit, too_long = fit_candidates([PackCandidate(7, (13,), None)], packing(policy), candidates(13))

    assert [piece_bounds(entry.address) for entry in fit] == expected
    assert too_long == 1


@pytest.mark.parametrize("address", [7, [7, 2]])
def test_sample_address_of_piece_is_address_of_sample(address: Any) -> None:
    fit, _ = fit_candidates([PackCandidate(address, (13,), None)], packing("split"), candidates(13))

    assert [sample_address(entry.address) for entry in fit] == [address, address]


def test_rebuild_candidate_of_piece_has_length_of_piece() -> None:
    entry = rebuild_candidate([7, 0, 10, 13], candidates(13))

    assert (entry.address, entry.lengths) == ([7, 0, 10, 13], (3,))


def test_lengths_below_zero_between_others_are_not_consecutive_failures() -> None:
    lane = Fake(lambda row: (-1 if row % 2 else 3,), packing("drop"))
    lane.open()
    failures = FailureTracker(lambda *_: None, lane.stats)
    found = ColumnCandidates(("tokens",), lane.samples, lane.refs, failures).take(250, is_replay=False)

    assert len(found[0]) == lane.stats.failed == 125
