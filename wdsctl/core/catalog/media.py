"""The tables of media facts: read from a published catalog (`MediaReader`), written into a draft (`MediaTables`)."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from wdsctl.core.catalog.open_catalog import translate_catalog_errors
from wdsctl.core.catalog.totals import MediaSummary
from wdsctl.core.media.catalog_facts import SEVERAL_FRAMES, MediaMeasures, SharedFacts, facts_from_columns
from wdsctl.core.media.facts import FIRST_FRAME, MediumFacts, Unreadable
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.shards.list import ShardFile

if TYPE_CHECKING:
    from wdsctl.core.catalog.read import Catalog
    from wdsctl.core.catalog.values import SampleLocation
    from wdsctl.core.media.media_scan import ScannedMedium  # imports numpy

_IDS_PER_QUERY = 500  # SQLite binds a limited number of values
_FOLDER_SHARD = 0  # the shard in `media_count` that stands for all files of a media folder

_FORMAT = ", ".join(f"media_form.{name}" for name in SharedFacts._fields)
_MEASURES = ", ".join(f"media.{name}" for name in MediaMeasures._fields)
_FORMAT_COLUMNS = len(SharedFacts._fields)
_WITH_FORMAT = "media JOIN media_form ON media_form.id = media.form"
_WITH_PART = f"{_WITH_FORMAT} JOIN ext ON ext.id = media.ext"

#: Tables with rows by sample id, and tables with rows by shard id.
_SAMPLE_TABLES = ("media", "keyframes")
_SHARD_TABLES = ("media_shard", "media_count")


class MediaReader:
    """The media facts of one published catalog: `Catalog.media_reader`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def shard_digests(self) -> dict[int, bytes]:
        """Shard id -> digest of the shard's content and of the settings its media were read with."""
        return dict(self._catalog.rows("SELECT shard, mark FROM media_shard"))

    def summaries(self) -> list[MediaSummary]:
        """The media by part and kind. Cost: a row per shard, part and format."""
        with translate_catalog_errors(self._catalog.path):
            return summarize_media(self._catalog.connection)

    def facts(self, samples: Sequence[int]) -> dict[tuple[int, str], MediumFacts | Unreadable]:
        """(sample id, part) -> facts of the media of these samples."""
        query = f"SELECT media.sample, ext.name, {_FORMAT}, {_MEASURES} FROM {_WITH_PART} WHERE media.sample IN "
        found: dict[tuple[int, str], MediumFacts | Unreadable] = {}
        for start in range(0, len(samples), _IDS_PER_QUERY):
            ids = samples[start : start + _IDS_PER_QUERY]
            rows = self._catalog.iter_rows(query + placeholders(len(ids)), *ids)
            found |= {(sample, part): _facts(columns) for sample, part, *columns in rows}
        return found

    def facts_of_sample(self, sample: SampleLocation) -> dict[str, MediumFacts | Unreadable]:
        """Part -> facts of the media of one sample, or of one file of a media folder; empty without facts."""
        if not self._catalog.has_media_facts:
            return {}
        query = f"SELECT ext.name, {_FORMAT}, {_MEASURES} FROM {_WITH_PART} WHERE media.sample = ?"
        only_part = sample.parts[0].name if self._catalog.is_media_folder else ""
        return {only_part or part: _facts(columns) for part, *columns in self._catalog.rows(query, sample.id)}

    def facts_of_part(self, sample: int, ext: int | None) -> MediumFacts | Unreadable | None:
        """The facts of a part by its number, or of a file of a media folder (`ext` is None); None without facts."""
        query = f"SELECT {_FORMAT}, {_MEASURES} FROM {_WITH_FORMAT} WHERE sample = ?1 AND (?2 IS NULL OR ext = ?2)"
        rows = self._catalog.rows(query, sample, ext)
        return _facts(rows[0]) if rows else None

    def keyframes_of_part(self, sample: int, ext: int | None) -> bytes | None:
        """The `KeyframeIndex.to_bytes()` of a part by its number; None if it is not an indexed video."""
        rows = self._catalog.rows(
            "SELECT data FROM keyframes WHERE sample = ?1 AND (?2 IS NULL OR ext = ?2)", sample, ext
        )
        return bytes(rows[0][0]) if rows else None

    def count(self) -> int:
        return int(self._catalog.rows("SELECT count(*) FROM media")[0][0])

    def formats(self) -> dict[int, SharedFacts]:
        """The rows of `media_form`, by number."""
        rows = self._catalog.rows(f"SELECT id, {_FORMAT} FROM media_form")
        return {number: SharedFacts(*columns) for number, *columns in rows}

    def blocks(self, size: int) -> Iterator[list[tuple[int, int, int | None, int | None, float | None]]]:
        """(part number, format number, width, height, seconds) of all media, `size` of them at a time."""
        rows = self._catalog.iter_rows("SELECT ext, form, width, height, seconds FROM media")
        while block := list(islice(rows, size)):
            yield block

    def shard_facts(self, shard_id: int) -> dict[tuple[int, str], MediumFacts | Unreadable]:
        """(index in the shard, part) -> facts of all media of a shard. Cost: a row per medium."""
        first, end = sample_id_range(shard_id)
        query = (
            f"SELECT media.sample, ext.name, {_FORMAT}, {_MEASURES} FROM {_WITH_PART} "
            "WHERE media.sample >= ? AND media.sample < ?"
        )
        rows = self._catalog.iter_rows(query, first, end)
        return {(sample - first, part): _facts(columns) for sample, part, *columns in rows}

    def numbers(self, shard_id: int, part: str, expression: str) -> list[tuple[Any, ...]]:
        """(index in the shard, number) of the media of one part. `expression`: over the columns of `v_media`."""
        first, end = sample_id_range(shard_id)
        query = (
            f"SELECT id - ?1, {expression} AS number FROM v_media "
            "WHERE id >= ?1 AND id < ?2 AND part = ?3 AND number IS NOT NULL"
        )
        return self._catalog.rows(query, first, end, part)

    def has_number(self, part: str, expression: str) -> bool:
        """Whether any medium of this part has the number of `expression`, as in `numbers`."""
        query = f"SELECT 1 FROM v_media WHERE part = ? AND {expression} IS NOT NULL LIMIT 1"
        return bool(self._catalog.rows(query, part))

    def doubtful_sizes(self, images: Sequence[str], masks: Sequence[str]) -> list[tuple[Any, ...]]:
        """(width, height, orientation, width and height of the mask or None, number of samples, one of their keys).

        Of samples whose image has an EXIF orientation, or another size than their mask. `images`, `masks`: names of
        parts, of which the first that a sample has counts. Cost: about 1 us per image.
        """
        mask = f"= {_first_of(masks, '?2')}" if masks else "IS NULL"
        return self._catalog.rows(
            "SELECT i.width, i.height, form.orientation, m.width, m.height, count(*), min(key) FROM media AS i "
            "JOIN media_form AS form ON form.id = i.form AND form.kind = 'image' "
            f"LEFT JOIN media AS m ON m.sample = i.sample AND m.width IS NOT NULL AND m.ext {mask} "
            "LEFT JOIN sample ON sample.id = i.sample "
            f"WHERE i.ext = {_first_of(images, '?1')} "
            "AND (form.orientation != 1 OR m.width != i.width OR m.height != i.height) GROUP BY 1, 2, 3, 4, 5",
            *(json.dumps(list(names)) for names in (images, masks) if names),
        )

    def files(self) -> list[ShardFile]:
        """The files of a media folder, by path."""
        return [ShardFile(*row) for row in self._catalog.rows("SELECT path, size, mtime_ns FROM file ORDER BY path")]

    def file_totals(self) -> tuple[int, int]:
        """(files, bytes) of a media folder."""
        [(count, size_bytes)] = self._catalog.rows("SELECT count(*), coalesce(sum(size), 0) FROM file")
        return count, size_bytes

    def first_files(self, limit: int) -> list[tuple[ShardFile, MediumFacts | Unreadable | None]]:
        """The first files of a media folder by path, with their facts; None for files that are no media."""
        query = (
            f"SELECT file.path, file.size, file.mtime_ns, {_FORMAT}, {_MEASURES} FROM file "
            f"LEFT JOIN ({_WITH_FORMAT}) ON media.sample = file.id ORDER BY file.path LIMIT ?"
        )
        return [
            (ShardFile(path, size, mtime_ns), None if columns[0] is None else _facts(columns))
            for path, size, mtime_ns, *columns in self._catalog.rows(query, limit)
        ]


