from __future__ import annotations

from wdsctl.core.checks.placed import Gathered, Placed, Sight, as_text, from_text
from wdsctl.core.findings import Finding


def test_one_finding_a_code_and_part_with_the_first_place_and_all_samples() -> None:
    found = Gathered("a.tar")
    for row, part in ((3, "jpg"), (1, "jpg"), (3, "jpg"), (5, "txt")):
        found.add("WDS143", f"row {row}", Sight(row, f"k{row}", part, 100 * row, 1))
    first, second = found.all()

    assert (first.finding.message, first.finding.key, first.finding.offset, first.finding.count) == (
        "row 3",
        "k3",
        300,
        3,
    )
    assert (first.places, second.places) == ((1, 3), (5,))


def test_what_the_ledger_keeps_comes_back_as_it_was() -> None:
    odd = Finding(code="WDS144", severity="error", message='"\ud800\n', shard="ü.tar", key="k\x00", offset=7)
    found = (Placed(odd, (1, 2)), Placed(odd, is_whole=True))
    assert from_text(as_text(found)) == found
