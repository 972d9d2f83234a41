from __future__ import annotations

import json
import zlib
from base64 import b64encode
from dataclasses import asdict

import pytest

from wdsctl.core.catalog.ledger_checks import (
    MAX_NAMED_SAMPLES,
    LocatedFinding,
    LocatedFindingCollector,
    PartToCheck,
    SampleFault,
    located_findings_from_json,
    located_findings_to_json,
    name_samples,
)
from wdsctl.core.errors import Finding


def test_collector_merges_findings_by_code_and_part() -> None:
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


def test_located_findings_round_trip_through_json() -> None:
    odd = Finding(code="WDS144", severity="error", message='"\ud800\n', shard="ü.tar", key="k\x00", offset=7)
    faults = (SampleFault(1, "k\x00", 7, 1, '"\ud800\n'), SampleFault(2, "ü", None, 3, ""))
    found = (LocatedFinding(odd, (1, 2), faults=faults), LocatedFinding(odd, covers_shard=True))
    stored = located_findings_to_json(found)
    assert located_findings_from_json(stored) == found
    assert located_findings_from_json(stored, with_faults=False) == (found[0]._replace(faults=()), found[1])


def test_name_samples_returns_location_message_and_count_per_sample() -> None:
    found = LocatedFindingCollector("a.tar")
    for row in (3, 1, 3):
        found.add("WDS143", f"row {row}", PartToCheck(row, f"k{row}", "jpg", 100 * row, 1))
    [located] = found.to_findings()
    sample_findings = [(each.key, each.offset, each.message, each.count) for each in name_samples(located)]
    assert sample_findings == [("k1", 100, "row 1", 1), ("k3", 300, "row 3", 2)]


def test_name_samples_counts_samples_beyond_limit() -> None:
    found = LocatedFindingCollector("a.tar")
    for row in range(MAX_NAMED_SAMPLES + 7):
        found.add("WDS143", "m", PartToCheck(row, f"k{row}", "jpg", row, 1))
    [located] = found.to_findings()
    *sample_findings, rest = name_samples(located)
    assert len(located.positions) == MAX_NAMED_SAMPLES + 7
    assert (len(sample_findings), sample_findings[-1].key) == (MAX_NAMED_SAMPLES, "k999")
    assert (rest.key, rest.offset, rest.count) == ("", None, 7)
    assert rest.message == "more samples of this shard, after the first 1,000"


def test_json_of_1000_named_samples_is_small() -> None:
    found = LocatedFindingCollector("a.tar")
    for row in range(MAX_NAMED_SAMPLES):
        message = f"it cannot be decoded: image file is truncated ({row % 97} bytes not processed)"
        found.add("WDS143", message, PartToCheck(row, f"folder/{row:06d}", "jpg", 30_011 * row, 1))
    assert len(located_findings_to_json(found.to_findings())) < 24_000


@pytest.mark.parametrize("is_too_large", [True, False])
def test_located_findings_from_json_refuses_malformed_samples(is_too_large: bool) -> None:
    compressed = zlib.compress(b" " * (1 << 26) + b"[]", 1) if is_too_large else b"no zlib"
    finding = Finding(code="WDS143", severity="error", message="x", shard="a.tar")
    row = [asdict(finding), [1], False, b64encode(compressed).decode()]

    with pytest.raises(ValueError, match=r"malformed|Expecting value"):
        located_findings_from_json(json.dumps([row]))
