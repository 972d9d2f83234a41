from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from tests.core.traces import a_source, a_writer, origins_of, read_folder, restore_keys_by_batch
from tests.full_disk import files_of_at_most
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.trace import TraceWriter
from wdsctl.core.trace.write import BLOCK_BATCHES, FLUSH_SECONDS, MAX_PENDING_BATCHES, TRACE_FILE_NAME

#: Writes batches for ever and prints how many it has added.
ENDLESS = """
import sys
from wdsctl.core.trace import SourceFacts, TraceWriter
writer = TraceWriter(sys.argv[1], 0, 1, [SourceFacts(0, "/data", "", 1, "")], run={})
number = 0
while True:
    writer.add(number, [(0, 0, number)] * 32)
    number += 1
    if number % 10 == 0:
        print(number, flush=True)
"""

#: Exits after seven batches without closing the writer.
SEVEN = """
import os, sys
from wdsctl.core.trace import SourceFacts, TraceWriter
writer = TraceWriter(sys.argv[1], 0, 1, [SourceFacts(0, "/data", "", 1, "")], run={})
for number in range(7):
    writer.add(number, [(0, 0, number)])
if len(sys.argv) > 2 and os.fork() == 0:
    sys.exit()
if len(sys.argv) > 2:
    os.wait()
"""


