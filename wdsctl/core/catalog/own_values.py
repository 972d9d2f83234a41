"""Whether the small tables of a catalog hold what their columns are for: SQLite keeps anything in any column.

Numbers of samples, bits of splits and paths of shards become sizes and addresses wherever they are read, so they are
looked at once, when the file is opened: some 0.1 ms, and 1 us a shard. Rows of samples are many, and are looked at when
they are used.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable

from wdsctl.core.catalog.typed_rows import is_one_line
from wdsctl.core.sample_id import INDEX_BITS

_SHARDS = 1 << 63 - INDEX_BITS  # ids of samples have 64 bits, with a sign

#: By table, column and kind: t text, b blob, i a whole number, n one from 0, f any number; in capitals it may be null.
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
_TYPES = {"t": "'text'", "b": "'blob'", "i": "'integer'", "n": "'integer'", "f": "'real', 'integer'"}
_OF_SHARDS = ("split_shard", "excluded_shard", "former_split")


def foreign_value(connection: sqlite3.Connection) -> str:
    """What a catalog holds that cannot be, in words; empty where all is well. Its schema is ours."""
    there = dict(connection.execute("SELECT name, sql FROM main.sqlite_master WHERE type = 'table'"))
    has_hashes = "sha256" in there["shard"]
    tests = [_test(table, told, has_hashes=has_hashes) for table, told in _KINDS.items() if table in there]
    tests += [_of_shards(table) for table in _OF_SHARDS if table in there]
    tests.append(f"EXISTS (SELECT 1 FROM main.shard WHERE id >= {_SHARDS} OR samples > {1 << INDEX_BITS})")
    if connection.execute(f"SELECT {' OR '.join(tests)}").fetchone() != (0,):
        return "a table holds a value that cannot be there"
    for name, share in connection.execute("SELECT name, share FROM main.split"):
        if not is_one_line(name) or not _is_share(share):
            return "a split has a name or a share that cannot be"
    return _odd_part(name for (name,) in connection.execute("SELECT name FROM main.ext"))


def _test(table: str, told: str, *, has_hashes: bool) -> str:
    wrong = []
    for name, kind in (each.split(":") for each in told.split()):
        if name == "sha256" and not has_hashes:
            continue
        types = _TYPES[kind.lower()] + (", 'null'" if kind.isupper() else "")
        wrong.append(f'typeof("{name}") NOT IN ({types})' + (f' OR "{name}" < 0' if kind.lower() == "n" else ""))
    return f"EXISTS (SELECT 1 FROM main.{table} WHERE {' OR '.join(wrong)})"


def _of_shards(table: str) -> str:
    """More samples than the shard has, or more or fewer bits."""
    return (
        f"EXISTS (SELECT 1 FROM main.{table} AS t JOIN main.shard AS s ON s.id = t.shard WHERE t.samples > s.samples "
        "OR (t.samples > 0 AND t.bits IS NOT NULL AND length(t.bits) <> (s.samples + 7) / 8))"
    )


def _is_share(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _odd_part(names: Iterable[str]) -> str:
    odd = next((name for name in names if "/" in name or "\0" in name), None)
    return "" if odd is None else f"a part has the name {odd!r:.60}"
