"""A job of several real processes over gloo: its ranks save, restore and end together."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests import children
from tests.loader.datasets import a_dataset

WORLD = 2


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the report of each rank."""
    folder = tmp_path_factory.mktemp("job")
    path = a_dataset(folder / "data", 100)
    arguments = [str(WORLD), str(folder / "store"), path]
    ranks = [
        children.Popen(
            [sys.executable, "-W", "error", "-m", "tests.loader.job_process", str(rank), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            parent="training",
        )
        for rank in range(WORLD)
    ]
    outputs = [process.communicate(timeout=120) for process in ranks]
    assert [process.returncode for process in ranks] == [0] * WORLD, [err[-3000:] for _, err in outputs]
    return [json.loads(out) for out, _ in outputs]


def test_rank_states_are_gathered_on_one_rank_and_all_ranks_resume(reports: list[dict[str, Any]]) -> None:
    assert [each["has states"] for each in reports] == [True, False]
    assert all(each["goes on"] for each in reports)


@pytest.mark.parametrize("kind", ["runs", "lanes"])
@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_all_ranks_have_equally_many_batches_in_every_pass(
    reports: list[dict[str, Any]], uneven: str, kind: str
) -> None:
    for number in range(2):
        counts = {each[f"{uneven} {kind} {number}"][0] for each in reports}
        assert len(counts) == 1
        assert counts.pop() > 3
        padding = [each[f"{uneven} {kind} {number}"][1] for each in reports]
        assert sum(padding) == 0 if uneven == "drop" else min(padding) == 0


@pytest.mark.parametrize("kind", ["runs", "lanes"])
def test_all_ranks_resume_together_from_last_uneven_step(reports: list[dict[str, Any]], kind: str) -> None:
    assert [each[f"last steps, {kind}"] for each in reports] == [[True, True]] * WORLD, "uneven, and goes on"


def test_rank_without_validation_lane_is_padded_in_every_step(reports: list[dict[str, Any]]) -> None:
    batches = reports[0]["padded"][0]

    assert batches > 3
    assert [each["padded"] for each in reports] == [
        [batches, padding, batches - 2, batches] for padding in (0, batches)
    ]


def test_ranks_with_different_plans_are_refused(reports: list[dict[str, Any]]) -> None:
    assert [each["other plans"] for each in reports] == ["WDS520"] * WORLD


def test_ranks_with_different_bans_or_steps_are_refused(reports: list[dict[str, Any]]) -> None:
    for each in reports:
        (bans, bans_message), (steps, steps_message) = each["other bans"], each["other steps"]
        assert (bans, steps) == ("WDS520", "WDS520")
        assert "bans: " in bans_message
        assert "batches_drawn: 2 on rank 0, 4 on rank 1" in steps_message
        assert each["one step"] == ["nothing", ""]
