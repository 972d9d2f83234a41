from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from wdsctl.core.errors import InputError, StorageError
from wdsctl.core.offsets.key_list import SampleSelector, read_sample_list


def test_keys_stand_on_lines_whatever_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\n b c \n  \nd\xff\nit's")
    assert [each.key for each in read_sample_list(str(path))] == ["a", " b c ", "d\\xff", "it's"]


def test_objects_say_where_a_key_is(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text('{"key": "a"}\n\n{"key": "b", "shard": "s.tar", "position": 3, "id": 7}\n', encoding="utf-8")
    assert list(read_sample_list(str(path))) == [SampleSelector("a"), SampleSelector("b", "s.tar", 3)]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '"a"', "3", '{"name": "a"}', '{"key": 1}', '{"key": "a", "position": 1}', '{"key": "a", "shard": 1}'],
)
def test_a_line_that_names_no_sample_is_told_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(f'{{"key": "a"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2 has no sample key"):
        list(read_sample_list(str(path)))


def test_stdin_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"a\nb\n")

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert [each.key for each in read_sample_list("-")] == ["a", "b"]


def test_a_file_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        list(read_sample_list(str(tmp_path / "none.txt")))
