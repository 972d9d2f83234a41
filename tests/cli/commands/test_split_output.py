from __future__ import annotations

from tests.cli.conftest import Show
from tests.cli.reports import a_split_report
from wdsctl.cli.commands.split import render_split


def test_render_split_prints_one_row_per_split(render_piped: Show) -> None:
    assert render_piped(render_split(a_split_report())) == [
        "shards: split by shard, seed 0",
        "split  share  shards  samples",
        "train   80 %   4,023  963,465",
        "val     20 %   1,006  240,867",
    ]


def test_render_split_dry_run_prints_would_be_split(render_piped: Show) -> None:
    assert render_piped(render_split(a_split_report(dry_run=True)))[0] == "shards: would be split by shard, seed 0"
