from __future__ import annotations

from tests.cli.conftest import Show
from tests.cli.reports import FINDINGS, TRUNCATED, an_index_report
from wdsctl.cli.commands.index import render_index
from wdsctl.core.index.report import ColumnReport


def test_index_prints_counts_first(render_piped: Show) -> None:
    assert render_piped(render_index(an_index_report())) == [
        "shards: 5,029 shards, 1,204,332 samples, 40.0 GiB, indexed in 41 s",
        "  catalog  shards/.wdsctl/catalog.sqlite (generation 3)",
        "  shards   12 added, 1 changed, 5,016 unchanged",
    ]


def test_up_to_date_index_prints_one_line(render_piped: Show) -> None:
    assert render_piped(render_index(an_index_report(up_to_date=True))) == [
        "shards: up to date (5,029 shards, 1,204,332 samples, 40.0 GiB)"
    ]


def test_index_dry_run_prints_would_be_indexed(render_piped: Show) -> None:
    assert render_piped(render_index(an_index_report(dry_run=True, generation=0)))[:2] == [
        "shards: 5,029 shards, 40.0 GiB, would be indexed",
        "  catalog  shards/.wdsctl/catalog.sqlite",
    ]


def test_index_dry_run_without_changes_prints_sample_count(render_piped: Show) -> None:
    assert "1,204,332 samples" in render_piped(render_index(an_index_report(dry_run=True, added=0, changed=0)))[0]


def test_index_prints_most_severe_findings_first(render_piped: Show) -> None:
    lines = render_piped(render_index(an_index_report(findings=FINDINGS)))

    assert lines[3:6] == [
        "found: 1 error, 1,204 warnings, 3 notes",
        "error[WDS102]: the shard is truncated",
        "  --> deep/train-000017.tar (byte 73,822,720), sample a/0042, part jpg: it ends in a member",
    ]


def test_index_truncates_findings_with_count(render_piped: Show) -> None:
    lines = render_piped(render_index(an_index_report(findings=(TRUNCATED,) * 9)))
    assert lines[-1] == "  ... and 4 more (`wdsctl validate shards` lists them all)"
    assert sum(line.startswith("error[") for line in lines) == 5


def test_up_to_date_index_prints_findings(render_piped: Show) -> None:
    lines = render_piped(render_index(an_index_report(up_to_date=True, findings=(TRUNCATED,))))
    assert "error[WDS102]: the shard is truncated" in lines


def test_index_output_fits_80_columns(render_on_terminal: Show) -> None:
    assert max(map(len, render_on_terminal(render_index(an_index_report(findings=FINDINGS))))) <= 80


def test_index_prints_columns_as_table(render_piped: Show) -> None:
    columns = (
        ColumnReport(
            name="tokens",
            function="lengths:tokens",
            state="outdated",
            generation=2,
            samples=4,
            min=0,
            mean=1234.5,
            p50=7,
            p99=4000,
            max=4000,
            total=4938,
        ),
        ColumnReport(name="n", function="json:json:n", state="incomplete", generation=None, failed=3),
    )
    assert render_piped(render_index(an_index_report(columns=columns)))[3:] == [
        "column  total     mean  min  p50    p99    max  function        state",
        "tokens  4,938  1,234.5    0    7  4,000  4,000  lengths:tokens  outdated (generation 2)",
        "n                                               json:json:n     incomplete, 3 samples without a value",
    ]
