"""`wids` JSON: a list of tar shards, beside the file, with how many samples each has.

Source: https://github.com/webdataset/webdataset (wids, the index `wids-shard-index-v1`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.looking import head_of
from wdsctl.core.convert.rows.references import inside
from wdsctl.core.convert.rows.samples import Sample
from wdsctl.core.convert.rows.source import SampleSource, mark_of
from wdsctl.core.convert.source import LargePart, Options, Recognised, Source
from wdsctl.core.errors import DatasetError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular
from wdsctl.core.scan import scan_shard
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.storage import LocalStorage


class Wids:
    """Samples keep their keys. Counts in the list are compared with the shards."""

    name = "wids"
    about = "a wids index: JSON that lists tar shards"

    def recognise(self, path: str) -> Recognised | None:
        if not path.lower().endswith(".json") or not os.path.isfile(path):
            return None
        head = head_of(path)
        if b'"shardlist"' in head or b"wids-shard-index" in head:
            return Recognised(0.95, "JSON with a list of shards")
        return None

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, ())
        return SampleSource(_Shards(path, _listed(path)))


IMPORTER = Wids()


class _Shard(NamedTuple):
    path: str
    samples: int | None  # as the list says


class _Shards:
    """Scans one shard at a time. Shards before the first sample that is asked for are passed over by their counts."""

    def __init__(self, index: str, shards: list[_Shard]) -> None:
        self._index = index
        self._shards = shards
        self._counts = [shard.samples for shard in shards]
        self._root = os.path.dirname(os.path.abspath(index))
        self._storage = LocalStorage(self._root)

    def samples(self, start: int) -> Iterator[Sample]:
        first = 0
        for at, shard in enumerate(self._shards):
            count = self._counts[at]
            if count is None or first + count > start:
                scan = self._scanned(shard)
                count = self._counts[at] = scan.samples
                yield from _samples(self._root, shard.path, scan, max(0, start - first))
            first += count

    def _scanned(self, shard: _Shard) -> ShardScan:
        path, said = shard
        size = self._storage.size(path)
        scan = scan_shard(path, lambda offset, count: self._storage.read(path, offset, count), size)
        if scan.status != "ok":
            finding = next(finding for finding in scan.findings if finding.severity == "error")
            raise DatasetError(
                finding.message, hint=f"`wdsctl explain {finding.code}`", where=named(path), code=finding.code
            )
        if said is not None and said != scan.samples:
            raise DatasetError(
                f"the shard has {scan.samples:,} samples, and its list says {said:,}",
                hint=f"make {named(os.path.basename(self._index))} again, or copy the shard again",
                where=named(path),
                code="WDS233",
            )
        return scan

    def mark(self) -> bytes:
        return mark_of([self._index, *(shard.path for shard in self._shards)])

    def close(self) -> None:
        self._storage.close()


def _samples(root: str, path: str, scan: ShardScan, skip: int) -> Iterator[Sample]:
    ends = np.append(0, np.cumsum(scan.counts, dtype=np.int64)).tolist()
    names, offsets, sizes = scan.part_names.tolist(), scan.part_offsets.tolist(), scan.part_sizes.tolist()
    for row, key in enumerate(scan.key_list(slice(skip, None)), skip):
        parts = {
            scan.extensions[names[i]]: LargePart(scan.extensions[names[i]], path, offsets[i], sizes[i], root)
            for i in range(ends[row], ends[row + 1])
        }
        yield Sample(key, tuple(parts[name] for name in sorted(parts)))


def _listed(path: str) -> list[_Shard]:
    """The shards that the index names. Raises DatasetError WDS233 where it names none, WDS230 for one outside."""
    with translated(path, "read"), open(path, "rb", opener=regular) as file:
        data = file.read()
    try:
        index: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"this is no JSON: {error}", path) from error
    shards = index.get("shardlist") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not shards:
        raise _damaged("it lists no shards", path)
    return [_shard(path, each) for each in shards]


def _shard(index: str, said: Any) -> _Shard:
    url = said.get("url") if isinstance(said, dict) else None
    if not isinstance(url, str):
        raise _damaged("a shard has no url", index)
    count = said.get("nsamples")
    where = inside(os.path.dirname(index) or ".", url, named(index))
    return _Shard(where, count if isinstance(count, int) and count >= 0 else None)


def _damaged(what: str, path: str) -> DatasetError:
    return DatasetError(what, hint="make the index again", where=named(path), code="WDS233")
