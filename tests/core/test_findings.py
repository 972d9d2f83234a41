from __future__ import annotations

from wdsctl.core.errors import Finding, count_by_code, findings_at_least

FOUND = [
    Finding(code="WDS110", severity="warning", message="empty", count=3),
    Finding(code="WDS111", severity="note", message="a link"),
    Finding(code="WDS101", severity="error", message="no tar"),
    Finding(code="WDS110", severity="warning", message="empty", count=2),
]


def test_findings_at_least_selects_by_severity() -> None:
    assert [found.code for found in findings_at_least(FOUND, "error")] == ["WDS101"]
    assert [found.code for found in findings_at_least(FOUND, "warning")] == ["WDS110", "WDS101", "WDS110"]
    assert findings_at_least(FOUND, "note") == FOUND


def test_count_by_code_adds_counts_of_findings() -> None:
    assert count_by_code(FOUND) == {"WDS110": 5, "WDS111": 1, "WDS101": 1}
