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

_FILES = (".jsonl", ".ndjson", ".yaml", ".yml")  # what a root is called that is no folder
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(root: str, findings: Sequence[Finding]) -> str:
    """One run with a rule a code and a result a finding. The same input, the same text.

    Places are relative to `root`, or to the folder that it lies in where it is a file (of lines, of a blend). What is
    of no shard is of the folder.
    """
    codes = sorted({finding.code for finding in findings})
    run = {
        "tool": {
            "driver": {
                "name": "wdsctl",
                "version": VERSION,
                "semanticVersion": VERSION,
                "rules": [_rule(code) for code in codes],
            }
        },
        "originalUriBaseIds": {"ROOT": {"uri": _base(root).rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, ensure_ascii=True, indent=2) + "\n"


def _base(root: str) -> str:
    """What names of shards are relative to."""
    if "://" in root:
        return root.rpartition("/")[0] if root.endswith(_FILES) else root
    path = os.path.abspath(root)
    return f"file://{quote(os.path.dirname(path) if os.path.isfile(path) else path)}"


def _rule(code: str) -> dict[str, Any]:
    known = CODES.get(code)
    rule: dict[str, Any] = {"id": code}
    if known is not None:
        rule["shortDescription"] = {"text": known.title}
        rule["fullDescription"] = {"text": known.meaning}
        rule["help"] = {"text": known.remedy}
    return rule


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    is_url = "://" in finding.shard  # of a dataset of a blend
    artifact = {"uri": finding.shard} if is_url else {"uri": quote(finding.shard or "."), "uriBaseId": "ROOT"}
    location: dict[str, Any] = {"artifactLocation": artifact}
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
