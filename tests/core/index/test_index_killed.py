"""Killed runs, read-only datasets and full disks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import children
from tests.build import AsNobody, RecordingProgress, a_dataset, a_shard, samples, some_shards, tree
from tests.core.catalog.readers import read_current_generation
from tests.core.dumps import dump
from tests.core.indexed import contents, expected, leftovers
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import IndexReport, index

KILLED = """
import os, signal, sys
from tests.build import RecordingProgress
from wdsctl.core.index.index import index

progress = RecordingProgress()
def die():
    if progress.items == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
progress._at_advance = die
index(sys.argv[1], progress=progress)
"""


def kill_after(root: str, shards: int) -> None:
    """Indexes in another process, which is killed once `shards` shards have been scanned."""
    command = [sys.executable, "-c", KILLED, root, str(shards)]
    assert children.run(command, cwd=Path(__file__).parents[3], check=False).returncode == -9


def test_killed_run_groups_small_shards_and_rerun_reuses_results(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "data", 40, 1)
    kill_after(root, 20)
    before = {path: path.stat().st_mtime_ns for path in Path(root, ".wdsctl", "work").glob("*.result")}
    kill_after(root, 15)
    units = {path: path.stat().st_mtime_ns for path in Path(root, ".wdsctl", "work").glob("*.result")}

    assert len(before) == 2
    assert len(units) == 5
    assert before.items() <= units.items()
    assert index(root).samples == 40
    assert contents(root) == expected(0, 40)
    assert leftovers(root) == []


@pytest.mark.parametrize("after", [1, 2, 4])
def test_killed_run_keeps_old_catalog_and_rerun_skips_finished_shards(tmp_path: Path, after: int) -> None:
    root = some_shards(tmp_path / "data", 2)
    index(root)
    before = dump(root)
    some_shards(tmp_path / "data", 4, first=2)
    killed = children.run([sys.executable, "-c", KILLED, root, str(after)], cwd=Path(__file__).parents[3], check=False)

    assert killed.returncode == -9
    assert dump(root) == before
    units = {path.name: path.stat().st_mtime_ns for path in Path(root, ".wdsctl", "work").glob("*.result")}
    assert len(units) == after
    progress = RecordingProgress()
    report = index(root, progress=progress)
    assert (report.added, report.samples, report.findings) == (4, 30, ())
    assert progress.items == 4 - after
    assert contents(root) == expected(0, 30)
    assert leftovers(root) == []


def test_finished_units_of_killed_run_are_reused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    kill_after(root, 1)
    path = tmp_path / "shard-000.tar"
    stat = path.stat()
    path.write_bytes(bytes(stat.st_size))  # its samples are unreadable now
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert index(root).samples == 10


def test_damaged_units_of_killed_run_are_recomputed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    kill_after(root, 2)
    for i, unit in enumerate(sorted((tmp_path / ".wdsctl" / "work").glob("*.result"))):
        unit.write_bytes(unit.read_bytes()[: 0 if i else 300])

    assert index(root).samples == 10


def test_read_only_dataset_gets_catalog_in_data_home_with_one_note(
    public_path: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = some_shards(public_path / "data", 2)
    Path(root).chmod(0o555)
    monkeypatch.setenv("XDG_DATA_HOME", str(public_path / "home"))
    before = tree(root)

    def index_twice() -> tuple[IndexReport, list[str], IndexReport, list[str], str, int]:
        first, second = RecordingProgress(), RecordingProgress()
        return (
            index(root, progress=first),
            first.notes,
            index(root, progress=second),
            second.notes,
            locate(root).catalog_path,
            read_current_generation(locate(root).catalog_path),
        )

    outcome = as_nobody(index_twice)
    assert isinstance(outcome, tuple), outcome
    report, output, second_report, second_output, found, generation = outcome
    assert report.catalog.startswith(str(public_path / "home" / "wdsctl" / "data-"))
    assert (len(output), second_output, second_report.up_to_date) == (1, [], True)
    assert (found, generation) == (report.catalog, 1)  # as the loader looks for it
    assert tree(root) == before


def test_full_disk_is_reported_and_catalog_unchanged(tmp_path: Path, a_disk: Callable[[str], Path]) -> None:
    tiny_disk = a_disk("600k")
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 100)})
    catalog = str(tiny_disk / "meta")
    index(root, catalog=catalog)
    before = {name: (tiny_disk / "meta" / name).read_bytes() for name in ("catalog.sqlite", "offsets-1.bin")}
    a_dataset(tmp_path / "data", {f"{i}.tar": samples(i * 10_000, 3000, size=1) for i in range(1, 4)})

    with pytest.raises(OSError, match="WDS401") as caught:
        index(root, catalog=catalog)
    assert getattr(caught.value, "code", "") == "WDS401"
    assert {name: (tiny_disk / "meta" / name).read_bytes() for name in before} == before
    with Catalog.open(str(tiny_disk / "meta" / "catalog.sqlite")) as published_catalog:
        assert len(published_catalog.shards()) == 1
    assert not list((tiny_disk / "meta").glob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=20m", str(tiny_disk)], check=True)
    assert index(root, catalog=catalog).samples == 9100


@pytest.mark.slow
def test_index_memory_is_independent_of_dataset_size(tmp_path: Path) -> None:
    # Not by getrusage: a child begins with the peak of its parent.
    measure = (
        "import sys; from wdsctl.core.index.index import index; index(sys.argv[1]);"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    shard = a_shard(samples(0, 20_000, size=1))
    peaks = []
    for count in (2, 20):
        root = a_dataset(tmp_path / str(count), {f"{i}.tar": shard for i in range(count)})
        output = subprocess.run([sys.executable, "-c", measure, root], capture_output=True, text=True, check=True)
        peaks.append(int(output.stdout) // 1024)

    assert peaks[1] < 300
    assert peaks[1] - peaks[0] < 100
