from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType

from tests.cli.conftest import Stream
from wdsctl.cli.output import render_text
from wdsctl.cli.tables import labelled_lines, make_table, more_findings_line
from wdsctl.core.errors import Finding

NAMES = ("name", "#bytes", "=when", "#samples")
ROW = ("shards/train-000017.tar", "12,345,678,901", "2026-11-22 06:17:16", "1,234,567")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setenv("LINES", "24")
    return Stream(is_terminal=True)


def render(columns: int, terminal: Stream, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, ...]]) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    return render_text([make_table(NAMES, rows)], terminal, is_colored=False)


def test_table_that_fits_is_not_wrapped(terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = render(80, terminal, monkeypatch, [ROW, ROW]).splitlines()
    assert lines[0].split() == ["name", "bytes", "when", "samples"]
    assert len(lines) == 3


def test_table_that_does_not_fit_wraps_widest_column_first(terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = render(60, terminal, monkeypatch, [ROW]).splitlines()
    assert all(figure in lines[1] for figure in ("12,345,678,901", "1,234,567"))


def test_table_without_rows_has_headers(terminal: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "name" in render(40, terminal, monkeypatch, [])


@given(st.integers(24, 120))
def test_table_keeps_all_figures_at_any_width(columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        shown = render(columns, Stream(is_terminal=True), patch, [ROW])
    assert Counter(filter(str.isdigit, shown)) == Counter(filter(str.isdigit, "".join(ROW)))
    assert all(len(line) <= columns for line in shown.splitlines())


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "shards", "größe", "日本"]), st.text(max_size=40)), max_size=4),
    st.text(st.sampled_from("ab \t\n\x1b\u202e"), max_size=10),
)
def test_piped_labelled_lines_match_rich_output(rows: list[tuple[str, str]], line: str) -> None:
    pieces: list[RenderableType] = [line, labelled_lines(rows), "end"]
    table = make_table(("of rich",), [])

    assert render_text([*pieces, table], Stream(), is_colored=False) == (
        render_text(pieces, Stream(), is_colored=False) + "of rich\n"
    )


def test_more_findings_line_counts_places_and_promises_only_what_is_listed() -> None:
    one, many = (Finding(code="WDS313", severity="error", message="m", count=count) for count in (1, 495))
    assert more_findings_line([one, one], "--json") == "... and 2 more (--json lists them all)"
    assert more_findings_line([many], "--json") == "... and 495 more"
    assert more_findings_line([one, many], "--json") == "... and 496 more (--json lists more of them)"
