"""Format findings as SARIF 2.1.0, which code hosts show next to changes, and as JUnit XML for CI systems.

Sources: OASIS, Static Analysis Results Interchange Format 2.1.0: 3.13 sarifLog, 3.27 result, 3.28 location, 3.30
region. https://llg.cubic.org/docs/junit/, the variant that Jenkins and GitLab read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from wdsctl.core.codes import load_codes
from wdsctl.core.errors import SEVERITIES, Finding, Severity
from wdsctl.core.text import escape_control_chars, escape_to_line, pluralize
from wdsctl.core.version import VERSION

_FILE_ROOT_SUFFIXES = (".jsonl", ".ndjson", ".yaml", ".yml")  # roots that are files
SARIF_SCHEMA_URL = "https://json.schemastore.org/sarif-2.1.0.json"


def format_sarif(root: str, findings: Sequence[Finding]) -> str:
    """Format one run as reproducible SARIF, with a rule per code and a result per finding.

    Locations are relative to `root`, or to its folder if `root` is a file (JSONL or a blend). A finding without a
    shard is located at the folder.
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
        "originalUriBaseIds": {"ROOT": {"uri": _base_uri(root).rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
    }
    document = {"$schema": SARIF_SCHEMA_URL, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, ensure_ascii=True, indent=2) + "\n"


def _base_uri(root: str) -> str:
    """Return the folder that shard paths are relative to, as a URI."""
    if "://" in root:
        return root.rpartition("/")[0] if root.endswith(_FILE_ROOT_SUFFIXES) else root
    path = os.path.abspath(root)
    return f"file://{quote(os.path.dirname(path) if os.path.isfile(path) else path)}"


def _rule(code: str) -> dict[str, Any]:
    known = load_codes().get(code)
    rule: dict[str, Any] = {"id": code}
    if known is not None:
        rule["shortDescription"] = {"text": known.title}
        rule["fullDescription"] = {"text": known.meaning}
        rule["help"] = {"text": known.remedy}
    return rule


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    is_url = "://" in finding.shard  # a shard in a remote dataset of a blend
    artifact = {"uri": finding.shard} if is_url else {"uri": quote(finding.shard or "."), "uriBaseId": "ROOT"}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if finding.offset is not None:
        physical["region"] = {"byteOffset": finding.offset, "byteLength": 0}
    name = ".".join(filter(None, (finding.key, finding.part)))
    location: dict[str, Any] = {"physicalLocation": physical}
    if name:
        location["logicalLocations"] = [{"fullyQualifiedName": escape_control_chars(name), "kind": "member"}]
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    where = f"{name}: " if name else ""
    return {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": _sarif_text(f"{where}{finding.message}{times}")},
        "locations": [location],
        "occurrenceCount": finding.count,
    }


def _sarif_text(text: str) -> str:
    """Text for a message, without links: SARIF reads `[text](target)` in plain text as one (3.11.6)."""
    return escape_control_chars(text).replace("](", "\\](")


#: Characters that XML 1.0 cannot contain, escaped or not.
_XML_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def format_junit(root: str, findings: Sequence[Finding], *, fail_on: Severity | None, seconds: float) -> str:
    """Format one test case per finding. Findings of severity `fail_on` or above fail, others pass with output.

    If `fail_on` is None, no case fails. Without findings there is one case, which passes.
    """
    floor = len(SEVERITIES) if fail_on is None else SEVERITIES.index(fail_on)
    failing = [SEVERITIES.index(finding.severity) >= floor for finding in findings]
    cases = [_case(finding, is_failure) for finding, is_failure in zip(findings, failing, strict=True)]
    cases = cases or ['    <testcase classname="wdsctl.validate" name="nothing wrong"/>']
    head = f'tests="{len(cases)}" failures="{sum(failing)}" errors="0" time="{seconds:.3f}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="wdsctl validate" {head}>',
            f"  <testsuite name={_quoted(root)} {head}>",
            *cases,
            "  </testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _case(finding: Finding, is_failure: bool) -> str:
    where = ", ".join(filter(None, (finding.shard, finding.key, finding.part))) or "dataset"
    code = load_codes().get(finding.code)
    name = _quoted(f"{finding.code} {'' if code is None else code.title}: {where}")
    byte = f", byte {finding.offset:,}" if finding.offset is not None else ""
    detail = f"{finding.severity}: {finding.message} ({where}{byte}), {pluralize(finding.count, 'time')}"
    text = escape(escape_to_line(_sanitize(detail)))
    body = f"<system-out>{text}</system-out>"
    if is_failure:
        body = f"<failure type={_quoted(finding.code)} message={_quoted(finding.message)}>{text}</failure>"
    return f'    <testcase classname="wdsctl.validate" name={name}>{body}</testcase>'


def _quoted(text: str) -> str:
    return quoteattr(_sanitize(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _sanitize(text: str) -> str:
    """Escape characters that XML cannot contain, and control characters that would affect a terminal."""
    return escape_control_chars(_XML_FORBIDDEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text))
