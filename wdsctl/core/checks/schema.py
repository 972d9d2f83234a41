"""Level `schema`: do the parts of a sample fill the fields of its sample type, each with what it is to hold?

The types are those of `wdsctl/core/sample_types.py`; beyond their kinds, lists say what is in them, and some fields
have to fit one another. `answers` may be one text or a list of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from wdsctl.core.checks.content import json_trouble, text_trouble
from wdsctl.core.checks.headers import HEAD, Read
from wdsctl.core.checks.kinds import MAX_BYTES, MEDIA, kind_of
from wdsctl.core.checks.placed import Gathered, Sight
from wdsctl.core.dataset_yaml import DatasetConfig, needed_fields
from wdsctl.core.field_path import FieldPath, Step
from wdsctl.core.fields import parse_field_map
from wdsctl.core.json_text import read_json
from wdsctl.core.sample_types import SAMPLE_TYPES, Field, Kind
from wdsctl.core.sniff import sniff

#: What the items of a field's list are, where all are alike.
ITEMS: dict[str, Kind] = {
    **dict.fromkeys(("answers", "choices", "texts", "block_text", "lines_text", "words_text", "chars_text"), "text"),
    "answer_weights": "number",
    "matched_text_indices": "integer",
}
#: A field of kind `any` that may be a single item, too.
_ALONE = frozenset(("answers",))
#: Lists that stand side by side, an item of one for an item of the other.
_PAIRS = (
    ("answers", "answer_weights"),
    ("block_boxes", "block_text"),
    ("block_boxes", "block_classes"),
    ("lines_boxes", "lines_text"),
    ("words_boxes", "words_text"),
    ("chars_boxes", "chars_text"),
)

_WORDS: dict[str, str] = {"integer": "a whole number", "number": "a number", "list": "a list", "object": "an object"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What samples are to be. `paths`: where each mapped field comes from. `needed`: those that every sample has."""

    sample_type: str
    paths: tuple[tuple[Field, FieldPath], ...]
    needed: frozenset[str] = frozenset()

    @property
    def parts(self) -> frozenset[str]:
        """Those that fields come from."""
        return frozenset(chain.from_iterable((access.part for access in path.alternatives) for _, path in self.paths))


def rules_of(config: DatasetConfig) -> Rules | None:
    """None where the dataset has no field map. What the fields of a type of somebody's own hold, only that knows."""
    fields = {field.name: field for field in SAMPLE_TYPES.get(config.sample_type, ())}
    paths = parse_field_map(config.field_map)
    known = tuple((fields.get(name, Field(name, "any")), path) for name, path in paths.items())
    return Rules(config.sample_type, known, frozenset(needed_fields(config))) if known else None


def check_sample(read: Read, sights: Mapping[str, Sight], rules: Rules, found: Gathered, *, tells_broken: bool) -> None:
    """Hold one sample to the rules; `sights` are its parts by name. Raises what reading raises.

    `tells_broken`: whether parts that do not parse are to be told of; the level `content` does, where it is asked for.
    Reads the parts that text, numbers and lists come from, and the first bytes of media.
    """
    anchor = next(iter(sights.values()))
    parsed: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for field, path in rules.paths:
        value: Any = _ABSENT
        # As the loader does: the first alternative that the sample has, inside a part, too.
        for access in (each for each in path.alternatives if each.part in sights):
            sight = sights[access.part]
            value = _value(read, sight, field, access.steps, parsed, found if tells_broken else None)
            if value is not _ABSENT:
                break
        else:
            access = next((each for each in path.alternatives if each.part in sights), path.alternatives[0])
            if access.part not in sights:
                continue  # a part that is missing is told of as WDS108
            sight = sights[access.part]
        if value is _BROKEN:
            continue
        if value is _ABSENT or value is None:
            if field.name in rules.needed:
                said = "is not there" if value is _ABSENT else "is null"
                found.add("WDS148", f"{field.name}, which the field map needs: {access} {said}", sight)
            continue
        values[field.name] = value
        if said := _misfit(field, value):
            found.add("WDS149", f"{field.name} is {said}", sight)
    for said in _unfitting(values):
        found.add("WDS150", said, anchor)


