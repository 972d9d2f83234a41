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
    ("name", "shown"),
    [(b"a/b.jpg", "a/b.jpg"), ("grüße.txt".encode(), "grüße.txt"), (b"a\xff.tar", "a\\xff.tar")],
)
def test_bytes_that_are_no_utf8_are_shown_and_the_rest_stays(name: bytes, shown: str) -> None:
    assert printable_path(os.fsdecode(name)) == shown


def test_nothing_in_a_name_moves_a_cursor_or_ends_a_line() -> None:
    assert escape_unprintable("a b\n\x1b[2J") == r"a b\n\x1b[2J"
    assert path_for_message(os.fsdecode(b"a\n\xff.jpg")) == r"a\n\xff.jpg"


def test_lines_and_blanks_stay_and_what_a_terminal_obeys_does_not() -> None:
    assert escape_control_chars("a\tb\nc\u00a0d\u3000\u200d") == "a\tb\nc\u00a0d\u3000\u200d"
    assert escape_control_chars("\x1b[2J\x9b\u202e\u061c\u200b\r\x7f\U000e0041") == (
        r"\x1b[2J\x9b\u202e\u061c\u200b\r\x7f\U000e0041"
    )
    assert escape_to_line("a\n\x1b") == r"a\n\x1b"


def test_a_document_says_what_it_said() -> None:
    value = {"k\x9b\u202e\U000e0041": "\x1b\x7f\u2066"}
    text = escape_json_controls(json.dumps(value, ensure_ascii=False))
    assert text.isascii()
    assert json.loads(text) == value


@pytest.mark.parametrize("name", ["a b", "a\nb", "it's\x1b[2J", "back\\slash\x07", "\x9b2J", "\u202ex"])
def test_a_shell_reads_a_word_back(name: str) -> None:
    word = quote_ansi_c(name)
    assert word.isprintable()
    said = subprocess.run(
        ["bash", "-c", f"printf %s {word if word != name else repr(name)}"], capture_output=True, check=True
    )
    assert said.stdout.decode() == name
