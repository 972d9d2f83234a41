"""Samples of a raw folder that have another name now, or that were copied: told by their bytes, which the shards still
have.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from wdsctl.core.naming import shard_key
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.scan import scan_shard
from wdsctl.core.shard_record import NO_FORMER, FormerKeys, ShardRecord, keys_of
from wdsctl.core.write_plan import MARK_BYTES, digest, mark

_CHUNK = 1 << 20  # bytes that are hashed at once

#: The name of a part and its bytes, by which samples with other content are told apart without reading them.
_Size = tuple[str, int]


@dataclass(frozen=True)
class Renames:
    """`keys`: new keys by old ones. `grown`: the new keys of samples that have more parts than before.

    `marks`: those of samples in the folder, by key, where they were worked out: most of the time of a run that finds
    nothing to do.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    grown: frozenset[str] = frozenset()
    marks: Mapping[str, bytes] = field(default_factory=dict)

    def mark(self, sample: RawSample) -> bytes:
        return self.marks.get(sample.key) or mark(sample)

    def now(self, key: str) -> str | None:
        """The key that a sample has now; None of one whose key another sample has now."""
        return self.keys.get(key, None if key in self._taken else key)

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset(self.keys.values())


class _Part(NamedTuple):
    name: str
    size_bytes: int
    path: str
    offset: int

    @property
    def size(self) -> _Size:
        return self.name, self.size_bytes


@dataclass(slots=True)
class _Changes:
    """`lost`: shards with the keys, as the record has them, of samples that are gone from the folder or have changed.
    `come`: samples of the folder that are new or have changed.
    """

    lost: list[tuple[ShardRecord, set[str]]] = field(default_factory=list)
    come: dict[str, RawSample] = field(default_factory=dict)


def renamed_samples(
    source: str,
    dest: str,
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    former: Mapping[str, FormerKeys] = MappingProxyType({}),
) -> Renames:
    """The new key of every sample of the shards below `dest` that is in the folder by another name, byte for byte.

    A sample with more parts is the same if it has all that the shard has, bytes and names. Two samples may have changed
    names with one another. Of several samples with the same bytes each is taken once, in the order of keys; one that
    still has its name has not been renamed. Where a run was killed, a shard may still have the keys of `former`.

    Cost: nothing where no sample has vanished or changed, or none is new or has changed; else the headers of the shards
    of which samples have, and the bytes of samples whose largest parts have one name and one size.
    """
    marks = {sample.key: mark(sample) for sample in samples} if records else {}
    changes = _changes(samples, records, marks)
    lost_keys = {key for _, keys in changes.lost for key in keys}
    if not lost_keys or not changes.come or (len(changes.come) == 1 and lost_keys == changes.come.keys()):
        return Renames(marks=marks)
    come = {key: _parts_of(source, sample) for key, sample in sorted(changes.come.items())}
    lost = dict(
        sorted(
            (key, parts)
            for record, keys in changes.lost
            for key, parts in _stored(dest, record, keys, former.get(record.name, NO_FORMER).keys)
        )
    )
    return replace(_Search(come, lost).renames(), marks=marks)


def copied_records(
    source: str,
    dest: str,
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    former: Mapping[str, FormerKeys] = MappingProxyType({}),
    progress: Progress = SILENT,
) -> list[ShardRecord] | None:
    """The records with the times of this folder, where it is a copy of the one that the shards were made of; else None.

    A copy has every sample that the shards have, byte for byte, and may have more. Cost: the headers of the shards,
    and, where all names and sizes agree, the bytes of folder and shards once, up to the first that differs.
    """
    there = {sample.key: sample for sample in samples}
    adopted = []
    pairs = []
    for record in records:
        if record.state == "planned":
            adopted.append(record)
            continue
        had = keys_of(record)
        if any(key not in there for key in had):
            return None
        marks = [mark(there[key]) for key in had]
        known = [record.marks[at : at + MARK_BYTES] for at in range(0, len(record.marks), MARK_BYTES)]
        changed = {key for key, now, before in zip(had, marks, known, strict=True) if now != before}
        if changed and record.state == "outdated":  # the shard has what was before the change
            return None
        stored = dict(_stored(dest, record, changed, former.get(record.name, NO_FORMER).keys)) if changed else {}
        for key in sorted(changed):
            come, own = _parts_of(source, there[key]), stored.get(key, [])
            if sorted(part.size for part in come) != sorted(part.size for part in own):
                return None
            pairs.append((sorted(come), sorted(own)))
        joined = b"".join(marks)
        adopted.append(record._replace(marks=joined, digest=digest(joined)))
    sizes = [sum(part.size_bytes for part in own) for _, own in pairs]
    progress.phase("compare", items=len(pairs), size_bytes=sum(sizes))
    for (come, own), size in zip(pairs, sizes, strict=True):
        for here, before in zip(come, own, strict=True):
            if (found := _hash_of(here)) is None or found != _hash_of(before):
                return None
        progress.advance(items=1, size_bytes=size)
    return adopted


