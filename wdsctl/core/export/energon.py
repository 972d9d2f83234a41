"""Megatron Energon's metadata: `.nv-meta`, and an index `SHARD.tar.idx` beside each tar.

Energon's `prepare` writes the same files after reading every tar. The offsets come from the catalog here. Keys must be
unique in the dataset, as `index.sqlite` finds samples by key; training reads only the other files.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from itertools import repeat
from typing import NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.database_file import check_row_types, translate_disk_full
from wdsctl.core.catalog.open_catalog import no_sample_rows_error, translate_catalog_errors
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import ENERGON_META_FOLDER, shell_command_at, shell_command_for_file
from wdsctl.core.directories import join_beneath
from wdsctl.core.energon.split_yaml import format_split_yaml
from wdsctl.core.errors import CatalogError, DatasetError, InputError, UsageError
from wdsctl.core.export.energon_config import EnergonConfig, energon_config
from wdsctl.core.export.request import ExportRequest, Written
from wdsctl.core.export.source import ExportSource, read_splits
from wdsctl.core.files import fsync_path, link_or_copy_into, make_folder, open_file_draft, write_pieces, write_text
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.progress import Progress
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.split.report import ShardSplits
from wdsctl.core.text import pluralize
from wdsctl.core.version import VERSION

INDEX_SUFFIX = ".tar.idx"  # replaces the extension of a shard

#: The files of `.nv-meta` that an export replaces or makes obsolete. All others are the user's, and stay.
_OWN_FILES = frozenset(
    {".info.json", ".info.yaml", "split.yaml", "split.json", "dataset.yaml", "index.sqlite", "index.uuid"}
)
_TABLES = (
    """CREATE TABLE samples (
        tar_file_id INTEGER NOT NULL,
        sample_key TEXT NOT NULL UNIQUE,
        sample_index INTEGER NOT NULL,
        byte_offset INTEGER,
        byte_size INTEGER
    )""",
    """CREATE TABLE sample_parts (
        tar_file_id INTEGER,
        sample_index INTEGER,
        part_name TEXT,
        content_byte_offset INTEGER,
        content_byte_size INTEGER
    )""",
)
_INDEXES = (
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index)",
    "CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset)",
    """CREATE INDEX idx_sample_parts_full
        ON sample_parts(tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size)""",
)
#: A new file needs no journal: it is published whole, after one sync.
_PRAGMAS = ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -131072")
_REPEATED_KEYS = (
    f"SELECT key, count(*) FROM sample WHERE id >> {INDEX_BITS} IN (SELECT id FROM shard WHERE removed IS NULL) "
    "GROUP BY key HAVING count(*) > 1 ORDER BY key"
)
_MAX_NAMED_KEYS = 3


class _ShardIndex(NamedTuple):
    """The samples of one shard. `bounds`: (samples + 1,), where each begins, and where the last one ends."""

    keys: tuple[str, ...]
    bounds: Int64Array


def write(source: ExportSource, request: ExportRequest, folder: str, progress: Progress) -> Written:
    """Write the indexes, and then `.nv-meta` at once. Raises UsageError if `.nv-meta` exists, unless `overwrite`.

    Raises DatasetError WDS256 for splits of samples, WDS106 for repeated keys, WDS217 for names that split.yaml would
    expand, and CatalogError WDS307 if the catalog has no rows of samples. Cost: 6 CPU seconds per million samples of
    two parts, 2 without the tables of samples.
    """
    meta = os.path.join(folder, ENERGON_META_FOLDER)
    kept = _list_kept_files(meta, overwrite=request.overwrite)
    splits = read_splits(source, request.split_set, "Energon")
    split_yaml = format_split_yaml(splits.splits, splits.excluded_shards, splits.excluded_samples)
    _check_names(source, splits)
    catalog, offsets = source.dataset.catalog, source.dataset.offsets()
    config = energon_config(source, offsets)
    with open_file_draft(meta) as draft:
        _check_rows(source, catalog)
        if request.sample_tables:
            _check_keys(source, catalog)
        make_folder(draft.path)
        for path in kept:
            link_or_copy_into(path, draft.path)
        indexes = _write_shard_indexes(source, catalog, folder, progress)
        if request.sample_tables:
            _write_database(os.path.join(draft.path, "index.sqlite"), source, indexes, offsets)
        else:
            deque(indexes, maxlen=0)
        texts = _meta_texts(source, config, split_yaml, with_index=request.sample_tables)
        for name, text in texts.items():
            write_text(os.path.join(draft.path, name), text)
        for path in config.files:
            if os.path.basename(path) not in {os.path.basename(each) for each in kept}:
                link_or_copy_into(path, draft.path)
        draft.publish()
    notes = [*config.notes]
    if splits.excluded_samples:
        skipped = pluralize(len(splits.excluded_samples), "excluded sample")
        notes.append(f"Energon skips {skipped}, but counts them in its lengths")
    return Written(
        path=meta,
        files=len(source.shards) + len(texts) + len(config.files) + request.sample_tables,
        splits=splits.samples,
        notes=tuple(notes),
    )


def _list_kept_files(meta: str, *, overwrite: bool) -> list[str]:
    """The paths of files in an existing `.nv-meta` that are not replaced, such as the user's code.

    Raises UsageError if the folder exists and may not be overwritten, InputError if it contains more than files.
    """
    if not os.path.lexists(meta):
        return []
    if not overwrite:
        raise UsageError(
            "the dataset has Energon's metadata already",
            where=meta,
            hint="pass --overwrite to replace its index, splits and dataset.yaml; other files in the folder stay",
        )
    with os.scandir(meta) as entries:
        found = list(entries)
    other = next((each for each in found if not stat.S_ISREG(each.stat(follow_symlinks=False).st_mode)), None)
    if other is not None:
        raise InputError(
            "the folder contains something else than files, which export cannot keep",
            where=other.path,
            hint="move it elsewhere",
        )
    return sorted(each.path for each in found if each.name not in _OWN_FILES)


def _check_names(source: ExportSource, splits: ShardSplits) -> None:
    """Raise DatasetError WDS217 for names that Energon's brace expansion would change, or indexes with one name."""
    escaped = next((name for name in (*_paths(source), *splits.excluded_samples) if "\\" in name), None)
    if escaped is not None:
        raise DatasetError(
            f"{escaped!r} has a backslash, which Energon removes when it expands braces",
            where=source.location.display_path,
            hint="give the shard, or the sample in it, a name without backslashes",
            code="WDS217",
        )
    names: dict[str, str] = {}
    for path in _paths(source):
        other = names.setdefault(_index_name(path), path)
        if other != path:
            raise DatasetError(
                f"the index files of {other} and {path} would have the same name, {_index_name(path)}",
                where=source.location.display_path,
                hint="rename one of the shards",
                code="WDS217",
            )


