from __future__ import annotations

import pytest

from tests.build import memory_reader
from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.repair.jsonl import repair_lines


def run_repair(data: bytes, encoding: str = "") -> tuple[bytes, dict[str, int], list[str]]:
    fixes = Fixes()
    output = b"".join(repair_lines(memory_reader(data), len(data), fixes, encoding))
    return output, {str(fix): count for fix, count in fixes.counts.items()}, fixes.remaining_problems


@pytest.mark.parametrize("data", [b'{"a": 1}\n{"b": 2}\n', b'{"a":  1 }\n', b""])
def test_sound_lines_are_unchanged(data: bytes) -> None:
    assert run_repair(data) == (data, {}, [])


@pytest.mark.parametrize(
    ("data", "output", "fix"),
    [
        (b'\xef\xbb\xbf{"a": 1}\n', b'{"a": 1}\n', "byte order mark removed"),
        (b'{"a": 1}\r\n{"b": 2}\r\n', b'{"a": 1}\n{"b": 2}\n', "line ends converted"),
        (b'{"a": 1}\n\n \r\n{"b": 2}\n', b'{"a": 1}\n{"b": 2}\n', "blank lines removed"),
        (b'{"a": "\xe9"}\n{"b": 2}\n', b'{"b": 2}\n', "non-UTF-8 lines removed"),
        (b'{"a": }\n[1]\n{"b": 2}\n', b'{"b": 2}\n', "lines without a JSON object removed"),
        (b'{"a": 1}\n{"b": ', b'{"a": 1}\n', "truncated tail removed"),
        (b'{"a": 1}\n{"b": 2}', b'{"a": 1}\n{"b": 2}\n', ""),
    ],
)
def test_repair_lines_fixes_or_removes_and_counts_problems(data: bytes, output: bytes, fix: str) -> None:
    actual, counts, problems = run_repair(data)
    assert (actual, problems) == (output, [])
    assert fix in counts or counts == {}
    assert run_repair(output) == (output, {}, [])


def test_encoding_option_reencodes_lines_as_utf8() -> None:
    assert run_repair(b'{"a": "\xe9"}\n', "latin-1") == ('{"a": "é"}\n'.encode(), {"lines re-encoded as UTF-8": 1}, [])


def test_utf_16_file_is_reported_and_not_repaired() -> None:
    output, counts, problems = run_repair('{"a": 1}\n'.encode("utf-16"))
    assert (output, counts, len(problems)) == (b"", {}, 1)
