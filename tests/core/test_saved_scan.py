from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.build import a_scan, a_shard, reading, samples
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.lines import scan_lines
from wdsctl.core.saved_scan import load_scans, save_scans, saved_scans
from wdsctl.core.shard_scan import ShardScan


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
def test_a_saved_scan_is_the_scan(tmp_path: Path, data: bytes) -> None:
    _check_saved(a_scan(data), str(tmp_path / "a.scan"))


@pytest.mark.parametrize("keys", [LineKeys(), LineKeys(is_alone=True), LineKeys("id")])
@pytest.mark.parametrize("lines", [0, 1, 2, 1200])
def test_a_saved_scan_of_lines_is_the_scan(tmp_path: Path, lines: int, keys: LineKeys) -> None:
    data = b"".join(b'{"id": "%d"}\r\n' % (i * i) for i in range(lines))
    _check_saved(scan_lines("a.jsonl", reading(data), len(data), keys), str(tmp_path / "a.scan"))


def test_of_lines_no_more_is_saved_than_their_places(tmp_path: Path) -> None:
    data = b'{"id": 1}\n{"id": 22}\n' * 5000
    path = tmp_path / "a.scan"
    save_scans({"a": scan_lines("a.jsonl", reading(data), len(data))}, str(path))
    assert path.stat().st_size < 10_000 * 16 + 1000


def _check_saved(scan: ShardScan, path: str) -> None:
    save_scans({"a": scan}, path)
    loaded = load_scans(path)["a"]

    for name in ShardScan.__slots__:
        one, other = getattr(scan, name), getattr(loaded, name)
        if isinstance(one, np.ndarray):
            assert one.tolist() == other.tolist()
            assert one.dtype == other.dtype
        else:
            assert one == other
    assert loaded.layout_hash() == scan.layout_hash()


def test_a_layout_hash_that_was_worked_out_is_kept_and_not_that_of_fewer_samples(tmp_path: Path) -> None:
    path = str(tmp_path / "a.scan")
    scan = a_scan(a_shard(samples(0, 20)))
    save_scans({"a": replace(scan, layout=scan.layout_hash())}, path)
    loaded = load_scans(path)["a"]

    assert (scan.layout, loaded.layout) == (None, scan.layout_hash())
    assert loaded.first(10).layout_hash() == scan.first(10).layout_hash() != scan.layout_hash()


@pytest.mark.parametrize("cut", [0, 1, 100, 1000, -1, -100])
def test_a_damaged_file_is_no_scan(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.scan"
    save_scans({"a": a_scan(a_shard(samples(0, 20)))}, str(path))
    path.write_bytes(path.read_bytes()[:cut])

    assert load_scans(str(path)) == {}


def test_scans_lie_side_by_side_and_are_found_by_their_names(tmp_path: Path) -> None:
    scans = {str(i): a_scan(a_shard(samples(10 * i, 5 + i))) for i in range(4)}
    one, other = str(tmp_path / "one.scan"), str(tmp_path / "other.scan")
    save_scans({name: scans[name] for name in ("0", "2")}, one)
    save_scans({name: scans[name] for name in ("1", "3")}, other)
    (tmp_path / "values").mkdir()

    assert saved_scans(str(tmp_path)) == {"0": one, "2": one, "1": other, "3": other}
    assert saved_scans(str(tmp_path / "none")) == {}
    loaded = load_scans(one) | load_scans(other)
    assert {name: scan.layout_hash() for name, scan in loaded.items()} == {
        name: scan.layout_hash() for name, scan in scans.items()
    }


def test_of_a_file_that_was_cut_the_scans_before_the_cut_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.scan"
    save_scans({str(i): a_scan(a_shard(samples(10 * i, 5))) for i in range(3)}, str(path))
    path.write_bytes(path.read_bytes()[:-1])

    assert list(load_scans(str(path))) == ["0", "1"]


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.scan"
    scan = a_scan(a_shard(samples(0, 3)))
    save_scans({"a": scan}, str(path))
    good = path.read_bytes()
    for bit in range(0, len(good) * 8, 97):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        loaded = load_scans(str(path)).get("a")
        assert loaded is None or loaded.layout_hash() == scan.layout_hash()
