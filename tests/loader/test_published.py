"""Training from a dataset whose catalog is published beside its shards: the URL is enough."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.build import a_shard, samples, some_shards, split_by_ratios
from tests.loader.datasets import Raw
from tests.loader.running import digests
from tests.machines import Machines, fetch_catalog, machines_in
from tests.prepare_requests import prepare_request
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.remote_catalogs import ranges
from wdsctl.loader import WorkerConfig, get_savable_loader, get_train_dataset

URL = "faulty://store/shards"
pytestmark = pytest.mark.usefixtures("faulty_store")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return machines_in(tmp_path, monkeypatch)


def loader(url: str, workers: int = 0) -> Any:
    dataset = get_train_dataset(
        url,
        batch_size=4,
        task_encoder=Raw(),
        max_samples_per_sequence=4,
        shuffle_buffer_size=16,
        lanes=2,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers),
    )
    return get_savable_loader(dataset)


def add_shard(number: int) -> None:
    fsspec.filesystem("faulty").pipe_file(f"/store/shards/shard-{number:03d}.tar", a_shard(samples(number * 5, 5)))


def test_job_resumes_on_another_machine_with_generation_of_its_state(tmp_path: Path, machine: Machines) -> None:
    machine("writer")
    upload_shards(some_shards(tmp_path / "local", 8), URL)
    prepare(URL, None, prepare_request(sample_type="CrudeSample", split={"train": 1}))
    machine("node")
    first = loader(URL)
    digests(first, 3)
    state = first.state_dict()
    expected = digests(first, 5)

    machine("writer")
    add_shard(10)
    index(URL)
    machine("fresh")
    second = loader(URL)
    second.load_state_dict(state)
    assert digests(second, 5) == expected

    for number in (11, 12, 13):
        machine("writer")
        add_shard(number)
        index(URL)
    machine("another")
    third = loader(URL)
    third.load_state_dict(state)
    assert digests(third, 5) == expected


def test_running_job_continues_while_newer_catalog_is_published(tmp_path: Path, machine: Machines) -> None:
    machine("writer")
    local = some_shards(tmp_path / "local", 8)
    upload_shards(local, URL)
    prepare(URL, None, prepare_request(sample_type="CrudeSample", split={"train": 1}))
    machine("node")
    expected = digests(loader(URL), 8)
    job = loader(URL)
    found = digests(job, 2)
    machine("writer")
    add_shard(10)
    index(URL)
    machine("node")
    assert os.path.exists(fetch_catalog(URL).offsets_path(2))
    assert found + digests(job, 6) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_job_on_small_split_fetches_only_part_of_offsets(
    tmp_path: Path, machine: Machines, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(ranges, "MIN_PARTIAL_BYTES", 1 << 20)
    monkeypatch.setattr(ranges, "CHUNK_BYTES", 1 << 14)
    machine("writer")
    for i in range(16):
        lines = (json.dumps({"id": i * 3000 + n}) for n in range(3000))
        fsspec.filesystem("faulty").pipe_file(f"/store/shards/{i:02d}.jsonl", "\n".join(lines).encode())
    index(URL)
    split_by_ratios(URL, {"train": 1, "rest": 15})
    size = os.path.getsize(fetch_catalog(URL).offsets_path(1))
    expected = digests(loader(URL, workers), 20)

    machine("node")
    FaultyFileSystem.reads.clear()
    assert digests(loader(URL, workers), 20) == expected
    found = sum(stop - start for path, start, stop in FaultyFileSystem.reads if path.endswith("-offsets-1.bin"))
    assert Offsets(fetch_catalog(URL).offsets_path(1)).is_partial
    assert 0 < found < size / 3
