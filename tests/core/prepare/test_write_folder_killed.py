"""A run that is killed at any moment and run again gives the same bytes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.raw_folders import a_folder, others, shards, write
from tests.killing import Moment, kill_after_random_delay, kill_moments, run_and_kill
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.request import PrepareRequest

SCRIPT = """
from __future__ import annotations
import sys
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.write import write_folder
source, dest, workers = sys.argv[1:]
with Ledger.open(dest + "/.wdsctl/ledger.sqlite") as ledger:
    request = PrepareRequest(shard_samples=20, index=IndexRequest(workers=int(workers)))
    write_folder(source, dest, request, ledger=ledger)
"""


def build_command(source: Path, dest: Path, workers: int) -> list[str | Path]:
    """The command that runs write_folder in its own process, which can be killed."""
    return [sys.executable, "-c", SCRIPT, source, dest, str(workers)]


def check_rerun(source: Path, dest: Path, truth: dict[str, bytes], workers: int) -> int:
    """Checks that finished shards are whole and that a rerun completes the rest. Returns the number of the former."""
    finished = shards(dest)
    assert finished.items() <= truth.items()
    write(source, dest, PrepareRequest(shard_samples=20, index=IndexRequest(workers=workers)))
    assert shards(dest) == truth
    assert others(dest) == []
    return len(finished)


def test_rerun_after_kill_gives_same_bytes(tmp_path: Path) -> None:
    """The kill comes before the sixth replace: at least four shards are finished, and four units may be in progress."""
    source = a_folder(tmp_path / "raw", 400, size=6_000)
    dest = tmp_path / "out"
    write(source, tmp_path / "truth", PrepareRequest(shard_samples=20))

    moment = Moment("replace", 6, parent_only=True)
    # A fresh Python, unlike in other tests of kills.
    assert run_and_kill(build_command(source, dest, 2), moment, tmp_path / "count", start=subprocess.Popen)

    assert 4 <= check_rerun(source, dest, shards(tmp_path / "truth"), 1) < 20


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seam", ["write", "fsync"])
def test_rerun_after_kill_at_any_moment_gives_same_bytes(tmp_path: Path, workers: int, seam: str) -> None:
    """Kills at the first, the last and some calls between: while a shard is written, before and after its rename."""
    source, dest, count = a_folder(tmp_path / "raw", 400, size=30_000), tmp_path / "out", tmp_path / "count"
    write(source, tmp_path / "truth", PrepareRequest(shard_samples=20))
    truth = shards(tmp_path / "truth")

    finished_counts = []
    for moment in kill_moments(build_command(source, tmp_path / "counted", workers), seam, 7, count):
        assert run_and_kill(build_command(source, dest, workers), moment, count)
        finished_counts.append(check_rerun(source, dest, truth, 3 - workers))
        shutil.rmtree(dest)

    assert finished_counts[0] == 0
    assert sorted(finished_counts) == finished_counts or workers > 1
    assert len(set(finished_counts)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_rerun_after_kill_at_random_time_gives_same_bytes(tmp_path: Path, workers: int) -> None:
    source, dest = a_folder(tmp_path / "raw", 400, size=30_000), tmp_path / "out"
    write(source, tmp_path / "truth", PrepareRequest(shard_samples=20))
    rng = random.Random(workers)
    for _ in range(4):
        kill_after_random_delay(build_command(source, dest, workers), 1.1, rng)
        check_rerun(source, dest, shards(tmp_path / "truth"), 3 - workers)
        shutil.rmtree(dest)


def test_finished_shard_unknown_to_ledger_is_rewritten(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    with Ledger.open(str(tmp_path / "out" / ".wdsctl" / "ledger.sqlite")) as ledger:
        ledger.set_shard_state("shard-000002.tar", "planned")

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept) == (1, 2)
    assert shards(tmp_path / "out") == before


def test_partial_shards_of_dead_runs_are_removed(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out" / "train").mkdir(parents=True)
    for name in (".shard-000009.tar.999999.partial", "train/.7.tar.1.partial", "notes.partial", ".a.txt.1.partial"):
        (tmp_path / "out" / name).write_bytes(b"half")

    write(source, tmp_path / "out")

    assert sorted(others(tmp_path / "out")) == [".a.txt.1.partial", "notes.partial"]
