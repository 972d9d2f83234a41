"""Compressed shards never decompress to more bytes than their index states."""

from __future__ import annotations

import bz2
import gzip

import pyarrow as pa
import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.offset_shards import decompress

DATA = b"some bytes " * 5000
COMPRESSED = {
    "gz": gzip.compress(DATA),
    "bz2:9": bz2.compress(DATA),
    "zstd:3": pa.compress(DATA, "zstd", asbytes=True),
    "br:11": pa.compress(DATA, "brotli", asbytes=True),
    "snappy": pa.compress(DATA, "snappy", asbytes=True),
}


@pytest.mark.parametrize("algorithm", COMPRESSED)
def test_decompress_restores_data_for_every_algorithm(algorithm: str) -> None:
    assert decompress(COMPRESSED[algorithm], algorithm, len(DATA), "x.mds") == DATA


@pytest.mark.parametrize("algorithm", COMPRESSED)
@pytest.mark.parametrize("size", [0, 10, len(DATA) - 1, len(DATA) + 1, 1 << 60, -1])
def test_decompress_refuses_size_other_than_stated(algorithm: str, size: int) -> None:
    with pytest.raises(DatasetError) as error:
        decompress(COMPRESSED[algorithm], algorithm, size, "x.mds")
    assert (error.value.code, error.value.where) == ("WDS233", "x.mds")


@pytest.mark.parametrize("algorithm", COMPRESSED)
@pytest.mark.parametrize("data", [b"", b"rubbish", b"cut"])
def test_decompress_refuses_damaged_data(algorithm: str, data: bytes) -> None:
    compressed = COMPRESSED[algorithm][:-9] if data == b"cut" else data

    with pytest.raises(DatasetError) as error:
        decompress(compressed, algorithm, len(DATA), "x.mds")
    assert error.value.code == "WDS233"


def test_decompress_names_unknown_algorithm() -> None:
    with pytest.raises(DatasetError, match="'lzma'") as error:
        decompress(b"", "lzma", 3, "x.mds")
    assert error.value.code == "WDS234"


def test_decompress_zstd_needs_no_stated_size() -> None:
    assert decompress(COMPRESSED["zstd:3"], "zstd", None, "x.bin") == DATA
    with pytest.raises(DatasetError):
        decompress(b"rubbish", "zstd", None, "x.bin")
