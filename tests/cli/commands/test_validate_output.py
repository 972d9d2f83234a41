from __future__ import annotations

from tests.cli.conftest import Show
from tests.cli.reports import a_validate_report
from wdsctl.cli.commands.validate import render_validation, validation_renderer
from wdsctl.core.errors import Finding


def test_validation_prints_findings_then_table_then_verdict(render_piped: Show) -> None:
    assert render_piped(render_validation(a_validate_report())) == [
        "error[WDS102]: the shard is truncated",
        "  --> deep/train-000017.tar (byte 73,822,720), sample a/0042, part jpg: it ends in a member",
        "warning[WDS106]: the same key in several shards (1,204 times)",
        "  --> sample a/0042: keys that occur in several shards",
        "note[WDS111]: members that are not regular files (3 times)",
        "  --> x.tar: directories",
        "",
        "code    severity  times  what",
        "WDS102  error         1  the shard is truncated",
        "WDS106  warning   1,204  the same key in several shards",
        "WDS111  note          3  members that are not regular files",
        "",
        "shards: 1 error, 1,204 warnings, 3 notes",
        "  checked 5,029 shards, 1,204,332 samples, 40.0 GiB in 1 min 13 s",
    ]


def test_validation_limit_keeps_most_severe_findings(render_piped: Show) -> None:
    lines = render_piped(validation_renderer(1)(a_validate_report()))

    assert lines[0].startswith("error[WDS102]")
    assert lines[2] == "... and 2 more (--limit 0 lists them all)"
    assert len([line for line in lines if "WDS111" in line]) == 1


def test_validation_of_valid_dataset_prints_two_lines(render_piped: Show) -> None:
    lines = render_piped(render_validation(a_validate_report(findings=())))
    assert len(lines) == 2
    assert lines[0] == "shards: nothing wrong"


def test_validation_groups_findings_by_code_up_to_limit(render_piped: Show) -> None:
    facts = {"code": "WDS143", "severity": "error", "message": "cut off", "shard": "a.tar", "part": "jpg"}
    named = [Finding(**facts, key=str(i), offset=512 * i, count=1 + i % 2) for i in range(4)]  # type: ignore[arg-type]
    other = Finding(code="WDS140", severity="error", message="it is empty", shard="b.tar", key="x")
    report = a_validate_report(findings=(*named, other))
    assert render_piped(validation_renderer(0)(report))[:7] == [
        "error[WDS143]: a part cannot be decoded (6 times)",
        "  --> a.tar (byte 0), sample 0, part jpg: cut off",
        "  --> a.tar (byte 512), sample 1, part jpg: cut off (2 times)",
        "  --> a.tar (byte 1,024), sample 2, part jpg: cut off",
        "  --> a.tar (byte 1,536), sample 3, part jpg: cut off (2 times)",
        "error[WDS140]: the header of a part is invalid",
        "  --> b.tar, sample x: it is empty",
    ]
    assert render_piped(validation_renderer(2)(report))[:5] == [
        "error[WDS143]: a part cannot be decoded (6 times)",
        "  --> a.tar (byte 0), sample 0, part jpg: cut off",
        "error[WDS140]: the header of a part is invalid",
        "  --> b.tar, sample x: it is empty",
        "... and 3 more (--limit 0 lists them all)",
    ]
