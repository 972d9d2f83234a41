"""`checksum`: hashes of all shards in the format of coreutils, and shards held against such hashes."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import checks
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import InputError, PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.shard_list import leads_out_of, list_shards
from wdsctl.core.stores import storage_for, workers_for
from wdsctl.core.sums import Algorithm, Sum, algorithm_of, hashed, new, parsed
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.presence import no_shards

PRELOAD = ("wdsctl.core.verbs.checksum",)

Source = Literal["catalog", "read"]
Result = Literal["OK", "FAILED", "FAILED open or read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """A shard and its hash in hex; or, where it could not be read, `error`. `source`: where the hash is from."""

    path: str
    size_bytes: int
    digest: str
    source: Source
    error: Finding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A line of a file of sums, held against the file it names. `error`: why it could not be read."""

    path: str
    result: Result
    error: Finding | None = None


class _Unit(NamedTuple):
    root: str
    path: str
    size: int | None  # None: as it is found
    algorithm: Algorithm


class _Hashed(NamedTuple):
    digest: str
    size: int
    error: Finding | None


def checksum(
    root: str,
    *,
    algorithm: Algorithm = "sha256",
    again: bool = False,
    workers: int = 1,
    catalog: str | None = None,
    progress: Progress = SILENT,
) -> Generator[Summed, None, None]:
    """Every shard of a dataset, by path, as soon as it and those before it are done.

    SHA-256 comes from the catalog where `wdsctl index --hash` noted it and size and time are still the same, unless
    `again`, or a validation has found other bytes. Without a catalog, all shards below the root are read. A shard that
    cannot be read is told of, in its place. Raises what `locate` and the catalog raise, and InputError WDS003 where
    there are no shards.
    """
    place = locate(root, catalog)
    shards, known, findings = _shards(place)
    if not shards and not findings:
        raise no_shards(place)
    for found in findings:
        yield Summed(path=found.shard, size_bytes=0, digest="", source="read", error=found)
    noted = {} if again or algorithm != "sha256" else known
    changed = _changed(place) if noted else set()
    told = {s.path: noted[_key(s)] for s in shards if _key(s) in noted and s.path not in changed}
    units = [_Unit(place.root, s.path, s.size, algorithm) for s in shards if s.path not in told]
    progress.phase("read", items=len(units), size_bytes=sum(unit.size or 0 for unit in units))
    with closing(_in_order(units, workers_for(place.root, workers), progress)) as results:
        for shard in shards:
            if shard.path in told:
                yield Summed(path=shard.path, size_bytes=shard.size, digest=told[shard.path], source="catalog")
                continue
            made = next(results)
            yield Summed(path=shard.path, size_bytes=shard.size, digest=made.digest, source="read", error=made.error)


def check_sums(
    root: str,
    lines: Iterable[bytes],
    *,
    algorithm: Algorithm | None = None,
    workers: int = 1,
    catalog: str | None = None,
    origin: str = "",
    progress: Progress = SILENT,
) -> Generator[Checked | None, None, None]:
    """Hold files below the root against lines of sums: a verdict a line, None for a line that is no sum.

    All files are read. Names that are absolute or lead outside the root are refused, a verdict like others. `origin`:
    where the lines are from, for messages. Raises InputError WDS007 where no line is a sum of this algorithm.
    """
    place = locate(root, catalog)
    sums = [*parsed(lines)]
    kinds = [None if each is None else algorithm_of(each, algorithm) for each in sums]
    if not any(kinds):
        digits = 2 * new(algorithm or "sha256")().digest_size
        raise InputError(
            f"no line is a sum, such as `<{digits} hex digits>  <name>`",
            where=origin or place.shown,
            hint="they are of another algorithm: leave --algorithm out"
            if any(sums)
            else f"{command_at(place, 'checksum')} writes such lines",
            code="WDS007",
        )
    units = [
        _Unit(place.root, each.name.removeprefix("./"), None, kind)
        for each, kind in zip(sums, kinds, strict=True)
        if each is not None and kind is not None and not _is_outside(each.name)
    ]
    progress.phase("read", items=len(units))
    with closing(_in_order(units, workers_for(place.root, workers), progress)) as results:
        for each in sums:
            yield _judged(each, algorithm, results)


def _judged(each: Sum | None, asked: Algorithm | None, results: Iterator[_Hashed]) -> Checked | None:
    if each is None or algorithm_of(each, asked) is None:
        return None
    if _is_outside(each.name):
        words = "the name leads outside the dataset: it is not read"
        refused = Finding(code="WDS002", severity="error", message=words, shard=each.name)
        return Checked(path=each.name, result="FAILED open or read", error=refused)
    found = next(results)
    if found.error is not None:
        return Checked(path=each.name, result="FAILED open or read", error=found.error)
    return Checked(path=each.name, result="OK" if found.digest == each.digest else "FAILED")


def _is_outside(name: str) -> bool:
    return os.path.isabs(name) or ".." in name.split("/") or "\0" in name


def _shards(place: Place) -> tuple[list[ShardFile], dict[tuple[str, int, int], str], list[Finding]]:
    """The shards that are there, the hashes that the catalog has, and what is in the way of some."""
    if not os.path.exists(place.catalog):
        listing = list_shards(place.root, only=place.only)
        return list(listing.shards), {}, _errors(listing.findings)
    with Catalog(place.catalog) as published:
        rows = published.shards()
        exclude, selection = published.exclude(), published.selection()
    paths = [row.path for row in rows]
    listing = list_shards(place.root, exclude, only=place.only, known=paths, selection=selection)
    known = {(row.path, row.size, row.mtime_ns): row.sha256 for row in rows if row.sha256}
    there = {shard.path for shard in listing.shards}
    gone = [
        Finding(code="WDS306", severity="error", message="the shard is in the catalog and not there", shard=path)
        for path in paths
        if path not in there and (is_url(place.root) or not leads_out_of(place.root, path))
    ]
    return list(listing.shards), known, [*_errors(listing.findings), *gone]


def _changed(place: Place) -> set[str]:
    """The shards that had other bytes when `validate --level hashes` read them last."""
    if not os.path.exists(place.ledger):
        return set()
    with Ledger.peek(place.ledger) as ledger:
        return {each.shard for each in checks(ledger).values() if each.level == "hashes" and "WDS151" in each.findings}


def _errors(findings: Iterable[Finding]) -> list[Finding]:
    return [found for found in findings if found.severity == "error"]


def _key(shard: ShardFile) -> tuple[str, int, int]:
    return shard.path, shard.size, shard.mtime_ns


def _in_order(units: list[_Unit], workers: int, progress: Progress) -> Generator[_Hashed, None, None]:
    """The results in the order of the units: those that come too soon wait."""
    waiting: dict[int, _Hashed] = {}
    wanted = 0
    with closing(map_units(_hash, units, workers, preload=PRELOAD)) as results:
        for i, result in results:
            waiting[i] = result
            progress.advance(items=1, size_bytes=result.size, doing=units[i].path)
            while wanted in waiting:
                yield waiting.pop(wanted)
                wanted += 1


def _hash(unit: _Unit) -> _Hashed:
    path = os.path.join(unit.root, unit.path)
    storage = storage_for(unit.root, {} if unit.size is None else {path: unit.size})
    try:
        size = storage.size(path) if unit.size is None else unit.size
        return _Hashed(hashed(lambda at, count: storage.read(path, at, count), size, unit.algorithm), size, None)
    except (StorageError, PermissionDenied) as error:
        found = Finding(code=error.code, severity="error", message=error.message, shard=unit.path)
        return _Hashed("", unit.size or 0, found)
    finally:
        storage.close()
