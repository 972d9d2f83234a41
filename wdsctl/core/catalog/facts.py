"""What the facts of a catalog, the rows of its table `meta`, say. `path` is the catalog that is damaged otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from wdsctl.core.catalog.fact_names import SELECTION
from wdsctl.core.catalog.identity import damaged
from wdsctl.core.catalog.media_settings import FACT, MediaSettings, settings_from
from wdsctl.core.checked_file import UNFIT
from wdsctl.core.json_text import read_json
from wdsctl.core.selected_shards import Selection, selection_from

_DIGITS = 11  # a generation a second would take three hundred years to have so many


def generation_of(path: str, facts: Mapping[str, str]) -> int:
    return generation_from(path, facts.get("generation"))


def generation_from(path: str, said: object) -> int:
    """A generation, as a catalog says it."""
    if not (isinstance(said, str) and said.isascii() and said.isdecimal() and len(said) < _DIGITS):
        raise damaged(path, "it does not say which generation it is")
    return int(said)


def exclude_of(path: str, facts: Mapping[str, str]) -> tuple[str, ...]:
    """The patterns of the shards that were left out when the dataset was indexed."""
    try:
        patterns = read_json(facts.get("exclude", "[]"))
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ValueError(patterns)
        return tuple(patterns)
    except UNFIT as error:
        raise damaged(path, "its patterns do not parse") from error


def selection_of(path: str, facts: Mapping[str, str]) -> Selection:
    """Which shards of the folder the dataset has."""
    try:
        return selection_from(facts.get(SELECTION))
    except UNFIT as error:
        raise damaged(path, "what it says of chosen shards does not parse") from error


def media_settings_of(path: str, facts: Mapping[str, str]) -> MediaSettings | None:
    """What was asked of the media; None where their facts are not in the catalog."""
    try:
        return settings_from(facts.get(FACT))
    except UNFIT as error:
        raise damaged(path, "what it says of media does not parse") from error