class MediaTables:
    """The media tables of one draft. `part_number` returns the number of a part name."""

    def __init__(self, connection: sqlite3.Connection, part_number: Callable[[str], int]) -> None:
        self._connection = connection
        self._part_number = part_number
        self._form_numbers: dict[SharedFacts, int] = {}
        self.reload_forms()

    def reload_forms(self) -> None:
        """Read the table `media_form`, after rows were copied into it."""
        rows = self._connection.execute("SELECT * FROM media_form")
        self._form_numbers = {SharedFacts(*columns): number for number, *columns in rows}

    def put_shard(self, shard_id: int, digest: bytes, media: Sequence[ScannedMedium]) -> None:
        """Replace the media of a shard."""
        self.remove_shard(shard_id)
        first = shard_id << INDEX_BITS
        rows = [self._row(first + medium.row, medium) for medium in media]
        self._insert("media", rows)
        self._put_keyframes((first + medium.row, medium) for medium in media)
        counts: dict[tuple[int, int], list[Any]] = {}
        for row, medium in zip(rows, media, strict=True):
            _add_to_counts(counts, row, medium.size)
        self._insert("media_count", [(shard_id, *kind, *count) for kind, count in counts.items()])
        self._insert("media_shard", [(shard_id, digest)])

    def update_shard_digest(self, shard_id: int, before: bytes, now: bytes) -> None:
        """Replace the digest of a shard after a change of the digest's computation. The content is unchanged."""
        query = "UPDATE media_shard SET mark = ? WHERE shard = ? AND mark = ?"
        self._connection.execute(query, (now, shard_id, before))

    def remove_shard(self, shard_id: int) -> None:
        for table in _SAMPLE_TABLES:
            query = f"DELETE FROM {table} WHERE sample >= ? AND sample < ?"
            self._connection.execute(query, sample_id_range(shard_id))
        for table in _SHARD_TABLES:
            self._connection.execute(f"DELETE FROM {table} WHERE shard = ?", (shard_id,))

    def clear(self) -> None:
        """Delete the facts of all media. Files of a media folder stay."""
        for table in (*_SAMPLE_TABLES, *_SHARD_TABLES, "media_form"):
            self._connection.execute(f"DELETE FROM {table}")
        self._form_numbers.clear()

    def put_files(self, files: Sequence[ShardFile], media: Sequence[ScannedMedium]) -> None:
        """Store files of a media folder, with the facts of those that are media (`row` is the index of its file)."""
        self.remove_files([file.path for file in files])
        [last] = self._connection.execute("SELECT coalesce(max(id), 0) FROM file").fetchone()
        ids = range(last + 1, last + 1 + len(files))
        self._insert("file", [(i, file.path, file.size, file.mtime_ns) for i, file in zip(ids, files, strict=True)])
        self._insert("media", [self._row(ids[medium.row], medium) for medium in media])
        self._put_keyframes((ids[medium.row], medium) for medium in media)

    def remove_files(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _IDS_PER_QUERY):
            batch = paths[start : start + _IDS_PER_QUERY]
            rows = self._connection.execute(f"SELECT id FROM file WHERE path IN {placeholders(len(batch))}", batch)
            ids = [file_id for (file_id,) in rows]
            for table, column in (*((table, "sample") for table in _SAMPLE_TABLES), ("file", "id")):
                self._connection.execute(f"DELETE FROM {table} WHERE {column} IN {placeholders(len(ids))}", ids)

    def count_files(self) -> None:
        """Compute the counts of a media folder, after files were added or removed. Cost: a pass over all files."""
        self._connection.execute("DELETE FROM media_count")
        self._connection.execute(
            f"INSERT INTO media_count SELECT {_FOLDER_SHARD}, media.ext, media.form, count(*), sum(file.size), "
            "min(width), max(width), min(height), max(height), sum(seconds), min(seconds), max(seconds) "
            "FROM media JOIN file ON file.id = media.sample GROUP BY media.ext, media.form"
        )

    def _row(self, sample: int, medium: ScannedMedium) -> tuple[Any, ...]:
        return sample, self._part_number(medium.part), self._form_number(medium.media_format), *medium.measures

    def _form_number(self, form: SharedFacts) -> int:
        if form not in self._form_numbers:
            self._form_numbers[form] = max(self._form_numbers.values(), default=0) + 1
            self._insert("media_form", [(self._form_numbers[form], *form)])
        return self._form_numbers[form]

    def _put_keyframes(self, media: Iterable[tuple[int, ScannedMedium]]) -> None:
        rows = [
            (sample, self._part_number(medium.part), medium.keyframes)
            for sample, medium in media
            if medium.keyframes is not None
        ]
        self._insert("keyframes", rows)

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._connection.executemany(f"INSERT INTO {table} VALUES {placeholders(len(rows[0]))}", rows)


