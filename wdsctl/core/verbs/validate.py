"""`validate`: is the dataset what its catalog and dataset.yaml say? Reads every header again, and no data of tars.

Of files of lines every line is parsed: they have no headers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wdsctl.core.catalog.catalog import Catalog, PartCount, ShardRow
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import DatasetError
from wdsctl.core.fields import parse_field_map
from wdsctl.core.findings import SEVERITIES, Finding, Severity
from wdsctl.core.line_checks import check_lines
from wdsctl.core.line_files import is_lines
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.offsets import Offsets
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.sample_types import SAMPLE_TYPES
from wdsctl.core.shard_list import list_shards
from wdsctl.core.stores import workers_for
from wdsctl.core.units import ScanUnit, ShardFile, scan_file
from wdsctl.core.urls import shown
from wdsctl.core.verbs.inspect import open_offsets, stale_findings
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_catalog, no_samples

NEARLY_ALL = 0.95  # a part that so many samples have is expected of all, where no field map says what is
HARDLY_ANY = 0.01  # a part that so few have, and no field map names, is unexpected


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateReport:
    """`findings` are sorted: the gravest first, then by shard. Each stands for `count` places."""

    root: str
    shards: int
    samples: int
    size_bytes: int
    findings: tuple[Finding, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Checked:
    """What a worker says of one shard: the hash of what is there now, and what is wrong with it.

    Of a shard that could not be read (`is_read`), nobody knows whether it is as it was.
    """

    layout_hash: str
    findings: tuple[Finding, ...]
    is_read: bool


def validate(root: str, *, catalog: str | None = None, workers: int = 1, progress: Progress = SILENT) -> ValidateReport:
    """Check the structure of every shard, keys over all of them, parts against the field map, and the catalog's age.

    What is found is in the report and in the ledger. Raises only where there is nothing to check (no catalog).
    """
    place = locate(root, catalog)
    with journal(place, "validate", [shown(root)], progress) as entry:
        report = _validate(place, workers, progress)
        entry.findings += report.findings
        return report


def _validate(place: Place, workers: int, progress: Progress) -> ValidateReport:
    started = time.monotonic()
    check_catalog(place)
    progress.phase("catalog")
    with Catalog(place.catalog) as published:
        published.check_pages()
        rows, parts, generation = published.shards(), published.parts(), published.generation
        exclude, key = published.exclude(), published.key_field
        progress.phase("keys")
        findings = [*_repeated(published)]
    listing = list_shards(place.root, exclude, only=place.only, known=[row.path for row in rows])
    findings += [*listing.findings, *stale_findings(listing, rows)]
    findings += _structure(place, rows, listing.shards, key, workers, progress)
    progress.phase("parts")
    findings += _parts(place, parts, generation)
    findings += no_samples(place, rows, findings)
    findings.sort(key=lambda found: (-SEVERITIES.index(found.severity), found.shard, found.code, found.key))
    return ValidateReport(
        root=place.shown,
        shards=len(rows),
        samples=sum(row.samples for row in rows),
        size_bytes=sum(row.size for row in rows),
        findings=tuple(findings),
        seconds=time.monotonic() - started,
    )


def check_unit(unit: ScanUnit) -> _Checked:
    """Scan one shard and throw the index away: only what is wrong with it matters."""
    scan = scan_file(unit.root, unit.shard, unit.keys)
    findings = scan.findings
    if is_lines(unit.shard.path) and scan.samples:
        findings = check_lines(unit.root, unit.shard, scan)
    return _Checked(scan.layout_hash(), findings, scan.status != "unreadable")


def _structure(
    place: Place, rows: Sequence[ShardRow], shards: Sequence[ShardFile], key: str, workers: int, progress: Progress
) -> Iterator[Finding]:
    progress.phase("check", items=len(shards), size_bytes=sum(shard.size for shard in shards))
    known = {row.path: row for row in rows}
    keys = LineKeys(key, is_alone=bool(place.only))
    units = [ScanUnit(place.root, shard, "", keys) for shard in shards]
    for i, checked in map_units(check_unit, units, workers_for(place.root, workers), preload=("wdsctl.core.units",)):
        shard = shards[i]
        progress.advance(items=1, size_bytes=shard.size)
        yield from checked.findings
        row = known.get(shard.path)
        same_file = row is not None and (row.size, row.mtime_ns) == (shard.size, shard.mtime_ns)
        if row is not None and same_file and checked.is_read and row.layout_hash != checked.layout_hash:
            words = "is not as it was indexed, though its size and time are"
            yield Finding(code="WDS305", severity="error", message=words, shard=shard.path)


def _repeated(published: Catalog) -> Iterator[Finding]:
    count, first = published.repeated_keys(1)
    for repeated in first:
        yield Finding(
            code="WDS106",
            severity="warning",
            message=f"keys that stand in several shards, such as {' and '.join(repeated.shards)}",
            shard=repeated.shards[0],
            key=repeated.key,
            count=count,
        )


def _parts(place: Place, parts: Sequence[PartCount], generation: int) -> Iterator[Finding]:
    """Samples that lack a part they should have, and parts that hardly any sample has."""
    config = _config(place)
    if isinstance(config, Finding):
        yield config
        config = DatasetConfig()
    offsets = open_offsets(place, generation)
    if isinstance(offsets, Finding):
        yield offsets
        return
    wanted = _required(config) or [(part.name,) for part in parts if part.share >= NEARLY_ALL]
    for names in wanted:
        yield from _lacking(offsets, names)
    mapped = _mapped(config)
    expected = {name for names in (*wanted, *(names for _, names in mapped)) for name in names}
    for part in parts:
        if part.name not in expected and part.share < NEARLY_ALL:
            unused = ", and no field is made of it" if mapped else ""
            words = f"only {part.samples:,} of {counted(offsets.samples, 'sample')} have a part {part.name!r}{unused}"
            severity: Severity = "warning" if part.share <= HARDLY_ANY else "note"
            yield Finding(code="WDS109", severity=severity, message=words, part=part.name, count=part.samples)


def _config(place: Place) -> DatasetConfig | Finding:
    """What dataset.yaml says, or what is wrong with it."""
    if not os.path.exists(place.dataset_yaml):
        return DatasetConfig()
    try:
        return load(place.dataset_yaml)
    except DatasetError as error:
        return Finding(code=error.code, severity="error", message=f"{error.message} ({error.where})")


def _mapped(config: DatasetConfig) -> list[tuple[str, tuple[str, ...]]]:
    """The fields of the field map, each with the parts that it may come from."""
    paths = parse_field_map(config.field_map)
    return [(name, tuple(part for part, _ in path.alternatives)) for name, path in paths.items()]


def _required(config: DatasetConfig) -> list[tuple[str, ...]]:
    """The parts of the fields that a sample cannot do without."""
    required = {field.name for field in SAMPLE_TYPES.get(config.sample_type, ()) if field.required}
    return list(dict.fromkeys(names for field, names in _mapped(config) if field in required))


def _lacking(offsets: Offsets, names: tuple[str, ...]) -> Iterator[Finding]:
    """The samples that have none of these parts: one finding for all of them, with the first."""
    without = [i for i, layout in enumerate(offsets.layouts) if not set(names) & set(layout)]
    count, first = offsets.with_layouts(without)
    if count:
        shard = offsets.shards[offsets.shard_of(first)].path
        yield Finding(
            code="WDS108",
            severity="error",
            message=f"samples without {' or '.join(names)}",
            shard=shard,
            key=offsets.key(first),
            part=names[0],
            count=count,
        )
