from __future__ import annotations

import json
import os
import subprocess

import pytest

from wdsctl.core.text import (
    escape_control_chars,
    escape_json_controls,
    escape_to_line,
    escape_unprintable,
    path_for_message,
    printable_path,
    quote_ansi_c,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(b"a/b.jpg", "a/b.jpg"), ("grüße.txt".encode(), "grüße.txt"), (b"a\xff.tar", "a\\xff.tar")],
)
def test_printable_path_escapes_only_non_utf8_bytes(name: bytes, expected: str) -> None:
    assert printable_path(os.fsdecode(name)) == expected


def test_printable_path_escapes_half_a_surrogate_pair_of_json() -> None:
    assert printable_path("cut \ud83d, \udfff, \udcff") == r"cut \ud83d, \udfff, \xff"


def test_control_characters_in_names_are_escaped() -> None:
    assert escape_unprintable("a b\n\x1b[2J") == r"a b\n\x1b[2J"
    assert path_for_message(os.fsdecode(b"a\n\xff.jpg")) == r"a\n\xff.jpg"


def test_escape_control_chars_keeps_lines_and_blanks() -> None:
    assert escape_control_chars("a\tb\nc\u00a0d\u3000\u200d") == "a\tb\nc\u00a0d\u3000\u200d"
    assert escape_control_chars("\x1b[2J\x9b\u202e\u061c\u200b\r\x7f\U000e0041") == (
        r"\x1b[2J\x9b\u202e\u061c\u200b\r\x7f\U000e0041"
    )
    assert escape_to_line("a\n\x1b") == r"a\n\x1b"


def test_escape_json_controls_keeps_value() -> None:
    value = {"k\x9b\u202e\U000e0041": "\x1b\x7f\u2066"}
    text = escape_json_controls(json.dumps(value, ensure_ascii=False))
    assert text.isascii()
    assert json.loads(text) == value


@pytest.mark.parametrize("name", ["a b", "a\nb", "it's\x1b[2J", "back\\slash\x07", "\x9b2J", "\u202ex"])
def test_quote_ansi_c_is_read_back_by_shell(name: str) -> None:
    word = quote_ansi_c(name)
    assert word.isprintable()
    completed = subprocess.run(
        ["bash", "-c", f"printf %s {word if word != name else repr(name)}"], capture_output=True, check=True
    )
    assert completed.stdout.decode() == name
