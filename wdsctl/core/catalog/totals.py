"""Totals of a dataset, stored as a fact of each catalog, so that a summary need not add up rows.

Standard library only. If the totals are missing or of another version, they are computed from the rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from wdsctl.core.catalog.values import TOTALS_FACT, ShardRow
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.head import digest_shard_rows

MediaSummaryKind = Literal["image", "audio", "video", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSummary:
    """The media of one kind in one part. Ranges are (least, greatest), None if no medium has such a number.

    `forms`: how many there are of each format, described: `JPEG RGB`, `mp4 h264`, `flac 2 ch 44.1 kHz`; for unreadable
    media, of each reason.
    """

    part: str
    kind: MediaSummaryKind
    media: int
    size_bytes: int
    forms: dict[str, int]
    width: tuple[int, int] | None = None  # pixels, as stored
    height: tuple[int, int] | None = None
    seconds: float | None = None  # in total
    seconds_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PartCount:
    """How often a part occurs in a dataset. `share`: of the samples that have it."""

    name: str
    samples: int
    share: float
    size_bytes: int
    empty: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    name: str
    share: float  # as requested
    shards: int  # in which the split has samples
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals of the shards of the current generation. `media`: None without media facts, and for recomputed totals.

    `ids`: the lowest and the highest shard id. `digest`: `digest_shards` of all shards. `without_facts`: shards with
    samples and without media facts.
    """

    shards: int = 0
    samples: int = 0
    size_bytes: int = 0
    statuses: dict[str, int] = field(default_factory=dict)  # how many shards are ok, partial, bad, ...
    ids: tuple[int, int] = (0, 0)
    digest: str
    excluded: int = 0
    without_facts: int = 0
    parts: tuple[PartCount, ...] = ()
    splits: tuple[SplitCount, ...] = ()
    media: tuple[MediaSummary, ...] | None = None

    def as_text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def read_totals(connection: sqlite3.Connection, facts: dict[str, str]) -> Totals:
    """The stored totals among the `facts` of a catalog, or `compute_totals`."""
    stored = _parse_totals(facts[TOTALS_FACT]) if TOTALS_FACT in facts else None
    return stored or compute_totals(connection)


def compute_totals(connection: sqlite3.Connection) -> Totals:
    """Totals without those of media, computed from the rows: 3 us per shard."""
    query = (
        "SELECT status, count(*), sum(samples), sum(size), min(id), max(id) "
        "FROM shard WHERE removed IS NULL GROUP BY status ORDER BY status"
    )
    rows = connection.execute(query).fetchall()
    if not rows:
        return Totals(digest=digest_shard_rows(()), splits=tuple(count_splits(connection)))
    statuses, shards, samples, sizes, first, last = zip(*rows, strict=True)
    [excluded] = connection.execute(
        "SELECT coalesce(sum(e.samples), 0) FROM excluded_shard AS e JOIN shard ON shard.id = e.shard "
        "WHERE shard.removed IS NULL"
    ).fetchone()
    [without_facts] = connection.execute(
        "SELECT count(*) FROM shard WHERE removed IS NULL AND samples > 0 AND id NOT IN (SELECT shard FROM media_shard)"
    ).fetchone()
    return Totals(
        shards=sum(shards),
        samples=sum(samples),
        size_bytes=sum(sizes),
        statuses=dict(zip(statuses, shards, strict=True)),
        ids=(min(first), max(last)),
        digest=digest_shard_rows(
            connection.execute("SELECT id, size, layout_hash FROM shard WHERE removed IS NULL ORDER BY id")
        ),
        excluded=excluded,
        without_facts=without_facts,
        parts=tuple(count_parts(connection, sum(samples))),
        splits=tuple(count_splits(connection)),
    )


