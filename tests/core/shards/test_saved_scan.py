from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from tests.build import a_scan, a_shard, memory_reader, samples
from wdsctl.core.files import MALFORMED_ERRORS, decode_checked, encode_checked
from wdsctl.core.shards.jsonl_keys import JsonlKeyRule
from wdsctl.core.shards.jsonl_scan import scan_jsonl
from wdsctl.core.shards.shard_scan import ShardScan, decode_scan, encode_scan


@pytest.mark.parametrize(
    "data",
    [
        a_shard(samples(0, 20)),
        a_shard({"é 1.jpg": b"", "é 1.seg.png": b"x", "2.txt": b""}),
        a_shard(samples(0, 20))[:9000],
        b"no tar",
        b"",
    ],
)
def test_tar_scan_round_trips(data: bytes) -> None:
    _check_round_trip(a_scan(data))


@pytest.mark.parametrize("keys", [JsonlKeyRule(), JsonlKeyRule(is_single_file=True), JsonlKeyRule("id")])
@pytest.mark.parametrize("lines", [0, 1, 2, 1200])
def test_jsonl_scan_round_trips(lines: int, keys: JsonlKeyRule) -> None:
    data = b"".join(b'{"id": "%d"}\r\n' % (i * i) for i in range(lines))
    _check_round_trip(scan_jsonl("a.jsonl", memory_reader(data), len(data), keys))


def test_encoded_jsonl_scan_contains_only_line_positions() -> None:
    data = b'{"id": 1}\n{"id": 22}\n' * 5000
    assert len(_encode(scan_jsonl("a.jsonl", memory_reader(data), len(data)))) < 10_000 * 16 + 1000


def _check_round_trip(scan: ShardScan) -> None:
    loaded = _decode(_encode(scan))
    assert loaded is not None

    for name in ShardScan.__slots__:
        one, other = getattr(scan, name), getattr(loaded, name)
        if isinstance(one, np.ndarray):
            assert one.tolist() == other.tolist()
            assert one.dtype == other.dtype
        else:
            assert one == other
    assert loaded.layout_hash() == scan.layout_hash()


def test_known_layout_hash_is_saved_but_not_kept_by_first_samples() -> None:
    scan = a_scan(a_shard(samples(0, 20)))
    loaded = _decode(_encode(replace(scan, known_layout_hash=scan.layout_hash())))

    assert loaded is not None
    assert (scan.known_layout_hash, loaded.known_layout_hash) == (None, scan.layout_hash())
    assert loaded.first_samples(10).layout_hash() == scan.first_samples(10).layout_hash() != scan.layout_hash()


def test_flipped_bit_is_detected_or_harmless() -> None:
    scan = a_scan(a_shard(samples(0, 3)))
    good = _encode(scan)
    for bit in range(0, len(good) * 8, 97):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        loaded = _decode(bytes(flipped))
        assert loaded is None or loaded.layout_hash() == scan.layout_hash()


def _encode(scan: ShardScan) -> bytes:
    encoded = encode_scan(None, scan)
    assert encoded is not None
    return b"".join(map(bytes, encode_checked(*encoded)))


def _decode(data: bytes) -> ShardScan | None:
    read = decode_checked(data)
    with suppress(*MALFORMED_ERRORS):
        return None if read is None else decode_scan(*read)
    return None
