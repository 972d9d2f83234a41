from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.json_text import JsonReader
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import scan_file
from wdsctl.core.validate.structure import check_jsonl_lines, line_defects


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b'{"a": 1}', "", ""),
        (b'{"a": [{"b": NaN}]}', "WDS158", "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "WDS158", "-Infinity"),
        (b'{"a": {"b": 1, "c": 2, "b": 1}}', "WDS159", "an object has the name 'b' more than once"),
        (b"[1]", "WDS121", "not a JSON object"),
        (b'{"a": 1,}', "WDS123", "at character"),
        (b"{" * 3, "WDS123", "at character 1 of the line"),
        (b'{"a": ' * 100_000 + b"}" * 100_000, "WDS123", "nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "WDS123", "too many digits"),
        (b'{"a": "\xe9t\xe9"}', "WDS124", "at byte 7 of the line"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_place(line: bytes, code: str, said: str) -> None:
    found = line_defects(line, JsonReader())
    assert list(found) == ([code] if code else [])
    assert said in found.get(code, "")


def test_lines_are_checked_however_they_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b'{"a": %d}\n' % i if i % 7 else b"{%d}\n" % i for i in range(100))
    (tmp_path / "a.jsonl").write_bytes(data)
    file = ShardFile("a.jsonl", len(data), 0)
    scan = scan_file(str(tmp_path), file)
    for together in (1, 20, 4 << 20):
        monkeypatch.setattr("wdsctl.core.validate.structure.JSONL_READ_BYTES", together)
        [located] = check_jsonl_lines(str(tmp_path), file, scan)
        finding = located.finding
        assert (finding.code, finding.count, finding.key, finding.offset) == ("WDS123", 15, "a/0", 0)
        assert [fault.key for fault in located.faults] == [f"a/{i}" for i in range(0, 100, 7)]


def test_a_file_that_is_gone_meanwhile_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n{}\n")
    file = ShardFile("a.jsonl", 6, 0)
    scan = scan_file(str(tmp_path), file)
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    assert [each.finding.code for each in check_jsonl_lines(str(tmp_path), file, scan)] == ["WDS403"]


def test_what_others_read_otherwise_is_a_warning_and_what_does_not_parse_an_error(tmp_path: Path) -> None:
    data = b'{"a": NaN, "a": 2}\n{"a": NaN}\n{"a"}\n'
    (tmp_path / "a.jsonl").write_bytes(data)
    file = ShardFile("a.jsonl", len(data), 0)

    found = [each.finding for each in check_jsonl_lines(str(tmp_path), file, scan_file(str(tmp_path), file))]

    told = [(each.code, each.severity, each.count) for each in found]
    assert told == [("WDS158", "warning", 2), ("WDS159", "warning", 1), ("WDS123", "error", 1)]
