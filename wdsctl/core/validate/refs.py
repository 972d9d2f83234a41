"""Level `refs`: do the names that samples refer to exist in their stores?

The request and dataset.yaml define which fields refer to which stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.blend.yaml_tree import resolve_aux_path
from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.dataset.config import DatasetConfig, dump_config, parse_config, read_config_text, update_refs_section
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import REFERENCES_PART
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.files import write_text
from wdsctl.core.json_text import read_json, values_at_path
from wdsctl.core.media.kinds import ARRAY_KINDS, MAX_DECODABLE_BYTES, MEDIA_KINDS, part_kind
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.safe_open import check_store
from wdsctl.core.storage.open import storage_for
from wdsctl.core.urls import is_url
from wdsctl.core.validate.headers import ReadShard
from wdsctl.core.validate.ref_stores import FILESYSTEM_PREFIX, EntryIds, open_ref_store

_MAX_PROBED_SAMPLES = 200  # samples per dataset, to find the fields that name media
_MAX_MEDIA_NAME_DEPTH = 8  # nested objects and lists that the search for media names enters
_MAX_MEDIA_NAME_ITEMS = 100  # items of a list that the search for media names reads
_MAX_MEDIA_NAME_CHARS = 4096


class RefRule(NamedTuple):
    """A rule: the names in a field of a sample's JSON (`image`, `meta.image`; lists too) are entries of a store.

    `store`: an absolute path, a URL or filesystem://PATH; `store_as_written`: as the user wrote it.
    """

    field: str
    store: str
    store_as_written: str


@dataclass(slots=True)
class RefUsage:
    """The references of one shard: the existing entries by store, and the number of names by field."""

    entry_ids: dict[str, set[int]] = field(default_factory=dict)
    name_counts: dict[str, int] = field(default_factory=dict)

    def entry_id_arrays(self) -> dict[str, EntryIds]:
        return {store: np.fromiter(ids, np.uint64, len(ids)) for store, ids in self.entry_ids.items()}


def can_hold_refs(part: str) -> bool:
    return part_kind(part) == "json"


def check_refs(
    read: ReadShard,
    parts: Mapping[str, PartToCheck],
    rules: tuple[RefRule, ...],
    findings: LocatedFindingCollector,
    usage: RefUsage,
) -> None:
    """Look up every name of one sample. The level `content` reports JSON that does not parse.

    Raises storage errors. Takes 10 µs per name in a prepared store, one system call in a folder.
    """
    for part in parts.values():
        if not can_hold_refs(part.part) or not 0 < part.size <= MAX_DECODABLE_BYTES:
            continue
        try:
            value = read_json(read(part.offset, part.size))
        except ValueError:
            continue
        for rule in rules:
            for name in values_at_path(value, rule.field):
                usage.name_counts[rule.field] = usage.name_counts.get(rule.field, 0) + 1
                _check_name(name, rule, part, findings, usage)


def _check_name(
    name: Any, rule: RefRule, part: PartToCheck, findings: LocatedFindingCollector, usage: RefUsage
) -> None:
    if not isinstance(name, str):
        findings.add("WDS156", f"{rule.field} has the value {name!r:.60}, expected a name", part)
        return
    result = open_ref_store(rule.store).lookup(name)
    if result.status == "found":
        usage.entry_ids.setdefault(rule.store, set()).add(result.entry_id)
        return
    source = f"{rule.field} of {rule.store_as_written}"
    code, message = {
        "missing": ("WDS550", f"{name!r:.200} does not exist ({source})"),
        "other case": ("WDS154", f"{name!r:.200} does not exist, but {result.near_name!r} does ({source})"),
        "ambiguous": ("WDS551", f"several samples have the name {name!r:.200} ({source})"),
        "outside": ("WDS552", f"{name!r:.200} leads out of the store ({source})"),
    }[result.status]
    findings.add(code, message, part)


def find_media_names(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Find (field, name) of all strings in an object that look like file names of media or arrays."""
    if isinstance(value, dict) and depth < _MAX_MEDIA_NAME_DEPTH:
        for key, each in value.items():
            if "." not in key:
                yield from find_media_names(each, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list) and depth < _MAX_MEDIA_NAME_DEPTH:
        for each in value[:_MAX_MEDIA_NAME_ITEMS]:
            yield from find_media_names(each, path, depth + 1)
    elif isinstance(value, str) and path and len(value) < _MAX_MEDIA_NAME_CHARS and "\n" not in value:
        yield from [(path, value)] if part_kind(value) in MEDIA_KINDS | ARRAY_KINDS else []


def find_first_media_names(location: DatasetLocation, offsets: Offsets | Finding) -> dict[str, list[str]]:
    """Find the JSON fields that hold names of media in the first samples: field -> names."""
    names: dict[str, list[str]] = {}
    if isinstance(offsets, Finding):
        return names
    for value in _first_json_values(location, offsets):
        for field_name, name in find_media_names(value):
            names.setdefault(field_name, []).append(name)
    return names


def find_store(stores: Sequence[str], names: Sequence[str]) -> str:
    """Find the store that has most of the names. If none has any, the first one, in which they are then missing."""
    return max(stores, key=lambda store: _count_entries(store, names))


def _count_entries(store: str, names: Sequence[str]) -> int:
    try:
        opened = open_ref_store(store)
        return sum(opened.lookup(name).status == "found" for name in names)
    except WdsctlError:
        return 0  # `filter_openable_rules` reports a store that cannot be opened


