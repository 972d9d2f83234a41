"""Opens published catalogs: checks that the file is a catalog of ours, undamaged and of a known version.

A published catalog never changes, so SQLite opens it as immutable: without locks and journal, on any file system
(<https://www.sqlite.org/uri.html>, `immutable`). Standard library only, so that quick commands start quickly.

SQLite stores any value in any column, and readers use counts of samples, bits of splits and paths of shards as sizes
and addresses. So the small tables are checked once, when the file is opened: 0.1 ms, and 1 us per shard. Rows of
samples are checked when they are read.

The views of a catalog are an interface: users' SQL names them, so their columns stay. They stand here and not in
`schema.py`, so that queries do not import SQLAlchemy.
"""

from __future__ import annotations

import math
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import (
    DATABASE_ERRORS,
    SHARD_ID_LIMIT,
    catalog_schema,
    error_text,
    is_one_line,
    open_database,
)
from wdsctl.core.dataset.location import root_of_catalog_file, shell_command, shell_command_for_file
from wdsctl.core.dataset.shard_names import FORMER_SHARD_SUFFIXES
from wdsctl.core.errors import CatalogError, InputError, translate_os_errors
from wdsctl.core.files import open_own
from wdsctl.core.samples.naming import INDEX_BITS

CATALOG_APPLICATION_ID = 0x57445343  # "WDSC"
CATALOG_SCHEMA_VERSION = 1

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 100

#: (device, inode, mtime, size) of the catalogs whose values were checked, by path.
_CHECKED_FILES: dict[str, tuple[int, int, int, int]] = {}

#: By table, column and type: t text, b blob, i integer, n integer from 0, f any number; null is allowed by capitals.
_KINDS = {
    "meta": "key:t value:t",
    "shard": (
        "id:n path:t size:n mtime_ns:i samples:n parts:n status:t code:T layout_hash:t added:n removed:N sha256:T"
    ),
    "ext": "id:n name:t",
    "shard_part": "shard:n ext:n samples:n bytes:n empty:n",
    "split": "id:n name:t share:t by:t seed:i",
    "split_shard": "split:n shard:n samples:n bits:B",
    "excluded_shard": "shard:n samples:n bits:B",
    "former_split": "split:n shard:n samples:n bits:B",
    "media_form": (
        "id:n kind:t format:T mode:T codec:T orientation:I rotation:I frames_are:T has_audio:I audio_codec:T "
        "audio_channels:I audio_rate:I audio_samples_are:T reason:T"
    ),
    "media_shard": "shard:n mark:b",
    "media_count": (
        "shard:n ext:n form:n media:n bytes:n width_min:I width_max:I height_min:I height_max:I seconds:F "
        "seconds_min:F seconds_max:F"
    ),
}
_SQL_TYPES = {"t": "'text'", "b": "'blob'", "i": "'integer'", "n": "'integer'", "f": "'real', 'integer'"}
_OF_SHARDS = ("split_shard", "excluded_shard", "former_split")

_SIDEWAYS = "media_form.orientation >= 5 OR media_form.rotation IN (90, 270)"  # viewers swap width and height

#: The columns of media facts, by name.
MEDIA_FACTS = {
    "kind": "media_form.kind",
    "format": "media_form.format",
    "mode": "media_form.mode",
    "codec": "media_form.codec",
    "width": "media.width",
    "height": "media.height",
    "display_width": f"CASE WHEN {_SIDEWAYS} THEN media.height ELSE media.width END",
    "display_height": f"CASE WHEN {_SIDEWAYS} THEN media.width ELSE media.height END",
    "orientation": "media_form.orientation",
    "rotation": "media_form.rotation",
    "seconds": "media.seconds",
    "fps": "media.fps_num * 1.0 / media.fps_den",
    "frames": "media.frames",
    "frames_are": "media_form.frames_are",
    "has_audio": "media_form.has_audio",
    "audio_codec": "media_form.audio_codec",
    "audio_seconds": "media.audio_seconds",
    "audio_channels": "media_form.audio_channels",
    "audio_rate": "media_form.audio_rate",
    "audio_samples": "media.audio_samples",
    "audio_samples_are": "media_form.audio_samples_are",
    "reason": "media_form.reason",
}
_MEDIA_FACT_COLUMNS = ", ".join(
    fact if fact.endswith(f".{name}") else f"{fact} AS {name}" for name, fact in MEDIA_FACTS.items()
)

