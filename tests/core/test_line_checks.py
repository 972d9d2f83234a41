from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.line_checks import check_lines, wrong_with
from wdsctl.core.units import ShardFile, scan_file


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b'{"a": 1}', "", ""),
        (b"[1]", "WDS121", "no JSON objects"),
        (b'{"a": 1,}', "WDS123", "at character"),
        (b"{" * 3, "WDS123", "at character 1 of the line"),
        (b'{"a": ' * 100_000 + b"}" * 100_000, "WDS123", "nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "WDS123", "too many digits"),
        (b'{"a": "\xe9t\xe9"}', "WDS124", "at byte 7 of the line"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_place(line: bytes, code: str, said: str) -> None:
    found, words = wrong_with(line)
    assert found == code
    assert said in words


def test_lines_are_checked_however_they_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b'{"a": %d}\n' % i if i % 7 else b"{%d}\n" % i for i in range(100))
    (tmp_path / "a.jsonl").write_bytes(data)
    file = ShardFile("a.jsonl", len(data), 0)
    scan = scan_file(str(tmp_path), file)
    for together in (1, 20, 4 << 20):
        monkeypatch.setattr("wdsctl.core.line_checks.TOGETHER", together)
        [finding] = check_lines(str(tmp_path), file, scan)
        assert (finding.code, finding.count, finding.key, finding.offset) == ("WDS123", 15, "a/0", 0)


def test_a_file_that_is_gone_meanwhile_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n{}\n")
    file = ShardFile("a.jsonl", 6, 0)
    scan = scan_file(str(tmp_path), file)
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    assert [each.code for each in check_lines(str(tmp_path), file, scan)] == ["WDS403"]
