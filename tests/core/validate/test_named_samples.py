"""Every damaged sample gets its own finding, up to a limit."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import MAX_NAMED_FINDINGS, LocatedFindingCollector, PartToCheck
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import Finding
from wdsctl.core.index.index import index
from wdsctl.core.validate.ci_formats import format_junit, format_sarif
from wdsctl.core.validate.run_checks import CheckOutcome
from wdsctl.core.validate.validate import ValidateRequest, validate

CONTENT = ValidateRequest(levels=("structure", "headers", "content"))
IMAGE = an_image("JPEG")


def a_dataset_with_damaged_images(root: Path) -> str:
    """Two shards of six images, each with two truncated, two HTML and two empty ones."""
    damaged = (IMAGE[:-20], b"<html>404</html>", b"")
    shards = {f"{i}.tar": {f"{i}{j}.jpg": damaged[j % 3] for j in range(6)} for i in range(2)}
    path = a_dataset(root, shards)
    index(path)
    return path


NAMES = [
    *(("WDS140", f"0{j}") for j in (1, 2, 4, 5)),
    *(("WDS143", f"0{j}") for j in (0, 3)),
    *(("WDS140", f"1{j}") for j in (1, 2, 4, 5)),
    *(("WDS143", f"1{j}") for j in (0, 3)),
]


def errors(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(each.code, each.key) for each in findings if each.severity == "error"]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_damaged_sample_is_reported_with_key_and_offset(tmp_path: Path, workers: int) -> None:
    report = validate(a_dataset_with_damaged_images(tmp_path), CONTENT, workers=workers)
    assert errors(report.findings) == NAMES
    places = [(each.shard, each.offset) for each in report.findings if each.severity == "error"]
    assert len({*places}) == len(places)
    assert all(offset is not None for _, offset in places)


def test_reused_findings_name_same_samples(tmp_path: Path) -> None:
    root = a_dataset_with_damaged_images(tmp_path)
    first, second = validate(root, CONTENT), validate(root, CONTENT)
    assert (second.unread, second.findings) == (2, first.findings)


def test_every_damaged_sample_is_in_sarif_junit_and_ledger(tmp_path: Path) -> None:
    root = a_dataset_with_damaged_images(tmp_path)
    findings = validate(root, CONTENT).findings

    results = json.loads(format_sarif(root, findings))["runs"][0]["results"][: len(NAMES)]
    names = [each["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for each in results]
    assert [(each["ruleId"], name) for each, name in zip(results, names, strict=True)] == [
        (code, f"{key}.jpg") for code, key in NAMES
    ]
    assert format_junit(root, findings, fail_on="error", seconds=0).count("<failure ") == len(NAMES)
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        assert errors(tuple(ledger.findings(ledger.runs()[-1]["id"]))) == NAMES


def test_level_structure_names_repeated_keys_and_empty_parts(tmp_path: Path) -> None:
    root = a_dataset(
        tmp_path,
        {
            "a.tar": [(f"{key}.{part}", b"1") for key in "xyzxy" for part in ("jpg", "txt")],
            "b.tar": {"s.jpg": b"", "s.txt": b"", "t.jpg": b"", "t.txt": b"1"},
            "c.tar": [(f"{key}.txt", b"1") for key in "uuvv"],
        },
    )
    index(root)
    named = {(each.code, each.key, each.part, each.count) for each in validate(root).findings}
    assert named >= {
        ("WDS105", "x", "", 1),
        ("WDS105", "y", "", 1),
        ("WDS107", "u", "txt", 1),
        ("WDS107", "v", "txt", 1),
        ("WDS110", "s", "jpg", 1),
        ("WDS110", "s", "txt", 1),
        ("WDS110", "t", "jpg", 1),
    }


def test_every_invalid_line_is_named(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n{"a": }\n[1]\n{"a": 2}\n{"b"}\n'})
    index(root)
    findings = validate(root).findings
    assert [(each.code, each.key, each.offset) for each in findings if each.severity == "error"] == [
        ("WDS121", "a/2", 17),
        ("WDS123", "a/1", 9),
        ("WDS123", "a/4", 30),
    ]


def test_samples_beyond_thousand_are_counted_and_all_are_quarantined(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {f"{i:04d}.json": b"{" for i in range(1005)}})
    index(root)
    report = validate(root, ValidateRequest(levels=CONTENT.levels, quarantine=True))
    *named, remaining = report.findings
    assert [each.key for each in named] == [f"{i:04d}" for i in range(1000)]
    assert (remaining.code, remaining.key, remaining.count) == ("WDS144", "", 5)
    assert report.quarantine is not None
    assert report.quarantine.samples == 1005


def test_named_samples_are_independent_of_shard_completion_order() -> None:
    shards = MAX_NAMED_FINDINGS // 1000 * 3
    order = list(range(shards))
    random.Random(0).shuffle(order)
    outcome = CheckOutcome()
    for i in order:
        found = LocatedFindingCollector(f"{i:06d}.tar")
        for row in range(1000):
            found.add("WDS143", "m", PartToCheck(row, str(row), "jpg", row, 1))
        outcome.add_findings(found.shard, {"content": found.to_findings()})
    findings = list(outcome.named_findings())
    named = {each.shard for each in findings if each.count == 1}
    assert named == {f"{i:06d}.tar" for i in range(MAX_NAMED_FINDINGS // 1000)}
    assert len(findings) == MAX_NAMED_FINDINGS + shards - len(named)
    assert sum(each.count for each in findings) == 1000 * shards
