"""The columns that `view create --where` speaks of, and the SQL that gives them: a row a part of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wdsctl.core.catalog.schema import MEDIA_FACTS
from wdsctl.core.sample_id import INDEX_BITS

MASK = (1 << INDEX_BITS) - 1

OF_SAMPLE = {
    "id": "sample.id",
    "key": "sample.key",
    "shard": "shard.path",
    "position": f"sample.id & {MASK}",
    "sample_offset": "sample.offset",
    "sample_size": "sample.size",
}
OF_PART = {
    "part": "ext.name",
    "ext": "ext.name",
    "offset": "sample.offset + json_extract(item.value, '$[1]')",
    "size": "json_extract(item.value, '$[2]')",
}

_PARTS = "CROSS JOIN json_each(sample.parts) AS item CROSS JOIN ext ON ext.id = json_extract(item.value, '$[0]') "
_MEDIA = (
    "LEFT JOIN media ON media.sample = sample.id AND media.ext = ext.id "
    "LEFT JOIN media_form ON media_form.id = media.form "
)
_SHARD = "JOIN shard ON shard.id = sample.id >> 28 "


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def hollow(names: Iterable[str]) -> str:
    """A view `v_row` that has these columns and nothing in them: to see what an expression reads."""
    return f"CREATE VIEW v_row AS SELECT {', '.join(f'1 AS {quoted(name)}' for name in names)}"


def filled(names: Sequence[str], values: Mapping[str, int]) -> str:
    """A view `v_row` of the catalog with `id` and these columns, joined to no more than they take.

    `values`: columns that `wds_value(NUMBER, position)` gives, by their numbers.
    """
    ours = {name: f"wds_value({number}, sample.id & {MASK})" for name, number in values.items()}
    known = MEDIA_FACTS | OF_SAMPLE | OF_PART | ours
    columns = ", ".join(f"{known[name]} AS {quoted(name)}" for name in dict.fromkeys(("id", *names)))
    media = _MEDIA if any(name in MEDIA_FACTS for name in names) else ""
    parts = _PARTS if media or any(name in OF_PART for name in names) else ""  # parts that are no media have rows, too
    shard = _SHARD if "shard" in names else ""
    return f"CREATE TEMP VIEW v_row AS SELECT {columns} FROM sample {parts}{media}{shard}"