def _parts_of(source: str, sample: RawSample) -> list[_Part]:
    path = os.path.join(source, sample.key)
    return [_Part(part.name, part.size_bytes, f"{path}.{part.name}", 0) for part in sample.parts]


def _changes(samples: Sequence[RawSample], records: Iterable[ShardRecord], marks: Mapping[str, bytes]) -> _Changes:
    changes = _Changes(come={sample.key: sample for sample in samples} if records else {})
    for record in records:
        lost = set()
        for i, key in enumerate(keys_of(record)):
            if marks.get(key) == record.marks[i * MARK_BYTES : (i + 1) * MARK_BYTES]:
                changes.come.pop(key, None)
            else:
                lost.add(key)
        if lost and record.state != "planned":
            changes.lost.append((record, lost))
    return changes


def _stored(
    dest: str, record: ShardRecord, keys: set[str], former: Mapping[str, str]
) -> Iterator[tuple[str, list[_Part]]]:
    """These samples as they lie in their shard. In the shard, their keys have no dots."""
    in_shard = {shard_key(former.get(key, key)): key for key in keys} | {shard_key(key): key for key in keys}
    path = os.path.join(dest, record.name)
    # Of a shard that is gone or damaged nothing can be told: its samples have vanished.
    with suppress(OSError), open(path, "rb", buffering=0) as shard:
        descriptor = shard.fileno()
        scan = scan_shard(record.name, lambda at, size: os.pread(descriptor, size, at), os.fstat(descriptor).st_size)
        names = [scan.extensions[name] for name in scan.part_names.tolist()]
        parts = [
            _Part(name, size, path, offset)
            for name, size, offset in zip(names, scan.part_sizes.tolist(), scan.part_offsets.tolist(), strict=True)
        ]
        at = 0
        for key, count in zip(scan.key_list(), scan.counts.tolist(), strict=True):
            if key in in_shard:
                yield in_shard[key], parts[at : at + count]
            at += count


class _Search:
    """Samples as they were, and where they are now. It hashes each part at most once, hence a class."""

    def __init__(self, come: Mapping[str, list[_Part]], lost: Mapping[str, list[_Part]]) -> None:
        self._come = come
        self._lost = lost
        self._hashes: dict[_Part, bytes | None] = {}
        self._by_size: dict[_Size, list[str]] = {}
        for key, parts in come.items():
            for size in {part.size for part in parts}:
                self._by_size.setdefault(size, []).append(key)
        self._by_hash: dict[_Size, dict[bytes | None, list[str]]] = {}

    def renames(self) -> Renames:
        """What has another name first, then what has another name and more parts."""
        keys = self._found({}, is_grown=False)
        grown = self._found(keys, is_grown=True)
        return Renames(keys | grown, frozenset(grown.values()))

    def _found(self, before: Mapping[str, str], *, is_grown: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        taken = set(before.values())
        for key, parts in self._lost.items():
            largest = max(parts, key=lambda part: part.size_bytes)
            others = self._by_size.get(largest.size, [])
            if key in before or not others or others == [key] or self._is_itself(key):
                continue
            if is_grown and not largest.size_bytes:  # empty files tell nothing
                continue
            for new in self._alike(largest):
                is_free = new not in taken and (len(self._come[new]) > len(parts)) is is_grown
                if is_free and self._has(new, parts) and not self._is_itself(new):
                    found[key] = new
                    taken.add(new)
                    break
        return found

    def _is_itself(self, key: str) -> bool:
        """Whether a sample still has its name: it has other times alone, or more parts."""
        return key in self._come and key in self._lost and self._has(key, self._lost[key])

    def _alike(self, part: _Part) -> list[str]:
        """The new samples that have this part."""
        if part.size not in self._by_hash:
            by_hash = self._by_hash[part.size] = {}
            for key in self._by_size[part.size]:
                same = next(each for each in self._come[key] if each.size == part.size)
                by_hash.setdefault(self._hash(same), []).append(key)
        own = self._hash(part)
        return [] if own is None else self._by_hash[part.size].get(own, [])

    def _has(self, key: str, parts: Iterable[_Part]) -> bool:
        """Whether a new sample has all these parts, as they are."""
        named = {part.name: part for part in self._come[key]}
        pairs = [(part, named.get(part.name)) for part in parts]
        if any(there is None or there.size != part.size for part, there in pairs):
            return False
        return all(
            there is not None and (own := self._hash(part)) is not None and own == self._hash(there)
            for part, there in pairs
        )

    def _hash(self, part: _Part) -> bytes | None:
        """None of what cannot be read, or is shorter than it was."""
        if part not in self._hashes:
            self._hashes[part] = _hash_of(part)
        return self._hashes[part]


def _hash_of(part: _Part) -> bytes | None:
    hashed = blake2b(digest_size=32)
    left = part.size_bytes
    try:
        with open(part.path, "rb", buffering=0) as file:
            file.seek(part.offset)
            while left:
                data = file.read(min(left, _CHUNK))
                if not data:
                    return None
                hashed.update(data)
                left -= len(data)
    except OSError:  # who writes the shards reads it again, and says why it cannot
        return None
    return hashed.digest()
