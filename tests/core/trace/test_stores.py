"""Traces, checkpoints and exports of views at URLs: written object by object, and read as those of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.job_states import job
from tests.core.traces import a_source, origins_of, told
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


def test_a_trace_in_a_store_is_that_of_a_folder(store_folder: str, tmp_path: Path) -> None:
    for folder in (store_folder, str(tmp_path)):
        for rank in range(2):
            writer = a_writer(folder, rank, 2)
            for number in range(rank, 300, 2):
                writer.add(number, origins_of(number))
                if number % 100 == rank:
                    writer.flush()
            writer.close()
    there, here = read_trace(store_folder), read_trace(str(tmp_path))

    assert told(there) == told(here)
    assert len(told(there)) == 300
    assert [batch.number for batch in there.step(20)] == [40, 41]
    assert there.flaws == here.flaws == []


def test_a_later_run_counts_and_nothing_is_overwritten(store_folder: str) -> None:
    for run in range(2):
        writer = a_writer(store_folder)
        writer.add(0, origins_of(0, run=run))
        writer.close()
    assert told(read_trace(store_folder)) == {0: origins_of(0, run=1)}


def test_a_missing_object_is_a_flaw_of_the_trace(store_folder: str) -> None:
    writer = a_writer(store_folder)
    for number in range(3):
        writer.add(number, origins_of(number))
        writer.flush()
    writer.close()
    store = ObjectStore(store_folder)
    store.delete([store.list(store_folder)[2].url])
    trace = read_trace(store_folder)

    assert next(flaw.path for flaw in trace.flaws if "missing" in flaw.message).startswith(store_folder)
    assert list(told(trace)) == [0, 2]


def test_a_folder_without_a_trace_is_refused(store_folder: str) -> None:
    with pytest.raises(InputError) as failed:
        read_trace(store_folder)
    assert failed.value.code == "WDS540"


def test_checkpoints_are_read_from_and_written_to_a_store(store_folder: str) -> None:
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


def test_a_checkpoint_that_is_not_there_is_named(store_folder: str) -> None:
    with pytest.raises(InputError, match="the object or folder does not exist"):
        inspect_checkpoint([f"{store_folder}/none.json"])


def test_a_view_is_exported_to_a_store(store_folder: str, tmp_path: Path) -> None:
    root = some_shards(tmp_path / "shards", 2)
    index(root)
    create_view(root, "all", ViewDefinition(sample="7"))
    local = tmp_path / "keys.txt"
    export_view(root, "all", str(local))
    export_view(root, "all", f"{store_folder}/keys.txt")

    assert ObjectStore(store_folder).get(f"{store_folder}/keys.txt")[0] == local.read_bytes()
    with pytest.raises(UsageError, match="the output file exists"):
        export_view(root, "all", f"{store_folder}/keys.txt")
