"""Traces, checkpoints and exported views in an object store are read like those in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.job_states import job
from tests.core.traces import a_source, origins_of, restore_keys_by_batch
from wdsctl.core.checkpoint.checkpoint import diff_checkpoints, inspect_checkpoint, redistribute_checkpoint
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.trace import TraceWriter, read_trace
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import export_view
from wdsctl.core.views.views import create_view


def a_writer(folder: str, rank: int = 0, world: int = 1) -> TraceWriter:
    return TraceWriter(folder, rank, world, [a_source()], run={})


def test_trace_in_store_equals_trace_in_folder(store_folder: str, tmp_path: Path) -> None:
    for folder in (store_folder, str(tmp_path)):
        for rank in range(2):
            writer = a_writer(folder, rank, 2)
            for number in range(rank, 300, 2):
                writer.add(number, origins_of(number))
                if number % 100 == rank:
                    writer.flush()
            writer.close()
    remote, local_trace = read_trace(store_folder), read_trace(str(tmp_path))

    assert restore_keys_by_batch(remote) == restore_keys_by_batch(local_trace)
    assert len(restore_keys_by_batch(remote)) == 300
    assert [batch.number for batch in remote.step(20)] == [40, 41]
    assert remote.problems == local_trace.problems == []


def test_later_run_wins_and_nothing_is_overwritten(store_folder: str) -> None:
    for run in range(2):
        writer = a_writer(store_folder)
        writer.add(0, origins_of(0, run=run))
        writer.close()
    assert restore_keys_by_batch(read_trace(store_folder)) == {0: origins_of(0, run=1)}


def test_later_run_wins_after_clock_was_set_back(store_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for run, now in enumerate((2_000_000, 1_000_000)):
        monkeypatch.setattr("wdsctl.core.trace.write.time_ns", lambda now=now: now)
        writer = a_writer(store_folder)
        writer.add(0, origins_of(0, run=run))
        writer.close()
    assert restore_keys_by_batch(read_trace(store_folder)) == {0: origins_of(0, run=1)}


def test_missing_object_is_reported_as_problem(store_folder: str) -> None:
    writer = a_writer(store_folder)
    for number in range(3):
        writer.add(number, origins_of(number))
        writer.flush()
    writer.close()
    store = ObjectStore(store_folder)
    store.delete([store.list(store_folder)[2].url])
    trace = read_trace(store_folder)

    assert next(problem.path for problem in trace.problems if "missing" in problem.message).startswith(store_folder)
    assert list(restore_keys_by_batch(trace)) == [0, 2]


def test_folder_without_trace_is_refused(store_folder: str) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(store_folder)
    assert caught.value.code == "WDS540"


def test_checkpoints_are_read_from_and_written_to_store(store_folder: str) -> None:
    store = ObjectStore(store_folder)
    for rank, state in enumerate(job(4)):
        store.put(f"{store_folder}/ckpt/rank{rank}.json", json.dumps({"loader": state}).encode())
    store.put(f"{store_folder}/ckpt/notes.json", b"{}")

    report = inspect_checkpoint([f"{store_folder}/ckpt"])
    assert (report.problem, len(report.states), len(report.passed_over)) == ("", 4, 1)
    merged = redistribute_checkpoint([f"{store_folder}/ckpt"], f"{store_folder}/new/", ranks=3)
    assert merged.files == tuple(f"{store_folder}/new/rank{rank}.json" for rank in range(3))
    assert diff_checkpoints(f"{store_folder}/ckpt", f"{store_folder}/new/rank0.json").is_same
    with pytest.raises(UsageError, match="3 of 3 output files exist"):
        redistribute_checkpoint([f"{store_folder}/ckpt"], f"{store_folder}/new/", ranks=3)


def test_missing_checkpoint_is_reported(store_folder: str) -> None:
    with pytest.raises(InputError, match="the object or folder does not exist"):
        inspect_checkpoint([f"{store_folder}/none.json"])


def test_export_view_writes_to_store(store_folder: str, tmp_path: Path) -> None:
    root = some_shards(tmp_path / "shards", 2)
    index(root)
    create_view(root, "all", ViewDefinition(sample="7"))
    local = tmp_path / "keys.txt"
    export_view(root, "all", str(local))
    export_view(root, "all", f"{store_folder}/keys.txt")

    assert ObjectStore(store_folder).get(f"{store_folder}/keys.txt")[0] == local.read_bytes()
    with pytest.raises(UsageError, match="the output file exists"):
        export_view(root, "all", f"{store_folder}/keys.txt")
