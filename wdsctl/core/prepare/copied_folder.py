"""Recognise a copy of the raw folder, by comparing the bytes of its files with the shards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from typing import NamedTuple

from wdsctl.core.catalog.ledger import ShardRecord, unpack_record_keys
from wdsctl.core.prepare.plan import SAMPLE_DIGEST_BYTES, sample_digest, shard_digest
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.safe_open import name_source
from wdsctl.core.samples.naming import RawSample, dotless_key
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.source_files import open_file

_HASH_CHUNK_BYTES = 1 << 20  # read and hashed at a time


class _Part(NamedTuple):
    name: str
    size_bytes: int
    path: str
    offset: int


def adopt_copied_folder(
    source: str,
    dest: str,
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    progress: Progress = SILENT_PROGRESS,
) -> list[ShardRecord] | None:
    """If the folder is a copy of the one that the shards were made from, return the records with its mtimes; else None.

    A copy has every sample of the shards, byte for byte, and may have more. Cost: the headers of the shards and, if all
    names and sizes agree, one read of the changed samples in folder and shards, up to the first difference.
    """
    name_source(source)
    name_source(dest)
    there = {sample.key: sample for sample in samples}
    adopted = []
    pairs = []
    for record in records:
        if record.state == "planned":
            adopted.append(record)
            continue
        had = unpack_record_keys(record)
        if any(key not in there for key in had):
            return None
        marks = [sample_digest(there[key]) for key in had]
        known = [record.marks[at : at + SAMPLE_DIGEST_BYTES] for at in range(0, len(record.marks), SAMPLE_DIGEST_BYTES)]
        changed = {key for key, now, before in zip(had, marks, known, strict=True) if now != before}
        if changed and record.state != "done":  # the shard may have the content before the last change
            return None
        stored = dict(_shard_parts(dest, record, changed)) if changed else {}
        for key in sorted(changed):
            come, own = _raw_parts(source, there[key]), stored.get(key, [])
            if sorted(part[:2] for part in come) != sorted(part[:2] for part in own):  # names and sizes
                return None
            pairs.append((sorted(come), sorted(own)))
        joined = b"".join(marks)
        adopted.append(record._replace(marks=joined, digest=shard_digest(joined)))
    sizes = [sum(part.size_bytes for part in own) for _, own in pairs]
    progress.phase("compare", items=len(pairs), size_bytes=sum(sizes))
    for (come, own), size in zip(pairs, sizes, strict=True):
        for here, before in zip(come, own, strict=True):
            if (found := _hash_part(here)) is None or found != _hash_part(before):
                return None
        progress.advance(items=1, size_bytes=size)
    return adopted


def _raw_parts(source: str, sample: RawSample) -> list[_Part]:
    path = os.path.join(source, sample.key)
    return [_Part(part.name, part.size_bytes, f"{path}.{part.name}", 0) for part in sample.parts]


def _shard_parts(dest: str, record: ShardRecord, keys: set[str]) -> Iterator[tuple[str, list[_Part]]]:
    """Yield (key, parts in the tar) of samples with these keys. Keys in the tar have no dots.

    Yields nothing for a shard that is missing or unreadable.
    """
    in_shard = {dotless_key(key): key for key in keys}
    path = os.path.join(dest, record.name)
    # The samples of an unreadable shard cannot be compared: the folder then counts as another one.
    with suppress(OSError), closing(storage_for(dest)) as storage:
        scan = scan_tar(record.name, lambda at, size: storage.read(path, at, size), storage.size(path))
        names = [scan.extensions[name] for name in scan.part_names.tolist()]
        parts = [
            _Part(name, size, path, offset)
            for name, size, offset in zip(names, scan.part_sizes.tolist(), scan.part_offsets.tolist(), strict=True)
        ]
        at = 0
        for key, count in zip(scan.decode_keys(), scan.counts.tolist(), strict=True):
            if key in in_shard:
                yield in_shard[key], parts[at : at + count]
            at += count


def _hash_part(part: _Part) -> bytes | None:
    """The hash of a part; None if its file cannot be read or is too short."""
    hashed = blake2b(digest_size=32)
    left = part.size_bytes
    try:
        with open_file(part.path) as file:
            file.seek(part.offset)
            while left:
                data = file.read(min(left, _HASH_CHUNK_BYTES))
                if not data:
                    return None
                hashed.update(data)
                left -= len(data)
    except OSError:  # the writer of the shards reads the file again, and reports the error
        return None
    return hashed.digest()
