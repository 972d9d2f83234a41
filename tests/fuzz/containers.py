"""Targets for what comes packed, from servers, or as notes of wdsctl's own: Arrow, Parquet, zips, answers of web
servers, traces, job folders, and offsets files that were fetched in part."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import threading
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.build import a_dataset, samples
from tests.core.traces import a_run, a_source
from tests.fuzz.target import Target, work_folder, write_file
from wdsctl.core.errors import WdsctlError
from wdsctl.core.executors.array_job import plan_job
from wdsctl.core.executors.job_folder import JOB_FILE, JobUnit, read_job, read_stage, read_units
from wdsctl.core.importers.common.arrow import (
    arrow_batches,
    iter_rows,
    open_parquet,
    parquet_batches,
    translate_arrow_errors,
)
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.archives import unpack_archives
from wdsctl.core.remote_catalogs.ranges import remember_url
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.storage.remote_errors import RetryPolicy
from wdsctl.core.trace.format import FRAME_HEAD_BYTES, PREAMBLE_BYTES, RunFacts, encode_preamble, run_facts_to_json
from wdsctl.core.trace.read import read_trace

_NO_RETRIES = RetryPolicy(first_pause_seconds=0, max_retry_seconds=-1)


# -- Arrow, Parquet and zips ------------------------------------------------------------------------------------------


def run_arrow(data: bytes) -> None:
    """Every value is read, or the file is refused; no crash, and no bytes from elsewhere."""
    with suppress(WdsctlError):
        for batch in arrow_batches(write_file("a.arrow", data)):
            for row in iter_rows(batch.rows):
                repr(row)


def run_parquet(data: bytes) -> None:
    path = write_file("a.parquet", data)
    with suppress(WdsctlError), translate_arrow_errors(path):
        for batch in parquet_batches(open_parquet(path), path, 1000):
            for row in iter_rows(batch.rows):
                repr(row)


def _tables() -> Sequence[object]:
    import pyarrow as pa

    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), ["cat", "dog"])
    columns = {
        "image": [b"\xff\xd8\xff", b"", None],
        "text": ["one", "two", "drei"],
        "label": names,
        "list": [[["a"]], [], None],
        "struct": [{"bytes": b"\x89PNG", "path": "a.png"}, None, {"bytes": None, "path": "b"}],
        "number": pa.array([1, None, 3], pa.int64()),
    }
    return [pa.table(columns), pa.table({"text": ["x" * 50] * 9})]


def _arrow_files() -> Sequence[bytes]:
    import pyarrow as pa

    found = []
    for table in _tables():
        for make in (pa.ipc.new_stream, pa.ipc.new_file):
            for compression in (None, "zstd"):
                sink = io.BytesIO()
                with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:  # type: ignore[attr-defined]
                    writer.write_table(table, max_chunksize=2)
                found.append(sink.getvalue())
    return found


def _parquet_files() -> Sequence[bytes]:
    import pyarrow.parquet as pq

    found = []
    for table in _tables():
        for options in ({"compression": "none"}, {"data_page_version": "2.0", "use_dictionary": False}):
            sink = io.BytesIO()
            pq.write_table(table, sink, **options)
            found.append(sink.getvalue())
    return found


def run_zip(data: bytes) -> None:
    """The files of a zip lie in the folder that it is unpacked into, or the zip is refused."""
    above = os.path.join(work_folder(), "zips")
    os.makedirs(os.path.join(above, "source"), exist_ok=True)
    write_file("zips/source/a.zip", data)
    places = os.path.join(above, "source"), os.path.join(above, "dest")
    with suppress(WdsctlError), unpack_archives(*places, lambda _: None) as folder:
        for path, folders, names in os.walk(folder):
            assert not any(os.path.islink(os.path.join(path, name)) for name in (*folders, *names)), "a link"
    shutil.rmtree(os.path.join(above, "dest.unpacked"), ignore_errors=True)
    assert sorted(os.listdir(above)) == ["source"], "a file beside the destination"
    assert os.listdir(os.path.join(above, "source")) == ["a.zip"], "a file in the source"


def _zips() -> Sequence[bytes]:
    def pack(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", method) as archive:
            for name, data in files.items():
                archive.writestr(zipfile.ZipInfo(name), data, method)
        return sink.getvalue()

    inner = pack({"a/1.jpg": b"\xff\xd8\xff" * 20, "a/1.txt": b"one"})
    return [inner, pack({"b.zip": inner, "2.txt": b"two"}, zipfile.ZIP_STORED), pack({"../x": b"", "/etc/y": b""})]


# -- web servers ------------------------------------------------------------------------------------------------------


def run_http(data: bytes) -> None:
    """Whatever a server sends, reads return at most the bytes that were requested, or raise an error of wdsctl."""
    server = _server()
    server.answer = data
    url = f"http://127.0.0.1:{server.port}/folder"
    with suppress(WdsctlError):
        ObjectStore(url, retry_policy=_NO_RETRIES).get(f"{url}/current.json")
    storage = FsspecStorage(url, {f"{url}/a.tar": 1000}, retry_policy=_NO_RETRIES)
    with suppress(WdsctlError):
        assert len(storage.read(f"{url}/a.tar", 10, 100)) == 100
    with suppress(WdsctlError):
        storage.files()
    storage.close()


class _RawServer(threading.Thread):
    """Sends `answer` to each request, and closes the connection."""

    answer = b""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def run(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with suppress(OSError), connection:
                connection.settimeout(1)
                received = b""
                while b"\r\n\r\n" not in received and (some := connection.recv(1 << 16)):
                    received += some
                connection.sendall(self.answer.replace(b"PORT", str(self.port).encode()))


@cache
def _server() -> _RawServer:
    server = _RawServer()
    server.start()
    return server


def _answers() -> Sequence[bytes]:
    part = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\nContent-Range: bytes 10-109/1000\r\nETag: x\r\n\r\n"
    page = b'<a href="a.tar">a.tar</a><a href="/folder/b/">b</a><a href="http://127.0.0.1:PORT/folder/c.tar">c</a>'
    return [
        part + b"x" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5f\r\n"
        + page
        + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + zlib.compress(bytes(9999)),
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:PORT/folder/d\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\n\r\n",
    ]


# -- traces, jobs and mirrors -----------------------------------------------------------------------------------------


def run_trace(data: bytes) -> None:
    """The header, or the rest of the file, of a trace; with right checksums, without which all changes are refused."""
    kind, body = data[:1], data[1:]
    whole = _trace_file()
    if kind == b"H":
        data = encode_preamble(body) + whole[_header_end(whole) :]
    elif kind == b"B" and len(body) >= FRAME_HEAD_BYTES:
        head, rest = bytearray(body[:FRAME_HEAD_BYTES]), zlib.compress(body[FRAME_HEAD_BYTES:], 1)
        head[:4] = whole[_header_end(whole) :][:4]
        head[4:12] = len(rest).to_bytes(4, "little") + zlib.crc32(rest).to_bytes(4, "little")
        head[-4:] = zlib.crc32(head[:-4]).to_bytes(4, "little")
        data = whole[: _header_end(whole)] + bytes(head) + rest
    folder = os.path.join(work_folder(), "trace")
    os.makedirs(folder, exist_ok=True)
    write_file("trace/rank-00000-1.trace", data)
    with suppress(WdsctlError):
        trace = read_trace(folder)
        for pass_number in trace.passes[:3]:
            for batch, _ in zip(trace.batches(pass_number=pass_number), range(100), strict=False):
                assert batch.origins.shape[1] == 4
            with suppress(WdsctlError):
                trace.step(1, pass_number=pass_number)


@cache
def _trace_file() -> bytes:
    folder = Path(work_folder()) / "sound-trace"
    return Path(a_run(folder, 1, 0, 20)[0]).read_bytes()


def _header_end(whole: bytes) -> int:
    return PREAMBLE_BYTES + int.from_bytes(whole[8:12], "little")


def _traces() -> Sequence[bytes]:
    whole = _trace_file()
    start = _header_end(whole)
    facts = run_facts_to_json(RunFacts(rank=0, world=1, started=1, sources=(a_source(),)))
    block = whole[start : start + FRAME_HEAD_BYTES] + zlib.decompress(whole[start + FRAME_HEAD_BYTES :])
    return [whole, b"H" + facts, b"B" + block]


def run_job(data: bytes) -> None:
    """The description of a job, of its stage, or one of its units, with right checksums."""
    kind, body = data[:1], data[1:]
    folder = _job_folder()
    for name in (JOB_FILE, "stage-1.json"):
        shutil.copyfile(os.path.join(work_folder(), "sound-job", name), os.path.join(folder, name))
    if kind in (b"J", b"S"):
        Path(folder, JOB_FILE if kind == b"J" else "stage-1.json").write_bytes(body)
    with suppress(WdsctlError):
        job = read_job(folder)
        stage = read_stage(job)
        read_units(job, stage, range(min(3, len(stage.units))))
        stage.shares(min(job.tasks, 100))
        if kind == b"U":
            Path(folder, "stage-1.units").write_bytes(zlib.crc32(body).to_bytes(4, "little") + body)
            read_units(job, replace(stage, units=[JobUnit("0" * 32, "a", 1, 0, 4 + len(body))]), [0])
    shutil.copyfile(os.path.join(work_folder(), "sound-job", "stage-1.units"), os.path.join(folder, "stage-1.units"))


@cache
def _job_folder() -> str:
    """A folder with a copy of a planned job, which the folder `sound-job` keeps."""
    from wdsctl.cli.main import run_inner

    sound, folder = os.path.join(work_folder(), "sound-job"), os.path.join(work_folder(), "job")
    root = a_dataset(Path(work_folder()) / "job-data", {"a.tar": samples(0, 4), "b.tar": samples(4, 3)})
    plan_job(sound, ("index", root, "--no-input"), run_inner, tasks=2)
    shutil.copytree(sound, folder)
    os.chmod(folder, 0o700)
    return folder


def _jobs() -> Sequence[bytes]:
    folder = Path(_job_folder())
    job = read_job(str(folder))
    stage = read_stage(job)
    units = (folder / "stage-1.units").read_bytes()
    parts = [units[unit.start + 4 : unit.end] for unit in stage.units]
    files = [b"J" + (folder / JOB_FILE).read_bytes(), b"S" + (folder / "stage-1.json").read_bytes()]
    return [*files, *(b"U" + part for part in parts)]


def run_partial(data: bytes) -> None:
    """The notes about an offsets file that was fetched in part, its marks, and its bytes: three texts, in lines."""
    facts, marks, body = (*data.split(b"\n", 2), b"", b"")[:3]
    folder = os.path.join(work_folder(), "mirror")
    ranges = os.path.join(folder, ".published", "ranges")
    os.makedirs(ranges, exist_ok=True)
    digest = sha256(_offsets_file()).digest()
    Path(ranges, f"{digest.hex()}.json").write_bytes(facts)
    Path(ranges, digest.hex()).write_bytes(marks)
    Path(folder, "offsets-1.bin").write_bytes(body + b"WDSPART\n" + digest)
    remember_url(folder, "memory://fuzz/catalog")  # otherwise the notes would name a server
    with suppress(WdsctlError):
        offsets = Offsets(os.path.join(folder, "offsets-1.bin"))
        for row in range(min(1000, offsets.samples)):
            shard = offsets.shards[offsets.shard_of(row)]
            for _, offset, size in offsets.parts(row):
                assert 0 <= offset <= offset + size <= shard.size, "a part is outside of its shard"


@cache
def _offsets_file() -> bytes:
    root = a_dataset(Path(work_folder()) / "mirrored", {"a.tar": samples(0, 4), "b.tar": samples(4, 3)})
    index(root)
    return Path(root, ".wdsctl", "offsets-1.bin").read_bytes()


def _partial_files() -> Sequence[bytes]:
    data = _offsets_file()
    facts = json.dumps({"url": "memory://fuzz/catalog", "name": "offsets-1.bin", "size": len(data)}).encode()
    return [facts + b"\n\1\n" + data, facts + b"\n\0\n" + bytes(len(data))]


CONTAINER_TARGETS: dict[str, Target] = {
    "arrow": Target(run_arrow, _arrow_files),
    "parquet": Target(run_parquet, _parquet_files),
    "zip": Target(run_zip, _zips),
    "http": Target(run_http, _answers),
    "trace": Target(run_trace, _traces),
    "job": Target(run_job, _jobs),
    "partial": Target(run_partial, _partial_files),
}
