"""Reads a published catalog. Speaks of shards, samples and splits, not of rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, inspect, null, select, text
from sqlalchemy.exc import DatabaseError

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.alike_keys import AlikeKeys, alike_keys
from wdsctl.core.catalog.database_file import error_of
from wdsctl.core.catalog.engine import open_published
from wdsctl.core.catalog.fact_names import HASHED, KEY_FIELD, KEY_UNTIL
from wdsctl.core.catalog.facts import exclude_of, generation_of, media_settings_of, selection_of
from wdsctl.core.catalog.identity import DAMAGE, SAMPLE_ROWS, damaged, without_rows
from wdsctl.core.catalog.line_rows import are_implied
from wdsctl.core.catalog.media_reader import MediaReader
from wdsctl.core.catalog.media_settings import FOLDER, KIND, MediaSettings
from wdsctl.core.catalog.repeated_lines import repeated_lines
from wdsctl.core.catalog.shard_row import Held, ShardRow
from wdsctl.core.catalog.split_rows import SplitReader
from wdsctl.core.catalog.totals import PartCount, SplitCount, part_counts, split_counts
from wdsctl.core.catalog.typed_rows import typed
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.selected_shards import Selection
from wdsctl.core.split_rules import SplitRule

_AT_ONCE = 500  # ids in one statement: SQLite binds a limited number of values


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    key: str
    shards: tuple[str, ...]  # some of the shards that have it


class Catalog:
    """A published catalog, read-only. Close it, or use it in a `with`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._engine: Engine = open_published(path)
        with self._reading():
            pass  # the file is open from here on: one that takes its place is not seen

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def facts(self) -> dict[str, str]:
        """uuid, generation, and the version of wdsctl that wrote the catalog."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.meta.c.key, schema.meta.c.value)).all()
        return {row.key: row.value for row in rows}

    @property
    def generation(self) -> int:
        """The generation that the catalog describes. Raises CatalogError WDS302 where it does not say."""
        return generation_of(self.path, self.facts())

    @property
    def last_shard_id(self) -> int:
        """The highest number that a shard of this catalog ever had."""
        said = self.facts().get("last_shard_id", "")
        with self._reading() as connection:
            highest = connection.execute(select(func.max(schema.shard.c.id))).scalar() or 0
        return max(highest, int(said) if said.isdecimal() else 0)

    def check_pages(self) -> None:
        """Raise CatalogError WDS302 where a page of the file is not as it must be. Reads all of it."""
        with self._reading() as connection:
            said = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
        if said != "ok":
            raise damaged(self.path, " ".join(said.split()))

    def shards(self) -> list[ShardRow]:
        """The shards of the current generation, in the order they were added."""
        t = schema.shard.c
        columns: list[Any] = [t.id, t.path, t.size, t.mtime_ns, t.samples, t.parts, t.status, t.code, t.layout_hash]
        with self._reading() as connection:
            # A catalog of schema version 1 or 2 has no hashes.
            told = {row.name for row in connection.execute(text("PRAGMA table_info(shard)"))}
            columns.append(t.sha256 if "sha256" in told else null())
            query = select(*columns).where(t.removed.is_(None)).order_by(t.id)
            return [ShardRow(*row) for row in connection.execute(query).all()]

    def parts(self) -> list[PartCount]:
        """The parts of the current generation, the most frequent first."""
        query = "SELECT coalesce(sum(samples), 0) FROM shard WHERE removed IS NULL"
        with self._driver() as driver:
            return part_counts(driver, driver.execute(query).fetchone()[0])

    def splits(self) -> list[SplitCount]:
        """The splits, in the order they were named."""
        with self._driver() as driver:
            return split_counts(driver)

    def split_rule(self) -> SplitRule | None:
        """How the splits without a set's name were made; None where there are none."""
        return self.split_rows.rules().get("")

    @property
    def split_rows(self) -> SplitReader:
        """The sets of splits, their rules, and what is excluded."""
        return SplitReader(self._reading)

    def exclude(self) -> tuple[str, ...]:
        """The patterns of the shards that were left out when the dataset was indexed."""
        return exclude_of(self.path, self.facts())

    def selection(self) -> Selection:
        """Which shards of the folder the dataset has."""
        return selection_of(self.path, self.facts())

    @property
    def has_sample_rows(self) -> bool:
        """Whether samples have rows. Without, there are counts, and the offsets file."""
        return self.facts().get(SAMPLE_ROWS) != "0"

    @property
    def is_hashed(self) -> bool:
        """Whether new shards are hashed."""
        return self.facts().get(HASHED) == "1"

    @property
    def key_field(self) -> str:
        """The field of JSON that the keys of lines come from; empty where they are numbers."""
        return self.facts().get(KEY_FIELD, "")

    @property
    def key_until(self) -> str:
        """The rule that keys of names end by (`wdsctl.core.naming`); empty where it was never decided."""
        return self.facts().get(KEY_UNTIL, "")

    @property
    def is_media_folder(self) -> bool:
        """Whether it is of a folder of media files, and not of shards."""
        return self.facts().get(KIND) == FOLDER

    def media_settings(self) -> MediaSettings | None:
        """What was asked of the media; None where their facts are not in the catalog. Ask before `media` is."""
        return media_settings_of(self.path, self.facts())

    @property
    def media(self) -> MediaReader:
        """The facts of media. Only for a catalog that has settings for them: an older one lacks the tables."""
        return MediaReader(self._reading)

    def held(self, shard_ids: Sequence[int]) -> dict[str, Held]:
        """Which samples of these shards are in which split, or go back to which, by the shard's path."""
        found: dict[str, Held] = {}
        with self._reading() as connection:
            for at in range(0, len(shard_ids), _AT_ONCE):
                some = schema.shard.c.id.in_(shard_ids[at : at + _AT_ONCE])
                for row in _held(connection, schema.split_shard, some):
                    found.setdefault(row.path, Held(row.layout_hash, {}, row.count)).parts[row.name] = row[-2:]
                for row in _held(connection, schema.former_split, some):
                    found.setdefault(row.path, Held(row.layout_hash, {}, row.count)).former[row.name] = row[-2:]
        return found

    def gone(self) -> dict[str, list[Held]]:
        """Which splits the samples go back to of shards that are gone, or are no longer as they were, by path.

        The last that was there first.
        """
        found: dict[int, Held] = {}
        paths: dict[str, list[Held]] = {}
        with self._reading() as connection:
            for row in _held(connection, schema.former_split, schema.shard.c.removed.is_not(None)):
                if row.id not in found:
                    found[row.id] = Held(row.layout_hash, {}, row.count)
                    paths.setdefault(row.path, []).insert(0, found[row.id])
                found[row.id].former[row.name] = row[-2:]
        return paths

    def repeated_keys(self, limit: int = 20) -> tuple[int, list[RepeatedKey]]:
        """How many keys stand in more than one shard, and the first of them with their shards.

        Raises CatalogError WDS307 where samples have no rows and are no lines, StorageError WDS401 where there is no
        room to sort keys. Cost: one pass over the key index, 0.3 s a million; of lines without rows see
        `repeated_lines`.
        """
        key, shard_of = schema.sample.c.key, schema.sample.c.id.op(">>")(INDEX_BITS)
        repeated = select(key).group_by(key).having(func.min(shard_of) < func.max(shard_of)).order_by(key)
        if not self.has_sample_rows:
            return self._repeated_lines(limit)
        with self._reading() as connection:
            keys: list[str] = []
            count = 0
            for count, (each,) in enumerate(typed(map(tuple, connection.execute(repeated)), "text"), 1):
                if count <= limit:
                    keys.append(each)
            return count, [RepeatedKey(each, self._shards_with(connection, each)) for each in keys]

    def alike_keys(self, limit: int = 20) -> tuple[int, list[AlikeKeys]]:
        """See `alike_keys`. None of lines, whose keys are no names of files, and where samples have no rows."""
        if not self.has_sample_rows or self.key_field:
            return 0, []
        with self._driver() as driver:
            return alike_keys(driver, limit)

    def _repeated_lines(self, limit: int) -> tuple[int, list[RepeatedKey]]:
        field = self.key_field
        with self._driver() as driver:
            if not are_implied(driver):
                raise without_rows(self.path)
            count, first = repeated_lines(driver, self.path, field, limit)
            return count, [RepeatedKey(*each) for each in first]

    def _shards_with(self, connection: Connection, key: str) -> tuple[str, ...]:
        """The first few shards that have this key."""
        shard_of = schema.sample.c.id.op(">>")(INDEX_BITS)
        shards = select(shard_of).where(schema.sample.c.key == key).distinct().order_by(shard_of).limit(3)
        paths = select(schema.shard.c.path).where(schema.shard.c.id.in_(shards)).order_by(schema.shard.c.id)
        return tuple(connection.execute(paths).scalars())

    @contextmanager
    def _driver(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
            yield driver

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except DatabaseError as error:
            raise damaged(self.path, error_of(self.path, error.orig or error)) from error
        except DAMAGE as error:
            raise damaged(self.path, error_of(self.path, error)) from error


def _held(connection: Connection, table: Table, which: ColumnElement[bool]) -> Iterable[Any]:
    """(id, path, layout hash, samples, split, its samples, their bits) of the shards that are meant."""
    if not inspect(connection).has_table(table.name):
        return ()  # a catalog of schema version 1 to 3
    shard, split = schema.shard.c, schema.split.c
    columns = (shard.id, shard.path, shard.layout_hash, shard.samples.label("count"), split.name)
    query = (
        select(*columns, table.c.samples, table.c.bits)
        .join_from(table, schema.shard, shard.id == table.c.shard)
        .join(schema.split, split.id == table.c.split)
        .order_by(shard.removed, shard.id, split.id)
    )
    return connection.execute(query.where(which))
