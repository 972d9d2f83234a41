"""Which parts of a sample go along, and under which names. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from wdsctl.core.convert.recipe import Pairs, PartRules
from wdsctl.core.errors import UsageError


@lru_cache(maxsize=10_000)
def new_name(rules: PartRules, name: str) -> str | None:
    """What a part is called in the destination; None where it does not go along."""
    if (rules.keep and not matches(name, rules.keep)) or matches(name, rules.drop):
        return None
    return dict(rules.rename).get(name, name)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a part is one of these: `jpg`, `seg.png`, or a pattern such as `*.png`."""
    return any(name == pattern or ("*" in pattern and fnmatchcase(name, pattern)) for pattern in patterns)


@lru_cache(maxsize=10_000)
def is_media(name: str, media: tuple[str, ...]) -> bool:
    """Whether a part is kept apart: `mp4` means `mp4` and `left.mp4`; patterns mean what they match."""
    return matches(name, media) or any("*" not in each and name.endswith(f".{each}") for each in media)


@lru_cache(maxsize=10_000)
def renamed(rules: PartRules, names: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """Of the parts of a sample, those that are renamed: (name, whether another of them has the new name)."""
    new = [(name, new_name(rules, name)) for name in names]
    return tuple(
        (name, any(other != name and taken == called for other, taken in new))
        for name, called in new
        if called not in (None, name)
    )


def unmet(rules: PartRules, names: Iterable[str]) -> list[str]:
    """What the rules say of parts that are not among `names`, such as a name that was mistyped."""
    there = tuple(names)
    said = (
        *(("--parts", pattern) for pattern in rules.keep),
        *(("--drop-parts", pattern) for pattern in rules.drop),
        *(("--rename-part", old) for old, _ in rules.rename),
    )
    return [f"{flag} {pattern}" for flag, pattern in said if not any(matches(name, (pattern,)) for name in there)]


def parse_renames(texts: Iterable[str]) -> Pairs:
    """`png=jpg` and the like. Raises UsageError."""
    pairs: dict[str, str] = {}
    for text in texts:
        for item in filter(None, text.split(",")):
            old, _, new = (word.strip().lstrip(".") for word in item.partition("="))
            if not old or not new or "/" in new or old in pairs:
                raise UsageError(f"{item!r} renames no part", hint="write --rename-part png=image.png")
            pairs[old] = new
    return tuple(pairs.items())


def check_rules(rules: PartRules) -> None:
    """Raises UsageError for names that no part has, and for renames of which two would meet."""
    for name in (*rules.keep, *rules.drop):
        if not name or "/" in name:
            raise UsageError(f"{name!r} is no name of a part", hint="write jpg,txt, as they follow a key's first dot")
    new = [name for _, name in rules.rename]
    if len(set(new)) != len(new):
        raise UsageError("two parts would have one name", where="--rename-part", hint="give each another name")
