"""Small files of which much more comes out than their size explains. The limits are lowered, so that the tests are."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.build import a_folder
from tests.core.formats import open_error
from tests.core.traces import read_folder
from wdsctl.core import file_limits
from wdsctl.core.catalog.ledger import ShardRecord, pack_keys, unpack_record_keys
from wdsctl.core.errors import CatalogError, DatasetError, WdsctlError
from wdsctl.core.importers import compressed_tars, csv, jsonl
from wdsctl.core.importers.common import text
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.trace import read as trace_files
from wdsctl.core.trace import trace as trace_queries
from wdsctl.core.trace.format import MAX_BLOCK_BYTES, RunFacts, encode_block, encode_preamble, run_facts_to_json
from wdsctl.core.trace.trace import TraceOptions, query_trace

MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_limits, "MIN_UNPACKED_BYTES", MEBIBYTE)
    monkeypatch.setattr(file_limits, "MAX_UNPACKED_RATIO", 64)


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def _litdata(folder: Path, chunk: bytes) -> str:
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    spec = [1, {"type": "builtins.dict", "context": '["txt"]', "children_spec": [leaf]}]
    config = {"compression": "zstd", "data_format": ["str"], "data_spec": json.dumps(spec), "encryption": None}
    chunks = [{"chunk_bytes": 10, "chunk_size": 4, "dim": None, "filename": "chunk-0-0.bin"}]
    index = json.dumps({"chunks": chunks, "config": {**config, "item_loader": "PyTreeLoader"}})
    return a_folder(folder, {"index.json": index.encode(), "chunk-0-0.bin": chunk})


def test_frames_of_litdata_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    frame, frames = _zstd(bytes(MEBIBYTE // 2)), 4
    head = struct.pack("<8sHHIII", b"LDFZ01\0\0", 1, 0, 4, 1, frames) + struct.pack("<5I", *range(5))
    at = len(head) + 24 * frames
    table = b"".join(struct.pack("<IIQII", i, 1, at, len(frame), MEBIBYTE // 2) for i in range(frames))

    error = open_error(_litdata(tmp_path / "d", head + table + frame), form="litdata")
    assert (error.code, "MiB come out" in error.message) == ("WDS233", True)


def test_chunk_of_litdata_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    error = open_error(_litdata(tmp_path / "d", _zstd(bytes(2 * MEBIBYTE))), form="litdata")
    assert (error.code, "MiB come out" in error.message) == ("WDS233", True)


def test_shard_of_mds_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    size = 2 * MEBIBYTE
    packed = _zstd(struct.pack("<III", 1, 12, size) + bytes(size - 12))
    raw = {"basename": "s.mds", "bytes": size, "hashes": {}}
    columns = {"column_encodings": ["str"], "column_names": ["x"], "column_sizes": [None], "format": "mds"}
    zipped = {"basename": "s.mds.zstd", "bytes": len(packed), "hashes": {}}
    shard = {**columns, "compression": "zstd", "hashes": [], "raw_data": raw, "samples": 1, "zip_data": zipped}
    index = json.dumps({"version": 2, "shards": [{**shard, "size_limit": 1, "version": 2}]})

    error = open_error(a_folder(tmp_path / "d", {"index.json": index.encode(), "s.mds.zstd": packed}), form="mds")
    assert (error.code, "MiB come out" in error.message) == ("WDS233", True)


def _a_zip(files: dict[str, bytes]) -> bytes:
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return archived.getvalue()


@pytest.mark.parametrize("inner", [{"a.jpg": bytes(MEBIBYTE // 4)}, {f"{i}.jpg": b"" for i in range(64)}])
def test_zips_in_zips_share_one_budget(tmp_path: Path, inner: dict[str, bytes]) -> None:
    middle = _a_zip({f"{i}.zip": _a_zip(inner) for i in range(2)})
    source = a_folder(tmp_path / "d", {"a.zip": _a_zip({f"{i}.zip": middle for i in range(8)})})

    with pytest.raises(DatasetError, match="MiB come out") as caught:
        prepare(source, str(tmp_path / "o"))
    assert caught.value.code == "WDS233"


def test_sample_of_compressed_tar_is_in_proportion_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_limits, "MAX_UNPACKED_RATIO", 1024)
    member = tarfile.TarInfo("0.bin")
    member.size = 2 * MEBIBYTE
    source = a_folder(tmp_path / "d", {"a.tar.gz": gzip.compress(member.tobuf() + bytes(member.size + 1024))})
    with compressed_tars.IMPORTER.open(source, {}) as opened:
        [known] = opened.list_samples()
        with pytest.raises(DatasetError, match="a sample has more than 1 MiB"):
            opened.read(known.sample_index)


def test_compressed_stream_ends_at_its_budget(tmp_path: Path) -> None:
    member = tarfile.TarInfo("0.bin")
    member.size = 4 * MEBIBYTE
    packed = gzip.compress(member.tobuf() + bytes(member.size + 1024))
    for name in ("a.tar.gz", "a.tgz"):
        source = a_folder(tmp_path / name, {name: packed})
        with compressed_tars.IMPORTER.open(source, {}) as opened, pytest.raises(DatasetError, match="MiB come out"):
            list(opened.list_samples())

    rows = gzip.compress(b'{"image":"a.jpg"}\n' * (4 * MEBIBYTE // 18))
    source = a_folder(tmp_path / "rows", {"a.jsonl.gz": rows, "a.jpg": b"\xff\xd8\xff"})
    with pytest.raises(DatasetError, match="MiB come out"):
        list(jsonl.IMPORTER.open(source, {}).entries())

    short_rows = gzip.compress(b"image,n\n" + b"a.jpg,1\n" * 2000)  # would become 2,000 samples
    source = a_folder(tmp_path / "short", {"a.csv.gz": short_rows, "a.jpg": b"\xff\xd8\xff"})
    with pytest.raises(DatasetError, match="MiB come out"):
        list(csv.IMPORTER.open(f"{source}/a.csv.gz", {}).entries())


@pytest.mark.parametrize("row", [b"," * 3000, b'"' + b"x" * 3000, b'"' + b'\n","' * 1000])
def test_row_of_a_table_is_bounded(tmp_path: Path, row: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "_MAX_ROW_BYTES", 2000)
    table = gzip.compress(b"image,txt\na.jpg,b\n" + row)
    source = a_folder(tmp_path / "d", {"a.csv.gz": table, "a.jpg": b"\xff\xd8\xff"})
    with pytest.raises(WdsctlError, match="is longer than") as caught:
        list(csv.IMPORTER.open(f"{source}/a.csv.gz", {}).entries())
    assert caught.value.code == "WDS232"


def test_line_of_a_table_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 2000)
    rows = gzip.compress(b'{"image":"a.jpg"}\n{"image":"' + b"x" * 3000)
    source = a_folder(tmp_path / "d", {"a.jsonl.gz": rows, "a.jpg": b"\xff\xd8\xff"})
    with pytest.raises(WdsctlError, match="line 2 is longer than"):
        list(jsonl.IMPORTER.open(source, {}).entries())


def _a_trace(folder: Path, blocks: list[bytes]) -> None:
    facts = RunFacts(rank=0, world=1, started=1, sources=())
    folder.mkdir()
    (folder / "rank-00000-1.trace").write_bytes(encode_preamble(run_facts_to_json(facts)) + b"".join(blocks))


def _a_block(number: int, samples: int, claimed: int) -> bytes:
    """A block of one batch, whose head claims a number of samples."""
    block = encode_block([number], [claimed], np.zeros((samples, 3), np.int64).tolist(), 0, 0)
    head = bytearray(block[:56])
    head[16:20] = struct.pack("<I", claimed)
    return bytes(head) + zlib.crc32(head).to_bytes(4, "little") + block[60:]


def test_block_of_a_trace_is_bounded(tmp_path: Path) -> None:
    _a_trace(tmp_path / "t", [_a_block(0, 10, MAX_BLOCK_BYTES // 24 + 1), _a_block(1, 10, 10)])
    trace = read_folder(tmp_path / "t")
    assert [batch.number for batch in trace.batches()] == [1]
    assert [problem.kind for problem in trace.problems] == ["damaged"]


def test_block_of_a_trace_is_unpacked_to_the_stated_size_only(tmp_path: Path) -> None:
    _a_trace(tmp_path / "t", [_a_block(0, 100_000, 10)])
    trace = read_folder(tmp_path / "t")
    assert (list(trace.batches()), [problem.kind for problem in trace.problems]) == ([], ["damaged"])


def test_trace_out_of_proportion_to_its_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MIN_UNPACKED_BYTES", MEBIBYTE)
    monkeypatch.setattr(trace_files, "_MAX_RATIO", 16)
    _a_trace(tmp_path / "t", [_a_block(0, 40_000, 40_000)] * 4)
    with pytest.raises(DatasetError, match="MiB come out") as caught:
        read_folder(tmp_path / "t")
    assert caught.value.code == "WDS541"


def test_step_with_too_many_samples_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_queries, "MAX_LISTED_SAMPLES", 9)
    _a_trace(tmp_path / "t", [_a_block(0, 10, 10)])
    with pytest.raises(WdsctlError, match="has 10 samples") as caught:
        query_trace(str(tmp_path / "t"), TraceOptions(step=0))
    assert caught.value.code == "WDS421"


def _a_record(keys: bytes, samples: int) -> ShardRecord:
    return ShardRecord("a.tar", 0, samples, 1, "", keys, b"", "done")


@pytest.mark.parametrize(
    ("keys", "samples"),
    [
        (zlib.compress(bytes(4 * MEBIBYTE)), 4 * MEBIBYTE + 1),
        (pack_keys(["a", "b"]), 3),
        (pack_keys(["a", "b"]), 1),
        (pack_keys(["a", "b"])[:-1], 2),
        (zlib.compress(b"\xff"), 1),
        (b"x", 1),
    ],
)
def test_packed_keys_of_a_plan_are_those_of_its_samples(keys: bytes, samples: int) -> None:
    with pytest.raises(CatalogError, match="the plan in the ledger is damaged") as caught:
        unpack_record_keys(_a_record(keys, samples))
    assert caught.value.code == "WDS302"
    assert unpack_record_keys(_a_record(pack_keys(["a", "b"]), 2)) == ["a", "b"]