def summarize_media(connection: sqlite3.Connection) -> list[MediaSummary]:
    """The media of a catalog or a draft by part and kind. Cost: a row per shard, part and format."""
    query = (
        f"SELECT ext.name, {_FORMAT}, sum(media), sum(bytes), min(width_min), max(width_max), min(height_min), "
        "max(height_max), sum(seconds), min(seconds_min), max(seconds_max) FROM media_count "
        "JOIN media_form ON media_form.id = media_count.form JOIN ext ON ext.id = media_count.ext "
        "GROUP BY media_count.ext, media_count.form"
    )
    tallies: dict[tuple[str, str], _MediaTally] = {}
    for part, *columns in connection.execute(query):
        form = SharedFacts(*columns[:_FORMAT_COLUMNS])
        tallies.setdefault((part, form.kind), _MediaTally()).add(form, *columns[_FORMAT_COLUMNS:])
    summaries = [tally.to_summary(part, kind) for (part, kind), tally in tallies.items()]
    return sorted(summaries, key=lambda summary: (summary.kind == "unreadable", -summary.media, summary.part))


def sample_id_range(shard_id: int) -> tuple[int, int]:
    """[first, stop): the ids that the samples of a shard may have."""
    return shard_id << INDEX_BITS, (shard_id + 1) << INDEX_BITS


