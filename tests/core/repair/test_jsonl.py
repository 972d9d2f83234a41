from __future__ import annotations

import pytest

from tests.build import reading
from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.repair.jsonl import repair_lines


def repaired(data: bytes, encoding: str = "") -> tuple[bytes, dict[str, int], list[str]]:
    fixes = Fixes()
    made = b"".join(repair_lines(reading(data), len(data), fixes, encoding))
    return made, {str(fix): count for fix, count in fixes.counts.items()}, fixes.remaining_problems


@pytest.mark.parametrize("data", [b'{"a": 1}\n{"b": 2}\n', b'{"a":  1 }\n', b""])
def test_sound_lines_stay_byte_for_byte(data: bytes) -> None:
    assert repaired(data) == (data, {}, [])


@pytest.mark.parametrize(
    ("data", "made", "fix"),
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
def test_what_is_wrong_is_mended_or_left_out_and_counted(data: bytes, made: bytes, fix: str) -> None:
    got, counts, left = repaired(data)
    assert (got, left) == (made, [])
    assert fix in counts or counts == {}
    assert repaired(made) == (made, {}, [])


def test_lines_of_another_encoding_are_encoded_again_if_it_is_named() -> None:
    assert repaired(b'{"a": "\xe9"}\n', "latin-1") == ('{"a": "é"}\n'.encode(), {"lines re-encoded as UTF-8": 1}, [])


def test_a_file_in_utf_16_is_told_and_left() -> None:
    made, counts, left = repaired('{"a": 1}\n'.encode("utf-16"))
    assert (made, counts, len(left)) == (b"", {}, 1)
