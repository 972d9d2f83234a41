"""Uploads to an S3 server of ours (`benchmarks.sink`), which runs in its own process: one JSON line.

    python -m benchmarks.contenders.uploads --how prepare --workers 2 --link 25 --files 5000
    python -m benchmarks.contenders.uploads --how put --link 25 --files 5000

`prepare` is `wdsctl prepare RAW s3://bucket/shards`. `put` is `s3fs.put` of the finished tars, one after the other.
Both send the same bytes: the sizes of all objects are compared with the tars on the disk. Seconds, CPU seconds and
memory are those of the client, without the server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.measure import Cost, measure
from benchmarks.places import DATA, REPOSITORY, WDSCTL_PYTHON, wdsctl_script

URL = "s3://bucket/shards"
SHARD_SIZE = "64MiB"
_FILE_BYTES = (60_000, 180_000)
_BLOB_BYTES = 4 << 20
_PUT = """
import os, sys
import s3fs
filesystem = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])
for path in sys.argv[2:]:
    filesystem.put(path, f"{sys.argv[1]}/{os.path.basename(path)}")
"""


def ensure_raw(files: int, data: Path = DATA) -> Path:
    """A folder with so many pictures in name only, of 120 KB, and a caption for each; made once."""
    folder, marker = data / f"uploads-raw-{files}", data / f"uploads-raw-{files}.complete"
    if marker.exists():
        return folder
    random = Random(0)
    blob = random.randbytes(_BLOB_BYTES)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        size = random.randint(*_FILE_BYTES)
        start = random.randint(0, _BLOB_BYTES - size)
        (folder / f"{i:07d}.jpg").write_bytes(b"\xff\xd8\xff\xe0" + blob[start : start + size])
        (folder / f"{i:07d}.txt").write_text(f"a caption of picture {i}\n")
    marker.touch()
    return folder


def ensure_tars(raw: Path) -> list[Path]:
    """The shards of the folder on the disk; made once."""
    folder = raw.with_name(f"{raw.name}-tars")
    marker = folder.with_name(f"{folder.name}.complete")
    if not marker.exists():
        measure(_prepare(raw, str(folder), 1))
        marker.touch()
    return sorted(folder.glob("*.tar"))


def _prepare(raw: Path, destination: str, workers: int) -> tuple[str, ...]:
    options = ("--shard-size", SHARD_SIZE, "--workers", str(workers), "--yes", "--quiet")
    return (wdsctl_script("wdsctl"), "prepare", str(raw), destination, *options)


@contextmanager
def running_sink(megabytes_per_second: float) -> Iterator[str]:
    """The URL of a server while the block runs. 0: no limit."""
    command = [sys.executable, "-m", "benchmarks.sink", "--megabytes-per-second", str(megabytes_per_second)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=REPOSITORY
    ) as sink:
        try:
            yield f"http://127.0.0.1:{int((sink.stdout or sys.stdin).readline())}"
        finally:
            sink.terminate()


def uploaded_sizes(endpoint: str) -> dict[str, int]:
    """The sizes of the shards that the server has, by name."""
    import s3fs

    filesystem = s3fs.S3FileSystem(endpoint_url=endpoint, use_listings_cache=False)
    found = filesystem.ls(URL, detail=True)
    return {each["name"].rpartition("/")[2]: each["size"] for each in found if each["name"].endswith(".tar")}


def upload(how: str, workers: int, megabytes_per_second: float, files: int) -> tuple[Cost, int]:
    """What an upload took, and its bytes. Raises SystemExit if the server has other shards than the disk."""
    raw = ensure_raw(files)
    tars = ensure_tars(raw)
    put = (str(WDSCTL_PYTHON), "-c", _PUT, URL.removeprefix("s3://"), *map(str, tars))
    # A new server is empty: a mirror that an earlier run left for its URL would be wrong.
    with TemporaryDirectory() as state, running_sink(megabytes_per_second) as endpoint:
        os.environ |= {
            "XDG_DATA_HOME": state,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        cost = measure(put if how == "put" else _prepare(raw, URL, workers))
        sizes = {path.name: path.stat().st_size for path in tars}
        if uploaded_sizes(endpoint) != sizes:
            raise SystemExit("the server has other shards than the disk")
    return cost, sum(sizes.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("prepare", "put"), required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--link", type=float, default=0.0, help="MB/s; 0: no limit")
    parser.add_argument("--files", type=int, default=5000)
    given = parser.parse_args()
    cost, size_bytes = upload(given.how, given.workers, given.link, given.files)
    figures = {
        "megabytes_per_second": size_bytes / 1e6 / cost.wall_seconds,
        "client_cpu_seconds": cost.cpu_seconds,
        "client_peak_bytes": cost.peak_bytes,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
