"""The pictures of README show what the commands print and what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chart import THEMES, draw_chart
from benchmarks.places import RESULTS
from benchmarks.results import load_subjects

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "docs" / "images"


def test_the_recording_shows_what_the_commands_print() -> None:
    script = [sys.executable, str(REPOSITORY / "docs" / "recording.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("theme", THEMES)
def test_the_chart_shows_the_results(theme: str) -> None:
    assert (IMAGES / f"speed-{theme}.svg").read_text() == draw_chart(load_subjects(RESULTS), THEMES[theme])


def test_the_pictures_fetch_and_run_nothing() -> None:
    for picture in IMAGES.glob("*.svg"):
        text = picture.read_text()
        assert "<script" not in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
