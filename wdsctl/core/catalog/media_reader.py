"""Reads facts of media from a published catalog: of samples, of files, and what they are on the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, func, select

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.media_line import MediaLine
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.stored import Form, Numbers, facts_of
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.units import ShardFile

_AT_ONCE = 500  # ids in one statement: SQLite binds a limited number of values
_FORM = [schema.media_form.c[name] for name in Form._fields]
_NUMBERS = [schema.media.c[name] for name in Numbers._fields]
_FORM_JOIN = schema.media.join(schema.media_form, schema.media_form.c.id == schema.media.c.form)


class MediaReader:
    """Of one catalog that has facts of media: `Catalog.media`. `reading` opens a connection for a query."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._reading = reading

    def marks(self) -> dict[int, bytes]:
        """By the id of every shard whose media are in the catalog, what names its content and what was asked of it."""
        t = schema.media_shard.c
        with self._reading() as connection:
            return {shard: mark for shard, mark in connection.execute(select(t.shard, t.mark))}  # noqa: C416

    def lines(self) -> list[MediaLine]:
        """What the media are on the whole, by part and kind. Cost: a row a shard, part and form."""
        t, form = schema.media_count.c, schema.media_form
        of_numbers = (
            func.min(t.width_min),
            func.max(t.width_max),
            func.min(t.height_min),
            func.max(t.height_max),
            func.sum(t.seconds),
            func.min(t.seconds_min),
            func.max(t.seconds_max),
        )
        query = (
            select(schema.ext.c.name, *_FORM, func.sum(t.media), func.sum(t.bytes), *of_numbers)
            .join_from(schema.media_count, form, form.c.id == t.form)
            .join(schema.ext, schema.ext.c.id == t.ext)
            .group_by(t.ext, t.form)
        )
        lines: dict[tuple[str, str], _Line] = {}
        with self._reading() as connection:
            for part, *row in connection.execute(query):
                made, numbers = Form(*row[: len(_FORM)]), row[len(_FORM) :]
                lines.setdefault((part, made.kind), _Line()).add(made, *numbers)
        done = [line.done(part, kind) for (part, kind), line in lines.items()]
        return sorted(done, key=lambda line: (line.kind == "unreadable", -line.media, line.part))

    def facts(self, samples: Sequence[int]) -> dict[tuple[int, str], Facts | Unreadable]:
        """The facts of these samples' media, by sample id and part."""
        query = select(schema.media.c.sample, schema.ext.c.name, *_FORM, *_NUMBERS)
        joined = query.select_from(_FORM_JOIN.join(schema.ext, schema.ext.c.id == schema.media.c.ext))
        found = {}
        for at in range(0, len(samples), _AT_ONCE):
            some = joined.where(schema.media.c.sample.in_(samples[at : at + _AT_ONCE]))
            for sample, part, *rest in self._rows(some):
                found[sample, part] = _facts(rest)
        return found

    def stored(self, samples: Sequence[int]) -> Iterator[tuple[int, str, Form, Numbers, bytes | None]]:
        """(sample id, part, form, numbers, keyframes if there are any) of every medium of these samples, as it is kept.

        Cost: some 5 us a medium.
        """
        t, k = schema.media.c, schema.keyframes.c
        names = dict(map(tuple, self._rows(select(schema.ext.c.id, schema.ext.c.name))))
        forms = {number: Form(*row) for number, *row in self._rows(select(schema.media_form.c.id, *_FORM))}
        on = (k.sample == t.sample) & (k.ext == t.ext)
        query = select(t.sample, t.ext, t.form, k.data, *_NUMBERS).select_from(
            schema.media.outerjoin(schema.keyframes, on)
        )
        for at in range(0, len(samples), _AT_ONCE):
            some = query.where(t.sample.in_(samples[at : at + _AT_ONCE]))
            for sample, ext, form, keyframes, *numbers in self._rows(some):
                yield sample, names[ext], forms[form], Numbers(*numbers), keyframes

    def rows_of(self, shard_id: int, part: str) -> Iterator[tuple[int, Facts | Unreadable]]:
        """(index in the shard, facts) of every medium of one part of a shard, in order."""
        first, t = shard_id << INDEX_BITS, schema.media.c
        query = (
            select(t.sample, *_FORM, *_NUMBERS)
            .select_from(_FORM_JOIN.join(schema.ext, schema.ext.c.id == t.ext))
            .where(schema.ext.c.name == part, t.sample >= first, t.sample < first + schema.SAMPLES_A_SHARD)
            .order_by(t.sample)
        )
        for sample, *rest in self._rows(query):
            yield sample - first, _facts(rest)

    def of_shard(self, shard_id: int) -> dict[tuple[int, str], Facts | Unreadable]:
        """The facts of all media of a shard, by the sample's place in it and the part. Cost: a row a medium."""
        first, t = shard_id << INDEX_BITS, schema.media.c
        query = (
            select(t.sample, schema.ext.c.name, *_FORM, *_NUMBERS)
            .select_from(_FORM_JOIN.join(schema.ext, schema.ext.c.id == t.ext))
            .where(t.sample >= first, t.sample < first + schema.SAMPLES_A_SHARD)
        )
        return {(sample - first, part): _facts(rest) for sample, part, *rest in self._rows(query)}

    def files(self) -> list[ShardFile]:
        """The files of a folder of media, by path."""
        t = schema.file.c
        with self._reading() as connection:
            query = select(t.path, t.size, t.mtime_ns).order_by(t.path)
            return [ShardFile(*row) for row in connection.execute(query)]

    def file_totals(self) -> tuple[int, int]:
        """How many files there are in a folder of media, and their bytes."""
        t = schema.file.c
        with self._reading() as connection:
            count, size = connection.execute(select(func.count(), func.coalesce(func.sum(t.size), 0))).one()
        return int(count), int(size)

    def first_files(self, limit: int) -> list[tuple[ShardFile, Facts | Unreadable | None]]:
        """The first files of a folder of media by path, with their facts; None for what is no medium."""
        t = schema.file
        on = schema.media.c.sample == t.c.id
        query = (
            select(t.c.path, t.c.size, t.c.mtime_ns, *_FORM, *_NUMBERS)
            .select_from(t.outerjoin(_FORM_JOIN, on))
            .order_by(t.c.path)
            .limit(limit)
        )
        return [
            (ShardFile(path, size, mtime_ns), None if rest[0] is None else _facts(rest))
            for path, size, mtime_ns, *rest in self._rows(query)
        ]

    def _rows(self, query: Select[Any]) -> Iterator[Any]:
        with self._reading() as connection:
            yield from connection.execute(query)


