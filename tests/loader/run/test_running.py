"""How many workers a rank can use, and what becomes of a trace that cannot write the trace."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.core.traces import read, told
from tests.full_disk import files_of_at_most
from tests.loader.datasets import Raw, a_dataset, digest
from tests.loader.running import digests, taken
from wdsctl.core.errors import WdsctlError
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.run.engine import count_usable_workers


@pytest.mark.parametrize(("wanted", "usable"), [(0, 0), (1, 1), (8, 8), (9, 8), (32, 8)])
def test_a_rank_uses_a_worker_a_lane_at_most_and_says_how_to_use_more(
    wanted: int, usable: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        assert count_usable_workers(WorkerConfig(1, 2, num_workers=wanted), lane_count=8) == usable

    told = [f"num_workers is {wanted}, but only 8 workers can run, one per lane of this rank"] if wanted > 8 else []
    assert [message.partition(";")[0] for message in caplog.messages] == told
    assert all(f"lanes={2 * wanted} " in message for message in caplog.messages)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 60, shard_samples=20)


def loader_of(path: str, **options: Any) -> Any:
    return get_loader(get_train_dataset(path, batch_size=4, task_encoder=Raw(), **options))


def test_the_batches_before_a_state_are_in_the_trace(dataset: str, tmp_path: Path) -> None:
    loader = loader_of(dataset, trace=tmp_path)
    taken(loader, 7)

    loader.state_dict()

    assert list(told(read(tmp_path))) == list(range(7))


def test_a_full_disk_under_the_trace_ends_no_training_and_is_counted(
    dataset: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    truth = digests(loader_of(dataset), 500)
    loader = loader_of(dataset, trace=tmp_path)
    batches = iter(loader)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        with files_of_at_most(400):
            found = [digest(next(batches)) for _ in range(300)]
        found += [digest(next(batches)) for _ in range(200)]
        loader.close()

    assert found == truth
    lines = [line for line in caplog.messages if "trace" in line]
    assert "cannot write the trace" in lines[0]
    assert "continues" in lines[1]
    assert len(lines) == 2
    assert list(told(read(tmp_path))) == list(range(500))


def test_a_disk_that_is_full_at_the_start_leaves_the_training_without_a_trace(
    dataset: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(os, "mkdir", full)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        assert len(taken(loader_of(dataset, trace=tmp_path / "trace"), 20)) == 20

    assert ["no trace of this run is written" in line for line in caplog.messages] == [True]


def test_a_trace_that_could_never_be_written_is_an_error_at_once(dataset: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WdsctlError):
        taken(loader_of(dataset, trace=tmp_path / "file" / "trace"), 1)
