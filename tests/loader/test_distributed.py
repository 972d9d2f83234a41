"""What ranks exchange: over gloo between real processes, and in a process without a group."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch.distributed
import torch.utils.data

from tests import children
from tests.core.job_states import a_rank_state
from wdsctl.core.errors import LoaderError
from wdsctl.loader import WorkerConfig
from wdsctl.loader.distributed import (
    all_ranks,
    any_rank,
    check_group,
    check_same_on_all_ranks,
    gather_states,
    has_process_group,
    scatter_states,
)


@pytest.fixture(scope="module", params=[2, 3], ids=["two", "three"])
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Starts two or three processes and returns the report of each."""
    world: int = request.param
    store = tmp_path_factory.mktemp("gloo") / "store"
    command = [sys.executable, "-m", "tests.loader.distributed_process"]
    processes = [
        children.Popen(
            [*command, str(rank), str(world), str(store)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            parent="training",
        )
        for rank in range(world)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * world, "\n".join(errors for _, errors in outputs)
    return [json.loads(output) for output, _ in outputs]


def test_default_rank_and_world_size_match_job_or_group(reports: list[dict[str, Any]]) -> None:
    world = len(reports)
    in_groups = [[0, 1], *([rank, world - 1] for rank in range(world - 1))]

    assert [each["left out"] for each in reports] == [[[rank, world], in_groups[rank]] for rank in range(world)]


def test_loader_created_before_process_group_is_rejected(
    reports: list[dict[str, Any]],
) -> None:
    for early, late, single in (each["places"] for each in reports):
        assert f"each of the {len(reports)} ranks would get the same batches" in early[1]
        assert (late, single) == (None, None)


def test_gather_states_returns_states_in_rank_order(reports: list[dict[str, Any]]) -> None:
    assert all(each["gathered"] for each in reports)
    assert len({json.dumps(each["gathered on all"]) for each in reports}) == 1
    assert [state["rank"] for state in reports[0]["gathered on all"]] == list(range(len(reports)))
    *others, last = [each["gathered on the last"] for each in reports]
    assert last == [{"rank": rank, "of": "é" * rank} for rank in range(len(reports))]
    assert others == [None] * len(others)


def test_scatter_states_sends_each_rank_its_state(reports: list[dict[str, Any]]) -> None:
    assert all(each["scattered"] for each in reports)


def test_scatter_states_sends_merged_and_foreign_states_to_all_ranks(reports: list[dict[str, Any]]) -> None:
    assert all(each["merged"] and each["of another world"] for each in reports)


def test_every_rank_receives_all_states(reports: list[dict[str, Any]]) -> None:
    assert [each["everybody's"] for each in reports] == [[True] * 4] * len(reports)


def test_scatter_without_states_raises_on_all_ranks(reports: list[dict[str, Any]]) -> None:
    assert [each["of nobody"] for each in reports] == [
        ["WDS500", "rank 0 has no states to send to the other ranks"]
    ] * len(reports)


def test_any_rank_and_all_ranks_agree_on_all_ranks(reports: list[dict[str, Any]]) -> None:
    assert [(each["any"], each["all"]) for each in reports] == [([True, False], [True, False])] * len(reports)


def test_different_plan_is_rejected_on_all_ranks(reports: list[dict[str, Any]]) -> None:
    last = len(reports) - 1
    message = f"the plan of rank {last} differs from that of rank 0:\n  seed: 1 on rank 0, 7 on rank {last}"

    assert [each["same"] for each in reports] == [None] * len(reports)
    assert [each["other"] for each in reports] == [["WDS520", message]] * len(reports)


def test_processes_with_the_same_rank_are_rejected_on_all_ranks(reports: list[dict[str, Any]]) -> None:
    world = len(reports)
    names = ", ".join(map(str, range(world)))
    message = f"processes {names} are all rank {world - 1} of {world}, and would read the same batches"

    assert [each["own ranks"] for each in reports] == [None] * world
    assert [each["one rank"] for each in reports] == [["WDS520", message]] * world


def test_check_group_rejects_other_rank_than_loader(reports: list[dict[str, Any]]) -> None:
    for rank, each in enumerate(reports):
        assert each["mine"] is None
        code, message = each["not mine"]
        assert code == "WDS001"
        assert f"this process as rank {rank} of {len(reports)}" in message


def test_subgroups_exchange_states_among_their_processes(reports: list[dict[str, Any]]) -> None:
    others = [{"rank": rank} for rank in range(1, len(reports))]
    for rank, each in enumerate(reports):
        assert each["rank in its group"] == ([rank - 1, len(others)] if rank else [0, 1])
        assert each["gathered in its group"] == ([{"rank": 0}] if rank == 0 else others if rank == 1 else None)
        assert each["a rank outside"][1].startswith(f"src_rank {len(reports) - (rank > 0)} is out of range")
        assert each["a process outside"][1].startswith(f"process {0 if rank else 1} is not in the data-parallel group")
    if len(reports) == 3:
        assert [each["scattered in its group"] for each in reports] == [{"rank": 0}, {"rank": 0}, {"rank": 1}]


def test_process_without_torch_distributed_is_only_rank() -> None:
    state = a_rank_state()

    assert gather_states(state) == [state]
    assert scatter_states([state]) == scatter_states(state) == state
    assert (any_rank(True), any_rank(False), all_ranks(True), all_ranks(False)) == (True, False, True, False)
    check_same_on_all_ranks({"seed": 1})
    check_group(WorkerConfig())
    with pytest.raises(LoaderError, match="no states to send"):
        scatter_states(None)


def test_workers_of_data_loader_do_not_communicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda _: 2)
    assert has_process_group(WorkerConfig(0, 2))

    monkeypatch.setattr(torch.utils.data, "get_worker_info", object)

    assert not has_process_group(WorkerConfig(0, 2))