def _first_json_values(location: DatasetLocation, offsets: Offsets) -> Iterator[object]:
    """Read the JSON of the first samples."""
    with closing(storage_for(location.root)) as storage:
        for row in range(min(_MAX_PROBED_SAMPLES, offsets.samples)):
            shard = os.path.join(location.root, offsets.shards[offsets.shard_of(row)].path)
            parts = offsets.parts(row)
            # What else a sample of a polylithic dataset says of its media, such as a document, names its own parts.
            has_own = any(part == REFERENCES_PART for part, _, _ in parts)
            for part, offset, size in parts:
                if can_hold_refs(part) and (not has_own or part == REFERENCES_PART) and storage.exists(shard):
                    with suppress(ValueError):
                        yield read_json(storage.read(shard, offset, size))


def collect_ref_rules(
    location: DatasetLocation, requested: Sequence[tuple[str, str]], config: DatasetConfig
) -> list[RefRule]:
    """Combine the rules of the request with those of dataset.yaml for other fields.

    Paths in the request are relative to the working directory, those in dataset.yaml to the dataset's root. Raises
    PermissionDenied WDS409 if a path in dataset.yaml leads outside of the dataset.
    """
    requested_fields = {field for field, _ in requested}
    configured = [(field, store) for field, store in config.refs.items() if field not in requested_fields]
    for field_name, store in configured:
        check_store(
            resolve_aux_path(store, location.root), location.root, f"{location.config_path}, refs: {field_name}"
        )
    return [
        *(RefRule(field, resolve_aux_path(store, location.root), store) for field, store in configured),
        *(RefRule(field, resolve_aux_path(store, os.getcwd()), store) for field, store in requested),
    ]


def filter_openable_rules(rules: Sequence[RefRule]) -> tuple[list[RefRule], list[Finding]]:
    """Return the rules whose stores can be opened, and a finding for each of the others."""
    openable, findings = [], []
    for rule in rules:
        try:
            open_ref_store(rule.store)
        except WdsctlError as error:
            message = f"cannot open the store of {rule.field}: {error.message} ({error.where}); {error.hint}"
            findings.append(Finding(code="WDS156", severity="error", message=message))
        else:
            openable.append(rule)
    return openable, findings


def check_refs_dataset_wide(
    rules: Sequence[RefRule], used_entry_ids: Mapping[str, Sequence[EntryIds]], name_counts: Mapping[str, int]
) -> Iterator[Finding]:
    """Report rules without a match, and media without a reference. Needs references of all samples."""
    for rule in rules:
        finding = _unmatched_rule_finding(rule, used_entry_ids, name_counts)
        if finding is not None:
            yield finding
    for store_path in dict.fromkeys(rule.store for rule in rules):
        store, used = open_ref_store(store_path), used_entry_ids.get(store_path)
        count, first = store.find_unused(np.unique(np.concatenate(used)) if used else np.empty(0, np.uint64))
        if count:
            message = f"entries of {store.display_path} to which no sample refers"
            yield Finding(code="WDS155", severity="note", message=message, key=first, count=count)


def select_matching_rules(
    rules: Sequence[RefRule],
    used_entry_ids: Mapping[str, Sequence[EntryIds]],
    name_counts: Mapping[str, int],
    dataset_findings: Sequence[Finding] | None,
) -> list[RefRule]:
    """Select the rules whose field is in some sample, and whose store has some of the names.

    `dataset_findings`: the result of `check_refs_dataset_wide` in an earlier run, if this run has read no references.
    """
    if dataset_findings is None:
        return [rule for rule in rules if _unmatched_rule_finding(rule, used_entry_ids, name_counts) is None]
    unmatched = set(dataset_findings)
    return [rule for rule in rules if not unmatched & {_missing_field_finding(rule), _missing_entry_finding(rule)}]


def _unmatched_rule_finding(
    rule: RefRule, used_entry_ids: Mapping[str, Sequence[EntryIds]], name_counts: Mapping[str, int]
) -> Finding | None:
    if not name_counts.get(rule.field):
        return _missing_field_finding(rule)
    return None if any(map(len, used_entry_ids.get(rule.store, ()))) else _missing_entry_finding(rule)


def _missing_field_finding(rule: RefRule) -> Finding:
    return Finding(code="WDS156", severity="error", message=f"no sample has a value at {rule.field} in its JSON")


def _missing_entry_finding(rule: RefRule) -> Finding:
    message = f"{rule.store_as_written} has none of the names in {rule.field}"
    return Finding(code="WDS156", severity="error", message=message)


def save_ref_rules(location: DatasetLocation, rules: Sequence[RefRule]) -> None:
    """Write rules into dataset.yaml, next to those of other fields, with paths relative to the root.

    Relative paths stay valid if the dataset and its store move together. Reads the file again, since another process
    may have changed it during the run.
    """
    refs = {rule.field: _relative_to_root(rule.store, location.root) for rule in rules}
    if not os.path.exists(location.config_path):
        write_text(location.config_path, dump_config(DatasetConfig(refs=refs)))
        return
    text = read_config_text(location.config_path)
    updated = update_refs_section(text, parse_config(text, location.config_path).refs | refs, location.config_path)
    if updated != text:
        write_text(location.config_path, updated)


def _relative_to_root(store: str, root: str) -> str:
    prefix = FILESYSTEM_PREFIX if store.startswith(FILESYSTEM_PREFIX) else ""
    path = store.removeprefix(prefix)
    if is_url(path) or is_url(root) or path.startswith("filesystem+"):
        return store
    with suppress(ValueError):  # the paths are on different drives
        return prefix + os.path.relpath(path, root)
    return store
