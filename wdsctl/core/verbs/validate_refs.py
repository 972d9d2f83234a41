"""Which fields refer to which stores: from the request, from dataset.yaml; and what is found over all references."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from wdsctl.core.beneath import check_store
from wdsctl.core.blend_file.paths import aux_meant
from wdsctl.core.checks.refs import RefRule
from wdsctl.core.checks.stores import FILESYSTEM, joined_marks, open_ref_store, trouble_of
from wdsctl.core.dataset_yaml import DatasetConfig, dump, parse, read, update_refs
from wdsctl.core.files import write_text
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.validate_shards import Outcome


def rules_for(place: Place, asked: Sequence[tuple[str, str]], config: DatasetConfig) -> list[RefRule]:
    """What was asked for, and what dataset.yaml says of other fields.

    Paths that were asked for begin where the user is, those in dataset.yaml at the dataset's root. Raises
    PermissionDenied WDS409 where one of these leads out of the dataset.
    """
    fields = {field for field, _ in asked}
    for field, store in config.refs.items():
        if field not in fields:
            check_store(aux_meant(store, place.root), place.root, f"{place.dataset_yaml}, refs: {field}")
    known = [(field, store) for field, store in config.refs.items() if field not in fields]
    return [
        *(RefRule(field, aux_meant(store, place.root), store) for field, store in known),
        *(RefRule(field, aux_meant(store, os.getcwd()), store) for field, store in asked),
    ]


def remember(place: Place, rules: Sequence[RefRule]) -> None:
    """Write these rules into dataset.yaml, beside those of other fields, paths as seen from the dataset's root: stores
    move with it. The file is read here: since the run began, somebody may have written to it.
    """
    refs = {rule.field: _from_root(rule.store, place.root) for rule in rules}
    if not os.path.exists(place.dataset_yaml):
        write_text(place.dataset_yaml, dump(DatasetConfig(refs=refs)))
        return
    text = read(place.dataset_yaml)
    new = update_refs(text, parse(text, place.dataset_yaml).refs | refs, place.dataset_yaml)
    if new != text:
        write_text(place.dataset_yaml, new)


def openable(rules: Sequence[RefRule]) -> tuple[list[RefRule], list[Finding]]:
    """The rules whose stores can be opened, and a finding for each of the others."""
    good, findings = [], []
    for rule in rules:
        trouble = trouble_of(rule.store)
        if trouble is None:
            good.append(rule)
        else:
            words = f"the store of {rule.field} cannot be opened: {trouble.message} ({trouble.where}); {trouble.hint}"
            findings.append(Finding(code="WDS156", severity="error", message=words))
    return good, findings


def over_all(rules: Sequence[RefRule], outcome: Outcome) -> Iterator[Finding]:
    """Rules that match nothing, and media that nothing refers to, once every sample was looked at."""
    yield from filter(None, (_matches_nothing(rule, outcome) for rule in rules))
    for store in dict.fromkeys(rule.store for rule in rules):
        opened = open_ref_store(store)
        count, first = opened.unused(joined_marks(outcome.marks.get(store, [])))
        if count:
            words = f"entries of {opened.shown} that nothing refers to"
            yield Finding(code="WDS155", severity="note", message=words, key=first, count=count)


def matching(rules: Sequence[RefRule], outcome: Outcome) -> list[RefRule]:
    """The rules whose field is in some sample, and whose store has something of what is named."""
    if outcome.over_refs is None:
        return [rule for rule in rules if _matches_nothing(rule, outcome) is None]
    said = {placed.finding for placed in outcome.over_refs}
    return [rule for rule in rules if not said & {_no_field(rule), _no_entry(rule)}]


def _matches_nothing(rule: RefRule, outcome: Outcome) -> Finding | None:
    if not outcome.names.get(rule.field):
        return _no_field(rule)
    return None if any(len(marks) for marks in outcome.marks.get(rule.store, ())) else _no_entry(rule)


def _no_field(rule: RefRule) -> Finding:
    words = f"no sample has anything at {rule.field} in its JSON"
    return Finding(code="WDS156", severity="error", message=words)


def _no_entry(rule: RefRule) -> Finding:
    words = f"nothing that {rule.field} names is in {rule.said}"
    return Finding(code="WDS156", severity="error", message=words)


def _from_root(store: str, root: str) -> str:
    prefix = FILESYSTEM if store.startswith(FILESYSTEM) else ""
    path = store.removeprefix(prefix)
    if is_url(path) or is_url(root) or path.startswith("filesystem+"):
        return store
    with suppress(ValueError):  # on another drive
        return prefix + os.path.relpath(path, root)
    return store
