from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from tests.core.traces import a_run, a_writer, origins_of, read_folder, restore_keys_by_batch
from wdsctl.core.trace.format import PREAMBLE_BYTES, TRACE_MAGIC, encode_preamble, parse_preamble
from wdsctl.core.trace.read import TraceFile, TraceProblem, open_trace_file, read_block


def a_file(folder: Path, blocks: int = 3) -> Path:
    """A trace of two batches a block."""
    writer = a_writer(folder)
    for number in range(blocks * 2):
        writer.add(number, origins_of(number))
        if number % 2:
            writer.flush()
    writer.close()
    return Path(writer.path)


def open_file(path: Path) -> TraceFile:
    file = open_trace_file(str(path))
    assert isinstance(file, TraceFile)
    return file


def test_truncated_file_returns_its_complete_blocks(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    data = path.read_bytes()
    starts = [*open_file(path).blocks[:, 4].tolist(), len(data)]
    for size in range(len(data)):
        path.write_bytes(data[:size])
        blocks = sum(end <= size for end in starts[1:])

        trace = read_folder(tmp_path)

        assert restore_keys_by_batch(trace) == {number: origins_of(number) for number in range(blocks * 2)}
        assert [problem.kind for problem in trace.problems] == ([] if size in starts else ["cut"])


def test_file_with_changed_byte_loses_only_damaged_block(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    data = path.read_bytes()
    starts = open_file(path).blocks[:, 4].tolist()
    for at in range(starts[0], len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        damaged_block = sum(start <= at for start in starts) - 1

        trace = read_folder(tmp_path)
        batches = restore_keys_by_batch(trace)

        assert list(batches) == [number for number in range(6) if number // 2 != damaged_block], at
        assert [(problem.kind, problem.byte_offset) for problem in trace.problems] == [
            ("damaged", starts[damaged_block])
        ], at


def test_damaged_header_loses_one_file_and_no_other(tmp_path: Path) -> None:
    path, other = map(Path, a_run(tmp_path, 2, 0, 4))
    data = path.read_bytes()
    for at in range(8, PREAMBLE_BYTES + parse_preamble(data)[0]):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
        trace = read_folder(tmp_path)
        assert [problem.path for problem in trace.problems] == [str(path)]
        assert [file.path for file in trace.files] == [str(other)]


def test_file_of_other_kind_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000-1.trace"
    path.write_bytes(b"something else altogether, of any length")
    problem = open_trace_file(str(path))
    assert problem == TraceProblem(str(path), 0, "damaged", "it is not a trace file")


@pytest.mark.parametrize(("header", "kind"), [({"version": 2}, "newer"), ({"version": 1}, "damaged"), ([], "damaged")])
def test_unknown_header_is_reported_by_kind(tmp_path: Path, header: object, kind: str) -> None:
    path = tmp_path / "rank-00000-1.trace"
    path.write_bytes(encode_preamble(json.dumps(header).encode()))
    problem = open_trace_file(str(path))
    assert isinstance(problem, TraceProblem)
    assert problem.kind == kind


def test_impossible_time_of_start_is_damage(tmp_path: Path) -> None:
    """`trace` prints it as a date."""
    header, _, _ = a_file(tmp_path).read_bytes()[PREAMBLE_BYTES:].partition(b"WTB1")
    for started in (-1, 10**40):
        path = tmp_path / f"rank-00000-{abs(started)}.trace"
        path.write_bytes(encode_preamble(json.dumps({**json.loads(header), "started": started}).encode()))
        flaw = open_trace_file(str(path))
        assert isinstance(flaw, TraceProblem)
        assert flaw.kind == "damaged"


def test_trace_file_matches_documented_format(tmp_path: Path) -> None:
    data = a_file(tmp_path, 1).read_bytes()
    length = int.from_bytes(data[8:12], "little")
    header = data[16 : 16 + length]
    assert data[:8] == TRACE_MAGIC
    assert int.from_bytes(data[12:16], "little") == zlib.crc32(header)
    assert list(json.loads(header)) == ["version", "wdsctl", "rank", "world", "started", "run", "sources"]
    assert data[16 + length :][:4] == b"WTB1"


def test_read_block_reports_missing_block_as_problem(tmp_path: Path) -> None:
    file = open_file(a_file(tmp_path))
    assert isinstance(read_block(file, 3), TraceProblem)
