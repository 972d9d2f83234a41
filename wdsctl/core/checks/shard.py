"""The unit of work of `validate`: one shard, looked at on the levels that were asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from wdsctl.core.block_reader import BlockReader
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.checks.as_indexed import is_as_indexed
from wdsctl.core.checks.content import check_content, wants_content
from wdsctl.core.checks.hashes import Expected, check_hashes
from wdsctl.core.checks.headers import Known, Read, check_header, wants_header
from wdsctl.core.checks.levels import Level
from wdsctl.core.checks.placed import Gathered, Placed, Sight
from wdsctl.core.checks.refs import Referred, RefRule, check_refs, wants_refs
from wdsctl.core.checks.sampling import EVERY, Sampling
from wdsctl.core.checks.schema import Rules, check_sample
from wdsctl.core.checks.stores import Marks
from wdsctl.core.checks.structure import check_structure
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import is_lines
from wdsctl.core.line_keys import NUMBERS, LineKeys
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.storage import LocalStorage
from wdsctl.core.stores import storage_for
from wdsctl.core.units import ShardFile, scan_file
from wdsctl.core.urls import is_url

#: What workers import before they are forked.
PRELOAD = ("wdsctl.core.checks.shard",)

#: The levels that look into samples, and may look into some of them.
OF_SAMPLES: tuple[Level, ...] = ("headers", "content", "schema", "refs")
_AT_ONCE = 4096  # samples whose parts are told together


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUnit:
    """`levels`: those that this shard is still to be looked at on. `indexed_as`: its layout in the catalog, empty where
    that is of a file of another size. `offsets`: the offsets file, where nothing was wrong with the shard then; else
    empty. `catalog`, `shard_id`: where facts of its media are; empty where there are none. `content_is_known`: the
    level `content` was asked for, too, and what is broken has been told there, now or before.
    """

    root: str
    shard: ShardFile
    levels: tuple[Level, ...]
    keys: LineKeys = NUMBERS
    indexed_as: str = ""
    offsets: str = ""
    catalog: str = ""
    shard_id: int = 0
    rules: Rules | None = None
    refs: tuple[RefRule, ...] = ()
    sampling: Sampling = EVERY
    expected: tuple[Expected, ...] = ()
    content_is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a worker says of one shard. `is_read`: whether it could be; otherwise nobody knows whether it is sound.

    `looked_at`: samples that were, on the levels of samples. `referred`: entries of stores, and `names`: how many names
    each field of references had. `layout_hash`: of the shard, where it was scanned.
    """

    found: dict[Level, tuple[Placed, ...]]
    is_read: bool = True
    looked_at: int = 0
    referred: dict[str, Marks] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    layout_hash: str = ""


def check_shard(unit: CheckUnit) -> Checked:
    """Look at one shard. One that cannot be read is a result, too, and so is one that ends before it should."""
    found: dict[Level, tuple[Placed, ...]] = {}
    try:
        if "hashes" in unit.levels:
            with _reading(unit) as read:
                found["hashes"] = check_hashes(unit.shard.path, read, unit.shard.size, unit.expected)
        if unit.levels == ("hashes",):
            return Checked(found=found)
        return _scanned(unit, found)
    except (StorageError, PermissionDenied) as error:
        said = Finding(code=error.code, severity="error", message=error.message, shard=unit.shard.path)
        return Checked(found={unit.levels[0]: (Placed(said),)}, is_read=False)


def check_shards(units: Sequence[CheckUnit]) -> list[Checked]:
    """Several, one after the other: of small shards, telling each to a process costs more than looking at it."""
    return [check_shard(unit) for unit in units]