def _parse_totals(text: str) -> Totals | None:
    """Parse stored totals; None if this version did not write the text."""
    try:
        stored = read_json(text)
        media = stored["media"]
        return replace(
            Totals(**stored),
            ids=(int(stored["ids"][0]), int(stored["ids"][1])),
            parts=tuple(PartCount(**each) for each in stored["parts"]),
            splits=tuple(SplitCount(**each) for each in stored["splits"]),
            media=None if media is None else tuple(_parse_media_summary(each) for each in media),
        )
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def _parse_media_summary(stored: dict[str, Any]) -> MediaSummary:
    """A summary from JSON, which has lists in place of tuples."""
    pairs = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
    return MediaSummary(**stored | pairs)


_COLUMNS = ", ".join(ShardRow._fields)


@dataclass(frozen=True, slots=True)
class CatalogSummary:
    """`first`: the first shards, in the order in which they were added. `spread`: a sample, evenly spread over all
    shards.
    """

    facts: dict[str, str]
    totals: Totals
    first: tuple[ShardRow, ...]
    spread: tuple[ShardRow, ...]

    @property
    def has_all(self) -> bool:
        """Whether `spread` has all shards."""
        return len(self.spread) == self.totals.shards


def summarize_catalog(connection: sqlite3.Connection, *, first: int, spread: int) -> CatalogSummary:
    """Summarize an open catalog, with at most `first` and `spread` shards.

    Cost: a row per returned shard; without stored totals, a row per shard. Removed shards in between cost a step each.
    """
    facts = dict(connection.execute("SELECT key, value FROM meta"))
    totals = read_totals(connection, facts)
    shown = _rows(connection, totals.ids[0], first)
    has_all = totals.shards <= spread
    some = _rows(connection, totals.ids[0], spread) if has_all else _read_spread_shards(connection, totals.ids, spread)
    return CatalogSummary(facts, totals, tuple(shown), tuple(some))


def _rows(connection: sqlite3.Connection, start: int, limit: int) -> list[ShardRow]:
    query = f"SELECT {_COLUMNS} FROM shard WHERE removed IS NULL AND id >= ? ORDER BY id LIMIT ?"
    return [ShardRow(*row) for row in connection.execute(query, (start, limit))]


def _read_spread_shards(connection: sqlite3.Connection, ids: tuple[int, int], count: int) -> list[ShardRow]:
    """The first shard of each of `count` ranges of ids."""
    low, high = ids
    bounds = [low + (high + 1 - low) * i // max(1, count) for i in range(count + 1)]
    query = f"SELECT {_COLUMNS} FROM shard WHERE removed IS NULL AND id >= ? AND id < ? ORDER BY id LIMIT 1"
    found = [connection.execute(query, bounds[i : i + 2]).fetchone() for i in range(count)]
    return [ShardRow(*row) for row in found if row is not None]


def media_counts(summaries: Sequence[MediaSummary]) -> Mapping[str, int]:
    """How many media there are of each kind."""
    counts: Counter[str] = Counter()
    for summary in summaries:
        counts[summary.kind] += summary.media
    return counts


def count_parts(connection: sqlite3.Connection, samples: int) -> list[PartCount]:
    """The parts of a catalog or a draft of `samples` samples, the most frequent first."""
    query = (
        "SELECT ext.name, sum(shard_part.samples), sum(shard_part.bytes), sum(shard_part.empty) FROM shard_part "
        "JOIN ext ON ext.id = shard_part.ext JOIN shard ON shard.id = shard_part.shard "
        "WHERE shard.removed IS NULL GROUP BY ext.id ORDER BY sum(shard_part.samples) DESC, ext.id"
    )
    return [
        PartCount(name, count, count / samples if samples else 0.0, size_bytes, empty)
        for name, count, size_bytes, empty in connection.execute(query)
    ]


def count_splits(connection: sqlite3.Connection) -> list[SplitCount]:
    """The splits of a catalog or a draft, in the order in which they were named."""
    query = (
        "SELECT split.name, split.share, count(shard), coalesce(sum(samples), 0) FROM split "
        "LEFT JOIN split_shard ON split_shard.split = split.id GROUP BY split.id ORDER BY split.id"
    )
    return [
        SplitCount(name=name, share=float(share), shards=shards, samples=samples)
        for name, share, shards, samples in connection.execute(query)
    ]
