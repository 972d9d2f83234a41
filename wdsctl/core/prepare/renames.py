"""Recognise renamed samples and copied raw folders, by comparing the bytes of files with the shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from wdsctl.core.catalog.ledger import NO_FORMER_KEYS, FormerKeys, ShardRecord, unpack_record_keys
from wdsctl.core.prepare.plan import SAMPLE_DIGEST_BYTES, sample_digest, shard_digest
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.naming import RawSample, dotless_key
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.source_files import open_file

_HASH_CHUNK_BYTES = 1 << 20  # read and hashed at a time

#: The name and size of a part. Parts that differ in these never match, so their bytes need not be read.
_PartSignature = tuple[str, int]


@dataclass(frozen=True)
class Renames:
    """`new_keys`: old key -> new key. `keys_with_new_parts`: the new keys of samples that have more parts than before.

    `digests`: key -> digest of samples in the folder, if they were computed. They are kept because computing them takes
    most of the time of a run that has nothing to do.
    """

    new_keys: Mapping[str, str] = field(default_factory=dict)
    keys_with_new_parts: frozenset[str] = frozenset()
    digests: Mapping[str, bytes] = field(default_factory=dict)

    def digest_of(self, sample: RawSample) -> bytes:
        return self.digests.get(sample.key) or sample_digest(sample)

    def current_key(self, key: str) -> str | None:
        """The current key of a sample; None if another sample has taken its key."""
        return self.new_keys.get(key, None if key in self._taken_keys else key)

    @cached_property
    def _taken_keys(self) -> frozenset[str]:
        return frozenset(self.new_keys.values())


class _Part(NamedTuple):
    name: str
    size_bytes: int
    path: str
    offset: int

    @property
    def signature(self) -> _PartSignature:
        return self.name, self.size_bytes


@dataclass(slots=True)
class _Changes:
    """`vanished`: (record of a shard, the keys of its samples that the folder lacks or has with other files).

    `appeared`: key -> sample of the folder that is new or has changed.
    """

    vanished: list[tuple[ShardRecord, set[str]]] = field(default_factory=list)
    appeared: dict[str, RawSample] = field(default_factory=dict)


def find_renamed_samples(
    source: str,
    dest: str,
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    former_keys: Mapping[str, FormerKeys] = MappingProxyType({}),
) -> Renames:
    """Find samples of the shards below `dest` that have another key in the folder, with the same bytes.

    A sample with additional parts still matches if it has all parts of the sample in the shard, by name and bytes. Two
    samples may have swapped their keys. Samples with the same bytes are paired one to one, in key order. A sample that
    still has its key with the same bytes is not renamed. `former_keys`: the keys in shards that a killed run did not
    write again.

    Cost: nothing is read unless there are both vanished and new samples, changed ones included. Otherwise, reads the
    headers of the shards with vanished samples, and the bytes of new samples with a part of the same name and size as
    the largest part of a vanished sample.
    """
    marks = {sample.key: sample_digest(sample) for sample in samples} if records else {}
    changes = _find_changes(samples, records, marks)
    lost_keys = {key for _, keys in changes.vanished for key in keys}
    if not lost_keys or not changes.appeared or (len(changes.appeared) == 1 and lost_keys == changes.appeared.keys()):
        return Renames(digests=marks)
    come = {key: _raw_parts(source, sample) for key, sample in sorted(changes.appeared.items())}
    lost = dict(
        sorted(
            (key, parts)
            for record, keys in changes.vanished
            for key, parts in _shard_parts(dest, record, keys, former_keys.get(record.name, NO_FORMER_KEYS).keys)
        )
    )
    return replace(_RenameSearch(come, lost).find_renames(), digests=marks)


def adopt_copied_folder(
    source: str,
    dest: str,
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    former_keys: Mapping[str, FormerKeys] = MappingProxyType({}),
    progress: Progress = SILENT_PROGRESS,
) -> list[ShardRecord] | None:
    """If the folder is a copy of the one that the shards were made from, return the records with its mtimes; else None.

    A copy has every sample of the shards, byte for byte, and may have more. Cost: the headers of the shards and, if all
    names and sizes agree, one read of the changed samples in folder and shards, up to the first difference.
    """
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
        if changed and record.state == "outdated":  # the shard has the content before the last change
            return None
        stored = (
            dict(_shard_parts(dest, record, changed, former_keys.get(record.name, NO_FORMER_KEYS).keys))
            if changed
            else {}
        )
        for key in sorted(changed):
            come, own = _raw_parts(source, there[key]), stored.get(key, [])
            if sorted(part.signature for part in come) != sorted(part.signature for part in own):
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


def _find_changes(
    samples: Sequence[RawSample], records: Iterable[ShardRecord], digests: Mapping[str, bytes]
) -> _Changes:
    changes = _Changes(appeared={sample.key: sample for sample in samples} if records else {})
    for record in records:
        lost = set()
        for i, key in enumerate(unpack_record_keys(record)):
            if digests.get(key) == record.marks[i * SAMPLE_DIGEST_BYTES : (i + 1) * SAMPLE_DIGEST_BYTES]:
                changes.appeared.pop(key, None)
            else:
                lost.add(key)
        if lost and record.state != "planned":
            changes.vanished.append((record, lost))
    return changes


def _shard_parts(
    dest: str, record: ShardRecord, keys: set[str], former_keys: Mapping[str, str]
) -> Iterator[tuple[str, list[_Part]]]:
    """Yield (key, parts in the tar) of samples with these keys. Keys in the tar have no dots.

    Yields nothing for a shard that is missing or unreadable.
    """
    in_shard = {dotless_key(former_keys.get(key, key)): key for key in keys} | {dotless_key(key): key for key in keys}
    path = os.path.join(dest, record.name)
    # The samples of an unreadable shard cannot be compared, so they stay vanished.
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


class _RenameSearch:
    """Matches vanished samples with new ones. A class, because it caches the hash of each part."""

    def __init__(self, appeared: Mapping[str, list[_Part]], vanished: Mapping[str, list[_Part]]) -> None:
        self._appeared = appeared
        self._vanished = vanished
        self._hashes: dict[_Part, bytes | None] = {}
        self._by_size: dict[_PartSignature, list[str]] = {}
        for key, parts in appeared.items():
            for size in {part.signature for part in parts}:
                self._by_size.setdefault(size, []).append(key)
        self._by_hash: dict[_PartSignature, dict[bytes | None, list[str]]] = {}

    def find_renames(self) -> Renames:
        """Match samples with the same parts first, then those with additional parts."""
        keys = self._match_vanished({}, is_grown=False)
        grown = self._match_vanished(keys, is_grown=True)
        return Renames(keys | grown, frozenset(grown.values()))

    def _match_vanished(self, known_renames: Mapping[str, str], *, is_grown: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        taken = set(known_renames.values())
        for key, parts in self._vanished.items():
            largest = max(parts, key=lambda part: part.size_bytes)
            others = self._by_size.get(largest.signature, [])
            if key in known_renames or not others or others == [key] or self._has_kept_its_key(key):
                continue
            if is_grown and not largest.size_bytes:  # empty parts are no evidence of a rename
                continue
            for new in self._appeared_with_part(largest):
                is_free = new not in taken and (len(self._appeared[new]) > len(parts)) is is_grown
                if is_free and self._has_parts(new, parts) and not self._has_kept_its_key(new):
                    found[key] = new
                    taken.add(new)
                    break
        return found

    def _has_kept_its_key(self, key: str) -> bool:
        """Whether a changed sample still has its key and its bytes: only mtimes changed, or parts were added."""
        return key in self._appeared and key in self._vanished and self._has_parts(key, self._vanished[key])

    def _appeared_with_part(self, part: _Part) -> list[str]:
        """The keys of new samples that have this part, by name and bytes."""
        if part.signature not in self._by_hash:
            by_hash = self._by_hash[part.signature] = {}
            for key in self._by_size[part.signature]:
                same = next(each for each in self._appeared[key] if each.signature == part.signature)
                by_hash.setdefault(self._cached_hash(same), []).append(key)
        own = self._cached_hash(part)
        return [] if own is None else self._by_hash[part.signature].get(own, [])

    def _has_parts(self, key: str, parts: Iterable[_Part]) -> bool:
        """Whether a new sample has all these parts, by name and bytes."""
        named = {part.name: part for part in self._appeared[key]}
        pairs = [(part, named.get(part.name)) for part in parts]
        if any(there is None or there.signature != part.signature for part, there in pairs):
            return False
        return all(
            there is not None and (own := self._cached_hash(part)) is not None and own == self._cached_hash(there)
            for part, there in pairs
        )

    def _cached_hash(self, part: _Part) -> bytes | None:
        """The hash of a part; None if its file cannot be read or is too short."""
        if part not in self._hashes:
            self._hashes[part] = _hash_part(part)
        return self._hashes[part]


def _hash_part(part: _Part) -> bytes | None:
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
