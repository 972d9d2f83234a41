from __future__ import annotations

from wdsctl.core.catalog.ledger_checks import (
    LocatedFinding,
    LocatedFindingCollector,
    PartToCheck,
    located_findings_from_json,
    located_findings_to_json,
    merge_located_findings,
)
from wdsctl.core.errors import Finding


def test_one_finding_a_code_and_part_with_the_first_place_and_all_samples() -> None:
    found = LocatedFindingCollector("a.tar")
    for row, part in ((3, "jpg"), (1, "jpg"), (3, "jpg"), (5, "txt")):
        found.add("WDS143", f"row {row}", PartToCheck(row, f"k{row}", part, 100 * row, 1))
    first, second = found.to_findings()

    assert (first.finding.message, first.finding.key, first.finding.offset, first.finding.count) == (
        "row 3",
        "k3",
        300,
        3,
    )
    assert (first.positions, second.positions) == ((1, 3), (5,))


def test_what_the_ledger_keeps_comes_back_as_it_was() -> None:
    odd = Finding(code="WDS144", severity="error", message='"\ud800\n', shard="ü.tar", key="k\x00", offset=7)
    found = (LocatedFinding(odd, (1, 2)), LocatedFinding(odd, covers_shard=True))
    assert located_findings_from_json(located_findings_to_json(found)) == found


def at(*places: int, code: str = "WDS143", count: int = 0) -> LocatedFinding:
    said = Finding(
        code=code, severity="error", message="m", key=f"k{places[0]}", part="jpg", count=count or len(places)
    )
    return LocatedFinding(said, places)


def test_looks_at_the_same_samples_are_one_finding_a_code_with_all_samples_and_the_first_of_them() -> None:
    both = merge_located_findings([at(3, 5)], [at(1, 5), at(2, code="WDS144")])
    assert both == (at(1, 3, 5), at(2, code="WDS144"))
    assert merge_located_findings(both, both, [at(5)]) == both
    assert merge_located_findings([at(4)], [at(2, 4, count=7)]) == (at(2, 4, count=7),)
    assert merge_located_findings() == ()


def test_findings_of_a_shard_that_say_different_things_stay_several() -> None:
    sums = [
        LocatedFinding(Finding(code="WDS151", severity="error", message=said, shard="a.tar"), covers_shard=True)
        for said in "xy"
    ]
    assert merge_located_findings(sums) == merge_located_findings(sums, sums[:1]) == tuple(sums)
