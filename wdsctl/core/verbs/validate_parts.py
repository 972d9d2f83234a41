"""What `validate` finds over all shards together, from catalog and offsets alone: parts, and keys that come again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.fields import parse_field_map
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.sample_types import SAMPLE_TYPES

NEARLY_ALL = 0.95  # a part that so many samples have is expected of all, where no field map says what is
HARDLY_ANY = 0.01  # a part that so few have, and no field map names, is unexpected


def open_offsets(place: Place, generation: int) -> Offsets | Finding:
    """The offsets file, or what is wrong with it: everything else can be told without."""
    try:
        return Offsets(place.offsets(generation))
    except (CatalogError, StorageError, PermissionDenied) as error:
        return Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")


def repeated_keys(published: Catalog, progress: Progress) -> Iterator[Finding]:
    """Keys that stand in several shards: a warning, since real datasets have them."""
    try:
        count, first = published.repeated_keys(1)
    except CatalogError as error:
        if error.code != "WDS307":
            raise
        progress.note("keys are not compared between shards: the catalog has no rows of samples")
        return
    for repeated in first:
        yield Finding(
            code="WDS106",
            severity="warning",
            message=f"keys that stand in several shards, such as {' and '.join(repeated.shards)}",
            shard=repeated.shards[0],
            key=repeated.key,
            count=count,
        )


def part_findings(offsets: Offsets, parts: Sequence[PartCount], config: DatasetConfig) -> Iterator[Finding]:
    """Samples that lack a part they should have, and parts that hardly any sample has."""
    wanted = wanted_parts(parts, config)
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


def wanted_parts(parts: Sequence[PartCount], config: DatasetConfig) -> list[tuple[str, ...]]:
    """What every sample is to have: one of each of these."""
    return _required(config) or [(part.name,) for part in parts if part.share >= NEARLY_ALL]


def incomplete(offsets: Offsets, wanted: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """By shard, the places of the samples that lack something."""
    layouts = [i for i, layout in enumerate(offsets.layouts) if any(not set(names) & set(layout) for names in wanted)]
    if not layouts:
        return {}
    rows = np.arange(offsets.samples) if offsets.layout is None else np.flatnonzero(np.isin(offsets.layout, layouts))
    found: dict[str, list[int]] = {}
    for row in rows.tolist():
        i = offsets.shard_of(row)
        found.setdefault(offsets.shards[i].path, []).append(row - int(offsets.shard_row[i]))
    return found


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
