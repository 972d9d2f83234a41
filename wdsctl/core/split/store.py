"""Writes sets of splits: their samples to a catalog draft, their rules to dataset.yaml, copies of their key files.

Key files are copied to `splits/` beside dataset.yaml, so that the dataset can be split again without the originals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b

from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.splits import HistoryBySet
from wdsctl.core.dataset.config import read_config_text, update_all_split_sections
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.directories import resolve_parent
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.file_limits import MAX_INDEX_BYTES, read_whole
from wdsctl.core.files import remove_file, write_pieces
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.safe_open import open_named
from wdsctl.core.split.assignment import Assignment
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule, SplitRules

KEY_FILES_FOLDER = "splits"

_COPY_NAME = re.compile(r"[A-Za-z0-9_.-]+-[0-9a-f]{16}\.txt")


def write_set(
    draft: CatalogDraft, split_set: str, rule: SplitRule, assignment: Assignment, histories: HistoryBySet
) -> None:
    """Write a new set, in place of the set of this name. Updates `histories`."""
    draft.splits.begin_set(split_set, rule, assignment.split_shards)
    for name, parts in assignment.split_shards.items():
        draft.splits.add_split_shards(split_set, name, parts.values())
    draft.splits.store_former(split_set, assignment.former_shards)
    histories.pop(split_set, None)
    if assignment.history:
        histories[split_set] = assignment.history


def write_changed_shards(
    draft: CatalogDraft, split_set: str, rule: SplitRule, assignment: Assignment, histories: HistoryBySet
) -> None:
    """Write the shards of a set that have changed, and its new splits. Updates `histories`."""
    draft.splits.remove_shards(split_set, assignment.changed_shards)
    draft.splits.add_splits(split_set, rule, assignment.split_shards)
    for name, parts in assignment.split_shards.items():
        draft.splits.add_split_shards(
            split_set, name, [parts[shard] for shard in assignment.changed_shards & parts.keys()]
        )
    draft.splits.store_former(split_set, assignment.former_shards)
    if assignment.history:
        histories[split_set] = assignment.history


def has_only_shares(rules: SplitRules) -> bool:
    """Whether the catalog's table of splits is enough to restore the rules."""
    plain = [rule.is_counted and not rule.allow_empty and not rule.rest for rule in rules.values()]
    return all(plain) and not any(rules)


def updated_dataset_yaml(
    dataset: OpenDataset, rules: SplitRules, excludes: Excludes, *, include_default: bool
) -> str | None:
    """The new text of dataset.yaml; None if it does not change, or does not exist.

    `include_default`: also write the rule of the default set, which otherwise stays as the author wrote it. Raises
    DatasetError WDS220.
    """
    if not dataset.has_config():
        return None
    path = dataset.location.config_path
    text, authored = read_config_text(path), dataset.config.split
    default = rules.get("") if include_default or authored is None else authored
    named = {name: rule for name, rule in rules.items() if name}
    new = update_all_split_sections(text, default, named, excludes, path=path)
    return new if new != text else None


def with_stored_key_files(location: DatasetLocation, rule: SplitRule) -> SplitRule:
    """The rule with the paths of its stored key files. Copies nothing."""
    return replace(rule, keys={name: _stored_path(location, name, file) for name, file in rule.keys.items()})


def excludes_with_stored_key_files(location: DatasetLocation, excludes: Excludes) -> Excludes:
    """The excludes with the paths of their stored key files. Copies nothing."""
    paths = (_stored_path(location, "exclude", file) for file in excludes.key_files)
    return replace(excludes, key_files=tuple(dict.fromkeys(paths)))


def copy_key_files(location: DatasetLocation, rules: Mapping[str, SplitRule], excludes: Excludes) -> None:
    """Copy key files from elsewhere. A copy is named by the hash of its content, so it overwrites no other file."""
    named = [item for rule in rules.values() for item in rule.keys.items()]
    for prefix, file in [*named, *(("exclude", file) for file in excludes.key_files)]:
        path = os.path.join(location.meta, _stored_path(location, prefix, file))
        if os.path.isabs(file) and not os.path.exists(path):
            write_pieces(path, [_read_key_file(file)])


def store_key_list(location: DatasetLocation, split: str, keys: Iterable[str]) -> str:
    """Write the keys of a split into a file beside dataset.yaml; returns its path relative to dataset.yaml."""
    data = "".join(f"{key}\n" for key in keys).encode()
    file = _copy_path(split, data)
    write_pieces(os.path.join(location.meta, file), [data])
    return file


def remove_unused_key_files(location: DatasetLocation, rules: Mapping[str, SplitRule], excludes: Excludes) -> None:
    """Remove the copies that no rule names any more."""
    used = {file for rule in rules.values() for file in rule.keys.values()} | set(excludes.key_files)
    folder = os.path.join(location.meta, KEY_FILES_FOLDER)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if _COPY_NAME.fullmatch(name) and f"{KEY_FILES_FOLDER}/{name}" not in used:
            remove_file(os.path.join(folder, name))


def absolute_paths(files: Iterable[str]) -> tuple[str, ...]:
    """Paths from the command line, as absolute ones."""
    return tuple(os.path.abspath(os.path.expanduser(file)) for file in files)


def _stored_path(location: DatasetLocation, prefix: str, file: str) -> str:
    """The path of a key file relative to dataset.yaml; for a file from elsewhere, the path of its copy."""
    if not os.path.isabs(file):
        return file
    relative = os.path.relpath(resolve_parent(file), location.meta)
    if not relative.startswith(os.pardir):
        return relative.replace(os.sep, "/")
    return _copy_path(prefix, _read_key_file(file))


def _copy_path(prefix: str, data: bytes) -> str:
    return f"{KEY_FILES_FOLDER}/{prefix}-{blake2b(data, digest_size=8).hexdigest()}.txt"


def _read_key_file(file: str) -> bytes:
    with translate_os_errors(file, "read"), open_named(file) as source:
        return read_whole(source, file, MAX_INDEX_BYTES)
