"""Level `refs`: does every name that a sample refers to stand in its store?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.checks.headers import Read
from wdsctl.core.checks.kinds import MAX_BYTES, MEDIA, kind_of
from wdsctl.core.checks.placed import Gathered, Sight
from wdsctl.core.checks.stores import Marks, RefStore, open_ref_store
from wdsctl.core.errors import UsageError
from wdsctl.core.findings import Severity


class RefRule(NamedTuple):
    """Names in `field` of the JSON of a sample (`image`, `meta.image`; lists are gone through) are entries of `store`:
    an absolute path, a URL or filesystem://PATH. `said`: the store as the user wrote it.
    """

    field: str
    store: str
    said: str


@dataclass(slots=True)
class Referred:
    """What one shard refers to, by store, and how many names each field had."""

    marks: dict[str, set[int]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def arrays(self) -> dict[str, Marks]:
        return {store: np.fromiter(marks, np.uint64, len(marks)) for store, marks in self.marks.items()}


def parse_ref(text: str) -> tuple[str, str]:
    """`image=../media` -> (field, store). Raises UsageError."""
    name, equals, store = text.partition("=")
    if not equals or not store.strip() or not all(piece.strip() for piece in name.split(".")):
        raise UsageError(
            f"--refs {text}: expected FIELD=STORE",
            hint="such as `--refs image=../media`, or `meta.image=filesystem://raw`",
        )
    return name.strip(), store.strip()


def wants_refs(part: str) -> bool:
    return kind_of(part) == "json"


def check_refs(
    read: Read, sights: Mapping[str, Sight], rules: tuple[RefRule, ...], found: Gathered, referred: Referred
) -> None:
    """Look up every name of one sample. JSON that does not parse is told of by the level `content`.

    Raises what reading raises. Cost: a search a name, 10 us in a prepared store, a call of the system in a folder.
    """
    for sight in sights.values():
        if not wants_refs(sight.part) or not 0 < sight.size <= MAX_BYTES:
            continue
        try:
            value = json.loads(read(sight.offset, sight.size))
        except (ValueError, RecursionError):
            continue
        for rule in rules:
            for name in names_at(value, rule.field):
                referred.names[rule.field] = referred.names.get(rule.field, 0) + 1
                _look(name, rule, sight, found, referred)


def _look(name: Any, rule: RefRule, sight: Sight, found: Gathered, referred: Referred) -> None:
    store: RefStore = open_ref_store(rule.store)
    if not isinstance(name, str):
        found.add("WDS156", f"{rule.field} holds what is no name: {name!r:.60}", sight)
        return
    looked = store.look(name)
    if looked.how == "there":
        referred.marks.setdefault(rule.store, set()).add(looked.mark)
        return
    where = f"{rule.field} of {rule.said}"
    code, said = {
        "missing": ("WDS550", f"there is no {name!r:.200} ({where})"),
        "case": ("WDS154", f"there is no {name!r:.200}, and there is {looked.near!r} ({where})"),
        "twice": ("WDS551", f"several samples are {name!r:.200} ({where})"),
        "outside": ("WDS552", f"{name!r:.200} leads out of the store ({where})"),
    }[looked.how]
    severity: Severity = "error"
    found.add(code, said, sight, severity)


def names_at(value: Any, path: str) -> Iterator[Any]:
    """Everything at `a.b`, lists gone through on the way and at the end; null is nothing."""
    level = [value]
    for key in path.split("."):
        level = [each[key] for each in _flat(level) if isinstance(each, dict) and key in each]
    return (each for each in _flat(level) if each is not None)


def _flat(values: list[Any]) -> Iterator[Any]:
    """What is in lists of lists, in order, however deep they are: JSON may be deeper than calls may."""
    left = values[::-1]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value[::-1]
        else:
            yield value


def fields_with_names(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(field, name) of all in an object that looks like the name of a medium: what is a reference, if nobody says."""
    if isinstance(value, dict) and depth < 8:
        for key, each in value.items():
            if "." not in key:
                yield from fields_with_names(each, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list) and depth < 8:
        for each in value[:100]:
            yield from fields_with_names(each, path, depth + 1)
    elif isinstance(value, str) and path and len(value) < 4096 and "\n" not in value and kind_of(value) in MEDIA:
        yield path, value
