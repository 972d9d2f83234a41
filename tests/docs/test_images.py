"""The images of the README show the output of the commands and the measured results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.chart import THEMES, draw_chart
from benchmarks.places import RESULTS
from benchmarks.results import load_subjects
from tests import children

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "docs" / "images"


def test_recording_shows_output_of_commands() -> None:
    script = [sys.executable, str(REPOSITORY / "docs" / "recording.py"), "--check"]
    completed = children.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert (completed.returncode, completed.stdout) == (0, "")


@pytest.mark.parametrize("theme", THEMES)
def test_chart_shows_results(theme: str) -> None:
    assert (IMAGES / f"speed-{theme}.svg").read_text() == draw_chart(load_subjects(RESULTS), THEMES[theme])


def test_images_contain_no_scripts_and_no_links() -> None:
    for picture in IMAGES.glob("*.svg"):
        text = picture.read_text()
        assert "<script" not in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
