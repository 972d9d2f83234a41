"""Findings as JUnit's XML, which CI systems count as tests.

Source: https://llg.cubic.org/docs/junit/, the form that Jenkins and GitLab read: a suite of cases, some with a failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from wdsctl.core.codes import CODES
from wdsctl.core.counted import counted
from wdsctl.core.findings import SEVERITIES, Finding, Severity
from wdsctl.core.printable import harmless, on_a_line

#: What XML 1.0 cannot hold, escaped or not.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(root: str, findings: Sequence[Finding], *, fail_on: Severity | None, seconds: float) -> str:
    """One case a finding: those as grave as `fail_on` are failures, the others pass with a word. None: nothing fails.

    Without any finding there is one case, which passes.
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
    place = ", ".join(filter(None, (finding.shard, finding.key, finding.part))) or "dataset"
    name = _quoted(f"{finding.code} {CODES[finding.code].title if finding.code in CODES else ''}: {place}")
    byte = f", byte {finding.offset:,}" if finding.offset is not None else ""
    said = f"{finding.severity}: {finding.message} ({place}{byte}), {counted(finding.count, 'time')}"
    inside = (
        f"<failure type={_quoted(finding.code)} message={_quoted(finding.message)}>{_text(said)}</failure>"
        if is_failure
        else f"<system-out>{_text(said)}</system-out>"
    )
    return f'    <testcase classname="wdsctl.validate" name={name}>{inside}</testcase>'


def _quoted(text: str) -> str:
    return quoteattr(_told(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _text(text: str) -> str:
    return escape(on_a_line(_told(text)))


def _told(text: str) -> str:
    """Without what XML cannot hold, and what a terminal that shows it would obey."""
    return harmless(_FORBIDDEN.sub(_named, text))


def _named(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"
