"""Writers of one destination that are killed at any step, or run concurrently, lose nothing and leave no upload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import children
from tests.core.raw_folders import a_folder, shards
from tests.machines import run_command, run_until_killed
from tests.remote import read_objects
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import Store, in_use
from wdsctl.core.storage.objects import PART_BYTES, ObjectStore

_STORE = "wdsctl.core.storage.objects:ObjectStore"
_S3 = "wdsctl.core.storage.s3_objects"
_MOMENTS = [
    f"{_S3}:S3Objects begin_upload 1 after",  # the journal does not have the upload yet
    f"{_S3}:S3Upload send 2 before",
    f"{_S3}:S3Upload complete 1 after",  # the shard exists, and no record of it
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
    """Samples for three shards; the first shard is uploaded in two parts."""
    folder = a_folder(tmp_path_factory.mktemp("killed") / "raw", 6)
    (folder / "0" / "00000.jpg").write_bytes(bytes(PART_BYTES + 1000))
    return folder


@pytest.fixture(scope="module")
def expected(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    dest = tmp_path_factory.mktemp("whole") / "dest"
    result = run_command(dest.parent / "home", "prepare", str(raw), str(dest), *_OPTIONS)
    assert result.returncode == 0, result.stderr
    return shards(dest)


@pytest.mark.parametrize("moment", [*_MOMENTS, *(pytest.param(each, marks=pytest.mark.slow) for each in _MORE_MOMENTS)])
def test_rerun_after_kill_during_upload_completes_without_orphans(
    use_store: Callable[[str], str], raw: Path, expected: dict[str, bytes], tmp_path: Path, moment: str
) -> None:
    dest, command = use_store("moto"), ("prepare", str(raw))
    assert run_until_killed(tmp_path / "home", moment, *command, dest, *_OPTIONS)
    present = read_objects(dest, ".tar")
    assert present.items() <= expected.items(), "what is there is whole"

    result = run_command(tmp_path / "home", *command, dest, *_OPTIONS)

    assert result.returncode == 0, result.stderr
    assert read_objects(dest, ".tar") == expected
    assert ObjectStore(dest).pending(dest) == []
    assert run_command(tmp_path / "other", "inspect", dest).returncode == 0


def test_concurrent_prepares_of_same_destination_are_serialized(
    use_store: Callable[[str], str], running_store: Callable[[str], Store], tmp_path: Path
) -> None:
    raw, dest = a_folder(tmp_path / "raw", 8), use_store("moto")
    command = [sys.executable, "-m", "wdsctl", "prepare", str(raw), dest, *_OPTIONS]
    store = running_store("moto")
    with FaultProxy(store.endpoint) as proxy, in_use(store.through(proxy.url)):
        may_continue = threading.Event()

        def wait_for_second() -> None:
            may_continue.wait(100)

        proxy.set_faults(Fault(method="PUT", path=r"\.tar", before=wait_for_second, skip=1))
        first = children.Popen(
            command,
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "one")},
            stderr=subprocess.PIPE,
            text=True,
        )
        while not read_objects(dest, ".tar"):
            assert first.poll() is None
            time.sleep(0.02)
        second = run_command(tmp_path / "two", *command[3:])
        # The third has read the marker of the first to check the destination; with the second request, it waits.
        proxy.set_faults(Fault(method="GET", path=r"writer\.json", before=may_continue.set, skip=1))
        third = run_command(tmp_path / "three", *command[3:], "--wait", "200", "--json")
        stderr = first.communicate()[1]

    assert first.returncode == 0, stderr
    assert second.returncode != 0
    assert "WDS304" in second.stderr, second.stderr
    assert f"process {first.pid}" in second.stderr, second.stderr
    assert len(read_objects(dest, ".tar")) == 4
    assert third.returncode == 0, third.stderr
    assert json.loads(third.stdout)["up_to_date"]
