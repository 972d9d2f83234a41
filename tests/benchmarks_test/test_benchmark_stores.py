"""The benchmark's store answers S3 drivers and plain HTTP, counts requests, and delays them as configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.places import REPOSITORY
from benchmarks.slow_store import Delays, SlowStore, start_store
from tests.loader.datasets import a_dataset
from tests.stores.servers import Store, in_use
from wdsctl.core.storage.objects import ObjectStore

DATA = bytes(range(256)) * 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SlowStore]:
    (tmp_path / "bucket").mkdir()
    with start_store(tmp_path) as running, in_use(Store("slow", running.url, "s3://bucket", running.environment)):
        yield running


def test_slow_store_supports_s3_put_get_list_and_stat(store: SlowStore) -> None:
    objects = ObjectStore("s3://bucket/a")
    written = objects.put("s3://bucket/a/one.bin", DATA)

    assert objects.get("s3://bucket/a/one.bin") == (DATA, written.tag)
    assert [each.url for each in objects.list("s3://bucket/a")] == ["s3://bucket/a/one.bin"]
    assert objects.stat("s3://bucket/a/two.bin") is None


def fetch(url: str, **headers: str) -> tuple[int, bytes]:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:  # noqa: S310 - of this machine
        return answer.status, answer.read()


def test_slow_store_counts_ranges_and_whole_objects(store: SlowStore, tmp_path: Path) -> None:
    (tmp_path / "bucket" / "one.bin").write_bytes(DATA)
    store.set_delays(Delays())
    address = f"{store.url}/bucket/one.bin"

    assert fetch(address, Range="bytes=10-19") == (206, DATA[10:20])
    assert fetch(address) == (200, DATA)
    counts = store.counts
    assert (counts.requests, counts.gets, counts.sent, counts.late) == (2, 2, 10 + len(DATA), 0)
    assert counts.trips == 2, "one after the other"


def test_slow_store_counts_concurrent_requests_as_one_round_trip(store: SlowStore, tmp_path: Path) -> None:
    (tmp_path / "bucket" / "one.bin").write_bytes(DATA)
    store.set_delays(Delays(1.0))
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(fetch, [f"{store.url}/bucket/one.bin"] * 4))) == 1

    assert (store.counts.requests, store.counts.trips) == (4, 1)


def test_slow_store_delays_share_of_requests(store: SlowStore, tmp_path: Path) -> None:
    (tmp_path / "bucket" / "one.bin").write_bytes(DATA)
    store.set_delays(Delays(late=0.001, late_share=0.2))
    for _ in range(100):
        fetch(f"{store.url}/bucket/one.bin")

    assert 5 < store.counts.late < 40
    store.set_delays(Delays())
    assert store.counts.late == 0


@pytest.mark.slow
def test_wdsctl_contender_reads_given_number_of_samples_from_store(store: SlowStore, tmp_path: Path) -> None:
    a_dataset(tmp_path / "bucket" / "shards", 300, shard_samples=100, parts=lambda i: {"jpg": DATA, "txt": b"%d" % i})
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "home")}
    url = "s3://bucket/shards"
    fields = ("--sample-type", "CaptioningSample", "--field-map", "image=jpg,caption=txt", "--split", "1,0,0")
    prepare = (sys.executable, "-m", "wdsctl", "prepare", url, *fields, "--no-input", "--quiet")
    subprocess.run(prepare, check=True, env=environment, cwd=REPOSITORY)
    command = (sys.executable, "-m", "benchmarks.contenders.wdsctl", "--data", url, "--mode", "raw")
    done = subprocess.run(
        (*command, "--samples", "64"), check=True, capture_output=True, text=True, env=environment, cwd=REPOSITORY
    )

    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["samples"] == 64
    assert store.counts.gets > 0