_BROKEN: Any = object()  # does not parse: nothing more can be said
_ABSENT: Any = object()


class _Medium(NamedTuple):
    """What stands for the bytes of a medium: what they begin like."""

    kind: str


def _value(
    read: Read, sight: Sight, field: Field, steps: tuple[Step, ...], parsed: dict[str, Any], found: Gathered | None
) -> Any:
    if not steps and field.kind in MEDIA:
        return _Medium(sniff(read(sight.offset, min(sight.size, HEAD)), sight.size).kind)
    if sight.size > MAX_BYTES:
        return _BROKEN
    held = kind_of(sight.part)
    is_json = bool(steps) or held == "json"
    if not is_json and field.kind in ("list", "object", "any") and held not in ("text", "integer"):
        return _BROKEN  # an array, a medium, bytes: whatever it is, it is not JSON
    if sight.part not in parsed:
        parsed[sight.part] = _loaded(read(sight.offset, sight.size), sight, found, is_json=is_json)
    value = parsed[sight.part]
    if value is _BROKEN or not steps:
        return _number(value) if isinstance(value, str) and field.kind in ("integer", "number") else value
    return _descended(value, steps)


def _loaded(data: bytes, sight: Sight, found: Gathered | None, *, is_json: bool) -> Any:
    code, said = (json_trouble if is_json else text_trouble)(data)
    if code:
        if found is not None and sight.size:
            found.add(code, said, sight)
        return _BROKEN
    return read_json(data) if is_json else data.decode()


def _number(text: str) -> Any:
    """A number that is a part of its own, such as `cls`."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _descended(value: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        elif isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        else:
            return _ABSENT
    return value


def _misfit(field: Field, value: Any) -> str:
    """What a value is instead of what the field holds; empty where it fits."""
    if isinstance(value, _Medium):
        is_right = value.kind == field.kind or {value.kind, field.kind} == {"audio", "video"} or value.kind == "empty"
        return "" if is_right else f"to be {_article(field.kind)}, and its part holds {value.kind}"
    if field.kind in MEDIA:
        return ""  # made of JSON by the user's own code
    expected: str = "list" if field.kind == "any" and field.name in ITEMS else field.kind
    if field.name in _ALONE and _IS["text"](value):
        return ""
    if not _IS[expected](value):
        return f"to be {_WORDS.get(expected, 'text')}, and is {_called(value)}"
    item = ITEMS.get(field.name)
    if item is not None and isinstance(value, list):
        odd = next((i for i, each in enumerate(value) if not _IS[item](each)), None)
        if odd is not None:
            return f"to be a list of {_plural(item)}, and item {odd} is {_called(value[odd])}"
    return ""


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_IS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: _is_integer(value) or isinstance(value, float),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "any": lambda value: True,  # noqa: ARG005
}


def _unfitting(values: Mapping[str, Any]) -> list[str]:
    """Fields that fit on their own, and not one another."""
    said = []
    choices, chosen = values.get("choices"), values.get("correct_choice_idx")
    if isinstance(choices, list) and isinstance(chosen, int) and not 0 <= chosen < len(choices):
        said.append(f"correct_choice_idx is {chosen}, and there are {len(choices)} choices")
    for one, other in _PAIRS:
        first, second = values.get(one), values.get(other)
        if isinstance(first, list) and isinstance(second, list) and len(first) != len(second):
            said.append(f"{one} has {len(first)} items, and {other} {len(second)}")
    return said


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _plural(kind: str) -> str:
    return {"text": "texts", "number": "numbers", "integer": "whole numbers"}[kind]


def _called(value: Any) -> str:
    names = {
        str: "text",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)