def _facts(row: Sequence[Any]) -> Facts | Unreadable:
    return facts_of(Form(*row[: len(_FORM)]), Numbers(*row[len(_FORM) :]))


@dataclass(slots=True)
class _Line:
    """A line being added up."""

    media: int = 0
    size_bytes: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    seconds: float | None = None
    width: tuple[int, int] | None = None
    height: tuple[int, int] | None = None
    seconds_range: tuple[float, float] | None = None

    def add(self, form: Form, media: int, size_bytes: int, *numbers: Any) -> None:
        low_width, high_width, low_height, high_height, seconds, least, most = numbers
        self.media += media
        self.size_bytes += size_bytes
        self.forms[_in_words(form)] += media
        self.width = _wider(self.width, low_width, high_width)
        self.height = _wider(self.height, low_height, high_height)
        self.seconds_range = _wider(self.seconds_range, least, most)
        if seconds is not None:
            self.seconds = seconds + (self.seconds or 0.0)

    def done(self, part: str, kind: Any) -> MediaLine:
        return MediaLine(
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


def _wider(held: Any, least: Any, most: Any) -> Any:
    if least is None or most is None:
        return held
    return (least, most) if held is None else (min(held[0], least), max(held[1], most))


def _in_words(form: Form) -> str:
    if form.kind == "image":
        return f"{form.format} {form.mode}"
    if form.kind == "audio":
        return f"{form.codec} {form.audio_channels} ch {(form.audio_rate or 0) / 1000:g} kHz"
    return f"{form.format} {form.codec}" if form.kind == "video" else form.reason or ""
