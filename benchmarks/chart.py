"""Draws docs/images/speed-light.svg and speed-dark.svg from the results file: `python -m benchmarks.chart`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from benchmarks.places import REPOSITORY, RESULTS
from benchmarks.results import Subject, load_subjects

IMAGES = REPOSITORY / "docs" / "images"


class Panel(NamedTuple):
    """One group of bars. `names`: the entries of the row to draw -> their labels, ours first."""

    title: str
    subject: str
    row: str
    figure: str
    names: Mapping[str, str]
    text: Callable[[float], str]


PANELS = (
    Panel(
        "Prepare a million samples, seconds (shorter is better)",
        "prepare",
        "prepare tiny, 2 workers",
        "wall_seconds",
        {"wdsctl prepare": "wdsctl", "energon prepare": "Energon"},
        lambda seconds: f"{seconds:.1f} s",
    ),
    Panel(
        "Decode and batch JPEG images, samples per second, 2 workers (longer is better)",
        "loader",
        "decoded, 2 workers",
        "samples_per_second",
        {
            "wdsctl": "wdsctl",
            "litdata": "LitData",
            "webdataset": "webdataset",
            "energon": "Energon",
            "mosaic": "Streaming",
        },
        lambda rate: f"{rate:,.0f}",
    ),
    Panel(
        "Read facts of 20,000 images, seconds (shorter is better)",
        "media",
        "facts of 20,000 images, 2 workers",
        "wall_seconds",
        {"wdsctl index --media": "wdsctl", "energon prepare-media": "Energon"},
        lambda seconds: f"{seconds:.1f} s",
    ),
)


class Theme(NamedTuple):
    text: str
    muted: str
    wdsctl: str
    others: str


THEMES = {
    "light": Theme("#1f2328", "#59636e", "#1a7f37", "#afb8c1"),
    "dark": Theme("#f0f6fc", "#9198a1", "#3fb950", "#656c76"),
}
WIDTH, LABEL, VALUE = 720, 96, 76  # pixels
BAR, GAP, TITLE, SPACE = 16, 6, 26, 18
FONT = "-apple-system,BlinkMacSystemFont,'Segoe UI',Helvetica,Arial,sans-serif"


def write_charts(results: Path = RESULTS, folder: Path = IMAGES) -> None:
    """Draw the panels whose rows were measured."""
    measured = load_subjects(results)
    folder.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        (folder / f"speed-{name}.svg").write_text(draw_chart(measured, theme))


def draw_chart(measured: Mapping[str, Subject], theme: Theme) -> str:
    bars: list[str] = []
    top = 0
    for panel in PANELS:
        figures = _figures(panel, measured)
        if figures:
            bars += _draw_panel(panel, figures, top, theme)
            top += TITLE + len(figures) * (BAR + GAP) + SPACE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" '
        f'role="img" aria-label="Speed of wdsctl and others" font-family="{FONT}" font-size="13">'
    )
    return "\n".join([head, *bars, "</svg>", ""])


def _figures(panel: Panel, measured: Mapping[str, Subject]) -> dict[str, float]:
    rows = measured[panel.subject].rows if panel.subject in measured else []
    row = next((row for row in rows if row.title == panel.row), None)
    found = {} if row is None else {entry.name: entry.median for entry in row.entries}
    return {label: found[name][panel.figure] for name, label in panel.names.items() if name in found}


def _draw_panel(panel: Panel, figures: Mapping[str, float], top: int, theme: Theme) -> Iterator[str]:
    yield f'<text x="0" y="{top + 14}" fill="{theme.text}" font-weight="600">{escape(panel.title)}</text>'
    longest = max(figures.values())
    for i, (label, figure) in enumerate(figures.items()):
        y = top + TITLE + i * (BAR + GAP)
        length = max(2.0, (WIDTH - LABEL - VALUE) * figure / longest)
        colour = theme.wdsctl if label == "wdsctl" else theme.others
        yield f'<text x="{LABEL - 8}" y="{y + 12}" fill="{theme.text}" text-anchor="end">{escape(label)}</text>'
        yield f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        yield f'<text x="{LABEL + length + 6:.1f}" y="{y + 12}" fill="{theme.muted}">{panel.text(figure)}</text>'


if __name__ == "__main__":
    write_charts()
