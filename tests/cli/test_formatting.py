from __future__ import annotations

import os
from pathlib import Path

import pytest

from wdsctl.cli import formatting


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (10_522_669_875, "9.8 GiB"),
        (1024**6 * 2000, "2,048,000.0 PiB"),
    ],
)
def test_format_size_uses_largest_fitting_unit(size_bytes: int, expected: str) -> None:
    assert formatting.format_size(size_bytes) == expected


def test_format_size_progress_uses_unit_of_total() -> None:
    assert formatting.format_size_progress(1024**2, 40 * 1024**3) == "0.0/40.0 GiB"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.8, "80 %"),
        (0.125, "12.5 %"),
        (0.99999, "99.9 %"),
        (0.0001, "< 0.1 %"),
        (1.5, "150 %"),
    ],
)
def test_format_share_rounds_neither_to_0_nor_to_100_percent(part: float, expected: str) -> None:
    assert formatting.format_share(part) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.84, "0.8 s"),
        (9.97, "10 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (11_520, "3 h 12 min"),
        (3600, "1 h"),
        (187_200, "2 d 4 h"),
    ],
)
def test_format_duration_uses_two_largest_units(seconds: float, expected: str) -> None:
    assert formatting.format_duration(seconds) == expected


def test_format_count_handles_singular_and_separators() -> None:
    assert formatting.format_count(1, "shard") == "1 shard"
    assert formatting.format_count(0, "shard") == "0 shards"
    assert formatting.format_count(1_204_332, "sample") == "1,204,332 samples"
    assert formatting.format_count(5_029) == "5,029"


def test_escape_line_escapes_control_characters() -> None:
    assert formatting.escape_line("a\x1b[2J\nb\udcff") == "a\\x1b[2J\\nb\\udcff"
    assert formatting.escape_line("Grüße/日本 1.jpg") == "Grüße/日本 1.jpg"


def test_display_path_is_relative_below_working_directory() -> None:
    assert formatting.display_path(os.path.join(os.getcwd(), "a", "b.tar")) == os.path.join("a", "b.tar")
    assert formatting.display_path(os.getcwd()) == "."
    assert formatting.display_path("/elsewhere/b.tar") == "/elsewhere/b.tar"


def test_relative_paths_shortens_paths_in_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"`wdsctl index {tmp_path}/a --rebuild`, '{tmp_path}/b c' and /x{tmp_path}/d; `wdsctl validate {tmp_path}`"
    assert (
        formatting.relative_paths(text) == f"`wdsctl index a --rebuild`, 'b c' and /x{tmp_path}/d; `wdsctl validate .`"
    )
    dashed = f"`wdsctl index {tmp_path}/-a`, `wdsctl ls '{tmp_path}/-b c' --samples`"
    assert formatting.relative_paths(dashed) == "`wdsctl index ./-a`, `wdsctl ls './-b c' --samples`"


def test_shell_argument_quotes_and_protects_leading_dash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert formatting.shell_argument(f"{tmp_path}/-weird") == "./-weird"
    assert formatting.shell_argument("a folder/-x") == "'a folder/-x'"


def test_fit_epilog_wraps_to_terminal_width() -> None:
    epilog = "\n\b\nExamples:\n  wdsctl ls d            every shard\n\n\b\nFirst line\nand the second.\n"

    assert formatting.fit_epilog(epilog, 80) == epilog
    assert formatting.fit_epilog(epilog, 30) == (
        "\b\nExamples:\n  wdsctl ls d\n      every shard\n\nFirst line and the second."
    )
