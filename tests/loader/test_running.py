"""How many workers a rank can use."""

from __future__ import annotations

import logging

import pytest

from wdsctl.loader import WorkerConfig
from wdsctl.loader.running import usable_workers


@pytest.mark.parametrize(("wanted", "usable"), [(0, 0), (1, 1), (8, 8), (9, 8), (32, 8)])
def test_a_rank_uses_a_worker_a_lane_at_most_and_says_how_to_use_more(
    wanted: int, usable: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        assert usable_workers(WorkerConfig(1, 2, num_workers=wanted), lanes=8) == usable

    told = [f"of {wanted} workers 8 will run, one for each lane of this rank"] if wanted > 8 else []
    assert [message.partition(";")[0] for message in caplog.messages] == told
    assert all(f"lanes={2 * wanted} " in message for message in caplog.messages)