def _scanned(unit: CheckUnit, found: dict[Level, tuple[Placed, ...]]) -> Checked:
    if _is_as_indexed(unit):
        return Checked(found=found | {"structure": ()})
    scan = scan_file(unit.root, unit.shard, unit.keys)
    if scan.status == "unreadable":
        broken: tuple[Placed, ...] = tuple(Placed(finding) for finding in scan.findings)
        return Checked(found={unit.levels[0]: broken}, is_read=False)
    if "structure" in unit.levels:
        found["structure"] = check_structure(unit.root, unit.shard, scan, unit.indexed_as)
    layout_hash = scan.layout_hash()
    levels = [level for level in OF_SAMPLES if level in unit.levels]
    if not levels:
        return Checked(found=found, layout_hash=layout_hash)
    rows = unit.sampling.rows(unit.shard.path, scan.samples)
    gathered = {level: Gathered(unit.shard.path) for level in levels}
    referred = Referred()
    with _reading(unit) as read:
        known = _known(unit) if layout_hash == unit.indexed_as else {}
        look = _Looker(unit, read, known, gathered, referred)
        for sights in samples_of(scan, rows):
            look.at(sights)
    found |= {level: each.all() for level, each in gathered.items()}
    return Checked(
        found=found,
        looked_at=len(rows),
        referred=referred.arrays(),
        names=referred.names,
        layout_hash=layout_hash,
    )


def _is_as_indexed(unit: CheckUnit) -> bool:
    """The quick way: headers are not looked for, but held against those that the catalog knows of."""
    if set(unit.levels) - {"structure", "hashes"} or not unit.offsets or is_url(unit.root) or is_lines(unit.shard.path):
        return False
    path = os.path.join(unit.root, unit.shard.path)
    with closing(LocalStorage(unit.root, {path: unit.shard.size})) as storage:
        return is_as_indexed(storage, path, unit.shard.size, unit.offsets, unit.shard_id)


class _reading:  # noqa: N801 - used as a function
    """Bytes of the shard by place. Closes what it opens."""

    def __init__(self, unit: CheckUnit) -> None:
        path = os.path.join(unit.root, unit.shard.path)
        self._storage = storage_for(unit.root, {path: unit.shard.size})
        self._read: Read = (
            BlockReader(self._storage, path, unit.shard.size).read
            if is_url(unit.root)
            else partial(self._storage.read, path)
        )

    def __enter__(self) -> Read:
        return self._read

    def __exit__(self, *_: object) -> None:
        self._storage.close()


@dataclass(frozen=True, slots=True)
class _Looker:
    unit: CheckUnit
    read: Read
    known: Known
    gathered: Mapping[Level, Gathered]
    referred: Referred

    def at(self, sights: dict[str, Sight]) -> None:
        """One sample. Of a part that it has twice, the last one counts, as everywhere."""
        headers, content = self.gathered.get("headers"), self.gathered.get("content")
        is_parsed = is_lines(self.unit.shard.path)  # the structure of a file of lines is what its lines parse to
        for part, sight in sights.items():
            if headers is not None and wants_header(part):
                check_header(self.read, sight, self.known, headers)
            if content is not None and wants_content(part) and not is_parsed:
                check_content(self.read, sight, content)
        if self.unit.rules is not None and "schema" in self.gathered:
            check_sample(
                self.read,
                sights,
                self.unit.rules,
                self.gathered["schema"],
                tells_broken=content is None and not self.unit.content_is_known and not is_parsed,
            )
        if self.unit.refs and "refs" in self.gathered and any(map(wants_refs, sights)):
            check_refs(self.read, sights, self.unit.refs, self.gathered["refs"], self.referred)


def samples_of(scan: ShardScan, rows: range | list[int]) -> Iterator[dict[str, Sight]]:
    """The parts of these samples by name, in tar order. Samples without parts do not come."""
    firsts = scan.counts.cumsum(dtype="int64") - scan.counts
    left = iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        keys = scan.key_list(slice(some[0], some[-1] + 1)) if scan.samples else []
        for row in some:
            first = int(firsts[row])
            last = first + int(scan.counts[row])
            yield {
                name: Sight(row, keys[row - some[0]], name, at, size) for name, at, size in _parts(scan, first, last)
            }


def _parts(scan: ShardScan, first: int, last: int) -> Iterator[tuple[str, int, int]]:
    names = scan.part_names[first:last]
    offsets, sizes = scan.part_offsets[first:last].tolist(), scan.part_sizes[first:last].tolist()
    yield from zip((scan.extensions[i] for i in names.tolist()), offsets, sizes, strict=True)


def _known(unit: CheckUnit) -> Known:
    """What the catalog has of the media of this shard, where it is the shard that was indexed."""
    if not (unit.catalog and unit.indexed_as and "headers" in unit.levels):
        return {}
    with Catalog(unit.catalog) as published:
        return published.media.of_shard(unit.shard_id)
