"""`wids` JSON: a list of tar shards next to the file, with the number of samples of each.

Source: https://github.com/webdataset/webdataset (wids, the index `wids-shard-index-v1`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource, digest_of_files
from wdsctl.core.importers.common.values import check_format_options, read_head
from wdsctl.core.importers.protocol import FilePart, FormatMatch, Options, Source, damaged_file_error, read_json_object
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage import source_files
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.text import path_for_message
from wdsctl.core.urls import is_url


class WidsImporter:
    """Samples keep their keys. Checks the counts and sizes in the index against the shards, but no hashes."""

    name = "wids"
    about = "a wids index: JSON that lists tar shards"

    def recognise(self, path: str) -> FormatMatch | None:
        if not path.lower().endswith(".json") or not source_files.is_file(path):
            return None
        head = read_head(path)
        if b'"shardlist"' in head or b"wids-shard-index" in head:
            return FormatMatch(0.95, "JSON with a list of shards")
        return None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        return SampleSource(_WidsSamples(path, _list_shards(path)))


IMPORTER = WidsImporter()


class _ListedShard(NamedTuple):
    path: str
    samples: int | None  # the count in the index, if there is one
    size_bytes: int | None  # likewise


class _WidsSamples:
    """Scans one shard at a time. Skips shards before the first requested sample if their counts are known."""

    def __init__(self, index: str, shards: list[_ListedShard]) -> None:
        self._index = index
        self._shards = shards
        self._counts = [shard.samples for shard in shards]
        self._root = os.path.dirname(source_files.absolute(index))
        self._storage = source_files.open_storage_of(index) if is_url(index) else LocalStorage(self._root)

    def samples(self, start: int) -> Iterator[SourceSample]:
        first = 0
        for at, shard in enumerate(self._shards):
            count = self._counts[at]
            if count is None or first + count > start:
                scan = self._scan(shard)
                count = self._counts[at] = scan.samples
                yield from _shard_samples(self._root, shard.path, scan, max(0, start - first))
            first += count

    def _scan(self, shard: _ListedShard) -> ShardScan:
        path, listed_samples, listed_bytes = shard
        size = self._storage.size(path)
        if listed_bytes is not None and listed_bytes != size:
            raise self._mismatch_error(path, f"{size:,} bytes", listed_bytes)
        scan = scan_tar(path, lambda offset, count: self._storage.read(path, offset, count), size)
        if scan.status != "ok":
            finding = next(finding for finding in scan.findings if finding.severity == "error")
            raise DatasetError(
                finding.message,
                hint=f"`wdsctl explain {finding.code}`",
                where=path_for_message(path),
                code=finding.code,
            )
        if listed_samples is not None and listed_samples != scan.samples:
            raise self._mismatch_error(path, f"{scan.samples:,} samples", listed_samples)
        return scan

    def _mismatch_error(self, path: str, found: str, listed: int) -> DatasetError:
        return DatasetError(
            f"the shard has {found}, but its list says {listed:,}",
            hint=f"update {path_for_message(os.path.basename(self._index))}, or copy the shard again from its origin",
            where=path_for_message(path),
            code="WDS233",
        )

    def digest(self) -> bytes:
        return digest_of_files([self._index, *(shard.path for shard in self._shards)])

    def close(self) -> None:
        self._storage.close()


def _shard_samples(root: str, path: str, scan: ShardScan, skip: int) -> Iterator[SourceSample]:
    ends = np.append(0, np.cumsum(scan.counts, dtype=np.int64)).tolist()
    names, offsets, sizes = scan.part_names.tolist(), scan.part_offsets.tolist(), scan.part_sizes.tolist()
    for row, key in enumerate(scan.decode_keys(slice(skip, None)), skip):
        parts = {
            scan.extensions[names[i]]: FilePart(scan.extensions[names[i]], path, offsets[i], sizes[i], root)
            for i in range(ends[row], ends[row + 1])
        }
        yield SourceSample(key, tuple(parts[name] for name in sorted(parts)))


def _list_shards(path: str) -> list[_ListedShard]:
    """The shards of an index. Raises DatasetError WDS233 if it lists none, WDS230 if one is outside its folder."""
    shards = read_json_object(path).get("shardlist")
    if not isinstance(shards, list) or not shards:
        raise damaged_file_error("it lists no shards", path)
    return [_parse_shard(path, each) for each in shards]


def _parse_shard(index: str, entry: Any) -> _ListedShard:
    url = entry.get("url") if isinstance(entry, dict) else None
    if not isinstance(url, str):
        raise damaged_file_error("a shard has no url", index)
    where = resolve_reference(os.path.dirname(index) or ".", url, path_for_message(index))
    return _ListedShard(where, _count(entry.get("nsamples")), _count(entry.get("filesize")))


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
