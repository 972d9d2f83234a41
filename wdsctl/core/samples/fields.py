"""Fields of samples: which parts of a sample fill a field, and the value that a path leads to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.samples.field_path import EVERY_ITEM, FieldPath, PartAccess, PathStep, format_step
from wdsctl.core.samples.types import MEDIA_LIST_KINDS
from wdsctl.core.text import natural_sort_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from wdsctl.core.samples.types import FieldKind


class FieldMissing(DatasetError, KeyError):  # noqa: N818 - the name says what is missing
    """A sample has none of the alternatives of a field."""

    code = "WDS220"


_NO_DEFAULT: Any = object()
_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,19})(?:\.0{1,6})?\s*")
_MAX_WHOLE = 2**53  # from here on, floats skip whole numbers


def is_collecting(path: FieldPath, kind: FieldKind) -> bool:
    """Whether a field of this kind is the list of all parts that its path matches."""
    return kind in MEDIA_LIST_KINDS or any(access.is_pattern for access in path.alternatives)


def find_parts(path: FieldPath, names: Collection[str], kind: FieldKind = "any") -> tuple[str, ...]:
    """The parts among `names` that fill a field of this kind, in the order of the alternatives; of a field that
    collects parts, in natural order: by the name without its last extension, numbers by their value.
    """
    found: dict[str, None] = {}
    for access in path.alternatives:
        if access.is_pattern:
            found.update((name, None) for name in names if _matches_pattern(name, access.part, kind))
        elif access.part in names:
            found[access.part] = None
    return tuple(sorted(found, key=_part_order) if is_collecting(path, kind) else found)


def _matches_pattern(name: str, pattern: str, kind: FieldKind) -> bool:
    """Whether a name fits a pattern, and names a medium of the kind that the field collects. Linear in the name."""
    if kind in MEDIA_LIST_KINDS:
        media_format = FORMAT_BY_EXTENSION.get(name.rpartition(".")[2].lower())
        if media_format is None or media_format.media_type != MEDIA_LIST_KINDS[kind]:
            return False
    first, *middle, last = pattern.split("*")
    end = len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and len(first) <= end):
        return False
    at = len(first)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _part_order(name: str) -> tuple[object, ...]:
    stem, _, extension = name.rpartition(".")
    return natural_sort_key(stem), natural_sort_key(extension), name


def extract_field(
    path: FieldPath,
    parts: Mapping[str, Any],
    decoded: dict[str, Any] | None = None,
    *,
    kind: FieldKind = "any",
    default: Any = _NO_DEFAULT,
) -> Any:
    """Return the value of a field in one sample, from the first alternative that the sample has; the list of all parts
    that match if the field collects parts.

    A part that a path enters is a dict or list, or bytes or text, which are parsed as JSON. `decoded` keeps parsed
    parts: pass the same dict for all fields of one sample, so that each part is parsed once. A null in the JSON is a
    value. In a field of whole numbers, booleans are 0 and 1, a text or float such as 2.0 gives its number, and an empty
    text is no value. Without `default`, raises FieldMissing, whose message lists what the sample has. Raises
    DatasetError WDS220 if a part is not JSON.
    """
    is_optional = default is not _NO_DEFAULT
    if is_collecting(path, kind):
        names = find_parts(path, parts, kind)
        if names:
            return [parts[name] for name in names]
    for access in path.alternatives:
        if access.part not in parts or access.is_pattern:
            continue
        if not access.steps:
            return parts[access.part]
        value = _part_as_json(access.part, parts[access.part], {} if decoded is None else decoded)
        try:
            found = follow_steps(value, access.steps, allows_gaps=is_optional)
        except LookupError:
            continue
        if kind == "integer" and found == "":
            continue  # an empty cell of a table
        return as_integer(found) if kind == "integer" else found
    if is_optional:
        return default
    raise _missing_field_error(path, parts)


def as_integer(value: Any) -> Any:
    """The number that a boolean, a text such as `7` or `-1.0`, or a float such as 2.0 stands for in a field of whole
    numbers, as tables write them; all other values unchanged. Texts have at most 19 digits, which fit into 64 bits.
    """
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        found = _INTEGER.fullmatch(value) if value.isascii() else None
        return int(found[1]) if found else value
    is_whole = isinstance(value, float) and abs(value) < _MAX_WHOLE and value.is_integer()
    return int(value) if is_whole else value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean caption?`, or an empty string if no known word is similar."""
    near = nearest_word(word, known)
    return f"did you mean {near}?" if near else ""


