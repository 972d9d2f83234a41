from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.json_text import JsonReader
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import scan_file
from wdsctl.core.validate.structure import check_jsonl_lines, line_defects


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (b'{"a": 1}', "", ""),
        (b'{"a": [{"b": NaN}]}', "WDS158", "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "WDS158", "-Infinity"),
        (b'{"a": {"b": 1, "c": 2, "b": 1}}', "WDS159", "an object has the name 'b' more than once"),
        (b"[1]", "WDS121", "not a JSON object"),
        (b'{"a": 1,}', "WDS123", "at character"),
        (b"{" * 3, "WDS123", "at character 1 of the line"),
        (b'{"a": ' * 100_000 + b"}" * 100_000, "WDS123", "nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "WDS123", "more than 100 digits"),
        (b'{"a": "\xe9t\xe9"}', "WDS124", "at byte 7 of the line"),
    ],
)
def test_line_defects_reports_problem_and_position(line: bytes, code: str, message: str) -> None:
    found = line_defects(line, JsonReader())
    assert list(found) == ([code] if code else [])
    assert message in found.get(code, "")


def test_jsonl_findings_are_independent_of_read_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b'{"a": %d}\n' % i if i % 7 else b"{%d}\n" % i for i in range(100))
    (tmp_path / "a.jsonl").write_bytes(data)
    file = ShardFile("a.jsonl", len(data), 0)
    scan = scan_file(str(tmp_path), file)
    for read_bytes in (1, 20, 4 << 20):
        monkeypatch.setattr("wdsctl.core.validate.structure.JSONL_READ_BYTES", read_bytes)
        [located] = check_jsonl_lines(str(tmp_path), file, scan)
        finding = located.finding
        assert (finding.code, finding.count, finding.key, finding.offset) == ("WDS123", 15, "a/0", 0)
        assert [fault.key for fault in located.faults] == [f"a/{i}" for i in range(0, 100, 7)]


def test_file_that_shrank_meanwhile_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n{}\n")
    file = ShardFile("a.jsonl", 6, 0)
    scan = scan_file(str(tmp_path), file)
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    assert [each.finding.code for each in check_jsonl_lines(str(tmp_path), file, scan)] == ["WDS403"]


def test_non_standard_json_is_warning_and_invalid_json_is_error(tmp_path: Path) -> None:
    data = b'{"a": NaN, "a": 2}\n{"a": NaN}\n{"a"}\n'
    (tmp_path / "a.jsonl").write_bytes(data)
    file = ShardFile("a.jsonl", len(data), 0)

    found = [each.finding for each in check_jsonl_lines(str(tmp_path), file, scan_file(str(tmp_path), file))]

    summary = [(each.code, each.severity, each.count) for each in found]
    assert summary == [("WDS158", "warning", 2), ("WDS159", "warning", 1), ("WDS123", "error", 1)]
