"""Make the plan of a conversion: list the sources, resolve key collisions, order the samples, and cut them into units.

A unit is one output file. `convert` completes the plan before it writes output, so that the plan is the same for any
number of workers, and a killed run continues with it. Memory does not grow with the number of samples.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from wdsctl.core.convert import exporters
from wdsctl.core.convert.groups import SampleGrouper
from wdsctl.core.convert.parts import (
    PartRules,
    find_renamed_parts,
    is_separated_part,
    list_unmatched_options,
    renamed_part_name,
    transcoded_name,
)
from wdsctl.core.convert.plan_file import UNREAD_FACT, PlanFile, create_plan
from wdsctl.core.convert.request import ConvertRequest, OnCollision, Stream
from wdsctl.core.convert.sharing import DEFAULT_MEDIA, FileReferences, RepeatedFiles, file_digester
from wdsctl.core.errors import InputError, StorageDown, UsageError, WdsctlError
from wdsctl.core.hashing import derive_seed, hash_one_value
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.source import RowSource
from wdsctl.core.importers.protocol import DetailedSource, SampleListing, ShardedSource, Source
from wdsctl.core.progress import Progress
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE
from wdsctl.core.tar_header import END_OF_ARCHIVE, member_bytes, padded_size
from wdsctl.core.text import path_for_message, pluralize

_MAX_KEY_EXAMPLES = 3
#: The datasets of samples, in SQL: one for each group, or one for all.
_DATASET_PER_GROUP = "grp"
_ONE_DATASET = "grp * 0"

#: Estimated bytes of headers and padding, for a sample whose parts are unknown before reading.
_UNKNOWN_OVERHEAD_BYTES = 3 * 768
_SIGN_OFFSET = 1 << 63
_PROGRESS_SAMPLES = 10_000

#: (stream, group, file name, first position, last position, samples, bytes)
UnitRow = tuple[str, int, str, int, int, int, int]


class UnitCutter:
    """Cuts one stream of samples, in order, into units. `suffix` replaces the `.tar` of the template."""

    def __init__(self, stream: Stream, *, samples: int, size: int, template: str, suffix: str) -> None:
        self._stream = stream
        self._max_samples = samples
        self._max_size = size  # bytes
        self._template = template
        self._suffix = suffix
        self._units: list[UnitRow] = []
        self._first = self._last = self._samples = self._group = self._ordinal = 0
        self._size = len(END_OF_ARCHIVE)

    def add(self, position: int, group_number: int, size_bytes: int) -> None:
        is_full = self._samples == self._max_samples or self._size + size_bytes > self._max_size
        if self._samples and (is_full or group_number != self._group):
            self._close_unit()
        if group_number != self._group:
            self._group, self._ordinal = group_number, 0
        if not self._samples:
            self._first = position
        self._last = position
        self._samples += 1
        self._size += size_bytes

    def finish(self) -> list[UnitRow]:
        if self._samples:
            self._close_unit()
        return self._units

    def _close_unit(self) -> None:
        name = self._template.format(index=self._ordinal).removesuffix(".tar") + self._suffix
        if not self._suffix:  # a folder; `finish_export` moves its files to the paths of their keys
            name = f".unit-{self._ordinal:06d}"
        self._units.append((self._stream, self._group, name, self._first, self._last, self._samples, self._size))
        self._ordinal += 1
        self._samples, self._size = 0, len(END_OF_ARCHIVE)


def resolve_key_collisions(
    connection: sqlite3.Connection,
    on_collision: OnCollision,
    source_names: Sequence[str],
    dataset: str = _DATASET_PER_GROUP,
    *,
    can_number: bool = False,
) -> int:
    """Make the keys of each dataset unique in the table `entry`; returns the number of samples that it leaves out.

    `prefix` prepends the name of the source if there are several sources, and a number (`2/KEY`) to keys that still
    repeat. `can_number`: whether the format has the option `key=:row`. Raises UsageError WDS340 if keys repeat and
    `on_collision` is `error`, or the prefixes do not help.
    """
    if on_collision == "prefix" and len(source_names) > 1:
        connection.executemany(
            "UPDATE entry SET key = ? || '/' || key WHERE source = ?",
            [(name, i) for i, name in enumerate(source_names)],
        )
    repeated_keys = f"SELECT {dataset}, key FROM entry GROUP BY {dataset}, key HAVING count(*) > 1"
    connection.execute(f"CREATE INDEX by_key ON entry({dataset}, key)")
    repeated = connection.execute(f"SELECT count(*) FROM ({repeated_keys})").fetchone()[0]
    left_out = 0
    if repeated and on_collision == "error":
        raise _collision_error(connection, repeated_keys, repeated, source_names, can_number=can_number)
    if repeated:
        later = (
            f"SELECT g, n, key FROM (SELECT g, key, row_number() OVER (PARTITION BY {dataset}, key ORDER BY g) AS n "
            f"FROM entry WHERE ({dataset}, key) IN ({repeated_keys})) WHERE n > 1"
        )
        connection.execute(f"CREATE TEMP TABLE later AS {later}")
        if on_collision == "keep-first":
            left_out = connection.execute("DELETE FROM entry WHERE g IN (SELECT g FROM later)").rowcount
        else:
            connection.execute(
                "UPDATE entry SET key = (SELECT n || '/' || later.key FROM later WHERE later.g = entry.g) "
                "WHERE g IN (SELECT g FROM later)"
            )
            repeated = connection.execute(f"SELECT count(*) FROM ({repeated_keys})").fetchone()[0]
            if repeated:
                raise _collision_error(connection, repeated_keys, repeated, source_names, can_number=can_number)
        connection.execute("DROP TABLE later")
    connection.execute("DROP INDEX by_key")
    return left_out


def _collision_error(
    connection: sqlite3.Connection, repeated_keys: str, count: int, source_names: Sequence[str], *, can_number: bool
) -> UsageError:
    keys = [key for _, key in connection.execute(f"{repeated_keys} LIMIT {_MAX_KEY_EXAMPLES}")]
    shown = ", ".join(map(path_for_message, keys)) + (", ..." if count > len(keys) else "")
    where = f" of {len(source_names)} datasets" if len(source_names) > 1 else ""
    if len(source_names) > 1:
        hint = "pass `--on-collision prefix` to prepend the name of the source, or `--on-collision keep-first` to drop "
        hint += "later samples"
    else:
        hint = (
            f"number the rows: {repeat_command('', '', {'key': ':row'})}; then the keys are their numbers"
            if can_number
            else "number the keys that repeat: `wdsctl convert SOURCE DEST --on-collision prefix`, then `wdsctl "
            "prepare DEST`"
        )
    return UsageError(
        f"{pluralize(count, 'key')}{where} would occur more than once in the destination: {shown}",
        hint=hint,
        code="WDS340",
    )


class PlanCounts(NamedTuple):
    """Counts of samples: `samples` are in the plan, the others are left out.

    `repeated`: the key occurred before. `bare`: no part is written. `apart`: the sample has no group. `unread`: its
    group could not be read.
    """

    samples: int
    repeated: int
    bare: int
    apart: int
    unread: int


def write_plan(
    path: str,
    sources: Sequence[Source],
    source_names: Sequence[str],
    request: ConvertRequest,
    facts: Mapping[str, str],
    progress: Progress,
    *,
    grouper: SampleGrouper | None = None,
    splits: Sequence[Sequence[int]] = (),
) -> PlanCounts:
    """Write the plan to `path`. `--on-collision prefix` prepends `source_names` to keys.

    `splits`: for each source, the numbers of its splits among all splits; -1 for a split that is not copied.
    Raises InputError WDS003 if no sample is left, or no part to transcode; StorageError; UsageError WDS340 if keys
    collide, WDS342 if every sample with a part to rename already has a part of the new name; the first error of reading
    a group, if `on_error` is `error` or no other sample is left.
    Cost: 6 us per sample, 12 us if `convert` reorders the samples.
    """
    with create_plan(path) as connection:
        progress.phase("sources")
        counts = _ListingCounts()
        references = FileReferences(connection)
        rows = _entry_rows(sources, request, grouper, splits, counts, references, progress)
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        _check_renames(request, counts)
        groups = grouper.folder_names if grouper is not None else [""]
        folders = [""] * len(groups) if request.naming else groups
        connection.executemany("INSERT INTO grp VALUES (?, ?)", enumerate(folders))
        _write_part_rows(connection, folders, counts)
        progress.phase("plan")
        dataset = _ONE_DATASET if request.naming else _DATASET_PER_GROUP
        can_number = all(isinstance(source, RowSource) for source in sources)
        repeated = resolve_key_collisions(
            connection, request.on_collision, source_names, dataset, can_number=can_number
        )
        is_ordered = request.order != "none" or grouper is not None
        if is_ordered:
            by = {"none": "g", "key": "key, g", "shuffle": "rank, g"}[request.order]
            group = "grp, " if grouper is not None else ""
            connection.execute(f"INSERT INTO ordered(g) SELECT g FROM entry ORDER BY {group}{by}")
            connection.execute("INSERT INTO meta VALUES ('ordered', ?)", (by,))
        if request.media:
            found = references.find_repeated(is_ordered=is_ordered)
            request = _resolve_layout(request, counts.part_names, found)
            if request.media:
                references.share_repeated()
            written = {name: _written_name(name, request) for name in counts.part_names}
            part_samples = {new: counts.part_names[name] for name, new in sorted(written.items()) if new is not None}
            facts = {
                **facts,
                "media": json.dumps(request.media),
                "repeated_files": json.dumps(found),
                "part_samples": json.dumps(part_samples),
            }
        samples = _write_unit_rows(connection, request, groups)
        plan = PlanCounts(samples, repeated, counts.bare, counts.apart, counts.unread.count)
        if not plan.samples:
            raise counts.unread.first_error or _empty_plan_error(plan, request)
        connection.execute("INSERT INTO meta VALUES (?, ?)", (UNREAD_FACT, counts.unread.to_json()))
        connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        numbers = ((name, str(number)) for name, number in plan._asdict().items())
        connection.executemany("INSERT INTO meta VALUES (?, ?)", numbers)
        unmatched: list[str] = []
        if all(isinstance(source, DetailedSource) for source in sources):
            unmatched = list_unmatched_options(
                counts.part_names, rules=request.parts, media=request.media, image=request.image, audio=request.audio
            )
        connection.execute("INSERT INTO meta VALUES ('unmet', ?)", (json.dumps(unmatched),))
    return plan


def _resolve_layout(request: ConvertRequest, part_names: Iterable[str], found: RepeatedFiles) -> ConvertRequest:
    """Decide the layout `auto`, and limit the default selection of media to the extensions that occur."""
    if request.layout == "auto" and not found.are_costly:
        return replace(request, layout="", media=())
    media = request.media
    if media == DEFAULT_MEDIA:
        names = {new for name in part_names if (new := renamed_part_name(request.parts, name)) is not None}
        occurring = tuple(each for each in media if any(is_separated_part(name, (each,)) for name in names))
        media = occurring or media
    return replace(request, layout="polylithic", media=media)


def _written_name(name: str, request: ConvertRequest) -> str | None:
    new_name = renamed_part_name(request.parts, name)
    return None if new_name is None else transcoded_name(new_name, request.image, request.audio)


def planned_request(request: ConvertRequest, plan: PlanFile) -> ConvertRequest:
    """The request with the layout and the media that the plan has."""
    if not request.media:
        return request
    media = tuple(plan.value("media", list))
    return replace(request, layout="polylithic" if media else "", media=media)


def repeated_files(plan: PlanFile) -> RepeatedFiles | None:
    """The repeated files that the plan found; None if it did not look for any."""
    return RepeatedFiles(*plan.value("repeated_files", list)) if "repeated_files" in plan.facts() else None


class UnreadSample(NamedTuple):
    """The first sample with an error of this code while its group was read, and the number of such samples."""

    code: str
    message: str
    shard: str
    key: str
    samples: int


def unread_samples(plan: PlanFile) -> list[UnreadSample]:
    """The samples that are not in the plan because their group could not be read, one for each code."""
    return [UnreadSample(*row) for row in plan.value(UNREAD_FACT, list)]


@dataclass(slots=True)
class _UnreadSamples:
    """Collects the samples whose group could not be read."""

    count: int = 0
    first_error: WdsctlError | None = None
    by_code: dict[str, UnreadSample] = field(default_factory=dict)

    def add(self, error: WdsctlError, source: Source, listing: SampleListing) -> None:
        shard = source.shard_of(listing.sample_index) if isinstance(source, ShardedSource) else ""
        # Without a shard, `where` may name the row of a table.
        message = f"{error.where}: {error.message}" if error.where and not shard else error.message
        before = self.by_code.get(error.code)
        self.count += 1
        self.by_code[error.code] = (
            UnreadSample(error.code, message, shard, listing.key, 1)
            if before is None
            else before._replace(samples=before.samples + 1)
        )
        if self.first_error is None:
            error.where = ", ".join(filter(None, [f"sample {listing.key}", shard or error.where]))
            self.first_error = error

    def to_json(self) -> str:
        return json.dumps(list(self.by_code.values()))


@dataclass(slots=True)
class _ListingCounts:
    """`renamed`: samples with a renamed part, by its old name; `name_taken`: those that also have the new name."""

    bare: int = 0
    apart: int = 0
    unread: _UnreadSamples = field(default_factory=_UnreadSamples)
    renamed: Counter[str] = field(default_factory=Counter)
    name_taken: Counter[str] = field(default_factory=Counter)
    part_names: Counter[str] = field(default_factory=Counter)  # samples by part, if an option selects parts
    group_samples: Counter[int] = field(default_factory=Counter)  # for formats with columns, samples that have parts
    group_parts: Counter[tuple[int, str]] = field(default_factory=Counter)  # of these, samples with a written part


def _entry_rows(
    sources: Sequence[Source],
    request: ConvertRequest,
    grouper: SampleGrouper | None,
    splits: Sequence[Sequence[int]],
    counts: _ListingCounts,
    references: FileReferences,
    progress: Progress,
) -> Iterator[tuple[int, int, int, str, int, int, int, int, int]]:
    salt = derive_seed("convert", request.seed) if request.order == "shuffle" else None
    written_name = lru_cache(maxsize=10_000)(lambda name: _written_name(name, request))
    has_columns = isinstance(exporters.get_exporter(request.target), exporters.ColumnExporter)
    g = reported = 0
    for number, source in enumerate(sources):
        if has_columns and not isinstance(source, DetailedSource):
            raise UsageError(
                f"--to {request.target} needs a source that lists its parts, and this format does not",
                hint="convert to shards first, then convert the shards",
            )
        translate_bits = _split_bits_translator(splits[number] if number < len(splits) else ())
        for listing, size, media, named in _sized_samples(source, request, counts):
            try:
                group = grouper.group_number(source, number, listing) if grouper is not None else 0
            except (UsageError, StorageDown):
                raise
            except WdsctlError as error:
                counts.unread.add(error, source, listing)
                if request.on_error == "error":
                    raise
                continue
            if group is None:
                counts.apart += 1
                continue
            rank = 0 if salt is None else hash_one_value(salt, g) - _SIGN_OFFSET
            bits = listing.splits and translate_bits(listing.splits)
            references.add(g, named)
            if has_columns and listing.parts:
                counts.group_samples[group] += 1
                names = {written_name(name) for name, _ in listing.parts}
                counts.group_parts.update((group, name) for name in names if name is not None)
            yield g, number, listing.sample_index, listing.key, size, media, group, bits, rank
            g += 1
            if g - reported == _PROGRESS_SAMPLES:
                progress.advance(items=g - reported)
                reported = g
    progress.advance(items=g - reported)


def _check_renames(request: ConvertRequest, counts: _ListingCounts) -> None:
    """Raises UsageError WDS342 for a rename that fails in every sample.

    If a rename fails in some samples, writing reports these samples.
    """
    for old, new in request.parts.rename:
        if counts.name_taken[old] and counts.name_taken[old] == counts.renamed[old]:
            samples = pluralize(counts.name_taken[old], "sample")
            raise UsageError(
                f"cannot rename part {old!r} to {new!r}: all {samples} with {old!r} already have a part {new!r}",
                where="--rename-part",
                hint="choose another name",
                code="WDS342",
            )


def _split_bits_translator(numbers: Sequence[int]) -> Callable[[int], int]:
    """A function that translates the split bits of a sample from the numbers in its source to those in the plan."""

    @lru_cache(maxsize=1000)
    def translate_bits(bits: int) -> int:
        return sum(1 << number for b, number in enumerate(numbers) if number >= 0 and bits >> b & 1)

    return translate_bits


def _sized_samples(
    source: Source, request: ConvertRequest, counts: _ListingCounts
) -> Iterator[tuple[SampleListing, int, int, list[_Reference]]]:
    """Yield (sample, its bytes in a tar, its bytes in the media dataset, its references to files for that dataset)."""
    if not isinstance(source, DetailedSource):
        if request.layout == "polylithic":
            raise UsageError(
                "--layout polylithic needs a source that lists its parts, and this format does not",
                hint="convert to shards first, then convert the shards with --layout polylithic",
            )
        for sample_index, (key, size) in enumerate(source.entries()):
            yield SampleListing(sample_index, key, ()), size + _UNKNOWN_OVERHEAD_BYTES, 0, []
        return
    measure = _tar_size_function(request)
    rules = request.parts
    selects_parts = bool(request.media) or not request.keeps_parts
    for listing in source.list_samples():
        if selects_parts:
            counts.part_names.update(name for name, _ in listing.parts)
        if rules.rename:
            for name, is_taken in find_renamed_parts(rules, tuple(name for name, _ in listing.parts)):
                counts.renamed[name] += 1
                counts.name_taken[name] += is_taken
        size, media, references = measure(listing)
        if size or not listing.parts:  # no parts: the sample has a fault, which reading reports
            yield listing, size or _UNKNOWN_OVERHEAD_BYTES, media, references
        else:
            counts.bare += 1


#: (part, digest of its file and of how it is written, bytes in a tar)
_Reference = tuple[str, bytes, int]


def _tar_size_function(request: ConvertRequest) -> Callable[[SampleListing], tuple[int, int, list[_Reference]]]:
    """A function of a sample: (its bytes in a tar, its bytes in the media dataset, its references to files there)."""
    rules = request.parts
    is_plain = rules == PartRules()
    digest = file_digester(request)

    @lru_cache(maxsize=10_000)
    def is_media(name: str) -> bool:
        return bool(request.media) and is_separated_part(name, request.media)

    def measure(listing: SampleListing) -> tuple[int, int, list[_Reference]]:
        total = media = 0
        references: list[_Reference] = []
        key = listing.key
        length = len(key.encode("utf-8", "surrogatepass"))
        for i, (name, size) in enumerate(listing.parts):
            new = name if is_plain else renamed_part_name(rules, name)
            if new is None:
                continue
            if length + len(new) < 100 and new.isascii() and size < 1 << 33:
                member_size = 512 + padded_size(size)
            else:
                member_size = member_bytes(f"{key}.{new}".encode("utf-8", "surrogatepass"), size)
            total += member_size
            if is_media(new):
                media += member_size
                file = digest(new, listing.files[i]) if listing.files and listing.files[i] else None
                if file is not None:
                    references.append((name, file, member_size))
        return total, media, references

    return measure


def _write_part_rows(connection: sqlite3.Connection, folders: Sequence[str], counts: _ListingCounts) -> None:
    """Fill the table of the parts that samples will have in each folder, for formats with columns."""
    rows = (
        (folders[group], name, samples == counts.group_samples[group])
        for (group, name), samples in counts.group_parts.items()
    )
    connection.executemany("INSERT INTO part VALUES (?, ?, ?)", rows)


def _write_unit_rows(connection: sqlite3.Connection, request: ConvertRequest, groups: Sequence[str]) -> int:
    """Fill the table of units; returns the number of samples. `groups`: their names, by number.

    Raises InputError WDS003 if no sample has a part for the media dataset, UsageError if two files get the same name.
    """
    is_ordered = connection.execute("SELECT 1 FROM ordered LIMIT 1").fetchone() is not None
    query = "SELECT pos, entry.g, grp, size, media FROM ordered JOIN entry ON entry.g = ordered.g ORDER BY pos"
    if not is_ordered:
        query = "SELECT g, g, grp, size, media FROM entry ORDER BY g"
    streams: tuple[Stream, ...] = ("media", "primary") if request.media else ("",)
    cutters = {
        stream: UnitCutter(
            stream,
            samples=request.shard_samples,
            size=request.shard_size,
            template=_unit_template(request, stream),
            suffix=_unit_suffix(request, stream),
        )
        for stream in streams
    }
    samples = 0
    for position, _, group, size, media in connection.execute(query):
        samples += 1
        for stream, cutter in cutters.items():
            stream_bytes = media if stream == "media" else size - media + 1024 if stream == "primary" else size
            if stream_bytes or not stream:  # a sample of 0 bytes has a fault, which reading reports
                cutter.add(position, group, stream_bytes)
    units = [unit for cutter in cutters.values() for unit in cutter.finish()]
    if request.naming:
        units = _name_for_hub(units, groups, _unit_suffix(request, ""))
    if request.media and samples and not any(unit[0] == "media" for unit in units):
        raise InputError(
            "no sample has a part for the media dataset",
            where=f"--media {','.join(request.media)}",
            hint="run `wdsctl inspect SOURCE` to list the parts",
            code="WDS003",
        )
    if len({unit[:3] for unit in units}) < len(units):
        raise UsageError("two files would get the same name", where=request.template, hint="choose another --template")
    connection.executemany(
        "INSERT INTO unit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", ((number, *unit) for number, unit in enumerate(units))
    )
    return samples


def _name_for_hub(units: Sequence[UnitRow], groups: Sequence[str], suffix: str) -> list[UnitRow]:
    """Name the units SPLIT-00000-of-00042.tar, as the Hugging Face Hub names files."""
    totals = Counter(unit[1] for unit in units)
    numbers: Counter[int] = Counter()
    named: list[UnitRow] = []
    for unit in units:
        group = unit[1]
        name = f"{groups[group]}-{numbers[group]:05d}-of-{totals[group]:05d}{suffix}"
        named.append((unit[0], group, name, *unit[3:]))
        numbers[group] += 1
    return named


def _unit_template(request: ConvertRequest, stream: Stream) -> str:
    """The template that the user passes, or else that of the format."""
    if request.template != DEFAULT_TEMPLATE or stream:
        return request.template
    return exporters.get_exporter(request.target).template


def _unit_suffix(request: ConvertRequest, stream: Stream) -> str:
    if stream:
        return ".jsonl" if stream == "primary" and request.primary == "jsonl" else ".tar"
    return ".tar.gz" if request.compress == "gz" else exporters.get_exporter(request.target).suffix


def _empty_plan_error(counts: PlanCounts, request: ConvertRequest) -> InputError:
    given = [name for name, value in (("--split", request.split), ("--where", request.where)) if value]
    hint = f"check {' and '.join(given)}" if given else "the source has no samples: check that it is the right file"
    if counts.bare:
        hint = "check --parts: no sample has a part to write"
    elif counts.apart:
        hint = "assign splits first: no sample is in one" if request.naming else "check --apart: no sample has a group"
    return InputError("no sample is left to convert", hint=hint, code="WDS003")
