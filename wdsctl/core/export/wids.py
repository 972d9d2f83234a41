"""An index for `wids`, webdataset's random access: JSON that lists shards with their counts of samples.

Source: https://github.com/webdataset/webdataset (wids, `wids-shard-index-v1`). The index of all shards is `index.json`.
As wids has no splits, each split has an index of its own shards, `index-SPLIT.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import closing
from typing import Any
from urllib.parse import quote

from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.compare.checksum import checksum
from wdsctl.core.errors import StorageError
from wdsctl.core.export.documents import write_documents
from wdsctl.core.export.request import ExportRequest, Written
from wdsctl.core.export.source import ExportSource, read_splits_if_whole
from wdsctl.core.invocation import worker_count
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import open_below
from wdsctl.core.text import escape_json_controls, join_with_and, pluralize

INDEX_NAME = "index.json"
_KIND = "wids-shard-index-v1"


def write(source: ExportSource, request: ExportRequest, folder: str, progress: Progress) -> Written:
    """Write the indexes. `hashed` reads all shards for their MD5. Raises UsageError if an index exists."""
    digests = _hash_shards(source, progress) if request.hashed else {}
    documents = {INDEX_NAME: _index(source, source.shards, digests)}
    splits: dict[str, int] = {}
    notes: list[str] = []
    found, problem = read_splits_if_whole(source, request.split_set, "wids")
    if found is None:
        notes.append(f"the index lists all shards: {problem}")
    else:
        by_path = {shard.path: shard for shard in source.shards}
        for name, paths in found.splits.items():
            if paths:
                documents[_split_index_name(name)] = _index(source, [by_path[path] for path in paths], digests)
        splits = found.samples
        if found.excluded_shards:
            notes.append(f"{INDEX_NAME} lists also {pluralize(len(found.excluded_shards), 'shard')} in no split")
        if found.excluded_samples:
            notes.append(f"wids reads also the {pluralize(len(found.excluded_samples), 'excluded sample')}")
    write_documents(folder, documents, overwrite=request.overwrite)
    left = sorted(name for name in os.listdir(folder) if name not in documents and _is_split_index(folder, name))
    if left:
        notes.append(f"{join_with_and(left)} of an earlier export stay, but do not fit the splits now: remove them")
    return Written(os.path.join(folder, INDEX_NAME), len(documents), splits, tuple(notes))


def _split_index_name(split: str) -> str:
    return f"index-{quote(split, safe=' ')}.json"


def _is_split_index(folder: str, name: str) -> bool:
    """Whether a file is the index of a split, as `_index` writes it."""
    if not (name.startswith("index-") and name.endswith(".json")):
        return False
    try:
        with open_below(os.path.join(folder, name), folder) as file:
            return _KIND.encode() in file.read(len(_KIND) + 100)
    except OSError:
        return False


def _index(source: ExportSource, shards: Iterable[ShardRow], digests: dict[str, str]) -> str:
    """The index of these shards, sorted by URL as wids does. URLs are relative to the index."""
    listed: list[dict[str, Any]] = []
    for shard in sorted(shards, key=lambda shard: shard.path):
        entry: dict[str, Any] = {"url": shard.path, "nsamples": shard.samples, "filesize": shard.size}
        listed.append(entry | ({"md5sum": digests[shard.path]} if digests else {}))
    document = {
        "__kind__": _KIND,
        "wids_version": 1,
        "shardlist": listed,
        "name": os.path.basename(source.location.path.rstrip("/")),
    }
    return escape_json_controls(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def _hash_shards(source: ExportSource, progress: Progress) -> dict[str, str]:
    """By path, the MD5 of each shard. Raises StorageError if a shard cannot be read."""
    location = source.location
    found: dict[str, str] = {}
    sums = checksum(
        location.path,
        algorithm="md5",
        workers=worker_count(None),
        catalog=location.own_catalog or None,
        progress=progress,
    )
    with closing(sums):
        for each in sums:
            if each.error is not None:
                raise StorageError(
                    f"cannot hash {each.path}: {each.error.message}",
                    where=location.display_path,
                    hint="export without --hash; wids does not need the hashes",
                    code=each.error.code,
                )
            found[each.path] = each.digest
    return found
