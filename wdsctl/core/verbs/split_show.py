"""The splits that a dataset has, without making any."""

from __future__ import annotations

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.place import locate
from wdsctl.core.split_rules import plain_excludes
from wdsctl.core.verbs.presence import check_catalog
from wdsctl.core.verbs.split_excluded import noted
from wdsctl.core.verbs.split_report import SplitsReport, set_line
from wdsctl.core.verbs.split_state import no_such_set, parts_of_set, state_of


def show_splits(root: str, *, of_set: str = "", catalog: str | None = None) -> SplitsReport:
    """The sets of splits with their rules, and what is excluded. `of_set`: this one alone, InputError WDS211 where the
    dataset has none. Cost: a few rows a shard.
    """
    place = locate(root, catalog)
    check_catalog(place)
    state = state_of(place)
    if of_set and of_set not in state.rules:
        raise no_such_set(of_set, state, place.shown)
    with Catalog(place.catalog) as published:
        samples = sum(row.samples for row in published.shards())
    excluded = sum(part.samples for part in state.excluded.values())
    return SplitsReport(
        root=place.shown,
        sets=tuple(
            set_line(name, rule, parts_of_set(place, name), samples, excluded)
            for name, rule in state.rules.items()
            if of_set in ("", name)
        ),
        samples=samples,
        excluded=excluded,
        excludes=plain_excludes(state.excludes),
        quarantine=len(noted(place, ()).quarantine),
    )
