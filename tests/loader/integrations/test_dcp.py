"""The state of a whole job: the same on all ranks, and an error instead of an endless wait if some do not ask."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from torch.distributed.checkpoint.stateful import Stateful

from tests.loader.datasets import Raw, a_dataset
from tests.loader.integrations.processes import run_ranks
from wdsctl.loader import get_loader, get_train_dataset
from wdsctl.loader.integrations.dcp import WholeJob


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 100)


def a_job(path: str) -> WholeJob:
    return WholeJob(get_loader(get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Raw())))


def test_all_ranks_get_one_state_that_any_number_of_ranks_can_restore(path: str, tmp_path: Path) -> None:
    ranks = run_ranks("dcp_process", 2, tmp_path, path, -1)

    assert ranks[0]["state"] == ranks[1]["state"]
    assert [rank["next"] for rank in ranks] == [rank["expected"] for rank in ranks]
    alone = a_job(path)
    alone.load_state_dict(ranks[0]["state"])
    expected = [batch.__key__ for batch in islice(a_job(path), 8)]
    assert [batch.__key__ for batch in islice(alone, 2)] == expected[6:]


@pytest.mark.parametrize("saving", [0, 1])
def test_a_rank_that_asks_alone_gets_an_error_and_no_rank_waits_forever(saving: int, path: str, tmp_path: Path) -> None:
    ranks = run_ranks("dcp_process", 2, tmp_path, path, saving)

    code, message = ranks[saving]["error"]
    assert code == "WDS546"
    assert message.startswith(f"rank {saving} asked for the state of the job, but not all of the other 1 ranks did so")
    assert "error" not in ranks[1 - saving]


def test_a_job_of_one_rank_needs_no_process_group(path: str) -> None:
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
