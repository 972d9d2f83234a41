"""Puts sets of splits into a draft, and their rules into dataset.yaml."""

from __future__ import annotations

import os

from wdsctl.core.catalog.draft import Draft
from wdsctl.core.catalog.split_rows import GivenBySet
from wdsctl.core.dataset_yaml import load, read, update_rules
from wdsctl.core.place import Place
from wdsctl.core.split_rules import Excludes, Rules, SplitRule
from wdsctl.core.verbs.split_bring import Brought


def put_set(draft: Draft, of_set: str, rule: SplitRule, made: Brought, given: GivenBySet) -> None:
    """A set that was made, in the place of what there was by its name."""
    draft.splits.begin_set(of_set, rule)
    for name, parts in made.parts.items():
        draft.splits.add(of_set, name, parts.values())
    draft.splits.keep_former(of_set, made.former)
    given.pop(of_set, None)
    if made.given:
        given[of_set] = made.given


def put_changes(draft: Draft, of_set: str, made: Brought, given: GivenBySet) -> None:
    """A set of which some shards are divided otherwise now."""
    draft.splits.forget(of_set, made.changed)
    for name, parts in made.parts.items():
        draft.splits.add(of_set, name, [parts[shard] for shard in made.changed & parts.keys()])
    draft.splits.keep_former(of_set, made.former)
    if made.given:
        given[of_set] = made.given


def is_plain(rules: Rules) -> bool:
    """Whether the catalog's table of splits says all there is to say of them."""
    plain = [rule.is_counted and not rule.allow_empty and not rule.rest for rule in rules.values()]
    return all(plain) and not any(rules)


def new_text(place: Place, rules: Rules, excludes: Excludes, *, also_plain: bool) -> str | None:
    """What dataset.yaml is to say; None where it says so, or where there is none.

    `also_plain`: the set without a name, too, which otherwise stays as its author says it. Raises DatasetError WDS220.
    """
    if not os.path.exists(place.dataset_yaml):
        return None
    text = read(place.dataset_yaml)
    authored = load(place.dataset_yaml).split
    plain = rules.get("") if also_plain or authored is None else authored
    sets = {name: rule for name, rule in rules.items() if name}
    new = update_rules(text, plain, sets, excludes, path=place.dataset_yaml)
    return new if new != text else None
