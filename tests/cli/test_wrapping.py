from __future__ import annotations

from wdsctl.cli.output import wrap_lines


def test_wrap_lines_breaks_between_words_and_indents() -> None:
    assert wrap_lines("  aaa bbb ccc", 10) == "  aaa bbb\n    ccc"


def test_wrap_lines_keeps_short_lines_and_long_words() -> None:
    assert wrap_lines("aaa bbb", 7) == "aaa bbb"
    assert wrap_lines("a" * 20, 7) == "a" * 20


def test_wrap_lines_keeps_backticked_commands_and_units_whole() -> None:
    assert wrap_lines("say `wdsctl index ROOT` now", 12) == "say\n  `wdsctl index ROOT`\n  now"
    assert wrap_lines("in all 266.2 KiB", 13) == "in all\n  266.2 KiB"


def test_wrap_lines_keeps_command_lines_and_drawings() -> None:
    assert wrap_lines("next: wdsctl inspect some where", 10) == "next: wdsctl inspect some where"
    assert wrap_lines("\x1b[1m a b c d e f", 5) == "\x1b[1m a b c d e f"


def test_wrap_lines_counts_wide_characters_as_two_columns() -> None:
    assert wrap_lines("日本語 日本語", 12) == "日本語\n  日本語"
