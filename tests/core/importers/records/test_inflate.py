"""Compressed shards: never more comes out than their index says."""

from __future__ import annotations

import bz2
import gzip

import pyarrow as pa
import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.records.offset_shards import decompress, decompress_zstd

DATA = b"some bytes " * 5000
PACKED = {
    "gz": gzip.compress(DATA),
    "bz2:9": bz2.compress(DATA),
    "zstd:3": pa.compress(DATA, "zstd", asbytes=True),
    "br:11": pa.compress(DATA, "brotli", asbytes=True),
    "snappy": pa.compress(DATA, "snappy", asbytes=True),
}


@pytest.mark.parametrize("algorithm", PACKED)
def test_every_algorithm_gives_back_what_was_packed(algorithm: str) -> None:
    assert decompress(PACKED[algorithm], algorithm, len(DATA), "x.mds") == DATA


@pytest.mark.parametrize("algorithm", PACKED)
@pytest.mark.parametrize("size", [0, 10, len(DATA) - 1, len(DATA) + 1, 1 << 60, -1])
def test_another_size_than_was_said_is_damage(algorithm: str, size: int) -> None:
    with pytest.raises(DatasetError) as error:
        decompress(PACKED[algorithm], algorithm, size, "x.mds")
    assert (error.value.code, error.value.where) == ("WDS233", "x.mds")


@pytest.mark.parametrize("algorithm", PACKED)
@pytest.mark.parametrize("data", [b"", b"rubbish", b"cut"])
def test_damaged_bytes_are_damage(algorithm: str, data: bytes) -> None:
    packed = PACKED[algorithm][:-9] if data == b"cut" else data

    with pytest.raises(DatasetError) as error:
        decompress(packed, algorithm, len(DATA), "x.mds")
    assert error.value.code == "WDS233"


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(DatasetError, match="'lzma'") as error:
        decompress(b"", "lzma", 3, "x.mds")
    assert error.value.code == "WDS234"


def test_a_chunk_whose_size_nobody_says_is_unpacked_whole() -> None:
    assert decompress_zstd(PACKED["zstd:3"], "x.bin") == DATA
    with pytest.raises(DatasetError):
        decompress_zstd(b"rubbish", "x.bin")