#: The views of a catalog, by name.
VIEWS = {
    "v_shard": "SELECT id, path, size, samples, parts, status, sha256 FROM shard WHERE removed IS NULL",
    "v_sample": (
        "SELECT sample.id, key, shard.path AS shard, sample.id & 268435455 AS position, offset, sample.size "
        "FROM sample JOIN shard ON shard.id = sample.id >> 28"
    ),
    "v_part": (
        "SELECT sample.id, sample.key, ext.name AS part, shard.path AS shard, "
        "sample.offset + json_extract(item.value, '$[1]') AS offset, json_extract(item.value, '$[2]') AS size "
        "FROM sample JOIN json_each(sample.parts) AS item "
        "JOIN ext ON ext.id = json_extract(item.value, '$[0]') JOIN shard ON shard.id = sample.id >> 28"
    ),
    "v_split": (
        "SELECT split.name, split.share, count(*) AS shards, sum(split_shard.samples) AS samples "
        "FROM split JOIN split_shard ON split_shard.split = split.id GROUP BY split.id"
    ),
    # Outer joins: SQLite skips those of which a query uses no column.
    "v_media": (
        f"SELECT media.sample AS id, sample.key, ext.name AS part, shard.path AS shard, {_MEDIA_FACT_COLUMNS} "
        "FROM media LEFT JOIN media_form ON media_form.id = media.form LEFT JOIN ext ON ext.id = media.ext "
        "LEFT JOIN sample ON sample.id = media.sample LEFT JOIN shard ON shard.id = media.sample >> 28"
    ),
    "v_file": (
        f"SELECT file.id, file.path, file.size, {_MEDIA_FACT_COLUMNS} "
        "FROM file LEFT JOIN media ON media.sample = file.id LEFT JOIN media_form ON media_form.id = media.form"
    ),
}


def connect_catalog(path: str, *, check_same_thread: bool = True) -> sqlite3.Connection:
    """The catalog at `path`, in autocommit.

    Raises CatalogError WDS301, WDS302, WDS303; InputError WDS167 for shards that this version does not read in place.
    """
    check_catalog_file(path)
    with translate_catalog_errors(path):
        connection = open_database(path, catalog_schema(), check_same_thread=check_same_thread)
        try:
            _check_values(connection, path)
        except BaseException:  # Ctrl-C too: no caller has the connection yet
            connection.close()
            raise
        return connection


@contextmanager
def open_catalog_connection(path: str) -> Iterator[sqlite3.Connection]:
    """`connect_catalog` for a block. Raises CatalogError WDS302 if the block meets damage."""
    with closing(connect_catalog(path)) as connection, translate_catalog_errors(path):
        yield connection


@contextmanager
def translate_catalog_errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors over the catalog at `path` as CatalogError WDS302, and Ctrl-C as KeyboardInterrupt."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise damaged_catalog_error(path, error_text(path, error)) from error


def check_catalog_file(path: str) -> None:
    """Raise CatalogError unless `path` is a catalog that this version can read. Reads 100 bytes."""
    head, size = _read_head(path)
    if len(head) < _HEAD_BYTES or not head.startswith(_SQLITE_MAGIC):
        raise damaged_catalog_error(path, "it is not an SQLite database")
    page, pages = struct.unpack(">H", head[16:18])[0], struct.unpack(">I", head[28:32])[0]
    if size < (65536 if page == 1 else page) * pages:
        raise damaged_catalog_error(path, "the file is shorter than its header states")
    version, application = struct.unpack(">I", head[60:64])[0], struct.unpack(">I", head[68:72])[0]
    if application != CATALOG_APPLICATION_ID:
        raise damaged_catalog_error(path, "it is a database of another program")
    if version > CATALOG_SCHEMA_VERSION:
        own = shell_command("index", root_of_catalog_file(path), "--catalog", "DIR")
        raise CatalogError(
            f"the catalog has schema version {version}, this wdsctl knows versions up to {CATALOG_SCHEMA_VERSION}",
            where=path,
            hint=f"upgrade wdsctl (`pip install -U wdsctl`), or create another catalog: {own}",
            code="WDS303",
        )
    if version < CATALOG_SCHEMA_VERSION:
        raise damaged_catalog_error(path, f"it states schema version {version}")


def schema_version(path: str) -> int:
    """The schema version of the catalog file. Raises CatalogError WDS301, WDS302 and WDS303. Reads 100 bytes."""
    check_catalog_file(path)
    return int(struct.unpack(">I", _read_head(path)[0][60:64])[0])


