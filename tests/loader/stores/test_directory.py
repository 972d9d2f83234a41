"""A cache's folder lives as long as somebody holds it, however its owners end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
    """A process that holds a folder until it is killed."""
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    return holder


def ended(holder: subprocess.Popen[bytes]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    if holder.stdout is not None:
        holder.stdout.close()


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    holder = a_holder(tmp_path / "job")
    try:
        assert remove_leftovers(str(tmp_path)) == [], "it lives"
    finally:
        ended(holder)

    assert remove_leftovers(str(tmp_path)) == ["job"]
    assert list(tmp_path.iterdir()) == []


def test_the_last_one_removes_the_folder(tmp_path: Path) -> None:
    one, two = (CacheDirectory(str(tmp_path / "job")) for _ in range(2))
    one.close()
    assert (tmp_path / "job").exists()
    two.close()
    two.close()

    assert not (tmp_path / "job").exists()


def test_a_folder_that_was_being_removed_is_removed_at_the_next_start(tmp_path: Path) -> None:
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


def test_a_folder_that_somebody_still_writes_to_is_removed(tmp_path: Path) -> None:
    held = CacheDirectory(str(tmp_path / "job"))
    writer = subprocess.Popen([sys.executable, "-c", WRITES, held.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"

    held.close()
    writer.communicate(timeout=60)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_left_is_taken_over(tmp_path: Path) -> None:
    ended(a_holder(tmp_path / "job"))
    held = CacheDirectory(str(tmp_path / "job"))

    assert remove_leftovers(str(tmp_path)) == []
    held.close()


def test_other_things_in_the_parent_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_bytes(b"")
    (tmp_path / "file").write_bytes(b"")

    assert remove_leftovers(str(tmp_path)) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "mine"]


def test_the_folder_of_a_users_caches_is_nobody_elses(tmp_path: Path) -> None:
    parent = make_parent_folder(str(tmp_path))

    assert os.stat(parent).st_mode & 0o777 == 0o700
    assert make_parent_folder(str(tmp_path)) == parent
    os.chmod(parent, 0o777)  # noqa: S103 - what is to be refused
    with pytest.raises(ForeignFolderError):
        make_parent_folder(str(tmp_path))


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / f"wdsctl-cache-{os.getuid()}")

    with pytest.raises(ForeignFolderError):
        make_parent_folder(str(tmp_path))


def test_ranks_of_one_job_have_one_name_and_others_have_their_own() -> None:
    torchrun = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}

    assert job_name(torchrun) == job_name({**torchrun, "RANK": "1"}) != job_name({**torchrun, "MASTER_PORT": "1"})
    assert job_name({"SLURM_JOB_ID": "7"}) == job_name({"SLURM_JOB_ID": "7", "SLURM_PROCID": "3"})
    assert job_name({}) != job_name({})
    assert "/" not in job_name({"SLURM_JOB_ID": "../7"})


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    CacheDirectory(str(tmp_path / "job")).close()
    again = CacheDirectory(str(tmp_path / "job"))

    assert (tmp_path / "job" / "owner").exists()
    again.close()
