"""Minimal writers of shards in other formats: MDS, LitData chunks and zip; and a dataset of an earlier version."""

from __future__ import annotations

import json
import sqlite3
import struct
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.prepare_requests import prepare_request
from wdsctl.core.dataset.location import locate
from wdsctl.core.offsets.write import rename_offsets_shards
from wdsctl.core.prepare.prepare import prepare

Rows = Sequence[Mapping[str, bytes]]


def mds_shard(columns: Mapping[str, str], rows: Rows, sizes: Mapping[str, int] | None = None) -> bytes:
    """An MDS shard of these columns (name -> encoding); values are given in their stored form."""
    fixed = sizes or {}
    settings = {
        "column_encodings": list(columns.values()),
        "column_names": list(columns),
        "column_sizes": [fixed.get(name) for name in columns],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }
    text = json.dumps(settings, sort_keys=True).encode()
    body = [
        b"".join(struct.pack("<I", len(row[name])) for name in columns if name not in fixed)
        + b"".join(row[name] for name in columns)
        for row in rows
    ]
    at = 4 * (len(rows) + 2) + len(text)
    offsets = [at]
    for each in body:
        offsets.append(offsets[-1] + len(each))
    return struct.pack(f"<{len(offsets) + 1}I", len(rows), *offsets) + text + b"".join(body)


def write_mds(
    folder: Path,
    columns: Mapping[str, str],
    shards: Sequence[Rows],
    sizes: Mapping[str, int] | None = None,
    hashes: Sequence[Mapping[str, str]] | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for i, rows in enumerate(shards):
        data = mds_shard(columns, rows, sizes)
        name = f"shard.{i:05}.mds"
        (folder / name).write_bytes(data)
        entries.append(
            {
                "column_encodings": list(columns.values()),
                "column_names": list(columns),
                "column_sizes": [(sizes or {}).get(column) for column in columns],
                "compression": None,
                "format": "mds",
                "hashes": [],
                "raw_data": {"basename": name, "bytes": len(data), "hashes": (hashes or [{}] * len(shards))[i]},
                "samples": len(rows),
                "size_limit": None,
                "version": 2,
                "zip_data": None,
            }
        )
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))
    return folder


def write_litdata(folder: Path, fields: Mapping[str, str], chunks: Sequence[Rows], **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for i, rows in enumerate(chunks):
        items = [
            struct.pack(f"<{len(fields)}I", *(len(row[name]) for name in fields))
            + b"".join(row[name] for name in fields)
            for row in rows
        ]
        offsets = [4 * (len(rows) + 2)]
        for item in items:
            offsets.append(offsets[-1] + len(item))
        data = struct.pack(f"<{len(offsets) + 1}I", len(rows), *offsets) + b"".join(items)
        (folder / f"chunk-0-{i}.bin").write_bytes(data)
        entries.append({"chunk_bytes": len(data), "chunk_size": len(rows), "dim": None, "filename": f"chunk-0-{i}.bin"})
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    spec = [1, {"type": "builtins.dict", "context": json.dumps(list(fields)), "children_spec": [leaf] * len(fields)}]
    index = {
        "chunks": entries,
        "config": {
            "compression": None,
            "data_format": list(fields.values()),
            "data_spec": json.dumps(spec),
            "encryption": None,
            "item_loader": "PyTreeLoader",
            **config,
        },
    }
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def write_zip(path: Path, entries: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def a_dataset_of_parquet(root: Path) -> Path:
    """A dataset of Parquet files in place, as earlier versions left it: catalog and offsets name the files.

    Nothing else of such a dataset tells its format. Needs pyarrow.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_mds(root, {"text": "str"}, [[{"text": b"text %d" % i} for i in range(2)]])
    prepare(str(root), None, prepare_request(sample_type="CrudeSample"))
    pq.write_table(pa.table({"text": [f"text {i}" for i in range(2)], "data": [b"x"] * 2}), root / "part-0.parquet")
    (root / "shard.00000.mds").unlink()
    (root / "index.json").unlink()
    location = locate(str(root))
    with closing(sqlite3.connect(location.catalog_path)) as catalog, catalog:
        catalog.execute("UPDATE shard SET path = 'part-0.parquet'")
    rename_offsets_shards(location.offsets_path(1), {1: "part-0.parquet"})
    return root
