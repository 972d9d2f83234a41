"""The tiny shards are built from arrays, so tarfile must accept every header."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from benchmarks.tiny import write_tiny_shard

if TYPE_CHECKING:
    from pathlib import Path


def read_members(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return tar.getmembers()


def test_tiny_shard_holds_two_parts_per_sample_in_tar_order(tmp_path: Path) -> None:
    shard = tmp_path / "a.tar"

    write_tiny_shard(shard, first=123_456, samples=3, mtime=1_700_000_000)

    names = [member.name for member in read_members(shard)]
    assert names == [f"000{number}.{part}" for number in (123_456, 123_457, 123_458) for part in ("jpg", "txt")]


def test_tiny_shard_parts_are_readable_to_last_byte(tmp_path: Path) -> None:
    shard = tmp_path / "a.tar"

    write_tiny_shard(shard, first=0, samples=200, mtime=1_700_000_000)

    with tarfile.open(shard) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            payload = file.read()
            assert len(payload) == member.size
            assert not member.name.endswith("txt") or payload.decode("ascii").isprintable()


@pytest.mark.parametrize(("mtime", "headers"), [(1_700_000_000, 0), (1_700_000_000.25, 4)])
def test_fractional_mtime_adds_pax_header_before_every_member(tmp_path: Path, mtime: float, headers: int) -> None:
    shard = tmp_path / "a.tar"

    write_tiny_shard(shard, first=0, samples=2, mtime=mtime)

    assert shard.read_bytes().count(b"PaxHeader") == headers
    assert {float(member.mtime) for member in read_members(shard)} == {float(mtime)}


def test_write_tiny_shard_is_deterministic(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        write_tiny_shard(tmp_path / name, first=7, samples=5, mtime=1_700_000_000)

    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
