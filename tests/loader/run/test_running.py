"""How many workers a rank can use, and what happens to a training that cannot write its trace."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.core.traces import read_folder, restore_keys_by_batch
from tests.full_disk import files_of_at_most
from tests.loader.datasets import Raw, a_dataset, digest
from tests.loader.running import digests, take_batches
from wdsctl.core.errors import WdsctlError
from wdsctl.core.trace import read_trace
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.run.engine import count_usable_workers


@pytest.mark.parametrize(("num_workers", "usable"), [(0, 0), (1, 1), (8, 8), (9, 8), (32, 8)])
def test_count_usable_workers_is_limited_by_lanes_with_warning(
    num_workers: int, usable: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        assert count_usable_workers(WorkerConfig(1, 2, num_workers=num_workers), lane_count=8) == usable

    expected = (
        [f"num_workers is {num_workers}, but only 8 workers can run, one per lane of this rank"]
        if num_workers > 8
        else []
    )
    assert [message.partition(";")[0] for message in caplog.messages] == expected
    assert all(f"lanes={2 * num_workers} " in message for message in caplog.messages)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 60, shard_samples=20)


def loader_of(path: str, **options: Any) -> Any:
    return get_loader(get_train_dataset(path, batch_size=4, task_encoder=Raw(), **options))


def test_trace_contains_batches_before_state(dataset: str, tmp_path: Path) -> None:
    loader = loader_of(dataset, trace=tmp_path)
    take_batches(loader, 7)

    loader.state_dict()

    assert list(restore_keys_by_batch(read_folder(tmp_path))) == list(range(7))


def test_trace_at_url_is_written_to_the_store(dataset: str, dest: str, tmp_path: Path) -> None:
    loader = loader_of(dataset, trace=dest)
    take_batches(loader, 7)
    loader.close()
    local = loader_of(dataset, trace=tmp_path / "trace")
    take_batches(local, 7)
    local.close()

    assert restore_keys_by_batch(read_trace(dest)) == restore_keys_by_batch(read_folder(tmp_path / "trace"))
    assert len(restore_keys_by_batch(read_trace(dest))) == 7


def test_full_disk_of_trace_does_not_stop_training(
    dataset: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = digests(loader_of(dataset), 500)
    loader = loader_of(dataset, trace=tmp_path)
    batches = iter(loader)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        with files_of_at_most(400):
            actual = [digest(next(batches)) for _ in range(300)]
        actual += [digest(next(batches)) for _ in range(200)]
        loader.close()

    assert actual == expected
    lines = [line for line in caplog.messages if "trace" in line]
    assert "cannot write the trace" in lines[0]
    assert "continues" in lines[1]
    assert len(lines) == 2
    assert list(restore_keys_by_batch(read_folder(tmp_path))) == list(range(500))


def test_training_runs_without_trace_if_disk_is_full_at_start(
    dataset: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(os, "mkdir", full)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        assert len(take_batches(loader_of(dataset, trace=tmp_path / "trace"), 20)) == 20

    assert ["no trace of this run is written" in line for line in caplog.messages] == [True]


def test_unwritable_trace_folder_raises_at_once(dataset: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WdsctlError):
        take_batches(loader_of(dataset, trace=tmp_path / "file" / "trace"), 1)
