"""A job of several real processes over gloo: what its ranks save and restore together, and how they end together."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.loader.datasets import a_dataset

WORLD = 2


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank saw."""
    folder = tmp_path_factory.mktemp("job")
    path = a_dataset(folder / "data", 100)
    arguments = [str(WORLD), str(folder / "store"), path]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.loader.job_process", str(rank), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD)
    ]
    answers = [process.communicate(timeout=120) for process in ranks]
    assert [process.returncode for process in ranks] == [0] * WORLD, [err[-3000:] for _, err in answers]
    return [json.loads(out) for out, _ in answers]


def test_the_states_of_all_ranks_come_to_one_and_all_go_on_from_there(told: list[dict[str, Any]]) -> None:
    assert [each["has states"] for each in told] == [True, False]
    assert all(each["goes on"] for each in told)


@pytest.mark.parametrize("kind", ["runs", "lanes"])
@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_all_ranks_have_equally_many_batches_in_every_pass(told: list[dict[str, Any]], uneven: str, kind: str) -> None:
    for number in range(2):
        counts = {each[f"{uneven} {kind} {number}"][0] for each in told}
        assert len(counts) == 1
        assert counts.pop() > 3
        padding = [each[f"{uneven} {kind} {number}"][1] for each in told]
        assert sum(padding) == 0 if uneven == "drop" else min(padding) == 0


@pytest.mark.parametrize("kind", ["runs", "lanes"])
def test_all_ranks_go_on_together_from_the_last_uneven_step(told: list[dict[str, Any]], kind: str) -> None:
    assert [each[f"last steps, {kind}"] for each in told] == [[True, True]] * WORLD, "uneven, and goes on"


def test_a_rank_without_a_lane_of_a_validation_is_padded_in_every_step(told: list[dict[str, Any]]) -> None:
    batches = told[0]["padded"][0]

    assert batches > 3
    assert [each["padded"] for each in told] == [[batches, padding, batches - 2, batches] for padding in (0, batches)]


def test_ranks_with_unlike_plans_do_not_begin(told: list[dict[str, Any]]) -> None:
    assert [each["other plans"] for each in told] == ["WDS520"] * WORLD
