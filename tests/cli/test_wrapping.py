from __future__ import annotations

from wdsctl.cli.output import wrap_lines


def test_a_long_line_is_broken_between_words_below_its_own_indent() -> None:
    assert wrap_lines("  aaa bbb ccc", 10) == "  aaa bbb\n    ccc"


def test_a_line_that_fits_and_one_without_spaces_stay() -> None:
    assert wrap_lines("aaa bbb", 7) == "aaa bbb"
    assert wrap_lines("a" * 20, 7) == "a" * 20


def test_a_command_in_backticks_and_a_figure_with_its_unit_stay_whole() -> None:
    assert wrap_lines("say `wdsctl index ROOT` now", 12) == "say\n  `wdsctl index ROOT`\n  now"
    assert wrap_lines("in all 266.2 KiB", 13) == "in all\n  266.2 KiB"


def test_a_line_that_is_a_command_and_a_picture_are_never_broken() -> None:
    assert wrap_lines("next: wdsctl inspect some where", 10) == "next: wdsctl inspect some where"
    assert wrap_lines("\x1b[1m a b c d e f", 5) == "\x1b[1m a b c d e f"


def test_wide_characters_take_two_columns() -> None:
    assert wrap_lines("日本語 日本語", 12) == "日本語\n  日本語"