def placeholders(count: int) -> str:
    """`(?, ?, ?)`"""
    return f"({', '.join('?' * count)})"


def _first_of(names: Sequence[str], parameter: str) -> str:
    """In SQL, the number of the first of these parts with media facts that the sample of `i` has."""
    if len(names) == 1:
        return f"(SELECT id FROM ext WHERE name = json_extract({parameter}, '$[0]'))"
    return (
        f"(SELECT o.ext FROM json_each({parameter}) AS each JOIN ext ON ext.name = each.value "
        "JOIN media AS o ON o.sample = i.sample AND o.ext = ext.id ORDER BY each.key LIMIT 1)"
    )


def _facts(columns: Sequence[Any]) -> MediumFacts | Unreadable:
    return facts_from_columns(SharedFacts(*columns[:_FORMAT_COLUMNS]), MediaMeasures(*columns[_FORMAT_COLUMNS:]))


@dataclass(slots=True)
class _MediaTally:
    """The running totals of one part and kind."""

    media: int = 0
    size_bytes: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    seconds: float | None = None
    width: tuple[int, int] | None = None
    height: tuple[int, int] | None = None
    seconds_range: tuple[float, float] | None = None

    def add(self, form: SharedFacts, media: int, size_bytes: int, *measures: Any) -> None:
        min_width, max_width, min_height, max_height, seconds, min_seconds, max_seconds = measures
        self.media += media
        self.size_bytes += size_bytes
        self.forms[_describe_format(form)] += media
        self.width = _widen_range(self.width, min_width, max_width)
        self.height = _widen_range(self.height, min_height, max_height)
        self.seconds_range = _widen_range(self.seconds_range, min_seconds, max_seconds)
        if seconds is not None:
            self.seconds = seconds + (self.seconds or 0.0)

    def to_summary(self, part: str, kind: Any) -> MediaSummary:
        return MediaSummary(
            part=part,
            kind=kind,
            media=self.media,
            size_bytes=self.size_bytes,
            forms=dict(self.forms.most_common()),
            width=self.width,
            height=self.height,
            seconds=self.seconds,
            seconds_range=self.seconds_range,
        )


def _widen_range(value_range: Any, low: Any, high: Any) -> Any:
    if low is None or high is None:
        return value_range
    return (low, high) if value_range is None else (min(value_range[0], low), max(value_range[1], high))


def _describe_format(form: SharedFacts) -> str:
    if form.kind == "image":
        first = f" ({FIRST_FRAME})" if form.frames_are == SEVERAL_FRAMES else ""
        return f"{form.format} {form.mode}{first}"
    if form.kind == "audio":
        return f"{form.codec} {form.audio_channels} ch {(form.audio_rate or 0) / 1000:g} kHz"
    return f"{form.format} {form.codec}" if form.kind == "video" else form.reason or ""


def _add_to_counts(counts: dict[tuple[int, int], list[Any]], row: tuple[Any, ...], size: int) -> None:
    """Add one row of `media` to the counts of its part and format."""
    _, ext, form, width, height, seconds, *_ = row
    count = counts.get((ext, form))
    if count is None:
        counts[ext, form] = [1, size, width, width, height, height, seconds, seconds, seconds]
        return
    count[0] += 1
    count[1] += size
    for i, value in ((2, width), (4, height), (7, seconds)):
        if value is not None:
            count[i] = value if count[i] is None else min(count[i], value)
            count[i + 1] = value if count[i + 1] is None else max(count[i + 1], value)
    if seconds is not None:
        count[6] = seconds + (count[6] or 0.0)
