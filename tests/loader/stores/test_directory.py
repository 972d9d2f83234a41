"""The folder of a cache exists as long as a process holds it, however its owners end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from wdsctl.loader.stores.disk_cache_folder import (
    REMOVED_SUFFIX,
    CacheDirectory,
    ForeignFolderError,
    job_name,
    make_parent_folder,
    remove_leftovers,
)

HOLDS = """
import sys, time
from wdsctl.loader.stores.disk_cache_folder import REMOVED_SUFFIX, CacheDirectory
held = CacheDirectory(sys.argv[1])
open(sys.argv[1] + "/data", "w").close()
print("ready", flush=True)
time.sleep(60)
"""


def a_holder(folder: Path) -> subprocess.Popen[bytes]:
    """Starts a process that holds a folder until it is killed."""
    holder = children.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, parent="training")
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    return holder


def kill(holder: subprocess.Popen[bytes]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    if holder.stdout is not None:
        holder.stdout.close()


def test_remove_leftovers_removes_folder_of_killed_process(tmp_path: Path) -> None:
    holder = a_holder(tmp_path / "job")
    try:
        assert remove_leftovers(str(tmp_path)) == [], "it lives"
    finally:
        kill(holder)

    assert remove_leftovers(str(tmp_path)) == ["job"]
    assert list(tmp_path.iterdir()) == []


def test_last_close_removes_cache_directory(tmp_path: Path) -> None:
    one, two = (CacheDirectory(str(tmp_path / "job")) for _ in range(2))
    one.close()
    assert (tmp_path / "job").exists()
    two.close()
    two.close()

    assert not (tmp_path / "job").exists()


def test_remove_leftovers_finishes_interrupted_removal(tmp_path: Path) -> None:
    (tmp_path / f"job-1{REMOVED_SUFFIX}" / "83").mkdir(parents=True)

    remove_leftovers(str(tmp_path))

    assert list(tmp_path.iterdir()) == []


WRITES = """
import itertools, os, sys
for i in itertools.count():
    if i == 100:
        print("ready", flush=True)
    try:
        open(f"{sys.argv[1]}/{i % 5}/{i}", "x").close()
    except FileNotFoundError:
        if not os.path.isdir(sys.argv[1]):
            break
        os.mkdir(f"{sys.argv[1]}/{i % 5}")
"""


def test_close_removes_folder_despite_concurrent_writer(tmp_path: Path) -> None:
    directory = CacheDirectory(str(tmp_path / "job"))
    writer = children.Popen(
        [sys.executable, "-c", WRITES, directory.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        parent="training",
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"

    directory.close()
    writer.communicate(timeout=60)

    assert list(tmp_path.iterdir()) == []


def test_cache_directory_takes_over_abandoned_folder(tmp_path: Path) -> None:
    kill(a_holder(tmp_path / "job"))
    directory = CacheDirectory(str(tmp_path / "job"))

    assert remove_leftovers(str(tmp_path)) == []
    directory.close()


def test_remove_leftovers_keeps_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_bytes(b"")
    (tmp_path / "file").write_bytes(b"")

    assert remove_leftovers(str(tmp_path)) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "mine"]


def test_parent_folder_is_private_to_user(tmp_path: Path) -> None:
    parent = make_parent_folder(str(tmp_path))

    assert os.stat(parent).st_mode & 0o777 == 0o700
    assert make_parent_folder(str(tmp_path)) == parent
    os.chmod(parent, 0o777)  # noqa: S103 - what is to be refused
    with pytest.raises(ForeignFolderError):
        make_parent_folder(str(tmp_path))


def test_make_parent_folder_rejects_symlink(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / f"wdsctl-cache-{os.getuid()}")

    with pytest.raises(ForeignFolderError):
        make_parent_folder(str(tmp_path))


def test_job_name_is_shared_by_ranks_of_one_job_only() -> None:
    torchrun = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}

    assert job_name(torchrun) == job_name({**torchrun, "RANK": "1"}) != job_name({**torchrun, "MASTER_PORT": "1"})
    assert job_name({"SLURM_JOB_ID": "7"}) == job_name({"SLURM_JOB_ID": "7", "SLURM_PROCID": "3"})
    assert job_name({}) != job_name({})
    assert "/" not in job_name({"SLURM_JOB_ID": "../7"})


def test_removed_cache_directory_is_created_again(tmp_path: Path) -> None:
    CacheDirectory(str(tmp_path / "job")).close()
    second = CacheDirectory(str(tmp_path / "job"))

    assert (tmp_path / "job" / "owner").exists()
    second.close()
