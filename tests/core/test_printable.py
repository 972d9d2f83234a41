from __future__ import annotations

import os

import pytest

from wdsctl.core.printable import named, one_line, printable


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"a/b.jpg", "a/b.jpg"), ("grüße.txt".encode(), "grüße.txt"), (b"a\xff.tar", "a\\xff.tar")],
)
def test_bytes_that_are_no_utf8_are_shown_and_the_rest_stays(name: bytes, shown: str) -> None:
    assert printable(os.fsdecode(name)) == shown


def test_nothing_in_a_name_moves_a_cursor_or_ends_a_line() -> None:
    assert one_line("a b\n\x1b[2J") == r"a b\n\x1b[2J"
    assert named(os.fsdecode(b"a\n\xff.jpg")) == r"a\n\xff.jpg"
