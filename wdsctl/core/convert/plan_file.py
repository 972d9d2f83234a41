"""The plan of a conversion as a file: every sample in its order, and which unit it goes to. Written whole, then read.

A SQLite file, so that sorting, shuffling and the search for repeated keys take no memory. Workers open it immutable.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.database_file import error_of, open_database
from wdsctl.core.catalog.own_schema import OwnSchema, schema_of
from wdsctl.core.catalog.typed_rows import Kind, typed
from wdsctl.core.convert.recipe import Stream
from wdsctl.core.errors import CatalogError, StorageError
from wdsctl.core.files import replacing
from wdsctl.core.sqlite_file import open_in_place

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entry(
  g INTEGER PRIMARY KEY, source INTEGER NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, size INTEGER NOT NULL,
  media INTEGER NOT NULL, grp INTEGER NOT NULL, splits INTEGER NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE grp(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE ordered(pos INTEGER PRIMARY KEY, g INTEGER NOT NULL);
CREATE TABLE unit(
  id INTEGER PRIMARY KEY, stream TEXT NOT NULL, grp INTEGER NOT NULL, name TEXT NOT NULL, first INTEGER NOT NULL,
  last INTEGER NOT NULL, samples INTEGER NOT NULL, size INTEGER NOT NULL);
"""


#: Of many samples at once: position in the order, source, place in it, splits, bytes of media that are kept apart.
ORIGIN = np.dtype([(name, "<i8") for name in ("pos", "source", "place", "splits", "media")])
Origins = NDArray[np.void]


class Item(NamedTuple):
    """One sample at its place in the order. `splits`: one bit a split."""

    pos: int
    source: int
    place: int
    key: str
    splits: int


class PlannedUnit(NamedTuple):
    """A file to write: the samples at the positions from `first` to `last`. `folder`: its group's below DEST, or ``."""

    id: int
    stream: Stream
    folder: str
    name: str
    first: int
    last: int
    samples: int
    size_bytes: int

    @property
    def dataset(self) -> str:
        """The root of the dataset that the file is of, below DEST; empty where that is DEST itself."""
        return os.path.join(self.folder, self.stream).rstrip("/")


class PlanFile:
    """A plan that is whole. Close it, or use it in a `with`."""

    def __init__(self, path: str) -> None:
        self.path = path
        with _reading(path):
            self._connection = open_database(os.path.abspath(path), _plan_schema())

    def __enter__(self) -> PlanFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def facts(self) -> dict[str, str]:
        with _reading(self.path):
            return dict(typed(self._connection.execute("SELECT key, value FROM meta"), "text", "text"))

    def groups(self) -> list[str]:
        """The folders of the datasets, below DEST."""
        with _reading(self.path):
            rows = typed(self._connection.execute("SELECT name FROM grp ORDER BY id"), "text")
            return [_below(name) for (name,) in rows]

    def units(self) -> list[PlannedUnit]:
        query = (
            "SELECT unit.id, stream, grp.name, unit.name, first, last, samples, size "
            "FROM unit JOIN grp ON grp.id = unit.grp ORDER BY unit.id"
        )
        with _reading(self.path):
            units = [PlannedUnit(*row) for row in typed(self._connection.execute(query), *_UNIT)]
            for unit in units:
                if unit.stream not in get_args(Stream) or not _below(unit.name):
                    raise sqlite3.DatabaseError("a unit has no name, or is of no stream")
                _below(unit.folder)
            return units

    def items(self, first: int, last: int) -> Iterator[Item]:
        """The samples at these positions, in order."""
        kinds: tuple[Kind, ...] = ("count", "count", "count", "text", "int")
        return map(Item._make, self._rows("source, place, key, splits", first, last, kinds))

    def origins(self, first: int, last: int) -> Origins:
        """(samples,) of `ORIGIN`: where the samples at these positions come from, in order. Some 1 us a sample."""
        kinds: tuple[Kind, ...] = ("count", "count", "count", "int", "count")
        return np.fromiter(self._rows("source, place, splits, media", first, last, kinds), ORIGIN)

    def split_counts(self) -> dict[int, int]:
        """How many samples are in the splits of these bits, by the bits."""
        query = "SELECT splits, count(*) FROM entry GROUP BY splits"
        with _reading(self.path):
            return dict(typed(self._connection.execute(query), "int", "count"))

    def digest(self) -> str:
        """Names what is planned: every sample's key, size and splits, in order, and the units; not where it is read.

        Cost: some 2 us a sample.
        """
        facts = sorted(pair for pair in self.facts().items() if pair[0] not in ("fingerprint", "made_from"))
        units = self.units()
        hashed = blake2b(repr((facts, units)).encode("utf-8", "surrogatepass"), digest_size=16)
        last = max((unit.last for unit in units), default=-1)
        for row in self._rows("source, key, size, splits", 0, last, ("count", "count", "text", "count", "int")):
            hashed.update(repr(row).encode("utf-8", "surrogatepass"))
        return hashed.hexdigest()

    def _rows(self, columns: str, first: int, last: int, kinds: Sequence[Kind]) -> Iterator[tuple[Any, ...]]:
        if self._is_ordered:
            query = (
                f"SELECT pos, {columns} FROM ordered JOIN entry ON entry.g = ordered.g "
                "WHERE pos BETWEEN ? AND ? ORDER BY pos"
            )
        else:
            query = f"SELECT g, {columns} FROM entry WHERE g BETWEEN ? AND ? ORDER BY g"
        with _reading(self.path):
            yield from typed(self._connection.execute(query, (first, last)), *kinds)

    @property
    def _is_ordered(self) -> bool:
        with _reading(self.path):
            return self._connection.execute("SELECT 1 FROM meta WHERE key = 'ordered'").fetchone() is not None


