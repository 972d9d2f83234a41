"""What the catalog in force says, as `index` needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wdsctl.core.catalog.identity import check
from wdsctl.core.catalog.media_settings import MediaSettings
from wdsctl.core.catalog.shard_row import Held, ShardRow
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.selected_shards import EVERYTHING, Selection
from wdsctl.core.split_rules import SplitRule
from wdsctl.core.verbs.fold import last_generation


@dataclass(frozen=True, slots=True)
class Published:
    """What the catalog in force says."""

    rows: list[ShardRow]
    rule: SplitRule | None = None
    generation: int = 0
    last_shard_id: int = 0
    exclude: tuple[str, ...] = ()
    media: MediaSettings | None = None
    is_damaged: bool = False
    held: Mapping[str, Held] = field(default_factory=dict)  # for a rebuild: who has the samples, by shard
    gone: Mapping[str, Sequence[Held]] = field(default_factory=dict)  # the same of shards that are no longer there
    key: str = ""  # the field that keys of lines come from
    key_until: str = ""  # the rule that keys of names end by, where it was decided
    selection: Selection = EVERYTHING
    has_sample_rows: bool | None = None  # None: there is no catalog to say so
    is_hashed: bool = False
    split_facts: Mapping[str, str] = field(default_factory=dict)  # rules of sets and what is excluded, as it is kept


def published(place: Place, *, rebuild: bool) -> Published:
    """Nothing, where there is no catalog yet, or a damaged one that is to be made again. Raises CatalogError."""
    try:
        check(place.catalog)
        return _read(place, rebuild=rebuild)
    except CatalogError as error:
        is_damaged = error.code == "WDS302"
        if error.code == "WDS301" or (rebuild and is_damaged):
            return Published([], _authored_rule(place), last_generation(place), is_damaged=is_damaged)
        raise


def _read(place: Place, *, rebuild: bool) -> Published:
    from wdsctl.core.catalog.catalog import Catalog

    with Catalog(place.catalog) as catalog:
        rows = catalog.shards()
        return Published(
            rows=rows,
            rule=catalog.split_rule(),
            split_facts=catalog.split_rows.facts(),
            generation=catalog.generation,
            last_shard_id=catalog.last_shard_id,
            exclude=catalog.exclude(),
            media=catalog.media_settings(),
            held=catalog.held([row.id for row in rows]) if rebuild else {},
            gone=catalog.gone(),
            key=catalog.key_field,
            key_until=catalog.key_until,
            selection=catalog.selection(),
            has_sample_rows=catalog.has_sample_rows,
            is_hashed=catalog.is_hashed,
        )


def still_damaged(place: Place, rows: Sequence[ShardRow]) -> list[Finding]:
    """The shards with which earlier runs found something gravely wrong, and which have not changed since.

    The catalog has only the first code of each: how much else is wrong, another scan would tell.
    """
    words = f"found when it was indexed, and not mended: {command_at(place, 'validate')} tells all"
    return [
        Finding(code=row.code, severity="error", message=words, shard=row.path) for row in rows if row.code is not None
    ]


def _authored_rule(place: Place) -> SplitRule | None:
    """The split that dataset.yaml asks for: a catalog can be made again from the tars and it."""
    if not os.path.exists(place.dataset_yaml):
        return None
    from wdsctl.core.dataset_yaml import load

    return load(place.dataset_yaml).split
