"""Writers of one destination that are killed at any step, or meet: nothing is lost, and no upload is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.raw_folders import a_folder, shards
from tests.published import dies, runs
from tests.remote import stored
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import Store, in_use
from wdsctl.core.storage.objects import PART_BYTES, ObjectStore

_STORE = "wdsctl.core.storage.objects:ObjectStore"
_S3 = "wdsctl.core.storage.s3_objects"
_MOMENTS = [
    f"{_S3}:S3Objects begin_upload 1 after",  # the journal does not have the upload yet
    f"{_S3}:S3Upload send 2 before",
    f"{_S3}:S3Upload complete 1 after",  # the shard is there, and nobody knows
]
_MORE_MOMENTS = [
    f"{_STORE} _begin_upload 1 before",
    f"{_STORE} _begin_upload 1 after",
    f"{_S3}:S3Upload send 1 after",
    f"{_S3}:S3Upload complete 1 before",
    f"{_STORE} put 4 after",
    "wdsctl.core.prepare.prepare index_staged 1 before",
]
_OPTIONS = ("--yes", "--shard-samples", "2", "--workers", "1", "--sample-type", "CrudeSample")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples for three shards; that of the first two is sent in two parts."""
    folder = a_folder(tmp_path_factory.mktemp("killed") / "raw", 6)
    (folder / "0" / "00000.jpg").write_bytes(bytes(PART_BYTES + 1000))
    return folder


@pytest.fixture(scope="module")
def expected(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    dest = tmp_path_factory.mktemp("whole") / "dest"
    done = runs(dest.parent / "home", "prepare", str(raw), str(dest), *_OPTIONS)
    assert done.returncode == 0, done.stderr
    return shards(dest)


@pytest.mark.parametrize("moment", [*_MOMENTS, *(pytest.param(each, marks=pytest.mark.slow) for each in _MORE_MOMENTS)])
def test_a_run_that_is_killed_at_any_step_of_an_upload_is_continued_without_orphans(
    use_store: Callable[[str], str], raw: Path, expected: dict[str, bytes], tmp_path: Path, moment: str
) -> None:
    dest, command = use_store("moto"), ("prepare", str(raw))
    assert dies(tmp_path / "home", moment, *command, dest, *_OPTIONS)
    left = stored(dest, ".tar")
    assert left.items() <= expected.items(), "what is there is whole"

    done = runs(tmp_path / "home", *command, dest, *_OPTIONS)

    assert done.returncode == 0, done.stderr
    assert stored(dest, ".tar") == expected
    assert ObjectStore(dest).pending(dest) == []
    assert runs(tmp_path / "other", "inspect", dest).returncode == 0


def test_two_clusters_that_prepare_the_same_destination_are_put_in_an_order(
    use_store: Callable[[str], str], running_store: Callable[[str], Store], tmp_path: Path
) -> None:
    raw, dest = a_folder(tmp_path / "raw", 8), use_store("moto")
    command = [sys.executable, "-m", "wdsctl", "prepare", str(raw), dest, *_OPTIONS]
    store = running_store("moto")
    with FaultProxy(store.endpoint) as proxy, in_use(store.through(proxy.url)):
        proxy.set_faults(Fault(method="PUT", path=r"\.tar", delay_seconds=8.0, skip=1))
        first = subprocess.Popen(
            command,
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "one")},
            stderr=subprocess.PIPE,
            text=True,
        )
        while not stored(dest, ".tar"):
            assert first.poll() is None
            time.sleep(0.02)
        second = runs(tmp_path / "two", *command[3:])
        proxy.set_faults()
        waited = runs(tmp_path / "three", *command[3:], "--wait", "200", "--json")
        told = first.communicate()[1]

    assert first.returncode == 0, told
    assert second.returncode != 0
    assert "WDS304" in second.stderr, second.stderr
    assert f"process {first.pid}" in second.stderr, second.stderr
    assert len(stored(dest, ".tar")) == 4
    assert waited.returncode == 0, waited.stderr
    assert json.loads(waited.stdout)["up_to_date"]