_UNIT: tuple[Kind, ...] = ("count", "text", "text", "text", "count", "count", "count", "count")


def _below(name: str) -> str:
    """The name, if it is one below the destination. Raises sqlite3.DatabaseError."""
    if name.startswith("/") or ".." in name.split("/") or not name.isprintable():
        raise sqlite3.DatabaseError(f"it has the name {name!r:.60}, which is not below the destination")
    return name


@cache
def _plan_schema() -> OwnSchema:
    return schema_of(_SCHEMA.split(";"))


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """What is wrong with a file that is read, as ours."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: BaseException) -> CatalogError:
    return CatalogError(
        f"{os.path.basename(path)}, by which a conversion goes on, is damaged: {error_of(path, error)}",
        where=path,
        hint="move it away, and run the same command again: it is made anew",
        code="WDS335",
    )


@contextmanager
def new_plan(path: str) -> Iterator[sqlite3.Connection]:
    """An empty plan, published at `path` when the block ends well. Raises StorageError."""
    with (
        _writing(path),
        replacing(path) as draft,
        closing(open_in_place(draft, make=True)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -65536")
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """What SQLite says of files that cannot be written, or are not ours, as ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise _damaged(path, error) from error
        is_out = "full" in str(error)
        raise StorageError(
            "cannot write the plan of the conversion: " + ("the disk is full" if is_out else str(error)),
            where=path,
            hint="free some space, also where temporary files go, and run the same command again",
            code="WDS401" if is_out else "WDS404",
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


class Done(NamedTuple):
    """A unit that is in its place. `left_out` and `as_is`: positions of samples that failed, and what was done."""

    unit: int
    samples: int
    size_bytes: int
    facts: str
    left_out: tuple[int, ...]
    as_is: tuple[int, ...]
    told: str  # JSON: findings of this unit


_DONE_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS plan(fingerprint TEXT PRIMARY KEY)",
    (
        "CREATE TABLE IF NOT EXISTS done(unit INTEGER PRIMARY KEY, samples INTEGER, size INTEGER, facts TEXT, "
        "left_out TEXT, as_is TEXT, told TEXT)"
    ),
)
_DONE: tuple[Kind, ...] = ("count", "count", "count", "text", "text", "text", "text")


class DoneFile:
    """Which units are done. Written by the parent alone, a row when a unit is in its place."""

    def __init__(self, path: str, fingerprint: str) -> None:
        self._path = path
        with _writing(path):
            self._connection = open_database(path, schema_of(_DONE_SCHEMA), "rwc")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            for statement in _DONE_SCHEMA:
                self._connection.execute(statement)
            if self._connection.execute("SELECT fingerprint FROM plan").fetchall() != [(fingerprint,)]:
                self._connection.execute("BEGIN")
                self._connection.execute("DELETE FROM plan")
                self._connection.execute("DELETE FROM done")
                self._connection.execute("INSERT INTO plan VALUES (?)", (fingerprint,))
                self._connection.execute("COMMIT")

    def __enter__(self) -> DoneFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, done: Done) -> None:
        row = (*done[:4], " ".join(map(str, done.left_out)), " ".join(map(str, done.as_is)), done.told)
        with _writing(self._path):
            self._connection.execute("INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def all(self) -> dict[int, Done]:
        query = "SELECT unit, samples, size, facts, left_out, as_is, told FROM done"
        with _reading(self._path):
            return {
                unit: Done(unit, samples, size, facts, _numbers(left_out), _numbers(as_is), told)
                for unit, samples, size, facts, left_out, as_is, told in typed(self._connection.execute(query), *_DONE)
            }


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split()))
    except ValueError as error:
        raise sqlite3.DatabaseError("positions of samples are no numbers") from error