def missing_catalog_error(path: str, prepare_command: str = "") -> CatalogError:
    """`prepare_command`: creates the catalog; by default derived from its path, which may not tell the dataset."""
    return CatalogError(
        "the dataset has no catalog",
        where=path,
        hint=f"run {prepare_command or shell_command_for_file(path, 'prepare')} to create one; or pass the folder of "
        "an existing catalog: `--catalog DIR`, or `catalog=` in Python",
        code="WDS301",
    )


def no_sample_rows_error(path: str) -> CatalogError:
    return CatalogError(
        "the catalog has no sample rows",
        where=path,
        hint=f"run {shell_command_for_file(path, 'index', '--sample-rows')} to add them, which reads every shard once",
        code="WDS307",
    )


def damaged_catalog_error(path: str, reason: str) -> CatalogError:
    return CatalogError(
        f"the catalog is damaged: {reason}",
        where=path,
        hint=f"run {shell_command_for_file(path, 'index', '--rebuild')} to build it again from the shards",
        code="WDS302",
    )


def _read_head(path: str) -> tuple[bytes, int]:
    """(the first 100 bytes, the size of the file)"""
    try:
        with translate_os_errors(path, "read"), open_own(path) as file:
            return file.read(_HEAD_BYTES), os.fstat(file.fileno()).st_size
    except OSError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise missing_catalog_error(path) from error
        if isinstance(error.__cause__, IsADirectoryError):
            raise damaged_catalog_error(path, "it is a folder") from error
        raise


def _check_values(connection: sqlite3.Connection, path: str) -> None:
    """Check the values of the small tables, once per file: a command opens its catalog several times."""
    with translate_os_errors(path, "read"):
        stat = os.stat(path)
    identity = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    if _CHECKED_FILES.get(path) != identity:
        if problem := find_value_problem(connection):
            raise sqlite3.DatabaseError(problem)
        _check_shard_format(connection, path)
        _CHECKED_FILES[path] = identity


def _check_shard_format(connection: sqlite3.Connection, path: str) -> None:
    """Raise InputError WDS167 for a catalog of Parquet files, whose samples would otherwise seem to be missing."""
    for (shard,) in connection.execute("SELECT path FROM main.shard WHERE removed IS NULL LIMIT 1"):
        if shard.lower().endswith(FORMER_SHARD_SUFFIXES):
            raise InputError(
                "the shards are Parquet files, which wdsctl no longer reads in place",
                where=path,
                hint=f"{shell_command('prepare', root_of_catalog_file(path), 'DEST')} copies the samples into tars",
                code="WDS167",
            )


def find_value_problem(connection: sqlite3.Connection) -> str:
    """The first impossible value of a catalog with our schema; empty if there is none."""
    tests = [_type_test_sql(table, columns) for table, columns in _KINDS.items()]
    tests += [_bits_test_sql(table) for table in _OF_SHARDS]
    tests.append(f"EXISTS (SELECT 1 FROM main.shard WHERE id >= {SHARD_ID_LIMIT} OR samples > {1 << INDEX_BITS})")
    if connection.execute(f"SELECT {' OR '.join(tests)}").fetchone() != (0,):
        return "a table contains an invalid value"
    for name, share in connection.execute("SELECT name, share FROM main.split"):
        if not is_one_line(name) or not _is_share(share):
            return "a split has an invalid name or share"
    for (name,) in connection.execute("SELECT name FROM main.ext"):
        if "/" in name or "\0" in name:
            return f"a part has the invalid name {name!r:.60}"
    return ""


def _type_test_sql(table: str, columns: str) -> str:
    wrong = []
    for name, kind in (each.split(":") for each in columns.split()):
        types = _SQL_TYPES[kind.lower()] + (", 'null'" if kind.isupper() else "")
        wrong.append(f'typeof("{name}") NOT IN ({types})' + (f' OR "{name}" < 0' if kind.lower() == "n" else ""))
    return f"EXISTS (SELECT 1 FROM main.{table} WHERE {' OR '.join(wrong)})"


def _bits_test_sql(table: str) -> str:
    """An SQL condition that is true for invalid rows: more samples than the shard has, or bits of another length."""
    return (
        f"EXISTS (SELECT 1 FROM main.{table} AS t JOIN main.shard AS s ON s.id = t.shard WHERE t.samples > s.samples "
        "OR (t.samples > 0 AND t.bits IS NOT NULL AND length(t.bits) <> (s.samples + 7) / 8))"
    )


def _is_share(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
