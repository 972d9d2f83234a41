from __future__ import annotations

from tests.cli.conftest import Show
from tests.cli.reports import SHARED_KEY, an_inspect_report
from wdsctl.cli.commands.inspect import render_summary
from wdsctl.core.errors import Finding
from wdsctl.core.inspect.inspect import PartSummary, SampleSummary


def test_summary_prints_sections_in_order(render_piped: Show) -> None:
    lines = render_piped(render_summary(an_inspect_report()))

    assert lines[:7] == [
        "shards: 5,029 shards, 1,204,332 samples, 40.0 GiB",
        "  sample type  CaptioningSample: image=jpg, caption=json[caption]",
        "  catalog      shards/.wdsctl/catalog.sqlite (112.0 MiB, generation 3)",
        "",
        "part       samples    share      size  empty",
        "jpg      1,204,332    100 %  39.0 GiB      0",
        "seg.png        120  < 0.1 %  39.0 MiB      2",
    ]
    assert lines[-3:] == ["first samples", "a/0001 in deep/train-000000.tar", "  jpg  16.0 KiB  640x480 JPEG RGB"]


def test_summary_lists_ten_shards_and_counts_rest(render_piped: Show) -> None:
    lines = render_piped(render_summary(an_inspect_report()))
    assert sum(line.endswith("  ok") for line in lines) == 10
    assert "... and 5,019 more (`wdsctl ls shards -l` lists them all)" in lines


def test_summary_counts_shards_by_status(render_piped: Show) -> None:
    lines = render_piped(render_summary(an_inspect_report(statuses={"bad": 2, "missing": 1, "ok": 5026})))
    assert "  shards       2 bad, 1 missing, 5,026 ok" in lines


def test_summary_prints_number_of_checked_shards_if_partial(render_piped: Show) -> None:
    lines = "\n".join(render_piped(render_summary(an_inspect_report(looked_at=1000))))
    assert "  checked      1,000 of 5,029 shards" in lines
    assert "check all: `wdsctl index shards --dry-run`" in lines
    assert "check" not in "\n".join(render_piped(render_summary(an_inspect_report())))


def test_summary_without_splits_suggests_split_command(render_piped: Show) -> None:
    assert "no splits yet (create them: `wdsctl split shards 8,1,1`)" in render_piped(
        render_summary(an_inspect_report(splits=()))
    )


def test_summary_prints_unknown_sample_type(render_piped: Show) -> None:
    assert "  sample type  not known" in render_piped(render_summary(an_inspect_report(sample_type="", field_map={})))


def test_summary_prints_stale_findings_last(render_piped: Show) -> None:
    assert (
        render_piped(render_summary(an_inspect_report(stale=(SHARED_KEY,))))[-1]
        == "  --> sample a/0042: keys that occur in several shards"
    )


def test_summary_lists_ten_stale_shards_and_suggests_index(render_piped: Show) -> None:
    stale = tuple(
        Finding(code="WDS305", severity="error", message="has changed", shard=f"{i}.tar") for i in range(1000)
    )

    lines = render_piped(render_summary(an_inspect_report(stale=stale)))

    assert "  --> 9.tar: has changed" in lines
    assert "  --> 10.tar: has changed" not in lines
    assert lines[-2:] == [
        "... and 990 more (--json lists them all)",
        "update the catalog: `wdsctl index shards`",
    ]


def test_summary_escapes_control_characters(render_piped: Show) -> None:
    part = PartSummary(name="txt", size_bytes=9, preview="\x1b[2J")
    lines = render_piped(
        render_summary(an_inspect_report(first=(SampleSummary(key="a\r", shard="s.tar", parts=(part,)),)))
    )
    assert lines[-2:] == ["a\\r in s.tar", "  txt  9 B  \\x1b[2J"]


def test_summary_fits_80_columns(render_on_terminal: Show) -> None:
    assert max(map(len, render_on_terminal(render_summary(an_inspect_report())))) <= 80


def test_summary_limits_number_of_parts(render_piped: Show) -> None:
    many = tuple(PartSummary(name=f"p{i}", size_bytes=1, preview="x") for i in range(20_000))

    lines = render_piped(render_summary(an_inspect_report(first=(SampleSummary(key="a", shard="a.tar", parts=many),))))

    assert len(lines) < 150
    assert lines[-1] == "... and 19,900 more (--json lists them all)"
