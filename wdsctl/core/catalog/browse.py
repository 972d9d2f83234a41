"""Looks up and lists samples of a published catalog by key, prefix or file name: for `get`, `ls` and stores.

Standard library only, so that a command answers before numpy would be imported. A lookup searches one index, whatever
the number of samples. Listings are iterators and are never held in memory as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.catalog.database_file import check_row_types
from wdsctl.core.catalog.open_catalog import damaged_catalog_error, no_sample_rows_error, translate_catalog_errors
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import PartLocation, SampleLocation, ShardSummary, SplitMembers
from wdsctl.core.files import MALFORMED_ERRORS
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import INDEX_BITS, possible_keys
from wdsctl.core.text import printable_path

if TYPE_CHECKING:
    from wdsctl.core.media.facts import MediumFacts, Unreadable

_LAST = chr(0x10FFFF)

_SAMPLE = (
    "SELECT sample.id, sample.key, shard.path, shard.size, sample.offset, sample.size, sample.parts "
    "FROM sample JOIN shard ON shard.id = sample.id >> 28 WHERE shard.removed IS NULL"
)
_FILE = "SELECT id, path, size FROM file"
_SAMPLES_WITH_KEY = (
    "SELECT sample.id, shard.path, sample.offset, sample.parts FROM sample JOIN shard ON shard.id = sample.id >> 28 "
    "WHERE sample.key = ? ORDER BY sample.id"
)


class CatalogBrowser:
    """The samples of an open catalog. For one thread."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.is_media_folder = self.catalog.is_media_folder
        self.has_facts = self.catalog.has_media_facts
        self._rows = self.catalog.rows
        self._iter_rows = self.catalog.iter_rows
        self._part_names: dict[int, str] = dict(self._rows("SELECT id, name FROM ext"))

    @property
    def generation(self) -> int:
        return self.catalog.generation

    @property
    def has_rows(self) -> bool:
        """Whether samples have rows. If not, the offsets file has them."""
        if self.is_media_folder or self._rows("SELECT 1 FROM sample LIMIT 1"):
            return True
        return not self._rows("SELECT 1 FROM shard WHERE removed IS NULL AND samples > 0 LIMIT 1")

    def find(self, key: str, limit: int = 1_000) -> list[SampleLocation]:
        """The first `limit` samples with this key, in tar order. One search in an index."""
        stored_key = _as_stored(key)
        if self.is_media_folder:
            return [self._file(row) for row in self._rows(f"{_FILE} WHERE path = ? LIMIT ?", stored_key, limit)]
        query = f"{_SAMPLE} AND sample.key = ? ORDER BY sample.id LIMIT ?"
        return [self._sample(row) for row in self._rows(query, stored_key, limit)]

    def neighbours(self, key: str) -> list[str]:
        """The keys before and after this one in the order of keys, as suggestions for a key that does not exist."""
        table, column = ("file", "path") if self.is_media_folder else ("sample", "key")
        found = []
        for sign, order in (("<", "DESC"), (">", "ASC")):
            query = f"SELECT {column} FROM {table} WHERE {column} {sign} ? ORDER BY {column} {order} LIMIT 1"
            with translate_catalog_errors(self.catalog.path):
                found += [row[0] for row in check_row_types(self._rows(query, _as_stored(key)), "text")]
        return found

    def shards(self, prefix: str = "") -> Iterator[ShardSummary]:
        """The shards whose path has the prefix, by path; in a media folder, the files."""
        if self.is_media_folder:
            where, values = _range("path", prefix)
            for path, size in self._iter_rows(f"SELECT path, size FROM file WHERE {where} ORDER BY path", *values):
                yield ShardSummary(path, size, 1, "ok")
            return
        where, values = _range("path", prefix)
        query = f"SELECT path, size, samples, status FROM shard WHERE removed IS NULL AND {where} ORDER BY path"
        for row in self._iter_rows(query, *values):
            yield ShardSummary(*row)

    def samples(self, prefix: str = "") -> Iterator[SampleLocation]:
        """All samples in tar order, or those with a key prefix, by key. Memory does not grow with their number."""
        if self.is_media_folder:
            where, values = _range("path", prefix)
            for row in self._iter_rows(f"{_FILE} WHERE {where} ORDER BY path", *values):
                yield self._file(row)
            return
        where, values = _range("sample.key", prefix)
        # `+` keeps the planner from iterating by shard, after which it would have to sort.
        order = "sample.key, sample.id" if prefix else "sample.id"
        query = _SAMPLE.replace("JOIN shard", "CROSS JOIN shard")
        for row in self._iter_rows(f"{query} AND {where} ORDER BY {order}", *values):
            yield self._sample(row)

    def paths(self, shards: Iterable[int]) -> set[str]:
        """The paths of these shards."""
        shard_ids = set(shards)
        return {path for number, path in self._rows("SELECT id, path FROM shard") if number in shard_ids}

    def keys(self, prefix: str = "") -> Iterator[tuple[int, str]]:
        """(id, key) of what `samples` yields, at a tenth of its cost."""
        if self.is_media_folder:
            where, values = _range("path", prefix)
            yield from self._iter_checked_rows(f"SELECT id, path FROM file WHERE {where} ORDER BY path", *values)
            return
        where, values = _range("key", prefix)
        order = "key, id" if prefix else "id"
        yield from self._iter_checked_rows(f"SELECT id, key FROM sample WHERE {where} ORDER BY {order}", *values)

    def file_ids(self) -> Iterator[int]:
        """The files of a media folder, by path."""
        for row in self._iter_rows("SELECT id FROM file ORDER BY path"):
            yield row[0]

    def file(self, number: int) -> SampleLocation:
        return self._file(self._rows(f"{_FILE} WHERE id = ?", number)[0])

    def part_name(self, number: int) -> str:
        return self._part_names[number]

    def part_names(self) -> list[str]:
        """All part names that the catalog ever had, in the order in which `index` found them."""
        return list(self._part_names.values())

    def shard_sample_counts(self) -> dict[int, int]:
        """Shard id -> number of samples."""
        return dict(self._rows("SELECT id, samples FROM shard WHERE removed IS NULL"))

    def members(self, split: str) -> SplitMembers | None:
        """The samples of a split; None if there is no such split."""
        if split not in self.catalog.split_names():
            return None
        query = (
            "SELECT shard, bits FROM split_shard JOIN split ON split.id = split_shard.split "
            "WHERE split.name = ? AND split_shard.samples > 0"
        )
        return SplitMembers(dict(self._rows(query, split)))

    def splits_of(self, sample: int) -> list[str]:
        """The splits that have this sample."""
        query = (
            "SELECT split.name, bits FROM split_shard JOIN split ON split.id = split_shard.split "
            "WHERE split_shard.shard = ? AND split_shard.samples > 0 ORDER BY split.id"
        )
        shard = sample >> INDEX_BITS
        return [name for name, bits in self._rows(query, shard) if SplitMembers({shard: bits}).has(sample)]

    def _sample(self, row: tuple[int, str, str, int, int, int, str]) -> SampleLocation:
        with translate_catalog_errors(self.catalog.path):
            [row] = check_row_types([row], "count", "text", "text", "count", "count", "count", "text")
        number, key, shard, shard_size, offset, size, stored_parts = row
        try:
            locations = read_json(stored_parts)
            parts = tuple(PartLocation(self._part_names[ext], offset + at, length) for ext, at, length in locations)
            if not all(_is_within_shard(part, shard_size) for part in parts):
                raise ValueError(row)
        except MALFORMED_ERRORS as error:
            raise damaged_catalog_error(self.catalog.path, f"the parts of sample {number} do not parse") from error
        return SampleLocation(
            id=number, key=key, shard=shard, shard_size=shard_size, offset=offset, size=size, parts=parts
        )

    def _file(self, row: tuple[int, str, int]) -> SampleLocation:
        number, path, size = row
        part = PartLocation(os.path.splitext(path)[1].removeprefix(".") or "file", 0, size)
        return SampleLocation(id=number, key=path, shard=path, shard_size=size, offset=0, size=size, parts=(part,))

    def _iter_checked_rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows of a number and a text, checked."""
        with translate_catalog_errors(self.catalog.path):
            yield from check_row_types(self._iter_rows(query, *values), "count", "text")


def _is_within_shard(part: PartLocation, shard_size: int) -> bool:
    """Whether a part is within its shard."""
    at, size = part[1:]
    return type(at) is type(size) is int and min(at, size) >= 0 and at + size <= shard_size


def prefix_end(prefix: str) -> str | None:
    """The smallest text that sorts after every text with this prefix, by bytes of UTF-8; None if there is none."""
    kept = prefix.rstrip(_LAST)
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)


def _range(column: str, prefix: str) -> tuple[str, tuple[str, ...]]:
    """The condition for a prefix as two bounds, for which SQLite uses the index."""
    if not prefix:
        return "1", ()
    stored_prefix = _as_stored(prefix)
    end = prefix_end(stored_prefix)
    return (
        (f"{column} >= ? AND {column} < ?", (stored_prefix, end))
        if end is not None
        else (f"{column} >= ?", (stored_prefix,))
    )


def _as_stored(text: str) -> str:
    """The text as the catalog stores it: escapes represent bytes that are not UTF-8."""
    return printable_path(text)


class NamedPart(NamedTuple):
    """The location of a named part or file."""

    sample: int  # the id of the sample, or of the file in a media folder
    ext: int | None  # the number of the part; None in a media folder
    path: str  # of the shard or the file, relative to the root
    offset: int
    size: int


class NameLookup:
    """Parts of samples, or files of a media folder, by file name. For one thread; close it, or use it in a `with`.

    Raises CatalogError WDS301, WDS302 and WDS303.
    """

    def __init__(self, path: str) -> None:
        self._catalog = Catalog.open(path)
        self._rows = self._catalog.rows
        self.is_media_folder = self._catalog.is_media_folder
        self.has_facts = self._catalog.has_media_facts
        self._has_rows = self._catalog.has_sample_rows
        self._parts = {name: number for number, name in self._rows("SELECT id, name FROM ext")}

    def __enter__(self) -> NameLookup:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._catalog.close()

    def find(self, name: str) -> list[NamedPart]:
        """All parts of this name (`a/b/7.seg.png`), in id order: several if a key is repeated.

        Raises CatalogError WDS307 if samples have no rows.
        """
        if self.is_media_folder:
            return [
                NamedPart(number, None, path, 0, size)
                for number, path, size in self._rows(f"{_FILE} WHERE path = ?", name)
            ]
        if not self._has_rows:
            raise no_sample_rows_error(self._catalog.path)
        for key, part in possible_keys(name):
            if part in self._parts and (found := self._find_part(key, self._parts[part])):
                return found
        return []

    def _find_part(self, key: str, ext: int) -> list[NamedPart]:
        found = []
        for sample, shard, start, parts in self._rows(_SAMPLES_WITH_KEY, key):
            # If a sample has a part twice, the last one counts, as everywhere.
            try:
                locations = [(start + at, size) for number, at, size in read_json(parts) if number == ext][-1:]
                if any(type(at) is not int or type(size) is not int or min(at, size) < 0 for at, size in locations):
                    raise ValueError(parts)
            except MALFORMED_ERRORS as error:
                raise damaged_catalog_error(self._catalog.path, f"the parts of sample {sample} do not parse") from error
            found += [NamedPart(sample, ext, shard, at, size) for at, size in locations]
        return found

    def facts(self, part: NamedPart) -> MediumFacts | Unreadable | None:
        """The media facts of a part; None if the catalog has none."""
        return self._catalog.media_reader.facts_of_part(part.sample, part.ext) if self.has_facts else None

    def keyframes(self, part: NamedPart) -> bytes | None:
        """The `KeyframeIndex.to_bytes()` of a part; None if it is not an indexed video."""
        return self._catalog.media_reader.keyframes_of_part(part.sample, part.ext) if self.has_facts else None
