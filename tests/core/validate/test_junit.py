from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from wdsctl.core.errors import Finding, Severity
from wdsctl.core.validate.ci_formats import format_junit

ODD = 'a <b> & "c"\n\x00\ud800\x1b'
FINDINGS = [
    Finding(code="WDS144", severity="error", message=ODD, shard=ODD, key=ODD, part=ODD, offset=5, count=3),
    Finding(code="WDS106", severity="warning", message="again"),
    Finding(code="WDS109", severity="note", message="hardly any"),
]


@pytest.mark.parametrize(("fail_on", "failures"), [("error", 1), ("warning", 2), ("note", 3), (None, 0)])
def test_findings_from_fail_on_severity_are_failures(fail_on: Severity | None, failures: int) -> None:
    root = ET.fromstring(format_junit("shards", FINDINGS, fail_on=fail_on, seconds=1.5))  # noqa: S314 - our own text
    assert (root.attrib["tests"], root.attrib["failures"]) == ("3", str(failures))
    assert len(root.findall(".//failure")) == failures
    assert len(root.findall(".//system-out")) == 3 - failures


def test_format_junit_escapes_any_text_to_valid_xml() -> None:
    root = ET.fromstring(format_junit(ODD, FINDINGS, fail_on="error", seconds=0))  # noqa: S314 - our own text
    (failure,) = root.findall(".//failure")
    assert failure.attrib["message"] == 'a <b> & "c"\n\\x00\\xd800\\x1b'
    assert "3 times" in (failure.text or "")
    outputs = [case.findtext("system-out") or "" for case in root.findall(".//testcase")]
    assert outputs[1].endswith(", 1 time")


def test_junit_without_findings_has_one_passing_case() -> None:
    root = ET.fromstring(format_junit("shards", [], fail_on="note", seconds=0))  # noqa: S314 - our own text
    assert [case.attrib["name"] for case in root.findall(".//testcase")] == ["nothing wrong"]
