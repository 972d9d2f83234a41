"""Which shards below a root a dataset has, where these are not all: names, brace ranges and globs, as they were given.

It is kept in the catalog, so that later runs keep to it. A glob goes on matching: shards that come later and match are
new shards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property

from wdsctl.core.bounded_match import whole_path
from wdsctl.core.braces import expanded
from wdsctl.core.counted import counted
from wdsctl.core.json_text import read_json


@dataclass(frozen=True)
class Selection:
    """Paths are relative to the root, with `/`. One without anything in it is of all shards."""

    globs: tuple[str, ...] = ()
    braces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        return not (self.globs or self.braces or self.names)

    @cached_property
    def named(self) -> frozenset[str]:
        """All paths that are named one by one, or by a brace range."""
        return frozenset(self.names).union(*map(expanded, self.braces))

    @cached_property
    def _matches(self) -> Callable[[str], bool]:
        return whole_path("|".join(map(regex_of, self.globs)) or "(?!)", ", ".join(self.globs))

    def has(self, path: str) -> bool:
        return self.is_all or path in self.named or self._matches(path)

    def unmatched(self, paths: Iterable[str]) -> list[str]:
        """What is named and not among these paths, and the globs (as `glob:PATTERN`) that match none of them."""
        there = set(paths)
        idle = [glob for glob in self.globs if not any(map(whole_path(regex_of(glob), glob), there))]
        return [*(f"glob:{glob}" for glob in idle), *sorted(self.named - there)]

    def as_text(self) -> str:
        return json.dumps({key: list(value) for key, value in asdict(self).items() if value})

    def said(self) -> str:
        """In a few words: the notations; of names how many."""
        names = [counted(len(self.names), "named shard")] if self.names else []
        return ", ".join([*(f"glob:{glob}" for glob in self.globs), *self.braces, *names]) or "all shards"


EVERYTHING = Selection()


def selection_from(text: str | None) -> Selection:
    """What `as_text` gave; everything for None. Raises ValueError or TypeError where it does not parse."""
    told = read_json(text or "{}")
    return Selection(**{key: tuple(map(str, value)) for key, value in told.items()})


def regex_of(glob: str) -> str:
    """The regular expression of a glob on a path: `*` and `?` stay within a folder, `**` goes through any number."""
    made, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            made, at = made + "(?:[^/]+/)*", at + 3
        elif glob.startswith("**", at):
            made, at = made + ".*", at + 2
        else:
            piece, at = _one(glob, at)
            made += piece
    return made


def _one(glob: str, at: int) -> tuple[str, int]:
    letter = glob[at]
    if letter == "[":
        end = glob.find("]", at + 2 + (glob[at + 1 : at + 2] == "!"))
        if end > 0:
            inside = glob[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            turned = f"^/{inside[1:]}" if inside.startswith("!") else inside.replace("^", "\\^", 1)
            return f"[{turned}]", end + 1
    return {"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter)), at + 1
