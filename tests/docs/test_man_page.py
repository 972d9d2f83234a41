"""The manual page matches `--help` and renders."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.docs.pages import ROOT

SCRIPT = ROOT / "docs" / "man_page.py"
PAGE = ROOT / "docs" / "man" / "wdsctl.1"
MACROS = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I", ".nf", ".fi", '.\\"'}


def test_man_page_is_up_to_date() -> None:
    completed = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)

    assert (completed.returncode, completed.stdout) == (0, "")


def test_every_command_has_section() -> None:
    headings = re.findall(r"^## (wdsctl .*)$", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings == re.findall(r"^\.SS (.*)$", PAGE.read_text(encoding="ascii"), re.MULTILINE)


def test_man_page_contains_only_known_macros() -> None:
    lines = PAGE.read_text(encoding="ascii").splitlines()

    assert {line.split(" ")[0] for line in lines if line.startswith(".")} == MACROS
    assert not [line for line in lines if line.startswith("'")]
    assert lines.count(".nf") == lines.count(".fi")


@pytest.mark.parametrize(
    ("line", "escaped"),
    [
        (".jsonl", "\\&.jsonl"),
        ("'a'", "\\(aqa\\(aq"),
        ("--x", "\\-\\-x"),
        ("\\n", "\\en"),
        ('`^~"', "\\(ga\\(ha\\(ti\\(dq"),
        ("a ≥ b", "a \\[u2265] b"),
    ],
)
def test_roff_special_characters_are_escaped(line: str, escaped: str) -> None:
    text: Callable[[str], str] = runpy.run_path(str(SCRIPT))["_text"]

    assert text(line) == escaped


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
def test_man_page_renders_without_warning() -> None:
    completed = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", str(PAGE)], capture_output=True, text=True, check=True
    )

    assert completed.stderr == ""
    assert "\nNAME\n       wdsctl - build and manage WebDataset datasets" in completed.stdout
    assert "\n       --missing error|keep|drop\n" in completed.stdout
