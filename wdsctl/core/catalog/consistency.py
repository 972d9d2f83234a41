"""Finds problems across all shards, from catalog and offsets, for `validate`: missing parts, repeated and colliding
names.

A key is repeated if several shards have it. Names collide if they differ only in case or Unicode form.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wdsctl.core.catalog.database_file import check_row_types, savepoint, translate_disk_full
from wdsctl.core.catalog.ledger_checks import MAX_NAMED_FINDINGS
from wdsctl.core.catalog.open_catalog import no_sample_rows_error, translate_catalog_errors
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.rows import has_implied_rows, open_catalog_offsets
from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.dataset.config import DatasetConfig, required_fields
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, Severity, StorageError
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MEDIA_KINDS, part_kind
from wdsctl.core.offsets.key_index import HASH_CHUNK_KEYS, OffsetsRows, sort_keys_by_hash
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.progress import Progress
from wdsctl.core.samples.crude_fields import is_list_of_parts
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.fields import did_you_mean, find_parts
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES
from wdsctl.core.shards.jsonl_keys import LINE_NUMBER_KEYS
from wdsctl.core.text import pluralize

EXPECTED_PART_SHARE = 0.95  # if this share of the samples has a part, all are expected to have it
MAX_COLLISION_FINDINGS = 1000  # sets of colliding names with a finding each
MAX_SHOWN_NAMES = 8  # of one collision

_JPEG_EXTENSIONS = FORMAT_BY_EXTENSION["jpg"].extensions
_MAX_SHOWN_SHARDS = 3

_SHARD_OF = f"id >> {INDEX_BITS}"
_REPEATED_IN_ROWS = f"SELECT key FROM sample GROUP BY key HAVING min({_SHARD_OF}) < max({_SHARD_OF}) ORDER BY key"
_SHARDS_WITH_KEY = (
    f"SELECT path FROM shard WHERE id IN (SELECT DISTINCT {_SHARD_OF} FROM sample WHERE key = ? "
    f"ORDER BY 1 LIMIT {_MAX_SHOWN_SHARDS}) ORDER BY id"
)

_JSONL_KEYS_TABLE = "CREATE TEMP TABLE line (key TEXT NOT NULL, shard INTEGER NOT NULL)"
_REPEATED_IN_JSONL = "SELECT key FROM line GROUP BY key HAVING min(shard) < max(shard) ORDER BY key"
_FILES_WITH_KEY = (
    "SELECT path FROM shard WHERE id IN (SELECT DISTINCT shard FROM line WHERE key = ? "
    f"ORDER BY shard LIMIT {_MAX_SHOWN_SHARDS}) ORDER BY id"
)

#: Keys with a letter that has other forms: a capital one, or one that is not ASCII.
_CREATE_FORMS = (
    "CREATE TEMP TABLE caseless AS SELECT form_of(key) AS form, key FROM (SELECT DISTINCT key FROM sample "
    "WHERE key <> lower(key) OR length(key) <> length(CAST(key AS BLOB))) WHERE form_of(key) <> key"
)
_COLLIDING_FORMS = (
    "SELECT form FROM temp.caseless GROUP BY form HAVING min(key) < max(key) "
    "UNION SELECT form FROM temp.caseless WHERE EXISTS (SELECT 1 FROM sample WHERE key = form) ORDER BY form"
)
_KEYS_OF_FORM = (
    "SELECT key FROM temp.caseless WHERE form = ?1 UNION SELECT key FROM sample WHERE key = ?1 "
    f"ORDER BY key LIMIT {MAX_SHOWN_NAMES}"
)
_FIRST_SHARD_WITH_KEY = f"SELECT path FROM shard WHERE id = (SELECT min({_SHARD_OF}) FROM sample WHERE key = ?)"


def open_offsets(location: DatasetLocation, generation: int) -> Offsets | Finding:
    """The offsets file, or a finding if it cannot be used. It is not an error, as other checks do not need the file."""
    try:
        return Offsets(location.offsets_path(generation))
    except (CatalogError, StorageError, PermissionDenied) as error:
        return Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")


def repeated_key_findings(published: Catalog, progress: Progress) -> Iterator[Finding]:
    """A warning if keys occur in several shards: real datasets have such keys."""
    try:
        count, first = find_repeated_keys(published, 1)
    except CatalogError as error:
        if error.code != "WDS307":
            raise
        progress.note("duplicate keys across shards are not checked: the catalog has no sample rows")
        return
    for repeated in first:
        yield Finding(
            code="WDS106",
            severity="warning",
            message=f"keys that occur in several shards, such as {' and '.join(repeated.shards)}",
            shard=repeated.shards[0],
            key=repeated.key,
            count=count,
        )


def colliding_name_findings(published: Catalog, shards: Sequence[str]) -> Iterator[Finding]:
    """Keys and paths of shards that differ only in case or Unicode form; a finding per set."""
    count, first = find_colliding_keys(published, MAX_COLLISION_FINDINGS)
    for keys, shard in first:
        yield _collision_finding("keys", keys, shard=shard, key=keys[0])
    if count > len(first):
        message = (
            f"more sets of keys that differ only in case or Unicode form, beyond the first {MAX_COLLISION_FINDINGS:,}"
        )
        yield Finding(code="WDS160", severity="warning", message=message, count=count - len(first))
    for paths in group_colliding_names(shards):
        yield _collision_finding("paths of shards", paths, shard=paths[0])


def colliding_part_findings(offsets: Offsets) -> Iterator[Finding]:
    """Parts of one sample whose names differ only in case or Unicode form; a finding per set of names."""
    layouts: dict[tuple[str, ...], list[int]] = {}
    for i, layout in enumerate(offsets.layouts):
        for names in group_colliding_names(layout):
            layouts.setdefault(names, []).append(i)
    for names, those in layouts.items():
        count, first = offsets.find_with_layouts(those)
        shard = offsets.shards[offsets.shard_of(first)].path
        yield _collision_finding(
            "parts of a sample", names, shard=shard, key=offsets.key(first), part=names[1], count=count
        )


def _collision_finding(what: str, names: Sequence[str], **location: Any) -> Finding:
    shown = [ascii(name) for name in names[:MAX_SHOWN_NAMES]]
    message = f"{what} differ only in {describe_name_difference(names)}: {', '.join(shown[:-1])} and {shown[-1]}"
    return Finding(code="WDS160", severity="warning", message=message, **location)


def part_findings(offsets: Offsets, parts: Sequence[PartCount], config: DatasetConfig) -> Iterator[Finding]:
    """Samples that lack a part: an error if a field needs it, a warning if nearly all others have it.

    Notes for parts that only some samples have, and for optional parts that none has.
    """
    yield from missing_field_findings(offsets, config)
    yield from absent_field_findings(offsets, config)
    yield from lossy_mask_findings(offsets, config)
    expected = _expected_with_missing_counts(offsets, config)
    for names, lacking in expected.items():
        if lacking:
            yield from _missing_part_findings(offsets, names, "warning", " or ".join(names))
    mapped = _field_parts(offsets, config)
    usual = {name for names in (*expected, *mapped.values()) for name in names}
    for part in parts:
        if part.name not in usual and part.share < EXPECTED_PART_SHARE and part.name not in config.optional:
            unused = ", and no field is mapped to it" if mapped else ""
            message = f"{part.samples:,} of {pluralize(offsets.samples, 'sample')} have a part {part.name!r}{unused}"
            yield Finding(code="WDS109", severity="note", message=message, part=part.name)
    there = {part.name for part in parts}
    for name in config.optional if there else ():
        if name not in there and not there.intersection(mapped.get(name, ())):
            what = f"the parts of the field {name}" if name in mapped else f"a part {name!r}"
            message = f"dataset.yaml allows {what} to be missing, and all samples lack it: check the name"
            yield Finding(code="WDS131", severity="note" if name in mapped else "warning", message=message, part=name)


def missing_field_findings(
    offsets: Offsets, config: DatasetConfig, severity: Severity = "error", *, names_samples: bool = True
) -> Iterator[Finding]:
    """Samples without the parts of a required field. Cost: none if all samples have the same parts.

    `names_samples`: whether each sample has a finding, up to `MAX_NAMED_FINDINGS`; otherwise one finding counts them.
    """
    needed = required_fields(config)
    alternatives: dict[tuple[str, ...], str] = {}
    fields: dict[tuple[str, ...], list[str]] = {}
    for field, names in _field_parts(offsets, config).items():
        if field in needed:
            alternatives.setdefault(names, " or ".join(access.part for access in needed[field].alternatives))
            fields.setdefault(names, []).append(field)
    for names, described in alternatives.items():
        for found in _missing_part_findings(offsets, names, severity, described, names_samples=names_samples):
            if names_samples or found.count == offsets.samples:
                yield found
                continue
            counted = describe_absent_field(" and ".join(fields[names]), found.count, offsets.samples)
            yield replace(found, message=f"{counted}: no part {described}")


def absent_fields(offsets: Offsets, config: DatasetConfig) -> dict[str, int]:
    """Mapped field -> samples without any of its parts, if there are any. A list of parts may be empty."""
    layouts, samples = _layouts_with(offsets)
    paths, absent = parse_field_map(config.field_map), {}
    for field, names in _field_parts(offsets, config).items():
        if config.sample_type == CRUDE and is_list_of_parts(paths[field]):
            continue
        having = sum(samples[i] for i in {i for name in names for i in layouts.get(name, ())})
        if having < offsets.samples:
            absent[field] = offsets.samples - having
    return absent


def absent_field_findings(offsets: Offsets, config: DatasetConfig) -> Iterator[Finding]:
    """A note for each optional field that some samples lack, with their number."""
    needed = required_fields(config)
    for field, missing in absent_fields(offsets, config).items():
        if field in needed or missing == offsets.samples:
            continue
        names = _field_parts(offsets, config)[field]
        _, first = offsets.find_with_layouts(
            [i for i, layout in enumerate(offsets.layouts) if not set(names) & set(layout)]
        )
        shard = offsets.shards[offsets.shard_of(first)].path
        yield absent_field_finding(field, missing, offsets.samples, shard, offsets.key(first))


def absent_field_finding(field: str, missing: int, samples: int, shard: str, key: str) -> Finding:
    """A note with the number of samples that lack an optional field. `shard`, `key`: of the first of them."""
    return Finding(
        code="WDS172",
        severity="note",
        message=describe_absent_field(field, missing, samples),
        shard=shard,
        key=key,
        count=missing,
    )


def lossy_mask_findings(offsets: Offsets, config: DatasetConfig) -> Iterator[Finding]:
    """A warning if masks are JPEG, by the names of their parts, with their number."""
    for field in SAMPLE_TYPES.get(config.sample_type, ()):
        names = _field_parts(offsets, config).get(field.name, ()) if field.kind == "mask" else ()
        lossy = {name for name in names if name.lower().rpartition(".")[2] in _JPEG_EXTENSIONS}
        taken = [next((name for name in names if name in layout), "") for layout in offsets.layouts]
        having = [i for i, name in enumerate(taken) if name in lossy]
        if not having:
            continue
        count, first = offsets.find_with_layouts(having)
        yield Finding(
            code="WDS173",
            severity="warning",
            message=f"{field.name}: JPEG in {count:,} of {pluralize(offsets.samples, 'sample')}; its compression "
            "changes ids at the borders of objects: write the masks as PNG",
            shard=offsets.shards[offsets.shard_of(first)].path,
            key=offsets.key(first),
            part=taken[having[0]],
            count=count,
        )


def describe_absent_field(field: str, missing: int, samples: int) -> str:
    return f"{field}: missing in {missing:,} of {pluralize(samples, 'sample')}"


def required_parts(offsets: Offsets, config: DatasetConfig) -> list[tuple[str, ...]]:
    """The parts that every sample must have by the field map: one part of each tuple."""
    needed = required_fields(config)
    return list(dict.fromkeys(names for field, names in _field_parts(offsets, config).items() if field in needed))


def expected_parts(offsets: Offsets, config: DatasetConfig) -> list[tuple[str, ...]]:
    """The parts that nearly every sample has: one part of each tuple. Media of one kind are alternatives, such as `jpg`
    and `png`. Leaves out optional parts, and parts that the field map names.
    """
    return list(_expected_with_missing_counts(offsets, config))


def _expected_with_missing_counts(offsets: Offsets, config: DatasetConfig) -> dict[tuple[str, ...], int]:
    """`expected_parts` -> number of samples that lack it. Linear in part names, as hostile shards have 100,000s."""
    known = {name for names in _field_parts(offsets, config).values() for name in names}.union(config.optional)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in offsets.extensions:
        kind = part_kind(name)
        groups.setdefault((name.rpartition(".")[0], kind) if kind in MEDIA_KINDS else ("", name), []).append(name)
    most = [tuple(names) for names in groups.values() if known.isdisjoint(names)]
    layouts, samples = _layouts_with(offsets)
    lacking = {}
    for names in most:
        having = sum(samples[i] for i in {i for name in names for i in layouts.get(name, ())})
        if having / max(1, offsets.samples) >= EXPECTED_PART_SHARE:
            lacking[names] = offsets.samples - having
    return lacking


def _layouts_with(offsets: Offsets) -> tuple[dict[str, list[int]], list[int]]:
    """(part -> numbers of the layouts that have it, number of samples of each layout)"""
    having: dict[str, list[int]] = {}
    for i, layout in enumerate(offsets.layouts):
        for name in layout:
            having.setdefault(name, []).append(i)
    if offsets.layout is None:
        return having, [offsets.samples]
    return having, np.bincount(offsets.layout, minlength=len(offsets.layouts)).tolist()


def find_incomplete_samples(offsets: Offsets, required: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """Shard -> positions of the samples that lack a required part."""
    layouts = [i for i, layout in enumerate(offsets.layouts) if any(not set(names) & set(layout) for names in required)]
    if not layouts:
        return {}
    rows = np.arange(offsets.samples) if offsets.layout is None else np.flatnonzero(np.isin(offsets.layout, layouts))
    found: dict[str, list[int]] = {}
    for row in rows.tolist():
        i = offsets.shard_of(row)
        found.setdefault(offsets.shards[i].path, []).append(row - int(offsets.shard_row[i]))
    return found


def _field_parts(offsets: Offsets, config: DatasetConfig) -> dict[str, tuple[str, ...]]:
    """Field -> the parts that it may come from: those that it names, and those of the dataset that patterns match."""
    kinds = {field.name: field.kind for field in SAMPLE_TYPES.get(config.sample_type, ())}
    known = dict.fromkeys(offsets.extensions)
    fields = {}
    for name, path in parse_field_map(config.field_map).items():
        named = [access.part for access in path.alternatives if not access.is_pattern]
        matching = find_parts(path, known, kinds.get(name, "any"))
        fields[name] = tuple(dict.fromkeys([*named, *matching]))
    return fields


def _missing_part_findings(
    offsets: Offsets, names: tuple[str, ...], severity: Severity, described: str, *, names_samples: bool = True
) -> Iterator[Finding]:
    """A finding for each sample that has none of these parts, up to `MAX_NAMED_FINDINGS`, then one for the others.

    One finding with the first sample if no sample has the parts, or without `names_samples`. `described`: the parts in
    words.
    """
    lacking = [i for i, layout in enumerate(offsets.layouts) if not set(names) & set(layout)]
    count, first = offsets.find_with_layouts(lacking)
    if not count:
        return
    having = offsets.samples - count
    having_text = f"{pluralize(having, 'other')} {'has' if having == 1 else 'have'}"
    others = "" if severity == "error" else f", which {having_text}"
    message = f"samples without {described}{others}"
    if not having:
        near = next(filter(None, (did_you_mean(name, offsets.extensions) for name in names)), "")
        message = f"no sample has {described}{near and f': {near}'}"
    found = Finding(
        code="WDS108",
        severity=severity,
        message=message,
        shard=offsets.shards[offsets.shard_of(first)].path,
        key=offsets.key(first),
        part=names[0] if names else described,
        count=count,
    )
    if offsets.layout is None or not having or not names_samples:
        yield found
        return
    for row in np.flatnonzero(np.isin(offsets.layout, lacking))[:MAX_NAMED_FINDINGS].tolist():
        shard = offsets.shards[offsets.shard_of(row)].path
        yield replace(found, message=f"it lacks {described}{others}", shard=shard, key=offsets.key(row), count=1)
    if count > MAX_NAMED_FINDINGS:
        message = f"more samples without {described}, after the first {MAX_NAMED_FINDINGS:,}"
        yield replace(found, message=message, shard="", key="", count=count - MAX_NAMED_FINDINGS)


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    key: str
    shards: tuple[str, ...]  # the first few shards that have it


def find_repeated_keys(catalog: Catalog, limit: int = 20) -> tuple[int, list[RepeatedKey]]:
    """How many keys occur in more than one shard, and the first `limit` of them.

    Raises CatalogError WDS307 if samples have no rows and are no JSONL, WDS302 if the offsets file of a JSONL dataset
    is missing or damaged, StorageError WDS401 if there is no space for sorting. Cost: a pass over the key index, 0.3 s
    per million; for JSONL without rows see `_find_in_jsonl`.
    """
    with translate_catalog_errors(catalog.path):
        if not catalog.has_sample_rows:
            if not has_implied_rows(catalog.connection):
                raise no_sample_rows_error(catalog.path)
            return _find_in_jsonl(catalog, limit)
        count, keys = 0, []
        with translate_disk_full("cannot compare keys"):
            for count, (key,) in enumerate(check_row_types(catalog.connection.execute(_REPEATED_IN_ROWS), "text"), 1):
                if count <= limit:
                    keys.append(key)
        return count, [_repeated_key(catalog, _SHARDS_WITH_KEY, key) for key in keys]


def find_colliding_keys(catalog: Catalog, limit: int = 20) -> tuple[int, list[tuple[tuple[str, ...], str]]]:
    """How many sets of keys differ only in case or Unicode form, and the first `limit` of them: (keys, first shard that
    has the first of them).

    None for JSONL, whose keys are no file names, and for catalogs without rows of samples. Cost: a pass over the key
    index, 0.3 s per million keys; 6 s per million keys that are not lower-case ASCII, and temporary files of twice
    their size. Raises StorageError WDS401 if there is no space for these.
    """
    if not catalog.has_sample_rows or catalog.key_field:
        return 0, []
    connection = catalog.connection
    with translate_catalog_errors(catalog.path), translate_disk_full("cannot compare keys"):
        connection.create_function("form_of", 1, caseless_form, deterministic=True)
        connection.execute(_CREATE_FORMS)
        try:
            connection.execute("CREATE INDEX temp.caseless_form ON caseless (form, key)")
            count, forms = 0, []
            for count, (form,) in enumerate(connection.execute(_COLLIDING_FORMS), 1):
                if count <= limit:
                    forms.append(form)
            collisions = []
            for form in forms:
                keys = tuple(row[0] for row in connection.execute(_KEYS_OF_FORM, (form,)))
                [shard] = connection.execute(_FIRST_SHARD_WITH_KEY, keys[:1]).fetchone()
                collisions.append((keys, shard))
            return count, collisions
        finally:
            connection.execute("DROP TABLE temp.caseless")


def caseless_form(name: str) -> str:
    """A form that is equal for names that differ only in case. Source: Unicode, 3.13, canonical caseless matching."""
    return name.lower() if name.isascii() else _decomposed(_decomposed(name).casefold())


def group_colliding_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The sets of these names that differ only in case or Unicode form, in the order of their first names."""
    sets: dict[str, dict[str, None]] = {}
    for name in names:
        sets.setdefault(caseless_form(name), {})[name] = None
    return [tuple(collision) for collision in sets.values() if len(collision) > 1]


