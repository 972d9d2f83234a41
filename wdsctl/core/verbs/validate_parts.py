"""What `validate` finds over all shards together, from catalog and offsets alone: parts, and keys that come again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wdsctl.core.catalog.alike_keys import MOST_NAMES, alike, differ_in
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.checks.kinds import MEDIA, kind_of
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import DatasetConfig, needed_fields
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.fields import parse_field_map
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress

NEARLY_ALL = 0.95  # a part that so many samples have is expected of all
MOST_ALIKE = 1000  # sets of alike keys that are findings of their own


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


def alike_names(published: Catalog, shards: Sequence[str]) -> Iterator[Finding]:
    """Keys and paths of shards that are one name to systems which pass over case or Unicode form, a finding a set."""
    count, first = published.alike_keys(MOST_ALIKE)
    for found in first:
        yield _alike("keys", found.keys, shard=found.shard, key=found.keys[0])
    if count > len(first):
        words = f"more sets of keys that differ only in case or Unicode form, beyond the first {MOST_ALIKE:,}"
        yield Finding(code="WDS160", severity="warning", message=words, count=count - len(first))
    for paths in alike(shards):
        yield _alike("paths of shards", paths, shard=paths[0])


def alike_parts(offsets: Offsets) -> Iterator[Finding]:
    """Parts of one sample that are, a finding a set of names."""
    layouts: dict[tuple[str, ...], list[int]] = {}
    for i, layout in enumerate(offsets.layouts):
        for names in alike(layout):
            layouts.setdefault(names, []).append(i)
    for names, those in layouts.items():
        count, first = offsets.with_layouts(those)
        shard = offsets.shards[offsets.shard_of(first)].path
        yield _alike("parts of a sample", names, shard=shard, key=offsets.key(first), part=names[1], count=count)


def _alike(what: str, names: Sequence[str], **place: Any) -> Finding:
    shown = [ascii(name) for name in names[:MOST_NAMES]]
    words = f"{what} differ only in {differ_in(names)}: {', '.join(shown[:-1])} and {shown[-1]}"
    return Finding(code="WDS160", severity="warning", message=words, **place)


def part_findings(offsets: Offsets, parts: Sequence[PartCount], config: DatasetConfig) -> Iterator[Finding]:
    """Samples that lack a part: an error where a field is made of it, a warning where nearly all others have it. Parts
    that only some samples have, and optional ones that none has, are notes.
    """
    yield from lacking_fields(offsets, config)
    expected = _expected(offsets, config)
    for names, lacking in expected.items():
        if lacking:
            yield from _lacking(offsets, names, "warning")
    mapped = _mapped(config)
    usual = {name for names in (*expected, *mapped.values()) for name in names}
    for part in parts:
        if part.name not in usual and part.share < NEARLY_ALL and part.name not in config.optional:
            unused = ", and no field is made of it" if mapped else ""
            words = f"{part.samples:,} of {counted(offsets.samples, 'sample')} have a part {part.name!r}{unused}"
            yield Finding(code="WDS109", severity="note", message=words, part=part.name, count=part.samples)
    there = {part.name for part in parts}
    for name in config.optional if there else ():
        if name not in there and not there.intersection(mapped.get(name, ())):
            what = f"the parts of the field {name}" if name in mapped else f"a part {name!r}"
            words = f"dataset.yaml says that {what} may be missing, and no sample has any: is the name right?"
            yield Finding(code="WDS131", severity="note" if name in mapped else "warning", message=words, part=name)


def lacking_fields(offsets: Offsets, config: DatasetConfig, severity: Severity = "error") -> Iterator[Finding]:
    """Samples without the parts that a field needs which is not optional. Cost: none where all have the same parts."""
    for names in needed_parts(config):
        yield from _lacking(offsets, names, severity)


def needed_parts(config: DatasetConfig) -> list[tuple[str, ...]]:
    """What every sample must have: one of each of these, by the field map."""
    needed = needed_fields(config)
    return list(dict.fromkeys(names for field, names in _mapped(config).items() if field in needed))


def expected_parts(offsets: Offsets, config: DatasetConfig) -> list[tuple[str, ...]]:
    """What nearly every sample has: one of each of these. Media of one kind may stand for one another, as `jpg` and
    `png`. Nothing that the field map names, or that is optional.
    """
    return list(_expected(offsets, config))


def _expected(offsets: Offsets, config: DatasetConfig) -> dict[tuple[str, ...], int]:
    """The same, each with how many samples lack it. Linear in names of parts, of which hostile shards have 100,000s."""
    known = {name for names in _mapped(config).values() for name in names}.union(config.optional)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in offsets.extensions:
        kind = kind_of(name)
        groups.setdefault((name.rpartition(".")[0], kind) if kind in MEDIA else ("", name), []).append(name)
    most = [tuple(names) for names in groups.values() if known.isdisjoint(names)]
    layouts, samples = _layouts_with(offsets)
    lacking = {}
    for names in most:
        having = sum(samples[i] for i in {i for name in names for i in layouts.get(name, ())})
        if having / max(1, offsets.samples) >= NEARLY_ALL:
            lacking[names] = offsets.samples - having
    return lacking


def _layouts_with(offsets: Offsets) -> tuple[dict[str, list[int]], list[int]]:
    """By part, the numbers of the layouts that have it; and how many samples each layout has."""
    having: dict[str, list[int]] = {}
    for i, layout in enumerate(offsets.layouts):
        for name in layout:
            having.setdefault(name, []).append(i)
    if offsets.layout is None:
        return having, [offsets.samples]
    return having, np.bincount(offsets.layout, minlength=len(offsets.layouts)).tolist()


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


def _mapped(config: DatasetConfig) -> dict[str, tuple[str, ...]]:
    """The fields of the field map, each with the parts that it may come from."""
    paths = parse_field_map(config.field_map)
    return {name: tuple(part for part, _ in path.alternatives) for name, path in paths.items()}


def _without(offsets: Offsets, names: tuple[str, ...]) -> tuple[int, int]:
    """How many samples have none of these parts, and the first of them."""
    return offsets.with_layouts([i for i, layout in enumerate(offsets.layouts) if not set(names) & set(layout)])


def _lacking(offsets: Offsets, names: tuple[str, ...], severity: Severity) -> Iterator[Finding]:
    """The samples that have none of these parts: one finding for all of them, with the first."""
    count, first = _without(offsets, names)
    if count:
        others = "" if severity == "error" else f", which {offsets.samples - count:,} others have"
        yield Finding(
            code="WDS108",
            severity=severity,
            message=f"samples without {' or '.join(names)}{others}",
            shard=offsets.shards[offsets.shard_of(first)].path,
            key=offsets.key(first),
            part=names[0],
            count=count,
        )
