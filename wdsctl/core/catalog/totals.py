"""What a dataset holds on the whole: kept in `meta` with every catalog, so that a summary adds nothing up.

Standard library alone. A catalog from before there were totals, or from another version that has others, is added up.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from wdsctl.core.catalog.fact_names import TOTALS
from wdsctl.core.catalog.media_line import MediaLine
from wdsctl.core.json_text import read_json
from wdsctl.core.shard_digest import digest_of_rows


@dataclass(frozen=True, slots=True)
class PartCount:
    """How much there is of one part over a dataset. `share` is the share of samples that have it."""

    name: str
    samples: int
    share: float
    size_bytes: int
    empty: int


@dataclass(frozen=True, slots=True)
class SplitCount:
    name: str
    share: float  # as asked for
    shards: int  # that it has samples of
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Of the shards of the current generation. `media`: None where nobody asked for facts, and where they are not kept.

    `ids`: the least and the greatest number of a shard; `digest`: as `digest_of` names all of them; `without_facts`:
    how many with samples have no facts of media.
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
    media: tuple[MediaLine, ...] | None = None

    def as_text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def totals_of(connection: sqlite3.Connection, facts: dict[str, str]) -> Totals:
    """The totals that are kept among the `facts` of a catalog; where there are none, `counted_totals`."""
    return _kept(facts[TOTALS]) or counted_totals(connection) if TOTALS in facts else counted_totals(connection)


def counted_totals(connection: sqlite3.Connection) -> Totals:
    """Totals but those of media, added up: some 3 µs a shard."""
    query = (
        "SELECT status, count(*), sum(samples), sum(size), min(id), max(id) "
        "FROM shard WHERE removed IS NULL GROUP BY status ORDER BY status"
    )
    rows = connection.execute(query).fetchall()
    if not rows:
        return Totals(digest=digest_of_rows(()), splits=tuple(split_counts(connection)))
    statuses, shards, samples, sizes, first, last = zip(*rows, strict=True)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return Totals(
        shards=sum(shards),
        samples=sum(samples),
        size_bytes=sum(sizes),
        statuses=dict(zip(statuses, shards, strict=True)),
        ids=(min(first), max(last)),
        digest=digest_of_rows(
            connection.execute("SELECT id, size, layout_hash FROM shard WHERE removed IS NULL ORDER BY id")
        ),
        excluded=_excluded(connection) if "excluded_shard" in tables else 0,
        without_facts=_without_facts(connection) if "media_shard" in tables else 0,
        parts=tuple(part_counts(connection, sum(samples))),
        splits=tuple(split_counts(connection)),
    )


def part_counts(connection: sqlite3.Connection, samples: int) -> list[PartCount]:
    """The parts of `samples` samples, the most frequent first."""
    query = (
        "SELECT ext.name, sum(shard_part.samples), sum(shard_part.bytes), sum(shard_part.empty) FROM shard_part "
        "JOIN ext ON ext.id = shard_part.ext JOIN shard ON shard.id = shard_part.shard "
        "WHERE shard.removed IS NULL GROUP BY ext.id ORDER BY sum(shard_part.samples) DESC, ext.id"
    )
    return [
        PartCount(name, count, count / samples if samples else 0.0, size, empty)
        for name, count, size, empty in connection.execute(query)
    ]


def split_counts(connection: sqlite3.Connection) -> list[SplitCount]:
    """The splits, in the order they were named."""
    query = (
        "SELECT split.name, split.share, count(shard), coalesce(sum(samples), 0) FROM split "
        "LEFT JOIN split_shard ON split_shard.split = split.id GROUP BY split.id ORDER BY split.id"
    )
    return [SplitCount(name, float(share), *counts) for name, share, *counts in connection.execute(query)]


def _excluded(connection: sqlite3.Connection) -> int:
    query = (
        "SELECT coalesce(sum(excluded_shard.samples), 0) FROM excluded_shard "
        "JOIN shard ON shard.id = excluded_shard.shard WHERE shard.removed IS NULL"
    )
    return int(connection.execute(query).fetchone()[0])


def _without_facts(connection: sqlite3.Connection) -> int:
    query = (
        "SELECT count(*) FROM shard WHERE removed IS NULL AND samples > 0 AND id NOT IN (SELECT shard FROM media_shard)"
    )
    return int(connection.execute(query).fetchone()[0])


def _kept(text: str) -> Totals | None:
    """None where the text is not what this version writes."""
    try:
        told = read_json(text)
        media = told["media"]
        return replace(
            Totals(**told),
            ids=(int(told["ids"][0]), int(told["ids"][1])),
            parts=tuple(PartCount(**each) for each in told["parts"]),
            splits=tuple(SplitCount(**each) for each in told["splits"]),
            media=None if media is None else tuple(_line(each) for each in media),
        )
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def _line(told: dict[str, Any]) -> MediaLine:
    """JSON has lists where a line has pairs."""
    pairs = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return MediaLine(**told | pairs)