def nearest_word(word: str, known: Iterable[str]) -> str:
    """The most similar known word, in any case of letters; empty if none is similar."""
    import difflib

    by_lower = {name.lower(): name for name in known}
    return next((by_lower[each] for each in difflib.get_close_matches(word.lower(), by_lower, n=1)), "")


def follow_steps(value: Any, steps: tuple[PathStep, ...], *, allows_gaps: bool = False) -> Any:
    """The value that the steps lead to. Raises LookupError if there is none.

    `allows_gaps`: after `[*]`, items without the value give None, unless all items lack it.
    """
    for depth, step in enumerate(steps):
        match value:
            case list() if step is EVERY_ITEM:
                return _follow_in_items(value, steps[depth + 1 :], allows_gaps=allows_gaps)
            case dict() if step is not EVERY_ITEM:
                value = value[str(step)]
            case list() if isinstance(step, int):
                value = value[step]
            case _:
                raise LookupError(step)
    return value


def _follow_in_items(items: list[Any], steps: tuple[PathStep, ...], *, allows_gaps: bool) -> list[Any]:
    if not allows_gaps:
        return [follow_steps(item, steps) for item in items]
    values, found = [], 0
    for item in items:
        try:
            values.append(follow_steps(item, steps, allows_gaps=True))
            found += 1
        except LookupError:
            values.append(None)
    if items and not found:
        raise LookupError(steps)
    return values


def _part_as_json(part: str, value: Any, decoded: dict[str, Any]) -> Any:
    if isinstance(value, dict | list):
        return value
    if part not in decoded:
        text = bytes(value) if isinstance(value, memoryview) else value
        try:
            decoded[part] = read_json(text)
        except (ValueError, TypeError) as error:
            raise DatasetError(
                f"part {part} is not JSON: {error}",
                hint="map the whole part, without [...], or correct the part",
                code="WDS220",
            ) from error
    return decoded[part]


def _missing_field_error(path: FieldPath, parts: Mapping[str, Any]) -> FieldMissing:
    facts = dict.fromkeys(_why_not(access, parts) for access in path.alternatives)
    return FieldMissing(
        f"the sample has no {path}: {'; '.join(facts)}",
        hint="correct the field map in dataset.yaml, or add an alternative after a comma",
    )


def _why_not(access: PartAccess, parts: Mapping[str, Any]) -> str:
    if access.is_pattern or access.part not in parts:
        return f"no part {access.part} (there are {list_first_names(parts)})"
    value = _part_as_json(access.part, parts[access.part], {})
    return _find_gap(value, PartAccess(access.part), access.steps) or f"{access} exists"


def _find_gap(value: Any, reached: PartAccess, steps: tuple[PathStep, ...]) -> str:
    """Describe where the steps end without a value, with the number of the first such item of a list; empty if they do
    not.
    """
    for depth, step in enumerate(steps):
        if step is EVERY_ITEM and isinstance(value, list):
            items = (
                _find_gap(item, reached._replace(steps=(*reached.steps, i)), steps[depth + 1 :])
                for i, item in enumerate(value)
            )
            return next(filter(None, items), "")
        try:
            value = follow_steps(value, (step,))
        except LookupError:
            return f"no [{format_step(step)}] in {reached} ({_describe_contents(value)})"
        reached = reached._replace(steps=(*reached.steps, step))
    return ""


def _describe_contents(value: Any) -> str:
    if isinstance(value, dict):
        return f"it has the keys {list_first_names(value)}" if value else "the object is empty"
    return f"it has {len(value)} items" if isinstance(value, list) else f"there is a {type(value).__name__}"


def list_first_names(names: Iterable[str]) -> str:
    """The first 12 names, and how many more there are."""
    first = [str(name) for name in names]
    return ", ".join(first[:12]) + (f" and {len(first) - 12} more" if len(first) > 12 else "")
