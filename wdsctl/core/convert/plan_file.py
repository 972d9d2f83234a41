"""Two SQLite files of a conversion: the plan, with all samples in output order, and the results of units.

Queries sort, shuffle and find repeated keys, so that memory does not grow with the samples. The plan is published when
it is complete; workers open it as an immutable file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.database_file import (
    ExpectedSchema,
    ValueType,
    check_row_types,
    error_text,
    open_database,
    parse_schema,
)
from wdsctl.core.convert.request import Stream
from wdsctl.core.errors import CatalogError, StorageError
from wdsctl.core.files import replace_atomically
from wdsctl.core.json_text import read_json
from wdsctl.core.sqlite_file import open_in_place

_PLAN_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entry(
  g INTEGER PRIMARY KEY, source INTEGER NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, size INTEGER NOT NULL,
  media INTEGER NOT NULL, grp INTEGER NOT NULL, splits INTEGER NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE grp(id INTEGER PRIMARY KEY, folder TEXT NOT NULL);
CREATE TABLE part(folder TEXT NOT NULL, name TEXT NOT NULL, is_in_all INTEGER NOT NULL, PRIMARY KEY(folder, name));
CREATE TABLE ordered(pos INTEGER PRIMARY KEY, g INTEGER NOT NULL);
CREATE TABLE unit(
  id INTEGER PRIMARY KEY, stream TEXT NOT NULL, grp INTEGER NOT NULL, name TEXT NOT NULL, first INTEGER NOT NULL,
  last INTEGER NOT NULL, samples INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE TABLE shared(
  pos INTEGER NOT NULL, part TEXT NOT NULL, owner INTEGER NOT NULL, owner_part TEXT NOT NULL, PRIMARY KEY(pos, part));
CREATE INDEX shared_by_owner ON shared(owner);
"""


T = TypeVar("T")

UNREAD_FACT = "unread_samples"  # in `meta`: samples whose group could not be read, which the plan leaves out

#: Origins of samples: position in the order, source, index in the source, splits, bytes for the media dataset.
ORIGIN_DTYPE = np.dtype([(name, "<i8") for name in ("pos", "source", "place", "splits", "media")])
SampleOrigins = NDArray[np.void]


class PlannedSample(NamedTuple):
    """One sample at its position in the order. `splits`: one bit per split."""

    position: int
    source_index: int
    sample_index: int
    key: str
    splits: int


class SharedPart(NamedTuple):
    """Where the media dataset holds the file of a part: as `part` of the sample with `key` at position `owner`."""

    owner: int
    key: str
    part: str


class PlannedUnit(NamedTuple):
    """A file to write: the samples at positions `first` to `last`. `folder`: of its group below DEST; may be empty."""

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
        """The root of the file's dataset below DEST; empty if it is DEST itself."""
        return os.path.join(self.folder, self.stream).rstrip("/")


