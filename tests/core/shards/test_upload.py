from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.remote import FaultyFileSystem
from wdsctl.core.samples.naming import RawPart, RawSample
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import scan_file
from wdsctl.core.shards.upload import scan_samples, upload_shard
from wdsctl.core.shards.write import ShardUpload, write_shard
from wdsctl.core.storage.objects import ObjectStore

LONG = "n" * 130


def some_samples(root: Path, names: dict[str, list[tuple[str, int]]]) -> list[RawSample]:
    found: list[RawSample] = []
    for key, parts in names.items():
        for part, size in parts:
            path = root / f"{key}.{part}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"ustar" * (size // 5) + b"x" * (size % 5))
        found.append(RawSample(key, tuple(RawPart(part, size, 0) for part, size in parts)))
    return found


SHAPES = [
    {"a": [("jpg", 700), ("txt", 3)], "b": [("jpg", 0), ("txt", 512)]},
    {f"sub/{LONG}/{LONG}": [("json", 1)], "é": [("cls", 513)]},
    {"v1.2/a.b": [("jpg", 3 << 20), ("txt", 5)]},
    {f"{i:06d}": [("jpg", i % 3000), ("txt", i % 7)] for i in range(2000)},
]


@pytest.mark.parametrize("names", SHAPES, ids=range(len(SHAPES)))
def test_uploaded_shard_equals_local_one_and_is_scanned_without_reading(
    tmp_path: Path, names: dict[str, list[tuple[str, int]]]
) -> None:
    FaultyFileSystem.reset()
    samples = some_samples(tmp_path / "raw", names)
    local_report = write_shard(str(tmp_path / "out/a.tar"), str(tmp_path / "raw"), samples)
    url = "memory://uploads"

    upload_report = upload_shard(ShardUpload(url, "a.tar", str(tmp_path / "journal")), str(tmp_path / "raw"), samples)

    assert upload_report == local_report
    assert ObjectStore(url).get(f"{url}/a.tar")[0] == (tmp_path / "out/a.tar").read_bytes()
    assert list(tmp_path.glob("journal/*")) == []
    scan = scan_samples("a.tar", samples, upload_report.size_bytes)
    read = scan_file(str(tmp_path / "out"), ShardFile("a.tar", local_report.size_bytes, 0))
    assert (scan.layout_hash(), scan.keys, scan.findings, scan.status) == (
        read.layout_hash(),
        read.keys,
        read.findings,
        read.status,
    )
    assert np.array_equal(scan.sizes, read.sizes)


def test_changed_file_leaves_no_shard_and_no_pending_upload(tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    samples = some_samples(tmp_path / "raw", {"a": [("bin", 40 << 20)]})
    (tmp_path / "raw/a.bin").write_bytes(bytes(39 << 20))
    url = "memory://uploads"
    with pytest.raises(Exception, match="changed while wdsctl read the folder"):
        upload_shard(ShardUpload(url, "a.tar", str(tmp_path / "journal")), str(tmp_path / "raw"), samples)
    store = ObjectStore(url)
    assert (store.list(url), store.pending(url), list(tmp_path.glob("journal/*"))) == ([], [], [])
