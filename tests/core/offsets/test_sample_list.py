from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from wdsctl.core.errors import InputError, StorageError
from wdsctl.core.offsets.key_list import SampleSelector, read_sample_list


def test_read_sample_list_accepts_all_line_endings(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\n b c \n  \nd\xff\nit's")
    assert [each.key for each in read_sample_list(str(path))] == ["a", " b c ", "d\\xff", "it's"]


def test_json_lines_select_samples_by_key_shard_and_position(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text('{"key": "a"}\n\n{"key": "b", "shard": "s.tar", "position": 3, "id": 7}\n', encoding="utf-8")
    assert list(read_sample_list(str(path))) == [SampleSelector("a"), SampleSelector("b", "s.tar", 3)]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '"a"', "3", '{"name": "a"}', '{"key": 1}', '{"key": "a", "position": 1}', '{"key": "a", "shard": 1}'],
)
def test_line_without_sample_key_is_reported_by_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(f'{{"key": "a"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2 has no sample key"):
        list(read_sample_list(str(path)))


def test_read_sample_list_reads_stdin_for_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"a\nb\n")

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert [each.key for each in read_sample_list("-")] == ["a", "b"]


def test_missing_sample_list_raises_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        list(read_sample_list(str(tmp_path / "none.txt")))