class PlanFile:
    """A complete plan, open for reading. Close it, or use it in a `with`."""

    def __init__(self, path: str) -> None:
        self.path = path
        with _translate_read_errors(path):
            self._connection = open_database(os.path.abspath(path), _plan_schema())

    def __enter__(self) -> PlanFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def facts(self) -> dict[str, str]:
        with _translate_read_errors(self.path):
            return dict(check_row_types(self._connection.execute("SELECT key, value FROM meta"), "text", "text"))

    def value(self, name: str, kind: type[T]) -> T:
        """The value of one of the facts, from its JSON. Raises CatalogError WDS335 if the plan has no such value."""
        text = self.facts().get(name)
        try:
            value = None if text is None else read_json(text)
        except ValueError as error:
            raise _damaged_error(self.path, error) from error
        if not isinstance(value, kind):
            raise _damaged_error(self.path, sqlite3.DatabaseError(f"it has no valid value of {name!r}"))
        return value

    def parts(self, folder: str) -> dict[str, bool]:
        """The parts of the samples in a folder: name -> whether every sample has it. Empty unless the format asked."""
        query = "SELECT name, is_in_all FROM part WHERE folder = ? ORDER BY name"
        with _translate_read_errors(self.path):
            rows = check_row_types(self._connection.execute(query, (folder,)), "text", "count")
            return {name: bool(is_in_all) for name, is_in_all in rows}

    def units(self) -> list[PlannedUnit]:
        query = (
            "SELECT unit.id, stream, folder, unit.name, first, last, samples, size "
            "FROM unit JOIN grp ON grp.id = unit.grp ORDER BY unit.id"
        )
        with _translate_read_errors(self.path):
            units = [PlannedUnit(*row) for row in check_row_types(self._connection.execute(query), *_UNIT_COLUMN_KINDS)]
            for unit in units:
                if unit.stream not in get_args(Stream) or not _check_below(unit.name):
                    raise sqlite3.DatabaseError("a unit has no name, or no known stream")
                _check_below(unit.folder)
            return units

    def samples(self, first: int, last: int) -> Iterator[PlannedSample]:
        """The samples at these positions, in order."""
        kinds: tuple[ValueType, ...] = ("count", "count", "count", "text", "int")
        return map(PlannedSample._make, self._rows("source, place, key, splits", first, last, kinds))

    def origins(self, first: int, last: int) -> SampleOrigins:
        """(samples,) of `ORIGIN_DTYPE`: where the samples at these positions come from, in order.

        Cost: 1 us per sample.
        """
        kinds: tuple[ValueType, ...] = ("count", "count", "count", "int", "count")
        return np.fromiter(self._rows("source, place, splits, media", first, last, kinds), ORIGIN_DTYPE)

    def shared_parts(self, first: int, last: int) -> dict[int, dict[str, SharedPart]]:
        """Position -> part -> where its file is stored, for the parts whose file an earlier part stores."""
        found: dict[int, dict[str, SharedPart]] = {}
        joined = "entry ON entry.g = owner"
        if self._is_ordered():
            joined = "ordered ON ordered.pos = owner JOIN entry ON entry.g = ordered.g"
        columns = "shared.pos, part, owner, key, owner_part"
        query = f"SELECT {columns} FROM shared JOIN {joined} WHERE shared.pos BETWEEN ? AND ?"
        kinds: tuple[ValueType, ...] = ("count", "text", "count", "text", "text")
        with _translate_read_errors(self.path):
            for position, part, *where in check_row_types(self._connection.execute(query, (first, last)), *kinds):
                found.setdefault(position, {})[part] = SharedPart(*where)
        return found

    def users_of(self, owner: int) -> list[tuple[str, int, str]]:
        """The uses of files of the sample at this position: (its part, position of the user, key of the user)."""
        joined = "entry ON entry.g = shared.pos"
        if self._is_ordered():
            joined = "ordered ON ordered.pos = shared.pos JOIN entry ON entry.g = ordered.g"
        query = (
            f"SELECT owner_part, shared.pos, key FROM shared JOIN {joined} WHERE owner = ? ORDER BY shared.pos, part"
        )
        with _translate_read_errors(self.path):
            return list(check_row_types(self._connection.execute(query, (owner,)), "text", "count", "text"))

    def has_shared_parts(self) -> bool:
        with _translate_read_errors(self.path):
            return self._connection.execute("SELECT 1 FROM shared LIMIT 1").fetchone() is not None

    def split_counts(self) -> dict[int, int]:
        """Split bits -> the number of samples that are in exactly these splits."""
        query = "SELECT splits, count(*) FROM entry GROUP BY splits"
        with _translate_read_errors(self.path):
            return dict(check_row_types(self._connection.execute(query), "int", "count"))

    def digest(self) -> str:
        """A digest of the units, and of key, size and splits of every sample, in order; without the sources' paths.

        Cost: 2 us per sample.
        """
        unlike = ("fingerprint", "made_from", UNREAD_FACT)  # messages name the paths of sources
        facts = sorted(pair for pair in self.facts().items() if pair[0] not in unlike)
        units = self.units()
        hashed = blake2b(repr((facts, units)).encode("utf-8", "surrogatepass"), digest_size=16)
        last = max((unit.last for unit in units), default=-1)
        for row in self._rows("source, key, size, splits", 0, last, ("count", "count", "text", "count", "int")):
            hashed.update(repr(row).encode("utf-8", "surrogatepass"))
        query = "SELECT pos, part, owner, owner_part FROM shared ORDER BY pos, part"
        with _translate_read_errors(self.path):
            for row in check_row_types(self._connection.execute(query), "count", "text", "count", "text"):
                hashed.update(repr(row).encode("utf-8", "surrogatepass"))
        return hashed.hexdigest()

    def _rows(self, columns: str, first: int, last: int, kinds: Sequence[ValueType]) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT g, {columns} FROM entry WHERE g BETWEEN ? AND ? ORDER BY g"
        with _translate_read_errors(self.path):
            if self._is_ordered():
                query = (
                    f"SELECT pos, {columns} FROM ordered JOIN entry ON entry.g = ordered.g "
                    "WHERE pos BETWEEN ? AND ? ORDER BY pos"
                )
            yield from check_row_types(self._connection.execute(query, (first, last)), *kinds)

    def _is_ordered(self) -> bool:
        """Whether positions differ from the order of the sources."""
        return self._connection.execute("SELECT 1 FROM meta WHERE key = 'ordered'").fetchone() is not None


