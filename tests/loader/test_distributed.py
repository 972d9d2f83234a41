"""What ranks tell one another, over gloo between real processes, and in a process without any group."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.core.job_states import a_rank_state
from wdsctl.core.errors import LoaderError
from wdsctl.loader import WorkerConfig
from wdsctl.loader.distributed import (
    all_ranks,
    any_rank,
    check_group,
    check_same_on_all_ranks,
    gather_states,
    scatter_states,
)


@pytest.fixture(scope="module", params=[2, 3], ids=["two", "three"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of so many processes got."""
    world: int = request.param
    store = tmp_path_factory.mktemp("gloo") / "store"
    command = [sys.executable, "-m", "tests.loader.distributed_process"]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(world), str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(world)
    ]
    ended = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * world, "\n".join(errors for _, errors in ended)
    return [json.loads(output) for output, _ in ended]


def test_rank_and_size_that_are_left_out_are_those_of_the_job_or_the_group(told: list[dict[str, Any]]) -> None:
    world = len(told)
    in_groups = [[0, 1], *([rank, world - 1] for rank in range(world - 1))]

    assert [each["left out"] for each in told] == [[[rank, world], in_groups[rank]] for rank in range(world)]


def test_a_loader_that_was_made_before_the_job_began_does_not_take_itself_for_the_only_one(
    told: list[dict[str, Any]],
) -> None:
    for early, late, alone in (each["places"] for each in told):
        assert f"each of the {len(told)} ranks would get the same batches" in early[1]
        assert (late, alone) == (None, None)


def test_states_come_together_on_one_rank_in_the_order_of_the_ranks(told: list[dict[str, Any]]) -> None:
    assert all(each["gathered"] for each in told)
    assert len({json.dumps(each["gathered on all"]) for each in told}) == 1
    assert [own["rank"] for own in told[0]["gathered on all"]] == list(range(len(told)))
    *others, last = [each["gathered on the last"] for each in told]
    assert last == [{"rank": rank, "of": "é" * rank} for rank in range(len(told))]
    assert others == [None] * len(others)


def test_every_rank_gets_its_own_state_from_the_one_that_has_them(told: list[dict[str, Any]]) -> None:
    assert all(each["scattered"] for each in told)


def test_a_merged_state_and_the_states_of_another_world_go_to_all_ranks_whole(told: list[dict[str, Any]]) -> None:
    assert all(each["merged"] and each["of another world"] for each in told)


def test_every_rank_gets_all_states_of_those_that_each_gives_or_that_one_has(told: list[dict[str, Any]]) -> None:
    assert [each["everybody's"] for each in told] == [[True] * 4] * len(told)


def test_all_ranks_hear_that_there_are_no_states(told: list[dict[str, Any]]) -> None:
    assert [each["of nobody"] for each in told] == [
        ["WDS500", "rank 0 has no states to send to the other ranks"]
    ] * len(told)


def test_all_ranks_know_what_any_and_what_all_say(told: list[dict[str, Any]]) -> None:
    assert [(each["any"], each["all"]) for each in told] == [([True, False], [True, False])] * len(told)


def test_a_plan_that_differs_is_refused_on_all_ranks_by_name(told: list[dict[str, Any]]) -> None:
    last = len(told) - 1
    words = f"the plan of rank {last} differs from that of rank 0:\n  seed: 1 on rank 0, 7 on rank {last}"

    assert [each["same"] for each in told] == [None] * len(told)
    assert [each["other"] for each in told] == [["WDS520", words]] * len(told)


def test_a_group_of_other_ranks_than_the_loaders_is_refused(told: list[dict[str, Any]]) -> None:
    for rank, each in enumerate(told):
        assert each["mine"] is None
        code, words = each["not mine"]
        assert code == "WDS001"
        assert f"this process as rank {rank} of {len(told)}" in words


def test_groups_of_some_processes_speak_among_themselves(told: list[dict[str, Any]]) -> None:
    others = [{"rank": rank} for rank in range(1, len(told))]
    for rank, each in enumerate(told):
        assert each["rank in its group"] == ([rank - 1, len(others)] if rank else [0, 1])
        assert each["gathered in its group"] == ([{"rank": 0}] if rank == 0 else others if rank == 1 else None)
        assert each["a rank outside"][1].startswith(f"src_rank {len(told) - (rank > 0)} is out of range")
        assert each["a process outside"][1].startswith(f"process {0 if rank else 1} is not in the data-parallel group")
    if len(told) == 3:
        assert [each["scattered in its group"] for each in told] == [{"rank": 0}, {"rank": 0}, {"rank": 1}]


def test_without_torch_distributed_this_process_is_the_only_rank() -> None:
    state = a_rank_state()

    assert gather_states(state) == [state]
    assert scatter_states([state]) == scatter_states(state) == state
    assert (any_rank(True), any_rank(False), all_ranks(True), all_ranks(False)) == (True, False, True, False)
    check_same_on_all_ranks({"seed": 1})
    check_group(WorkerConfig())
    with pytest.raises(LoaderError, match="no states to send"):
        scatter_states(None)
