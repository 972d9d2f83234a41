"""How the sets of a dataset stand: rules and splits as the catalog has them, and as dataset.yaml asks for them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.split_rows import GivenBySet, Parts
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.split_rules import Excludes, Rules, SplitRule
from wdsctl.core.splitting import SplitShard
from wdsctl.core.stores import workers_for
from wdsctl.core.verbs.split_ground import Ground


@dataclass(frozen=True, slots=True)
class State:
    """What is in force. `new`: sets that dataset.yaml asks for and the catalog has never had."""

    rules: Rules
    excludes: Excludes
    new: Rules = field(default_factory=dict)
    given: GivenBySet = field(default_factory=dict)
    excluded: dict[int, SplitShard] = field(default_factory=dict)
    mark: str = ""
    is_kept: bool = False  # whether the catalog knows more than plain shares


def state_of(place: Place) -> State:
    """How things stand. Raises CatalogError, and DatasetError WDS220 where dataset.yaml is broken."""
    with Catalog(place.catalog) as catalog:
        rows = catalog.split_rows
        try:
            rules, excludes = rows.rules(), rows.excludes()
            given, mark = rows.given(), rows.mark()
        except (ValueError, TypeError) as error:
            raise CatalogError(
                "the rules of the splits in the catalog do not parse",
                where=place.catalog,
                hint="make the splits again: `wdsctl split DATASET 8,1,1`",
                code="WDS302",
            ) from error
        excluded = rows.excluded()
    if excludes is not None:
        return State(rules, excludes, {}, given, excluded, mark, is_kept=True)
    # A catalog that was made anew, or by shares alone, has not been told what else dataset.yaml says.
    authored = load(place.dataset_yaml) if os.path.exists(place.dataset_yaml) else DatasetConfig()
    new = {name: rule for name, rule in authored.split_sets.items() if name not in rules}
    if authored.split is not None and "" not in rules:
        new = {"": authored.split} | new
    return State(rules, authored.exclude, new, given, excluded, mark)


def no_such_set(name: str, state: State, where: str = "") -> InputError:
    """The error that says which sets there are."""
    sets = ", ".join(filter(None, state.rules)) or "none that has a name"
    what = f"no set of splits {name!r}; it has {sets}" if name else "no splits yet"
    return InputError(f"the dataset has {what}", where=where, hint="`wdsctl split DATASET` lists them", code="WDS211")


def with_more(state: State, rule: SplitRule | None, excludes: Excludes) -> State:
    """The same, where the set without a name has this rule from now on, and nothing else was excluded so far."""
    new = state.new if rule is None else {"": rule} | state.new
    return replace(state, new=new, excludes=state.excludes or excludes)


def parts_of_set(place: Place, of_set: str) -> Parts:
    """The splits of a set as the catalog has them."""
    with Catalog(place.catalog) as catalog:
        return catalog.split_rows.parts(of_set)


def former_of_set(place: Place, of_set: str) -> Parts:
    """The samples that each split of a set had before they were excluded, or their shard was gone."""
    with Catalog(place.catalog) as catalog:
        return catalog.split_rows.former(of_set)


def ground_of(place: Place, workers: int, progress: Progress, *, keeps: bool) -> Ground:
    """The shards of the dataset that have samples. Raises CatalogError."""
    with Catalog(place.catalog) as catalog:
        rows, generation = catalog.shards(), catalog.generation
    filled = tuple(row for row in rows if row.samples)
    return Ground(place, generation, filled, workers_for(place.root, workers), progress, keeps)
