"""Writes facts of media into a draft of the catalog: by shard, or by file of a folder of media."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update
from sqlalchemy.dialects import sqlite

from wdsctl.core.catalog import schema
from wdsctl.core.media.found import FoundMedium
from wdsctl.core.media.stored import Form
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.units import ShardFile

_AT_ONCE = 500  # ids in one statement: SQLite binds a limited number of values
_OF_FILES = 0  # stands for the shard in `media_count`, for all files of a folder

_COUNT = """
INSERT INTO media_count
SELECT {shard}, media.ext, media.form, count(*), sum({size}), min(width), max(width), min(height), max(height),
       sum(seconds), min(seconds), max(seconds)
FROM media {joined} GROUP BY media.ext, media.form
"""


class MediaTables:
    """The tables of media of one draft. `number_of` gives a part name its number."""

    def __init__(self, connection: Connection, number_of: Callable[[str], int]) -> None:
        self._connection = connection
        self._number_of = number_of
        self._forms: dict[Form, int] = {}
        self.look_again()

    def look_again(self) -> None:
        """Take in the forms that there are: after rows were copied from elsewhere."""
        rows = self._connection.execute(select(schema.media_form))
        self._forms = {Form(*row[1:]): int(row[0]) for row in rows}

    def put_shard(self, shard_id: int, mark: bytes, media: Sequence[FoundMedium]) -> None:
        """The media of a shard, in the place of those that it had."""
        self.remove_shard(shard_id)
        first = shard_id << INDEX_BITS
        rows = [self._row(first + each.row, each) for each in media]
        self._many(schema.media, rows)
        self._put_keyframes((first + each.row, each) for each in media)
        counts: dict[tuple[int, int], list[Any]] = {}
        for row, each in zip(rows, media, strict=True):
            _count(counts, row, each.size)
        self._many(schema.media_count, [(shard_id, *kind, *count) for kind, count in counts.items()])
        self._connection.execute(insert(schema.media_shard), {"shard": shard_id, "mark": mark})

    def mark_again(self, shard_id: int, before: bytes, now: bytes) -> None:
        """The mark `now` in the place of `before`: the same content under another name."""
        t = schema.media_shard.c
        same = update(schema.media_shard).where(t.shard == shard_id, t.mark == before)
        self._connection.execute(same.values(mark=now))

    def remove_shard(self, shard_id: int) -> None:
        first = shard_id << INDEX_BITS
        for table in (schema.media, schema.keyframes):
            t = table.c.sample
            self._connection.execute(delete(table).where(t >= first, t < first + schema.SAMPLES_A_SHARD))
        for table in (schema.media_shard, schema.media_count):
            self._connection.execute(delete(table).where(table.c.shard == shard_id))

    def clear(self) -> None:
        """Forget the facts of all media; files of a folder stay."""
        for table in (schema.media, schema.keyframes, schema.media_shard, schema.media_count, schema.media_form):
            self._connection.execute(delete(table))
        self._forms.clear()

    def put_files(self, files: Sequence[ShardFile], media: Sequence[FoundMedium]) -> None:
        """Files of a folder of media, with the facts of those that are media (`row` is that of its file)."""
        self.remove_files([each.path for each in files])
        last = self._connection.execute(text("SELECT coalesce(max(id), 0) FROM file")).scalar_one()
        ids = range(last + 1, last + 1 + len(files))
        self._many(schema.file, [(i, each.path, each.size, each.mtime_ns) for i, each in zip(ids, files, strict=True)])
        self._many(schema.media, [self._row(ids[each.row], each) for each in media])
        self._put_keyframes((ids[each.row], each) for each in media)

    def remove_files(self, paths: Sequence[str]) -> None:
        t = schema.file.c
        for at in range(0, len(paths), _AT_ONCE):
            query = select(t.id).where(t.path.in_(paths[at : at + _AT_ONCE]))
            gone = list(self._connection.execute(query).scalars())
            for table in (schema.media, schema.keyframes):
                self._connection.execute(delete(table).where(table.c.sample.in_(gone)))
            self._connection.execute(delete(schema.file).where(t.id.in_(gone)))

    def count_files(self) -> None:
        """The counts of a folder of media, after its files have come and gone. Cost: a pass over all of them."""
        self._connection.execute(delete(schema.media_count))
        joined = "JOIN file ON file.id = media.sample"
        self._connection.execute(text(_COUNT.format(shard=_OF_FILES, size="file.size", joined=joined)))

    def _row(self, sample: int, medium: FoundMedium) -> tuple[Any, ...]:
        return sample, self._number_of(medium.part), self._form(medium.form), *medium.numbers

    def _form(self, form: Form) -> int:
        if form not in self._forms:
            self._forms[form] = max(self._forms.values(), default=0) + 1
            self._connection.execute(insert(schema.media_form), {"id": self._forms[form], **form._asdict()})
        return self._forms[form]

    def _put_keyframes(self, media: Iterable[tuple[int, FoundMedium]]) -> None:
        rows = [(i, self._number_of(each.part), each.keyframes) for i, each in media if each.keyframes is not None]
        self._many(schema.keyframes, rows)

    def _many(self, table: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        cursor: Any = self._connection.connection.cursor()
        cursor.executemany(str(insert(table).compile(dialect=sqlite.dialect())), rows)


def _count(counts: dict[tuple[int, int], list[Any]], row: tuple[Any, ...], size: int) -> None:
    """Add one row of `media` to the counts of its part and form."""
    _, ext, form, width, height, seconds, *_ = row
    held = counts.get((ext, form))
    if held is None:
        counts[ext, form] = [1, size, width, width, height, height, seconds, seconds, seconds]
        return
    held[0] += 1
    held[1] += size
    for at, value in ((2, width), (4, height), (7, seconds)):
        if value is not None:
            held[at] = value if held[at] is None else min(held[at], value)
            held[at + 1] = value if held[at + 1] is None else max(held[at + 1], value)
    if seconds is not None:
        held[6] = seconds + (held[6] or 0.0)
