"""Findings as SARIF 2.1.0, which code hosts show beside changes.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0: 3.13 sarifLog, 3.27 result, 3.28 location, 3.30 region.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from wdsctl.core.codes import CODES
from wdsctl.core.findings import Finding
from wdsctl.version import VERSION

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(root: str, findings: Sequence[Finding]) -> str:
    """One run with a rule a code and a result a finding; places are relative to `root`. The same input, the same text.

    What is of no shard is of the dataset's folder.
    """
    codes = sorted({finding.code for finding in findings})
    base = root if "://" in root else f"file://{quote(os.path.abspath(root))}"
    run = {
        "tool": {
            "driver": {
                "name": "wdsctl",
                "version": VERSION,
                "semanticVersion": VERSION,
                "rules": [_rule(code) for code in codes],
            }
        },
        "originalUriBaseIds": {"ROOT": {"uri": base.rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, ensure_ascii=True, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    known = CODES.get(code)
    rule: dict[str, Any] = {"id": code}
    if known is not None:
        rule["shortDescription"] = {"text": known.title}
        rule["fullDescription"] = {"text": known.meaning}
        rule["help"] = {"text": known.remedy}
    return rule


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.shard or "."), "uriBaseId": "ROOT"}}
    if finding.offset is not None:
        location["region"] = {"byteOffset": finding.offset, "byteLength": 0}
    name = ".".join(filter(None, (finding.key, finding.part)))
    place: dict[str, Any] = {"physicalLocation": location}
    if name:
        place["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "member"}]
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    where = f"{name}: " if name else ""
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": f"{where}{finding.message}{times}"},
        "locations": [place],
        "occurrenceCount": finding.count,
    }
