"""What the loader needs of a catalog at start-up, by the standard library alone: SQLAlchemy takes longer to import."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from wdsctl.core.catalog.facts import generation_from
from wdsctl.core.catalog.media_settings import FACT, FOLDER, KIND
from wdsctl.core.catalog.published import reading
from wdsctl.core.command_line import command_beside
from wdsctl.core.errors import InputError
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.splitting import SplitShard


def current_generation(path: str) -> int:
    """The generation that the catalog at `path` describes."""
    with reading(path) as connection:
        return _generation(connection, path)


def read_split(path: str, name: str) -> list[SplitShard]:
    """The shards of a split, in id order, with the samples it has of each: none where it is empty.

    Raises InputError WDS211 where there is no such split, or where the dataset has no samples at all, WDS322 where it
    is a folder of media.
    """
    with reading(path) as connection:
        return _split(connection, path, name)


def current_split(path: str, name: str) -> tuple[int, list[SplitShard]]:
    """`current_generation` and `read_split` of one moment, in half the time: a blend may have a thousand catalogs."""
    with reading(path) as connection:
        return _generation(connection, path), _split(connection, path, name)


def current_excluded(path: str) -> tuple[int, dict[int, SplitShard]]:
    """`current_generation`, and by the id of every shard which of its samples are in no split, whoever divides them.

    Raises InputError WDS322 where it is a folder of media.
    """
    with reading(path) as connection:
        _refuse_media_folder(connection, path)
        generation = _generation(connection, path)
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'excluded_shard'").fetchone() is None:
            return generation, {}  # of schema version 1 or 2
        rows = connection.execute("SELECT shard, samples, bits FROM excluded_shard")
        return generation, {row[0]: SplitShard(*row) for row in rows}


def refuse_media_folder(path: str) -> None:
    """Raise InputError WDS322 where the catalog at `path` is of a folder of media, and not of shards."""
    with reading(path) as connection:
        _refuse_media_folder(connection, path)


def media_marks(path: str) -> dict[int, bytes] | None:
    """By the id of every shard whose facts of media are in the catalog, their mark; None where nobody asked for any."""
    with reading(path) as connection:
        if connection.execute("SELECT 1 FROM meta WHERE key = ?", (FACT,)).fetchone() is None:
            return None
        return dict(connection.execute("SELECT shard, mark FROM media_shard"))


def media_numbers(path: str, shard_id: int, part: str, expression: str) -> list[tuple[int, int]]:
    """(place in the shard, number) of every medium of one part that has it. `expression`: on columns of `v_media`."""
    first = shard_id << INDEX_BITS
    query = (
        f"SELECT id - ?1, {expression} AS number FROM v_media "
        "WHERE id >= ?1 AND id < ?2 AND part = ?3 AND number IS NOT NULL"
    )
    with reading(path) as connection:
        return connection.execute(query, (first, first + (1 << INDEX_BITS), part)).fetchall()


class KeyframeRows(NamedTuple):
    """The keyframe indexes of a catalog, by sample and part; three numbers a film."""

    names: list[str]  # of the parts
    samples: array[int]  # ids, 64 bits
    parts: array[int]  # places in `names`, 32 bits
    sizes: array[int]  # bytes of each index, 64 bits
    data: Callable[[], Iterator[bytes]]  # the indexes themselves, one after the other


@contextmanager
def keyframe_rows(path: str) -> Iterator[KeyframeRows]:
    """Of a catalog that has facts of media (`media_marks`). The indexes can be read as long as the block lasts."""
    with reading(path) as connection:
        names = dict(connection.execute("SELECT id, name FROM ext ORDER BY id"))
        places = {number: place for place, number in enumerate(names)}
        rows = KeyframeRows(
            list(names.values()), array("q"), array("I"), array("q"), lambda: _keyframe_data(connection)
        )
        for sample, ext, size in connection.execute(
            "SELECT sample, ext, length(data) FROM keyframes ORDER BY sample, ext"
        ):
            rows.samples.append(sample)
            rows.parts.append(places[ext])
            rows.sizes.append(size)
        yield rows


def _keyframe_data(connection: sqlite3.Connection) -> Iterator[bytes]:
    return (data for (data,) in connection.execute("SELECT data FROM keyframes ORDER BY sample, ext"))


def _generation(connection: sqlite3.Connection, path: str) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
    return generation_from(path, row and row[0])


def _split(connection: sqlite3.Connection, path: str, name: str) -> list[SplitShard]:
    query = (
        "SELECT shard, split_shard.samples, bits FROM split_shard JOIN split ON split.id = split_shard.split "
        "WHERE split.name = ? ORDER BY shard"
    )
    parts = [SplitShard(*row) for row in connection.execute(query, (name,))]
    if any(part.samples for part in parts):
        return parts
    names = [row[0] for row in connection.execute("SELECT name FROM split ORDER BY id")]
    filled = connection.execute("SELECT 1 FROM shard WHERE removed IS NULL AND samples > 0 LIMIT 1").fetchone()
    _refuse_media_folder(connection, path)
    if filled is None:
        raise _no_samples(path)
    if name not in names:
        raise _no_such_split(path, name, names)
    return parts


def _no_samples(path: str) -> InputError:
    return InputError(
        "the dataset has no samples, and so no split to train on",
        where=path,
        hint=f"{command_beside(path, 'validate')} tells why",
        code="WDS211",
    )


def _refuse_media_folder(connection: sqlite3.Connection, path: str) -> None:
    kind = connection.execute("SELECT value FROM meta WHERE key = ?", (KIND,)).fetchone()
    if kind == (FOLDER,):
        raise InputError(
            "this is a folder of media files: it has no samples of its own",
            where=path,
            hint=f"write shards of it, {command_beside(path, 'prepare', 'DEST')}, or refer to its files by name",
            code="WDS322",
        )


def _no_such_split(path: str, name: str, names: list[str]) -> InputError:
    divide = command_beside(path, "split", "train=8,val=1,test=1")
    return InputError(
        f"the dataset has no split {name!r}; it has {', '.join(names) if names else 'none yet'}",
        where=path,
        hint=f"choose one of these; {divide} divides it anew" if names else f"{divide} makes splits",
        code="WDS211",
    )