def describe_name_difference(names: Iterable[str]) -> str:
    """The difference between these names: "case", "Unicode form", or both."""
    names = list(names)
    composed = {unicodedata.normalize("NFC", name) for name in names}
    if len(composed) == 1:
        return "Unicode form"
    return "case" if len(composed) == len(names) else "case and Unicode form"


def _decomposed(name: str) -> str:
    return unicodedata.normalize("NFD", name)


def _find_in_jsonl(catalog: Catalog, limit: int) -> tuple[int, list[RepeatedKey]]:
    """The repeated keys of a JSONL dataset without rows of samples.

    Line-number keys begin with the file's path without its extension. If no two files share that prefix, no key is
    read. Otherwise the function compares hashes of keys, at some 0.3 s and 24 MB per million, and writes temporary rows
    only for keys whose hash is repeated.
    """
    connection = catalog.connection
    query = "SELECT path FROM shard WHERE removed IS NULL AND samples > 0"
    prefixes = [LINE_NUMBER_KEYS.prefix(path) for (path,) in connection.execute(query)]
    if len(prefixes) < 2 or (not catalog.key_field and len(set(prefixes)) == len(prefixes)):
        return 0, []
    offsets = open_catalog_offsets(connection, catalog.path)
    rows = _rows_with_shared_hash(offsets)
    if not len(rows):
        return 0, []
    with translate_disk_full("cannot compare keys"), savepoint(connection):
        connection.execute(_JSONL_KEYS_TABLE)
        connection.executemany("INSERT INTO temp.line VALUES (?, ?)", _keys_and_shards(offsets, rows))
        count, keys = 0, []
        for count, (key,) in enumerate(connection.execute(_REPEATED_IN_JSONL), 1):
            if count <= limit:
                keys.append(key)
        repeated = [_repeated_key(catalog, _FILES_WITH_KEY, key) for key in keys]
        connection.execute("DROP TABLE temp.line")
    return count, repeated


def _repeated_key(catalog: Catalog, paths_query: str, key: str) -> RepeatedKey:
    return RepeatedKey(key, tuple(row[0] for row in catalog.connection.execute(paths_query, (key,))))


def _rows_with_shared_hash(offsets: Offsets) -> OffsetsRows:
    """The rows of keys whose hash occurs in more than one file."""
    hashes, rows = sort_keys_by_hash(offsets)
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    shards = np.searchsorted(offsets.shard_row, rows, side="right")
    is_shared = np.minimum.reduceat(shards, starts) < np.maximum.reduceat(shards, starts)
    return rows[np.repeat(is_shared, np.diff(starts, append=len(rows)))]


def _keys_and_shards(offsets: Offsets, rows: OffsetsRows) -> Iterator[tuple[str, int]]:
    """(key, shard id) of these rows."""
    for start in range(0, len(rows), HASH_CHUNK_KEYS):
        batch = rows[start : start + HASH_CHUNK_KEYS]
        shards = np.searchsorted(offsets.shard_row, batch, side="right") - 1
        yield from zip(map(offsets.key, batch.tolist()), (offsets.shards[i].id for i in shards.tolist()), strict=True)