def test_block_is_written_every_hundred_batches(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    for number in range(BLOCK_BATCHES * 2 + 5):
        writer.add(number, origins_of(number))
    assert len(restore_keys_by_batch(read_folder(tmp_path))) == BLOCK_BATCHES * 2
    writer.flush()
    assert restore_keys_by_batch(read_folder(tmp_path)) == {
        number: origins_of(number) for number in range(BLOCK_BATCHES * 2 + 5)
    }


def test_batches_of_many_samples_make_shorter_blocks(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(0, [(0, 0, 1)] * (1 << 16))
    assert len(restore_keys_by_batch(read_folder(tmp_path))) == 1


def test_pending_batches_are_written_after_flush_seconds(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(0, origins_of(0))
    writer._pending._started_at -= FLUSH_SECONDS
    writer.add(1, origins_of(1))
    assert list(restore_keys_by_batch(read_folder(tmp_path))) == [0, 1]


def test_kill_9_loses_at_most_last_block(tmp_path: Path) -> None:
    child = children.Popen([sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    handed_over = 0
    for line in child.stdout:
        handed_over = int(line)
        if handed_over >= 1230:
            break
    child.send_signal(signal.SIGKILL)
    handed_over = max([handed_over, *map(int, child.stdout.read().split())])
    child.stdout.close()
    child.wait()

    batches = restore_keys_by_batch(read_folder(tmp_path))

    assert list(batches) == list(range(len(batches)))
    assert handed_over - BLOCK_BATCHES < len(batches) <= handed_over + 10
    assert batches[1000] == [(0, 0, 1000)] * 32


@pytest.mark.parametrize("arguments", [[], ["fork"]])
def test_normal_exit_loses_nothing_and_forked_child_writes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    children.run([sys.executable, "-W", "ignore", "-c", SEVEN, tmp_path, *arguments], check=True)
    trace = read_folder(tmp_path)
    written = sum(int(file.blocks[:, 5].sum()) for file in trace.files)  # batches that were written twice count twice
    assert (list(restore_keys_by_batch(trace)), trace.problems, written) == (list(range(7)), [], 7)


def test_each_run_gets_file_number_above_all_existing_ones(tmp_path: Path) -> None:
    (tmp_path / "rank-00007-99999999999999999.trace").write_bytes(b"")
    writers = [a_writer(tmp_path, rank) for rank in (3, 3, 0)]
    names = [TRACE_FILE_NAME.fullmatch(os.path.basename(writer.path)) for writer in writers]
    started = [int(name[2]) for name in names if name]
    assert started == [99999999999999999 + i for i in (1, 2, 3)]
    assert os.path.basename(writers[0].path).startswith("rank-00003-")


def test_secrets_of_urls_are_not_written(tmp_path: Path) -> None:
    writer = a_writer(tmp_path, sources=[a_source(root="s3://me:hunter2@bucket/cats?token=hunter2")])
    writer.close()
    assert b"hunter2" not in Path(writer.path).read_bytes()
    assert read_folder(tmp_path).files[0].facts.sources[0].root == "s3://bucket/cats"


def test_header_stores_facts_of_run(tmp_path: Path) -> None:
    TraceWriter(str(tmp_path), 2, 4, [a_source()], run={"fingerprint": "ab"}).close()
    facts = read_folder(tmp_path).files[0].facts
    assert (facts.rank, facts.world, facts.sources, dict(facts.run)) == (2, 4, (a_source(),), {"fingerprint": "ab"})


@pytest.mark.parametrize("free_bytes", [0, 1, 30, 70])
def test_failed_write_leaves_no_partial_block_and_is_repeated(tmp_path: Path, free_bytes: int) -> None:
    reports: list[str] = []
    writer = a_writer(tmp_path, on_message=reports.append)
    writer.add(0, origins_of(0))
    with files_of_at_most(os.path.getsize(writer.path) + free_bytes):
        for _ in range(3):
            writer.flush()
    assert [writer.path in line and "cannot write the trace" in line for line in reports] == [True]
    assert (restore_keys_by_batch(read_folder(tmp_path)), read_folder(tmp_path).problems) == ({}, [])
    writer.add(1, origins_of(1))
    writer.close()
    assert restore_keys_by_batch(read_folder(tmp_path)) == {number: origins_of(number) for number in range(2)}
    assert "lacks 0 batches of this run" in reports[1]
    assert (len(reports), writer.lost) == (2, 0)


@pytest.mark.parametrize("size", [0, 10])
def test_header_that_failed_is_written_with_first_block(tmp_path: Path, size: int) -> None:
    reports: list[str] = []
    with files_of_at_most(size):
        writer = a_writer(tmp_path, on_message=reports.append)
        assert len(reports) == 1
    writer.add(0, origins_of(0))
    writer.close()
    assert (restore_keys_by_batch(read_folder(tmp_path)), read_folder(tmp_path).problems) == ({0: origins_of(0)}, [])


def test_pending_overflow_is_lost_counted_and_reported_to_readers(tmp_path: Path) -> None:
    reports: list[str] = []
    writer = a_writer(tmp_path, rank=1, world=2, on_message=reports.append)
    for number in range(1, 21, 2):
        writer.add(number, origins_of(number))
    writer.flush()
    with files_of_at_most(os.path.getsize(writer.path)):
        for number in range(21, 21 + 2 * MAX_PENDING_BATCHES, 2):
            writer.add(number, origins_of(number))
    after = range(21 + 2 * MAX_PENDING_BATCHES, 41 + 2 * MAX_PENDING_BATCHES, 2)
    for number in after:
        writer.add(number, origins_of(number))
    writer.close()

    trace = read_folder(tmp_path)
    assert writer.lost == MAX_PENDING_BATCHES
    assert list(restore_keys_by_batch(trace)) == [*range(1, 21, 2), *after]
    (problem,) = trace.problems
    assert problem.kind == "gap"
    assert f"batches 21 to {after[0] - 2:,} of rank 1 are missing" in problem.message
    assert [f"lacks {MAX_PENDING_BATCHES:,} batches of this run" in line for line in reports] == [
        False,
        True,
        True,
    ]


def test_full_disk_is_not_retried_with_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def full(*_: object) -> int:
        nonlocal tries
        tries += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    reports: list[str] = []
    writer = a_writer(tmp_path, on_message=reports.append)
    monkeypatch.setattr(os, "pwrite", full)
    for number in range(3 * MAX_PENDING_BATCHES):
        writer.add(number, origins_of(number))
    monkeypatch.undo()

    assert tries < 10
    assert writer.lost >= 2 * MAX_PENDING_BATCHES
    assert len(reports) == 1


def test_unwritable_folder_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WdsctlError) as error:
        a_writer(tmp_path / "file" / "traces")
    assert "file" in error.value.where


def test_add_after_close_is_ignored_and_second_close_is_harmless(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.close()
    writer.close()
    writer.add(0, origins_of(0))
    with pytest.raises(UsageError, match="closed"):
        writer.flush()
