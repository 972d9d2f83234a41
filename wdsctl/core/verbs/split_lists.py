"""Lists of keys that rules name: copied beside dataset.yaml, so that a dataset can be divided again where it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b

from wdsctl.core.files import remove_file, write_whole
from wdsctl.core.folders import resolved
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place
from wdsctl.core.split_rules import Excludes, SplitRule

FOLDER = "splits"

_OURS = re.compile(r"[A-Za-z0-9_.-]+-[0-9a-f]{16}\.txt")


def with_lists(place: Place, rule: SplitRule) -> SplitRule:
    """The rule with its lists named as they are kept; nothing is copied yet."""
    return replace(rule, keys={name: _name(place, name, file) for name, file in rule.keys.items()})


def excludes_with_lists(place: Place, excludes: Excludes) -> Excludes:
    """The excludes with their lists named as they are kept; nothing is copied yet."""
    return replace(
        excludes, key_files=tuple(dict.fromkeys(_name(place, "exclude", each) for each in excludes.key_files))
    )


def copy_lists(place: Place, rules: Mapping[str, SplitRule], excludes: Excludes) -> None:
    """Copy the lists that lie elsewhere. Never over another one: a name has the hash of what is in it."""
    for rule in rules.values():
        for name, file in rule.keys.items():
            _copy(place, _name(place, name, file), file)
    for file in excludes.key_files:
        _copy(place, _name(place, "exclude", file), file)


def forget_lists(place: Place, rules: Mapping[str, SplitRule], excludes: Excludes) -> None:
    """Remove the lists that no rule names any more, of those that were copied."""
    named = {file for rule in rules.values() for file in rule.keys.values()} | set(excludes.key_files)
    folder = os.path.join(place.meta, FOLDER)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if _OURS.fullmatch(name) and f"{FOLDER}/{name}" not in named:
            remove_file(os.path.join(folder, name))


def absolute(files: Iterable[str]) -> tuple[str, ...]:
    """Paths as a user gives them, from where they are."""
    return tuple(os.path.abspath(os.path.expanduser(file)) for file in files)


def _name(place: Place, what: str, file: str) -> str:
    """The path of a list from the dataset's folder; of one that lies elsewhere, of its copy there."""
    if not os.path.isabs(file):
        return file
    inside = os.path.relpath(resolved(file), place.meta)
    if not inside.startswith(os.pardir):
        return inside.replace(os.sep, "/")
    return f"{FOLDER}/{what}-{blake2b(_data(file), digest_size=8).hexdigest()}.txt"


def _copy(place: Place, name: str, file: str) -> None:
    path = os.path.join(place.meta, name)
    if os.path.isabs(file) and not os.path.exists(path):
        data = _data(file)
        write_whole(path, lambda target: target.writelines([data]))


def _data(file: str) -> bytes:
    with translated(file, "read"), open(file, "rb") as source:
        return source.read()
