from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.traces import Origin, a_run, a_writer, origins_of, read_folder, restore_keys_by_batch
from wdsctl.core.errors import InputError
from wdsctl.core.trace.format import FRAME_HEAD_BYTES

RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 4)), min_size=1, max_size=4)


@settings(max_examples=60)
@given(RUNS)
def test_batches_of_all_ranks_are_read_in_order_and_later_run_wins(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("traces")
    expected: dict[int, list[Origin]] = {}
    for run, (first, length, world) in enumerate(runs):
        a_run(folder, world, first, first + length, run=run)
        expected |= {number: origins_of(number, run=run) for number in range(first, first + length)}

    actual = restore_keys_by_batch(read_folder(folder))

    assert actual == expected
    assert list(actual) == sorted(actual)
    assert restore_keys_by_batch(read_folder(folder), start=7, stop=20) == {
        n: o for n, o in expected.items() if 7 <= n < 20
    }


def test_step_has_one_batch_of_every_rank(tmp_path: Path) -> None:
    a_run(tmp_path, 4, 0, 400)
    trace = read_folder(tmp_path)
    assert [(batch.number, batch.run.rank, batch.step) for batch in trace.step(30)] == [
        (120 + rank, rank, 30) for rank in range(4)
    ]
    assert [batch.number for batch in trace.step(30, rank=2)] == [122]
    assert trace.step(100) == []


def test_steps_continue_with_other_number_of_ranks(tmp_path: Path) -> None:
    a_run(tmp_path, 4, 0, 40)
    a_run(tmp_path, 2, 40, 60)
    trace = read_folder(tmp_path)
    assert [batch.number for batch in trace.step(9)] == [36, 37, 38, 39]
    assert [batch.number for batch in trace.step(10)] == [40, 41]
    assert [batch.step for batch in trace.batches(58, 60)] == [19, 19]


def test_later_batches_win_when_rank_repeats_numbers(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    for number in range(10):
        writer.add(number, origins_of(number))
    for number in range(4, 7):
        writer.add(number, origins_of(number, run=9))
    writer.close()
    assert restore_keys_by_batch(read_folder(tmp_path)) == {
        number: origins_of(number, run=9 * (4 <= number < 7)) for number in range(10)
    }


def test_batch_written_twice_counts_once_with_last_content(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.add(0, origins_of(0))
    writer.add(1, origins_of(1))
    writer.add(1, origins_of(1, run=5))
    writer.close()
    assert restore_keys_by_batch(read_folder(tmp_path)) == {0: origins_of(0), 1: origins_of(1, run=5)}


def test_passes_have_separate_batches(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    for each in range(3):
        for number in range(4):
            writer.add(number, origins_of(number, run=each), pass_number=each)
    writer.close()
    trace = read_folder(tmp_path)
    assert trace.passes == [0, 1, 2]
    assert [(batch.pass_number, batch.number) for batch in trace.batches(2, 4)] == [
        (each, number) for each in range(3) for number in (2, 3)
    ]
    assert [batch.pass_number for batch in trace.step(3)] == [0, 1, 2]
    assert restore_keys_by_batch(trace, pass_number=1)[2] == origins_of(2, run=1)


def test_only_blocks_that_overlap_range_are_read(tmp_path: Path) -> None:
    (path,) = map(Path, a_run(tmp_path, 1, 0, 1000))
    starts = read_folder(tmp_path).files[0].blocks[:, 4].tolist()
    data = bytearray(path.read_bytes())
    for at in starts[:2] + starts[3:]:
        data[at + FRAME_HEAD_BYTES] ^= 0xFF
    path.write_bytes(data)

    trace = read_folder(tmp_path)

    assert restore_keys_by_batch(trace, start=250, stop=260) == {
        number: origins_of(number) for number in range(250, 260)
    }
    assert trace.problems == []
    assert len(restore_keys_by_batch(trace)) == 100
    assert [problem.byte_offset for problem in trace.problems] == starts[:2] + starts[3:]
    assert [len(batch.origins) for batch in trace.batches(250, 252)] == [2, 2]


def test_folder_without_traces_is_refused_with_hint(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"")
    with pytest.raises(InputError, match="no traces") as error:
        read_folder(tmp_path)
    assert error.value.code == "WDS540"
    assert "trace=" in error.value.hint
    with pytest.raises(InputError, match="the folder of the trace does not exist"):
        read_folder(tmp_path / "nowhere")


def test_importing_trace_loads_no_torch_and_no_sqlalchemy() -> None:
    program = "import sys, wdsctl.core.trace.trace; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "wdsctl.core.trace" in loaded
    assert {"torch", "sqlalchemy", "typer", "rich"}.isdisjoint(loaded)
    assert not any(name.startswith("wdsctl.loader") for name in loaded)
