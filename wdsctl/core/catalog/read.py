"""Reads a published catalog: facts, shards, parts and splits. Standard library only, so that commands start quickly.

Tables with many rows have readers of their own: `browse.py` for samples, `media.py`, `splits.py`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from wdsctl.core.catalog.database_file import DATABASE_ERRORS, error_text
from wdsctl.core.catalog.open_catalog import (
    connect_catalog,
    damaged_catalog_error,
    translate_catalog_errors,
)
from wdsctl.core.catalog.values import (
    HASHED_FACT,
    KEY_FIELD_FACT,
    KEY_UNTIL_FACT,
    KIND_FACT,
    LAST_SHARD_ID_FACT,
    MEDIA_FACT,
    MEDIA_FOLDER_KIND,
    SAMPLE_ROWS_FACT,
    SPLIT_FACTS,
    TOTALS_FACT,
    MediaSettings,
    ShardRow,
    SplitMembership,
    parse_generation,
    read_exclude_patterns,
    read_media_settings,
    read_selection,
)
from wdsctl.core.dataset.location import shell_command_for_file
from wdsctl.core.errors import InputError
from wdsctl.core.json_text import read_json

if TYPE_CHECKING:
    from wdsctl.core.catalog.media import MediaReader
    from wdsctl.core.catalog.splits import SplitReader, SplitShard
    from wdsctl.core.catalog.totals import CatalogSummary, PartCount, SplitCount
    from wdsctl.core.dataset.root_spec import ShardSelection
    from wdsctl.core.split_rules.rule import SplitRule

_ROWS_PER_FETCH = 500
_IDS_PER_QUERY = 500  # SQLite binds a limited number of values

_MEMBERSHIP = (
    "SELECT shard.id, shard.path, shard.layout_hash, shard.samples, split.name, t.samples, t.bits FROM {table} AS t "
    "JOIN shard ON shard.id = t.shard JOIN split ON split.id = t.split WHERE {where} "
    "ORDER BY shard.removed, shard.id, split.id"
)

_DAMAGED = ("partial", "bad", "unreadable")  # statuses of shards


class Catalog:
    """Reads a catalog over an open connection. `path`: of the catalog, for messages.

    Every query goes through `rows` or `iter_rows`, or `connection` within `translate_catalog_errors`: damage is raised
    as CatalogError WDS302.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection = connection
        self.path = path

    @classmethod
    def open(cls, path: str) -> Catalog:
        """Open a published catalog, which never changes: a writer replaces the file. Close it, or use it in a `with`.

        Raises CatalogError WDS301 missing, WDS302 damaged, WDS303 too new.
        """
        return cls(connect_catalog(path, check_same_thread=False), path)

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self.connection.execute(query, values).fetchall()
        except DATABASE_ERRORS as error:
            raise damaged_catalog_error(self.path, error_text(self.path, error)) from error

    def iter_rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Like `rows`, for results that are too large for memory."""
        with translate_catalog_errors(self.path):
            cursor = self.connection.execute(query, values)
        while True:
            with translate_catalog_errors(self.path):
                rows = cursor.fetchmany(_ROWS_PER_FETCH)
            if not rows:
                return
            yield from rows

    def fact(self, name: str) -> str | None:
        """One fact of the table `meta`."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", name)
        return rows[0][0] if rows else None

    def facts(self) -> dict[str, str]:
        """All facts. Those of groups may have 11 bytes per group: ask for one with `fact` where that is enough."""
        return dict(self.rows("SELECT key, value FROM meta ORDER BY key"))

    @property
    def generation(self) -> int:
        """The generation that the catalog describes. Raises CatalogError WDS302 if it states none."""
        return parse_generation(self.path, self.fact("generation"))

    @property
    def damaged_shards(self) -> int:
        """The shards that end early or are broken inside, so that samples may be missing; 0 if nobody counted."""
        try:
            statuses = read_json(self.fact(TOTALS_FACT) or "{}").get("statuses", {})
            return sum(int(count) for status, count in statuses.items() if status in _DAMAGED)
        except (ValueError, TypeError, AttributeError):
            return 0  # of totals that another version wrote

    @property
    def last_shard_id(self) -> int:
        """The highest shard id that this catalog ever had."""
        stored = self.fact(LAST_SHARD_ID_FACT) or ""
        [(highest,)] = self.rows("SELECT coalesce(max(id), 0) FROM shard")
        return max(int(highest), int(stored) if stored.isdecimal() else 0)

    def last_shard_of(self, generation: int) -> int:
        """The highest id of a shard that this generation or an earlier one added. New shards get higher ids."""
        [(last,)] = self.rows("SELECT coalesce(max(id), 0) FROM shard WHERE added <= ?", generation)
        return int(last)

    def exclude_patterns(self) -> tuple[str, ...]:
        """The patterns of the shards that `index` left out."""
        return read_exclude_patterns(self.path, self.facts())

    def selection(self) -> ShardSelection:
        """Which shards of the folder the dataset has."""
        return read_selection(self.path, self.facts())

    def media_settings(self) -> MediaSettings | None:
        """Which media facts the catalog has; None if it has none."""
        return read_media_settings(self.path, self.facts())

    @property
    def has_media_facts(self) -> bool:
        return self.fact(MEDIA_FACT) is not None

    @property
    def has_sample_rows(self) -> bool:
        """Whether samples have rows. If not, there are counts, and the offsets file."""
        return self.fact(SAMPLE_ROWS_FACT) != "0"

    @property
    def is_hashed(self) -> bool:
        """Whether new shards are hashed."""
        return self.fact(HASHED_FACT) == "1"

    @property
    def key_field(self) -> str:
        """The JSON field that holds the keys of a JSONL dataset; empty if keys are line numbers."""
        return self.fact(KEY_FIELD_FACT) or ""

    @property
    def key_until(self) -> str:
        """The rule by which keys end (`wdsctl.core.samples.naming`); empty if it was never decided."""
        return self.fact(KEY_UNTIL_FACT) or ""

    @cached_property
    def is_media_folder(self) -> bool:
        """Whether the catalog describes a folder of media files, and no shards."""
        return self.fact(KIND_FACT) == MEDIA_FOLDER_KIND

    def check_not_media_folder(self) -> None:
        """Raise InputError WDS322 if the catalog describes a folder of media files."""
        if self.is_media_folder:
            raise InputError(
                "the dataset is a folder of media files, which has no samples",
                where=self.path,
                hint=f"write the files into shards ({shell_command_for_file(self.path, 'prepare', 'DEST')}), or "
                "refer to the files by name from another dataset",
                code="WDS322",
            )

    def check_pages(self) -> None:
        """Raise CatalogError WDS302 if a page of the file is damaged. Reads the whole file."""
        [(message,)] = self.rows("PRAGMA quick_check(1)")
        if message != "ok":
            raise damaged_catalog_error(self.path, " ".join(str(message).split()))

    def shards(self) -> list[ShardRow]:
        """The shards of the current generation, in the order in which they were added."""
        query = f"SELECT {', '.join(ShardRow._fields)} FROM shard WHERE removed IS NULL ORDER BY id"
        return [ShardRow(*row) for row in self.rows(query)]

    def replaced_shards(self) -> dict[str, list[ShardRow]]:
        """Path of a current shard -> the shards that it replaced one after another, without a gap, the latest first."""
        columns = ", ".join(ShardRow._fields)
        query = f"SELECT {columns}, added, removed FROM shard ORDER BY removed IS NOT NULL, removed DESC, id DESC"
        added_by_path: dict[str, int] = {}  # the first generation with the shard that was read last
        replaced: dict[str, list[ShardRow]] = {}
        for *values, added, removed in self.rows(query):
            row = ShardRow(*values)
            if removed is None or added_by_path.get(row.path) == removed:
                added_by_path[row.path] = added
                replaced.setdefault(row.path, []).extend([row] if removed is not None else [])
        return replaced

    def summary(self, *, first: int, spread: int) -> CatalogSummary:
        """At most `first` and `spread` shards with the facts and the totals. See `summarize_catalog` for the cost."""
        from wdsctl.core.catalog.totals import summarize_catalog

        with translate_catalog_errors(self.path):
            return summarize_catalog(self.connection, first=first, spread=spread)

    def shard_hashes(self) -> dict[int, str]:
        """Shard id -> SHA-256 in hex, of all shards that ever had one, also of removed ones."""
        return dict(self.rows("SELECT id, sha256 FROM shard WHERE sha256 IS NOT NULL"))

    def parts(self) -> list[PartCount]:
        """The parts of the current generation, the most frequent first."""
        from wdsctl.core.catalog.totals import count_parts

        [(samples,)] = self.rows("SELECT coalesce(sum(samples), 0) FROM shard WHERE removed IS NULL")
        with translate_catalog_errors(self.path):
            return count_parts(self.connection, samples)

    def split_names(self) -> list[str]:
        """The names of the splits of the unnamed and of other split sets, in the order in which they were made."""
        return [row[0] for row in self.rows("SELECT name FROM split ORDER BY id")]

    def splits(self) -> list[SplitCount]:
        """The splits, in the order in which they were named."""
        from wdsctl.core.catalog.totals import count_splits

        with translate_catalog_errors(self.path):
            return count_splits(self.connection)

    @property
    def has_splits(self) -> bool:
        """Whether there are splits, or rules of splits."""
        return any(self.fact(name) is not None for name in SPLIT_FACTS) or bool(
            self.rows("SELECT 1 FROM split LIMIT 1")
        )

    @cached_property
    def split_reader(self) -> SplitReader:
        """The split sets, their rules, and what is excluded."""
        from wdsctl.core.catalog.splits import SplitReader

        return SplitReader(self)

    @cached_property
    def media_reader(self) -> MediaReader:
        """The media facts."""
        from wdsctl.core.catalog.media import MediaReader

        return MediaReader(self)

    def default_split_rule(self) -> SplitRule | None:
        """The rule of the unnamed split set; None if there is none."""
        return self.split_reader.rules().get("")

    def split(self, name: str) -> list[SplitShard]:
        """The shards of a split, in id order, with the samples of each that it has; empty if the split is empty.

        Raises InputError WDS211 if there is no such split, or no sample in the dataset, WDS322 for a media folder.
        """
        from wdsctl.core.catalog.splits import SplitShard

        query = (
            "SELECT shard, split_shard.samples, bits FROM split_shard JOIN split ON split.id = split_shard.split "
            "WHERE split.name = ? ORDER BY shard"
        )
        split_shards = [SplitShard(*row) for row in self.rows(query, name)]
        if not any(each.samples for each in split_shards):
            self._check_split_exists(name)
        return split_shards

    def split_membership(self, shard_ids: Sequence[int]) -> dict[str, SplitMembership]:
        """Shard path -> the splits that its samples are in, or go back to."""
        memberships: dict[str, SplitMembership] = {}
        for start in range(0, len(shard_ids), _IDS_PER_QUERY):
            ids = shard_ids[start : start + _IDS_PER_QUERY]
            where = f"shard.id IN ({', '.join('?' * len(ids))})"
            for table in ("split_shard", "former_split"):
                for _, path, layout_hash, count, name, *samples in self.rows(
                    _MEMBERSHIP.format(table=table, where=where), *ids
                ):
                    membership = memberships.setdefault(path, SplitMembership(layout_hash, {}, count, {}))
                    splits = membership.splits if table == "split_shard" else membership.former
                    splits[name] = (samples[0], samples[1])
        return memberships

    def removed_shard_membership(self) -> dict[str, list[SplitMembership]]:
        """Path -> the splits to which the samples of removed shards go back, the shard that was removed last first."""
        by_id: dict[int, SplitMembership] = {}
        by_path: dict[str, list[SplitMembership]] = {}
        query = _MEMBERSHIP.format(table="former_split", where="shard.removed IS NOT NULL")
        for shard_id, path, layout_hash, count, name, samples, bits in self.rows(query):
            if shard_id not in by_id:
                by_id[shard_id] = SplitMembership(layout_hash, {}, count, {})
                by_path.setdefault(path, []).insert(0, by_id[shard_id])
            by_id[shard_id].former[name] = (samples, bits)
        return by_path

    def _check_split_exists(self, name: str) -> None:
        self.check_not_media_folder()
        if not self.rows("SELECT 1 FROM shard WHERE removed IS NULL AND samples > 0 LIMIT 1"):
            raise InputError(
                "the dataset has no samples, so it has no split to train on",
                where=self.path,
                hint=f"{shell_command_for_file(self.path, 'validate')} tells why",
                code="WDS211",
            )
        names = self.split_names()
        if name not in names:
            divide = shell_command_for_file(self.path, "split", "train=8,val=1,test=1")
            again = shell_command_for_file(self.path, "split", "train=8,val=1,test=1", "--set", "other")
            only_train = shell_command_for_file(self.path, "split", "train=1")
            raise InputError(
                f"the dataset has no split {name!r}; it has {', '.join(names) if names else 'none yet'}",
                where=self.path,
                hint=f"choose one of these splits; or run {again} to make other/train and so on as well"
                if names
                else f"divide the samples with {divide}, or use all of them for training with {only_train}",
                code="WDS211",
            )
