from __future__ import annotations

import json
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.build import codes, memory_reader
from wdsctl.core.shards.jsonl_keys import JsonlKeyRule
from wdsctl.core.shards.jsonl_scan import SCAN_BLOCK_BYTES, is_truncated_json, scan_jsonl
from wdsctl.core.shards.shard_scan import ShardScan

ALONE = JsonlKeyRule(is_single_file=True)


def scan_lines(data: bytes, keys: JsonlKeyRule = ALONE, *, block: int = 1 << 20) -> ShardScan:
    return scan_jsonl("a.jsonl", memory_reader(data), len(data), keys, block_bytes=block)


def texts(data: bytes, scan: ShardScan) -> list[bytes]:
    places = zip(scan.part_offsets.tolist(), scan.part_sizes.tolist(), strict=True)
    return [data[at : at + size] for at, size in places]


def test_every_line_is_sample_with_one_part() -> None:
    data = b'{"a": 1}\n{"b": 2}\n{"c": [3]}\n'
    scan = scan_lines(data)
    assert texts(data, scan) == [b'{"a": 1}', b'{"b": 2}', b'{"c": [3]}']
    assert scan.decode_keys() == ["0", "1", "2"]
    assert (scan.status, scan.extensions, scan.counts.tolist(), scan.findings) == ("ok", ("json",), [1, 1, 1], ())
    assert scan.offsets.tolist() == scan.part_offsets.tolist() == [0, 9, 18]


def test_blank_lines_are_not_samples_and_not_numbered() -> None:
    data = b'\n\n  \t\n{"a": 1}\n\r\n \r\n{"b": 2}\n\n'
    scan = scan_lines(data)
    assert texts(data, scan) == [b'{"a": 1}', b'{"b": 2}']
    assert scan.decode_keys() == ["0", "1"]
    assert scan.findings == ()


def test_mixed_line_endings_are_accepted() -> None:
    data = b'{"a": 1}\r\n{"b": 2}\n{"c": 3}\r\n'
    assert texts(data, scan_lines(data)) == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


def test_byte_order_mark_is_skipped_and_reported() -> None:
    data = b'\xef\xbb\xbf{"a": 1}\n{"b": 2}\n'
    scan = scan_lines(data)
    assert texts(data, scan) == [b'{"a": 1}', b'{"b": 2}']
    assert [(each.code, each.severity) for each in scan.findings] == [("WDS125", "note")]


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\n", b"\xef\xbb\xbf"])
def test_file_without_lines_has_no_samples_and_is_reported(data: bytes) -> None:
    scan = scan_lines(data)
    assert (scan.samples, scan.status) == (0, "ok")
    assert "WDS115" in codes(scan)


def test_last_line_needs_no_newline() -> None:
    data = b'{"a": 1}\n{"b": 2}'
    assert texts(data, scan_lines(data)) == [b'{"a": 1}', b'{"b": 2}']
    assert texts(data + b"\r", scan_lines(data + b"\r")) == [b'{"a": 1}', b'{"b": 2}']


@pytest.mark.parametrize(
    "rest", [b"{", b'{"b', b'{"b": "long te', b'{"b": {"c": 1}', b'{"b": tru', b'{"b": "\xc3', b'{"b": [1, 2']
)
def test_truncated_last_line_is_skipped(rest: bytes) -> None:
    data = b'{"a": 1}\n' + rest
    scan = scan_lines(data)
    assert texts(data, scan) == [b'{"a": 1}']
    assert (scan.status, codes(scan), scan.findings[0].offset) == ("partial", ["WDS122"], 9)


def test_file_of_one_truncated_line_is_bad() -> None:
    assert scan_lines(b'{"a": [1, 2').status == "bad"


def test_malformed_last_line_is_not_truncated() -> None:
    assert not is_truncated_json(b"{'a': 1, 'b': 'a long text that goes on'}")
    data = b"{'a': 1, 'b': 'a long text that goes on'}"
    assert texts(data, scan_lines(data)) == [data]


def test_lines_that_are_no_objects_are_numbered_and_counted() -> None:
    data = b'{"a": 1}\n[1, 2]\n  {"indented": 1}  \n"text"\n{"open": 1\n'
    scan = scan_lines(data)
    assert len(texts(data, scan)) == 5
    [finding] = scan.findings
    assert (finding.code, finding.count, finding.key, finding.offset) == ("WDS121", 3, "1", 9)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"\x1f\x8b\x08\x00", "WDS113"),
        (b"\x28\xb5\x2f\xfd", "WDS113"),
        ('{"a": 1}\n'.encode("utf-16"), "WDS120"),
        ('{"a": 1}\n'.encode("utf-16-be"), "WDS120"),
        (b"\x89PNG\r\n\x1a\n\0\0", "WDS120"),
    ],
)
def test_compressed_or_non_utf_8_file_is_bad(head: bytes, code: str) -> None:
    scan = scan_lines(head + b"\n" * 99)
    assert (scan.status, scan.samples, codes(scan)) == ("bad", 0, [code])


