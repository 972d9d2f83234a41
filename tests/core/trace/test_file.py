from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from tests.core.traces import a_run, a_writer, origins_of, read, told
from wdsctl.core.trace.format import PREAMBLE_BYTES, TRACE_MAGIC, encode_preamble, parse_preamble
from wdsctl.core.trace.read import Flaw, TraceFile, open_trace_file, read_block


def a_file(folder: Path, blocks: int = 3) -> Path:
    """A trace of two batches a block."""
    writer = a_writer(folder)
    for number in range(blocks * 2):
        writer.add(number, origins_of(number))
        if number % 2:
            writer.flush()
    writer.close()
    return Path(writer.path)


def opened(path: Path) -> TraceFile:
    file = open_trace_file(str(path))
    assert isinstance(file, TraceFile)
    return file


def test_a_file_that_was_cut_at_any_byte_gives_the_blocks_that_are_whole(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    whole = path.read_bytes()
    starts = [*opened(path).blocks[:, 4].tolist(), len(whole)]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        blocks = sum(end <= size for end in starts[1:])

        trace = read(tmp_path)

        assert told(trace) == {number: origins_of(number) for number in range(blocks * 2)}
        assert [flaw.kind for flaw in trace.flaws] == ([] if size in starts else ["cut"])


def test_a_file_with_any_byte_changed_is_told_of_and_gives_all_other_blocks(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    whole = path.read_bytes()
    starts = opened(path).blocks[:, 4].tolist()
    for at in range(starts[0], len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        hit = sum(start <= at for start in starts) - 1

        trace = read(tmp_path)
        found = told(trace)

        assert list(found) == [number for number in range(6) if number // 2 != hit], at
        assert [(flaw.kind, flaw.byte_offset) for flaw in trace.flaws] == [("damaged", starts[hit])], at


def test_a_damaged_header_makes_a_file_useless_and_stops_no_other(tmp_path: Path) -> None:
    path, other = map(Path, a_run(tmp_path, 2, 0, 4))
    whole = path.read_bytes()
    for at in range(8, PREAMBLE_BYTES + parse_preamble(whole)[0]):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :])
        trace = read(tmp_path)
        assert [flaw.path for flaw in trace.flaws] == [str(path)]
        assert [file.path for file in trace.files] == [str(other)]


def test_what_is_no_trace_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000-1.trace"
    path.write_bytes(b"something else altogether, of any length")
    flaw = open_trace_file(str(path))
    assert flaw == Flaw(str(path), 0, "damaged", "it is not a trace file")


@pytest.mark.parametrize(("header", "kind"), [({"version": 2}, "newer"), ({"version": 1}, "damaged"), ([], "damaged")])
def test_a_header_of_another_form_is_told(tmp_path: Path, header: object, kind: str) -> None:
    path = tmp_path / "rank-00000-1.trace"
    path.write_bytes(encode_preamble(json.dumps(header).encode()))
    flaw = open_trace_file(str(path))
    assert isinstance(flaw, Flaw)
    assert flaw.kind == kind


def test_the_format_is_as_written_down(tmp_path: Path) -> None:
    data = a_file(tmp_path, 1).read_bytes()
    length = int.from_bytes(data[8:12], "little")
    header = data[16 : 16 + length]
    assert data[:8] == TRACE_MAGIC
    assert int.from_bytes(data[12:16], "little") == zlib.crc32(header)
    assert list(json.loads(header)) == ["version", "wdsctl", "rank", "world", "started", "run", "sources"]
    assert data[16 + length :][:4] == b"WTB1"


def test_a_block_that_is_asked_for_where_none_is_is_damaged(tmp_path: Path) -> None:
    file = opened(a_file(tmp_path))
    assert isinstance(read_block(file, 3), Flaw)
