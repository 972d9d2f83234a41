"""Killed at any moment and continued, a run ends in the same bytes."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.core.raw_folders import a_folder, others, shards, write
from tests.killing import Moment, died, kill_by_the_clock, moments
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


def run_of(source: Path, dest: Path, workers: int) -> list[str | Path]:
    """The command that does the same in a process of its own, which can be killed."""
    return [sys.executable, "-c", SCRIPT, source, dest, str(workers)]


def check_continued(source: Path, dest: Path, truth: dict[str, bytes], workers: int) -> int:
    """What is there is whole; run again, all is. Returns how many shards there were."""
    there = shards(dest)
    assert there.items() <= truth.items()
    write(source, dest, PrepareRequest(shard_samples=20, index=IndexRequest(workers=workers)))
    assert shards(dest) == truth
    assert others(dest) == []
    return len(there)


def test_a_killed_run_that_is_continued_gives_the_same_bytes(tmp_path: Path) -> None:
    """Killed before the sixth shard is put in its place: at least four are, and its four units under way may be."""
    source = a_folder(tmp_path / "raw", 400, size=6_000)
    dest = tmp_path / "out"
    write(source, tmp_path / "truth", PrepareRequest(shard_samples=20))

    assert died(run_of(source, dest, 2), Moment("replace", 6, parent_only=True), tmp_path / "count")

    assert 4 <= check_continued(source, dest, shards(tmp_path / "truth"), 1) < 20


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seam", ["write", "fsync"])
def test_killed_at_any_moment_and_continued_it_gives_the_same_bytes(tmp_path: Path, workers: int, seam: str) -> None:
    """The first and the last of the calls, and some between: while a shard is written, before and after its place."""
    source, dest, count = a_folder(tmp_path / "raw", 400, size=30_000), tmp_path / "out", tmp_path / "count"
    write(source, tmp_path / "truth", PrepareRequest(shard_samples=20))
    truth = shards(tmp_path / "truth")

    seen = []
    for moment in moments(run_of(source, tmp_path / "counted", workers), seam, 7, count):
        assert died(run_of(source, dest, workers), moment, count)
        seen.append(check_continued(source, dest, truth, 3 - workers))
        shutil.rmtree(dest)

    assert seen[0] == 0
    assert sorted(seen) == seen or workers > 1
    assert len(set(seen)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_by_the_clock_and_continued_it_gives_the_same_bytes(tmp_path: Path, workers: int) -> None:
    source, dest = a_folder(tmp_path / "raw", 400, size=30_000), tmp_path / "out"
    write(source, tmp_path / "truth", PrepareRequest(shard_samples=20))
    rng = random.Random(workers)
    for _ in range(4):
        kill_by_the_clock(run_of(source, dest, workers), 1.5, rng)
        check_continued(source, dest, shards(tmp_path / "truth"), 3 - workers)
        shutil.rmtree(dest)


def test_a_shard_in_place_that_the_ledger_does_not_know_yet_is_written_again(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    with Ledger.open(str(tmp_path / "out" / ".wdsctl" / "ledger.sqlite")) as ledger:
        ledger.set_shard_state("shard-000002.tar", "planned")

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept) == (1, 2)
    assert shards(tmp_path / "out") == before


def test_what_dead_runs_left_half_written_is_removed_and_nothing_else(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out" / "train").mkdir(parents=True)
    for name in (".shard-000009.tar.999999.partial", "train/.7.tar.1.partial", "notes.partial", ".a.txt.1.partial"):
        (tmp_path / "out" / name).write_bytes(b"half")

    write(source, tmp_path / "out")

    assert sorted(others(tmp_path / "out")) == [".a.txt.1.partial", "notes.partial"]