def _paths(source: ExportSource) -> Iterator[str]:
    return (shard.path for shard in source.shards)


def _index_name(path: str) -> str:
    return os.path.splitext(path)[0] + INDEX_SUFFIX


def _check_rows(source: ExportSource, catalog: Catalog) -> None:
    if not catalog.has_sample_rows:
        raise no_sample_rows_error(source.location.catalog_path)


def _check_keys(source: ExportSource, catalog: Catalog) -> None:
    """Raise DatasetError WDS106 if samples have the same key: Energon's index refuses them."""
    with translate_catalog_errors(catalog.path), translate_disk_full("cannot group the keys"):
        repeated = list(check_row_types(catalog.iter_rows(_REPEATED_KEYS), "text", "count"))
    if repeated:
        named = ", ".join(f"{key} ({count:,} samples)" for key, count in repeated[:_MAX_NAMED_KEYS])
        more = f" and {len(repeated) - _MAX_NAMED_KEYS:,} more" if len(repeated) > _MAX_NAMED_KEYS else ""
        raise DatasetError(
            f"Energon's index needs unique keys, but {pluralize(len(repeated), 'key')} occur more than once: "
            f"{named}{more}",
            where=source.location.display_path,
            hint="write unique keys with "
            f"{shell_command_at(source.location, 'convert', 'DEST', '--on-collision', 'prefix')}; or pass "
            "--no-sample-tables, which is enough for training",
            code="WDS106",
        )


