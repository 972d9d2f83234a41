"""Samples by key, and shards and keys one after the other, from a published catalog: for `get`, `ls` and `inspect`.

The standard library alone, so that a command answers before SQLAlchemy or numpy would be imported. A key is one search
in an index; what is listed is never held as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from wdsctl.core.catalog.database_file import error_of
from wdsctl.core.catalog.facts import generation_of
from wdsctl.core.catalog.identity import DAMAGE, damaged
from wdsctl.core.catalog.media_settings import FACT, FOLDER, KIND
from wdsctl.core.catalog.placed import Members, PartPlace, Placed, ShardLine
from wdsctl.core.catalog.published import connect
from wdsctl.core.catalog.typed_rows import typed
from wdsctl.core.checked_file import UNFIT
from wdsctl.core.json_text import read_json
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.stored import Form, Numbers, facts_of
from wdsctl.core.printable import printable
from wdsctl.core.sample_id import INDEX_BITS

_LAST = chr(0x10FFFF)
_AT_ONCE = 500  # rows fetched together

_SAMPLE = (
    "SELECT sample.id, sample.key, shard.path, shard.size, sample.offset, sample.size, sample.parts "
    "FROM sample JOIN shard ON shard.id = sample.id >> 28 WHERE shard.removed IS NULL"
)
_FILE = "SELECT id, path, size FROM file"
_FACTS = (
    f"SELECT media.ext, {', '.join(f'media_form.{name}' for name in Form._fields)}, "
    f"{', '.join(f'media.{name}' for name in Numbers._fields)} "
    "FROM media JOIN media_form ON media_form.id = media.form WHERE sample = ?"
)


class Browser:
    """One published catalog, which never changes. For one thread; close it, or use it in a `with`.

    Raises CatalogError WDS301, WDS302 and WDS303.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = connect(path)
        self.meta: dict[str, str] = dict(self._rows("SELECT key, value FROM meta"))
        self.is_media_folder: bool = self.meta.get(KIND) == FOLDER
        self._parts: dict[int, str] = dict(self._rows("SELECT id, name FROM ext"))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def generation(self) -> int:
        return generation_of(self._path, self.meta)

    @property
    def has_rows(self) -> bool:
        """Whether samples have rows: a catalog may have counts alone, its samples being in the offsets file."""
        if self.is_media_folder or self._rows("SELECT 1 FROM sample LIMIT 1"):
            return True
        return not self._rows("SELECT 1 FROM shard WHERE removed IS NULL AND samples > 0 LIMIT 1")

    def find(self, key: str, limit: int = 1_000) -> list[Placed]:
        """Every sample of this key, in tar order; the first `limit` of them. One search in an index."""
        wanted = _bound(key)
        if self.is_media_folder:
            return [self._file(row) for row in self._rows(f"{_FILE} WHERE path = ? LIMIT ?", wanted, limit)]
        query = f"{_SAMPLE} AND sample.key = ? ORDER BY sample.id LIMIT ?"
        return [self._sample(row) for row in self._rows(query, wanted, limit)]

    def neighbours(self, key: str) -> list[str]:
        """The keys before and after the place where this one would stand: what may have been meant."""
        table, column = ("file", "path") if self.is_media_folder else ("sample", "key")
        found = []
        for sign, order in (("<", "DESC"), (">", "ASC")):
            query = f"SELECT {column} FROM {table} WHERE {column} {sign} ? ORDER BY {column} {order} LIMIT 1"
            with self._reading():
                found += [row[0] for row in typed(self._rows(query, _bound(key)), "text")]
        return found

    def shards(self, prefix: str = "") -> Iterator[ShardLine]:
        """The shards whose path begins so, by path; the files, of a folder of media."""
        if self.is_media_folder:
            where, values = _range("path", prefix)
            for path, size in self._each(f"SELECT path, size FROM file WHERE {where} ORDER BY path", *values):
                yield ShardLine(path, size, 1, "ok")
            return
        where, values = _range("path", prefix)
        query = f"SELECT path, size, samples, status FROM shard WHERE removed IS NULL AND {where} ORDER BY path"
        for row in self._each(query, *values):
            yield ShardLine(*row)

    def samples(self, prefix: str = "") -> Iterator[Placed]:
        """In tar order; with a prefix those whose key begins so, by key. Memory does not grow with their number."""
        if self.is_media_folder:
            where, values = _range("path", prefix)
            for row in self._each(f"{_FILE} WHERE {where} ORDER BY path", *values):
                yield self._file(row)
            return
        where, values = _range("sample.key", prefix)
        # `+` keeps the planner from walking shard by shard, which would sort.
        order = "sample.key, sample.id" if prefix else "sample.id"
        query = _SAMPLE.replace("JOIN shard", "CROSS JOIN shard")
        for row in self._each(f"{query} AND {where} ORDER BY {order}", *values):
            yield self._sample(row)

    def paths(self, shards: Iterable[int]) -> set[str]:
        """The paths of these shards."""
        wanted = set(shards)
        return {path for number, path in self._rows("SELECT id, path FROM shard") if number in wanted}

    def keys(self, prefix: str = "") -> Iterator[tuple[int, str]]:
        """(id, key) as `samples` has them, at a tenth of its cost."""
        if self.is_media_folder:
            where, values = _range("path", prefix)
            yield from self._typed(f"SELECT id, path FROM file WHERE {where} ORDER BY path", *values)
            return
        where, values = _range("key", prefix)
        order = "key, id" if prefix else "id"
        yield from self._typed(f"SELECT id, key FROM sample WHERE {where} ORDER BY {order}", *values)

    def file_ids(self) -> Iterator[int]:
        """Of a folder of media, the files by path."""
        for row in self._each("SELECT id FROM file ORDER BY path"):
            yield row[0]

    def file(self, number: int) -> Placed:
        return self._file(self._rows(f"{_FILE} WHERE id = ?", number)[0])

    def facts(self, sample: Placed) -> dict[str, Facts | Unreadable]:
        """What the catalog has of the sample's media, by part."""
        if not self.has_facts:
            return {}
        count = len(Form._fields)
        return {
            sample.parts[0].name if self.is_media_folder else self._parts[ext]: facts_of(
                Form(*row[:count]), Numbers(*row[count:])
            )
            for ext, *row in self._rows(_FACTS, sample.id)
        }

    @property
    def has_facts(self) -> bool:
        """Whether somebody has asked for facts of media."""
        return FACT in self.meta

    def media_count(self) -> int:
        return int(self._rows("SELECT count(*) FROM media")[0][0])

    def forms(self) -> dict[int, Form]:
        """What media have in common, by number."""
        return {row[0]: Form(*row[1:]) for row in self._rows(f"SELECT id, {', '.join(Form._fields)} FROM media_form")}

    def media_blocks(self, size: int) -> Iterator[list[tuple[int, int, int | None, int | None, float | None]]]:
        """(part's number, form's number, width, height, seconds) of all media, `size` of them at a time."""
        with self._reading():
            cursor = self._connection.execute("SELECT ext, form, width, height, seconds FROM media")
            while block := cursor.fetchmany(size):
                yield block

    def part_name(self, number: int) -> str:
        return self._parts[number]

    def part_names(self) -> list[str]:
        """All that there ever was, in the order that they were found."""
        return list(self._parts.values())

    def splits(self) -> list[str]:
        return [row[0] for row in self._rows("SELECT name FROM split ORDER BY id")]

    def shard_samples(self) -> dict[int, int]:
        """How many samples each shard has, by its id."""
        return dict(self._rows("SELECT id, samples FROM shard WHERE removed IS NULL"))

    def members(self, split: str) -> Members | None:
        """None where there is no such split."""
        if split not in self.splits():
            return None
        query = (
            "SELECT shard, bits FROM split_shard JOIN split ON split.id = split_shard.split "
            "WHERE split.name = ? AND split_shard.samples > 0"
        )
        return Members(dict(self._rows(query, split)))

    def splits_of(self, sample: int) -> list[str]:
        """The splits that have this sample."""
        query = (
            "SELECT split.name, bits FROM split_shard JOIN split ON split.id = split_shard.split "
            "WHERE split_shard.shard = ? AND split_shard.samples > 0 ORDER BY split.id"
        )
        shard = sample >> INDEX_BITS
        return [name for name, bits in self._rows(query, shard) if Members({shard: bits}).has(sample)]

    def _sample(self, row: tuple[int, str, str, int, int, int, str]) -> Placed:
        with self._reading():
            [row] = typed([row], "count", "text", "text", "count", "count", "count", "text")
        number, key, shard, shard_size, offset, size, told = row
        try:
            places = read_json(told)
            parts = tuple(PartPlace(self._parts[ext], offset + at, length) for ext, at, length in places)
            if not all(_is_in(part, shard_size) for part in parts):
                raise ValueError(row)
        except UNFIT as error:
            raise damaged(self._path, f"the parts of sample {number} do not parse") from error
        return Placed(id=number, key=key, shard=shard, shard_size=shard_size, offset=offset, size=size, parts=parts)

    def _file(self, row: tuple[int, str, int]) -> Placed:
        number, path, size = row
        part = PartPlace(os.path.splitext(path)[1].removeprefix(".") or "file", 0, size)
        return Placed(id=number, key=path, shard=path, shard_size=size, offset=0, size=size, parts=(part,))

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._reading():
            return self._connection.execute(query, values).fetchall()

    def _typed(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows of a number and a text."""
        with self._reading():
            yield from typed(self._each(query, *values), "count", "text")

    def _each(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with self._reading():
            cursor = self._connection.execute(query, values)
        while True:
            with self._reading():
                rows = cursor.fetchmany(_AT_ONCE)
            if not rows:
                return
            yield from rows

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            raise damaged(self._path, error_of(self._path, error)) from error


def _is_in(part: PartPlace, shard_size: int) -> bool:
    """Whether a part is within its shard."""
    at, size = part[1:]
    return type(at) is type(size) is int and min(at, size) >= 0 and at + size <= shard_size


def after(prefix: str) -> str | None:
    """The least text that sorts behind everything that begins with `prefix`, by bytes of UTF-8; None: there is none."""
    kept = prefix.rstrip(_LAST)
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)


def _range(column: str, prefix: str) -> tuple[str, tuple[str, ...]]:
    """The condition for a prefix as two bounds, which an index serves."""
    if not prefix:
        return "1", ()
    wanted = _bound(prefix)
    end = after(wanted)
    return (f"{column} >= ? AND {column} < ?", (wanted, end)) if end is not None else (f"{column} >= ?", (wanted,))


def _bound(text: str) -> str:
    """What the catalog has in the place of bytes that are no UTF-8."""
    return printable(text)