_UNIT_COLUMN_KINDS: tuple[ValueType, ...] = ("count", "text", "text", "text", "count", "count", "count", "count")


def _check_below(name: str) -> str:
    """Return `name` if it is a path below the destination. Raises sqlite3.DatabaseError."""
    if name.startswith("/") or ".." in name.split("/") or not name.isprintable():
        raise sqlite3.DatabaseError(f"the path {name!r:.60} is not below the destination")
    return name


@cache
def _plan_schema() -> ExpectedSchema:
    return parse_schema(_PLAN_TABLES.split(";"))


@contextmanager
def _translate_read_errors(path: str) -> Iterator[None]:
    """Translate errors of SQLite while a file is read."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
        raise _damaged_error(path, error) from error


def _damaged_error(path: str, error: BaseException) -> CatalogError:
    return CatalogError(
        f"the plan of a conversion ({os.path.basename(path)}) is damaged: {error_text(path, error)}",
        where=path,
        hint="restore the file from a copy, or choose another DEST",
        code="WDS335",
    )


@contextmanager
def create_plan(path: str) -> Iterator[sqlite3.Connection]:
    """An empty plan, published at `path` if the block ends without an error. Raises StorageError."""
    with (
        _translate_write_errors(path),
        replace_atomically(path) as draft,
        closing(open_in_place(draft, create=True)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -65536")
        connection.executescript(_PLAN_TABLES)
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")


@contextmanager
def _translate_write_errors(path: str) -> Iterator[None]:
    """Translate errors of SQLite while a file is written."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise _damaged_error(path, error) from error
        is_full = "full" in str(error)
        raise StorageError(
            "cannot write the plan of the conversion: " + ("the disk is full" if is_full else str(error)),
            where=path,
            hint="free space on this disk and on that of temporary files, then run the same command again",
            code="WDS401" if is_full else "WDS404",
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _damaged_error(path, error) from error


class LeftOutSample(NamedTuple):
    """A sample that failed, and is not in the destination."""

    position: int
    key: str
    code: str
    message: str


class UnitResult(NamedTuple):
    """The result of a written unit.

    `left_out`, `as_is`: positions of samples that failed, and are left out or kept unchanged. `failures`: JSON with the
    first failure of each kind and its count. `facts`: JSON for `Exporter.finish`. `unchanged`: JSON with the paths of
    numbers that stay while pictures change. `left_out_samples`: those of `left_out`; empty if the result is read from a
    file, which lists those of all units.
    """

    unit: int
    samples: int
    size_bytes: int
    facts: str
    left_out: tuple[int, ...]
    as_is: tuple[int, ...]
    failures: str
    unchanged: str = "[]"
    left_out_samples: tuple[LeftOutSample, ...] = ()


_RESULT_TABLES = (
    "CREATE TABLE IF NOT EXISTS plan(fingerprint TEXT PRIMARY KEY)",
    (
        "CREATE TABLE IF NOT EXISTS done(unit INTEGER PRIMARY KEY, samples INTEGER, size INTEGER, facts TEXT, "
        "left_out TEXT, as_is TEXT, failures TEXT, unchanged TEXT)"
    ),
    (
        "CREATE TABLE IF NOT EXISTS left_out(unit INTEGER, pos INTEGER, key TEXT, code TEXT, message TEXT, "
        "PRIMARY KEY(unit, pos)) WITHOUT ROWID"
    ),
)
_RESULT_COLUMN_KINDS: tuple[ValueType, ...] = ("count", "count", "count", "text", "text", "text", "text", "text")


class UnitResultFile:
    """The results of finished units. The parent process adds a result after the unit has its final name.

    Opening the file with another fingerprint deletes all results.
    """

    def __init__(self, path: str, fingerprint: str) -> None:
        self._path = path
        with _translate_write_errors(path):
            self._connection = open_database(path, parse_schema((), optional=_RESULT_TABLES), "rwc")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            for statement in _RESULT_TABLES:
                self._connection.execute(statement)
            if self._connection.execute("SELECT fingerprint FROM plan").fetchall() != [(fingerprint,)]:
                self._connection.execute("BEGIN")
                self._connection.execute("DELETE FROM plan")
                self._connection.execute("DELETE FROM done")
                self._connection.execute("DELETE FROM left_out")
                self._connection.execute("INSERT INTO plan VALUES (?)", (fingerprint,))
                self._connection.execute("COMMIT")

    def __enter__(self) -> UnitResultFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, result: UnitResult) -> None:
        positions = (" ".join(map(str, each)) for each in (result.left_out, result.as_is))
        row = (*result[:4], *positions, result.failures, result.unchanged)
        samples = ((result.unit, *sample) for sample in result.left_out_samples)
        with _translate_write_errors(self._path):
            self._connection.execute("BEGIN")
            self._connection.execute("INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._connection.execute("DELETE FROM left_out WHERE unit = ?", (result.unit,))
            self._connection.executemany("INSERT INTO left_out VALUES (?, ?, ?, ?, ?)", samples)
            self._connection.execute("COMMIT")

    def left_out_samples(self) -> Iterator[LeftOutSample]:
        """The samples that are not in the destination, in order, each once."""
        # min(unit): a sample of a polylithic layout fails in the unit of its media, and in that of the primary.
        query = "SELECT pos, key, code, message, min(unit) FROM left_out GROUP BY pos ORDER BY pos"
        with _translate_read_errors(self._path):
            for *sample, _ in check_row_types(
                self._connection.execute(query), "count", "text", "text", "text", "count"
            ):
                yield LeftOutSample(*sample)

    def all(self) -> dict[int, UnitResult]:
        query = "SELECT unit, samples, size, facts, left_out, as_is, failures, unchanged FROM done"
        with _translate_read_errors(self._path):
            return {
                unit: UnitResult(
                    *(unit, samples, size, facts, _parse_positions(left_out), _parse_positions(as_is)), *texts
                )
                for unit, samples, size, facts, left_out, as_is, *texts in check_row_types(
                    self._connection.execute(query), *_RESULT_COLUMN_KINDS
                )
            }


def _parse_positions(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split()))
    except ValueError as error:
        raise sqlite3.DatabaseError("positions of samples are not numbers") from error