def _write_shard_indexes(
    source: ExportSource, catalog: Catalog, folder: str, progress: Progress
) -> Iterator[tuple[int, _ShardIndex]]:
    """Write the index of each shard, and yield it with the number of the shard in Energon's files."""
    progress.phase("write", items=source.samples)
    for tar_file_id, shard in enumerate(source.shards):
        index = _read_index(catalog, shard)
        write_pieces(join_beneath(folder, _index_name(shard.path)), [index.bounds.astype("<u8").tobytes()])
        yield tar_file_id, index
        progress.advance(items=shard.samples, doing=shard.path)


def _write_database(
    path: str, source: ExportSource, indexes: Iterator[tuple[int, _ShardIndex]], offsets: Offsets
) -> None:
    """Write `index.sqlite`: the samples of all shards, and their parts."""
    numbers = {shard.id: i for i, shard in enumerate(offsets.shards)}
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as database,
        translate_disk_full("cannot write Energon's index"),
    ):
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        for table in _TABLES:
            database.execute(table)
        database.execute("BEGIN")
        for tar_file_id, index in indexes:
            _insert_samples(database, tar_file_id, index)
            _insert_parts(database, tar_file_id, offsets, numbers[source.shards[tar_file_id].id])
        for statement in _INDEXES:
            database.execute(statement)
        database.execute("COMMIT")
    fsync_path(path)


def _read_index(catalog: Catalog, shard: ShardRow) -> _ShardIndex:
    """Raises CatalogError WDS302 if the rows of samples and the offsets file contradict each other."""
    first = shard.id << INDEX_BITS
    query = "SELECT key, offset, size FROM sample WHERE id >= ? AND id < ? ORDER BY id"
    rows = catalog.rows(query, first, first + (1 << INDEX_BITS))
    columns = tuple(zip(*rows, strict=True)) or ((), (), ())
    keys, starts, sizes = columns
    bounds = np.zeros(1, np.int64)
    if [set(map(type, column)) for column in columns] == [{str}, {int}, {int}]:
        bounds = np.array([*starts, starts[-1] + sizes[-1]])
    if (
        len(bounds) != shard.samples + 1
        or not (np.diff(bounds) > 0).all()
        or not 0 <= bounds[0] < bounds[-1] <= shard.size
    ):
        raise CatalogError(
            f"the catalog has other samples of {shard.path} than it counts",
            where=catalog.path,
            hint=f"build the catalog again: {shell_command_for_file(catalog.path, 'index', '--rebuild')}",
            code="WDS302",
        )
    return _ShardIndex(keys, bounds)


def _insert_samples(database: sqlite3.Connection, tar_file_id: int, index: _ShardIndex) -> None:
    starts, sizes = index.bounds[:-1].tolist(), np.diff(index.bounds).tolist()
    database.executemany(
        "INSERT INTO samples VALUES (?, ?, ?, ?, ?)",
        zip(repeat(tar_file_id), index.keys, range(len(index.keys)), starts, sizes),
    )


def _insert_parts(database: sqlite3.Connection, tar_file_id: int, offsets: Offsets, i: int) -> None:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(sum(offsets.layouts, ())))}
    names = np.array(list(numbers), object)
    columns = offsets.shard_columns(i, numbers)
    samples = np.repeat(np.arange(len(columns.counts)), columns.counts)
    database.executemany(
        "INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)",
        zip(
            repeat(tar_file_id),
            samples.tolist(),
            names[columns.part_names].tolist(),
            columns.part_offsets.tolist(),
            columns.part_sizes.tolist(),
        ),
    )


def _meta_texts(source: ExportSource, config: EnergonConfig, split_yaml: str, *, with_index: bool) -> dict[str, str]:
    """The text files of `.nv-meta`, the info last: Energon takes a folder with it for a prepared dataset."""
    texts = {"split.yaml": split_yaml, "dataset.yaml": config.text}
    if with_index:
        texts["index.uuid"] = _index_uuid(source)
    info = {
        "energon_version": f"wdsctl {VERSION}",
        "shard_counts": {shard.path: shard.samples for shard in source.shards},
    }
    return texts | {".info.json": json.dumps(info, indent=2, ensure_ascii=False)}


def _index_uuid(source: ExportSource) -> str:
    """The identity of the index, for Energon's caches of joins: equal for equal shards in equal order."""
    digest = blake2b(digest_size=16)
    for shard in source.shards:
        digest.update(f"{shard.path}\0{shard.size}\0{shard.layout_hash}\n".encode())
    return str(uuid.UUID(bytes=digest.digest(), version=5))