def test_keys_in_folder_begin_with_file_path() -> None:
    scan = scan_jsonl("sub/part-1.jsonl", memory_reader(b"{}\n{}\n"), 6)
    assert scan.decode_keys() == ["sub/part-1/0", "sub/part-1/1"]


def test_keys_can_be_read_from_field() -> None:
    data = b'{"id": "x", "m": {"n": 7}}\n{"id": "y", "m": {"n": 8}}\n'
    assert scan_lines(data, JsonlKeyRule("id", is_single_file=True)).decode_keys() == ["x", "y"]
    assert scan_lines(data, JsonlKeyRule("m.n"), block=10).decode_keys() == ["7", "8"]


def test_line_without_key_field_keeps_number_and_is_reported() -> None:
    data = b'{"id": "x"}\n{"id": null}\n{"id": [1]}\nnonsense\n{"id": true}\n{"id": 5}\n{"id": "\\ud800"}\n{"id": ""}\n'
    scan = scan_lines(data, JsonlKeyRule("id", is_single_file=True))
    assert scan.decode_keys() == ["x", "1", "2", "3", "4", "5", "6", "7"]
    [without] = [each for each in scan.findings if each.code == "WDS126"]
    assert (without.count, without.key, without.offset, without.severity) == (6, "1", 12, "warning")


def test_duplicate_key_is_reported() -> None:
    assert codes(scan_lines(b'{"id": 1}\n{"id": 1}\n', JsonlKeyRule("id"))) == ["WDS105"]


def test_line_of_200_mb_needs_memory_of_few_blocks() -> None:
    size = 200 << 20
    letters = b"x" * SCAN_BLOCK_BYTES

    def read(offset: int, count: int) -> bytes:
        head, tail = b'{"a": "', b'"}\n{"b": 1}\n'
        data = (head if offset == 0 else b"") + letters[: count - (len(head) if offset == 0 else 0)]
        return data[: count - len(tail)] + tail if offset + count == size else data

    tracemalloc.start()
    scan = scan_jsonl("a.jsonl", read, size, ALONE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert scan.sizes.tolist() == [size - 10, 8]
    assert peak < 12 << 20


LINES = st.sampled_from(
    [
        b'{"a": 1}',
        b"",
        b" ",
        b"\t",
        b' {"b": 2} ',
        b"[]",
        b"x",
        b"{}",
        b"\r",
        b'{"long": "' + b"y" * 40 + b'"}',
        b"}",
        b"{",
    ]
)


@given(
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"])), max_size=12),
    st.integers(1, 40),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
@example([(b'{"a": 1}', b"\r\n")], 9, b"")
def test_scan_finds_lines_of_plain_reader_for_any_block_size(
    lines: list[tuple[bytes, bytes]], block: int, mark: bytes
) -> None:
    data = mark + b"".join(line + end for line, end in lines)
    plain = [line.removesuffix(b"\r") for line in data.removeprefix(mark).split(b"\n")]
    plain = [line for line in plain if line.strip(b" \t\r")]
    scan = scan_lines(data, block=block)
    assert texts(data, scan) == plain
    stripped = [line.strip(b" \t\r") for line in plain]
    odd = sum(not (line.startswith(b"{") and line.endswith(b"}")) for line in stripped)
    assert sum(each.count for each in scan.findings if each.code == "WDS121") == odd


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), min_size=1, max_size=5), st.integers(1, 30))
def test_scanned_lines_round_trip_json(objects: list[dict[str, object]], block: int) -> None:
    data = b"".join(json.dumps(each).encode() + b"\n" for each in objects)
    scan = scan_lines(data, block=block)
    assert [json.loads(text) for text in texts(data, scan)] == objects
    assert scan.layout_hash() == scan_lines(data).layout_hash()
    assert scan.key_sizes.dtype == np.uint32


@given(st.binary(max_size=300).map(lambda data: data.replace(b"z", b"\n")), st.integers(1, 30), st.integers(2, 4))
def test_scan_is_independent_of_threads(data: bytes, block: int, threads: int) -> None:
    one = scan_lines(data, block=block)
    other = scan_jsonl("a.jsonl", memory_reader(data), len(data), ALONE, block_bytes=block, threads=threads)
    assert (other.layout_hash(), other.status, other.findings) == (one.layout_hash(), one.status, one.findings)
    assert other.sizes.tolist() == one.sizes.tolist()


def test_failed_scan_leaves_no_threads() -> None:
    data = b'{"id": "a long line"}\n' * 400

    def read(offset: int, size: int) -> bytes:
        if size not in (16, 4096) and offset + size < len(data):
            raise OSError("a line that began in an earlier block is read once more")
        return data[offset : offset + size]

    with pytest.raises(OSError, match="once more"):
        scan_jsonl("a.jsonl", read, len(data), JsonlKeyRule("id"), block_bytes=16, threads=2)
    assert not [each for each in threading.enumerate() if each.name.startswith("wdsctl-lines")]
