from __future__ import annotations

from tests.cli.conftest import Show
from tests.cli.reports import a_split_report
from wdsctl.cli.commands.split import render_split


def test_every_split_has_a_row(piped: Show) -> None:
    assert piped(render_split(a_split_report())) == [
        "shards: split by shard, seed 0",
        "split  share  shards  samples",
        "train   80 %   4,023  963,465",
        "val     20 %   1,006  240,867",
    ]


def test_a_dry_run_says_would(piped: Show) -> None:
    assert piped(render_split(a_split_report(dry_run=True)))[0] == "shards: would be split by shard, seed 0"
