"""WholeJob: one state on all ranks, and an error instead of an endless wait if only some ranks save."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.checkpoint.stateful import Stateful

from tests.loader.datasets import Raw, a_dataset
from tests.loader.integrations.processes import run_ranks
from wdsctl.core.errors import LoaderError, StateMismatch
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.integrations.dcp import WholeJob


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 100)


def a_job(path: str) -> WholeJob:
    return WholeJob(get_loader(get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Raw())))


def test_whole_job_state_is_same_on_all_ranks_and_restores_on_any(path: str, tmp_path: Path) -> None:
    ranks = run_ranks("dcp_process", 2, tmp_path, path, -1)

    assert ranks[0]["state"] == ranks[1]["state"]
    assert [rank["next"] for rank in ranks] == [rank["expected"] for rank in ranks]
    restored = a_job(path)
    restored.load_state_dict(ranks[0]["state"])
    expected = [batch.__key__ for batch in islice(a_job(path), 8)]
    assert [batch.__key__ for batch in islice(restored, 2)] == expected[6:]


@pytest.mark.parametrize("saving", [0, 1])
def test_state_dict_called_on_one_rank_only_raises_error(saving: int, path: str, tmp_path: Path) -> None:
    ranks = run_ranks("dcp_process", 2, tmp_path, path, saving)

    code, message = ranks[saving]["error"]
    assert code == "WDS546"
    assert message.startswith(f"rank {saving} asked for the state of the job, but not all of the other 1 ranks did so")
    assert "error" not in ranks[1 - saving]


def test_whole_job_of_one_rank_needs_no_process_group(path: str) -> None:
    loader = a_job(path)
    first = next(iter(loader)).__key__

    resumed = a_job(path)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))

    assert isinstance(loader, Stateful)
    assert loader
    assert first != next(iter(resumed)).__key__ == next(iter(loader)).__key__
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    loader.close()


@pytest.mark.parametrize("saved", [{}, {"states": "{"}, {"states": None}, {"model": 1}, None, [1]])
def test_whole_job_refuses_invalid_states(saved: Any, path: str) -> None:
    with pytest.raises(StateMismatch, match="not the state of a job"):
        a_job(path).load_state_dict(saved)


def test_states_of_all_ranks_need_process_group(path: str) -> None:
    """Otherwise, the states would be one rank's, which no resume accepts."""
    workers = WorkerConfig(rank=1, world_size=3)
    loader = get_loader(get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Raw(), worker_config=workers))
    for save in (WholeJob(loader).state_dict, loader.save_state_global):
        with pytest.raises(LoaderError, match="rank 1 of 3 cannot collect the states of the other ranks") as raised:
            save()
        assert raised.value.code == "WDS546"


def test_whole_job_refuses_states_of_missing_ranks(path: str) -> None:
    ranks = [
        get_loader(
            get_train_dataset(
                path,
                batch_size=4,
                lanes=6,
                task_encoder=Raw(),
                worker_config=WorkerConfig(rank=rank, world_size=3),
            )
        )
        for rank in range(3)
    ]
    states = [loader.state_dict() for loader in ranks]

    with pytest.raises(StateMismatch, match=r"ranks \[2\] are missing: the job had 3"):
        a_job(path).load_state_dict({"states": json.dumps(states[:2])})
    with pytest.raises(StateMismatch, match="belongs to rank 0 of 3"):
        WholeJob(ranks[1]).load_state_dict({"states": json.dumps(states[0])})
