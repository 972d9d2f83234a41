"""How a light primary says which media belong to a sample, and how its parts lie in a line of JSON, byte for byte.

In tars: a part `refs.json`, an object of part -> entry of the media dataset. In lines, an object:

    key    the sample's key
    media  part -> entry of the media dataset (`KEY.PART`)
    parts  part -> its text, its JSON as it is, or its bytes in base64
    as     part -> `base64`, or how its JSON was spelled, for parts that are not plain text

The spelling makes the very bytes again: it is noted only where `json.dumps` gives exactly what the part had.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wdsctl.core.convert.source import LargePart, Part
from wdsctl.core.errors import DatasetError

REFERENCES = "refs.json"

#: How JSON may be spelled: what `json.dumps` is told.
_SPELLINGS: Mapping[str, dict[str, Any]] = {
    "json": {"ensure_ascii": False},
    "json ascii": {"ensure_ascii": True},
    "json compact": {"ensure_ascii": False, "separators": (",", ":")},
    "json compact ascii": {"ensure_ascii": True, "separators": (",", ":")},
    "json indent": {"ensure_ascii": False, "indent": 2},
}
_MOST_JSON = 1 << 20  # bytes: longer JSON is kept as text


def references_of(key: str, media: Iterable[str]) -> Part:
    """The part that names the media of a sample."""
    return Part(REFERENCES, _dumped({name: f"{key}.{name}" for name in sorted(media)}))


def line_of(key: str, parts: Sequence[Part | LargePart], media: Iterable[str]) -> bytes:
    """A sample without its media as one line, without its end."""
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for part in parts:
        values[part.name], how = _value(part.data, is_json=part.name.rpartition(".")[2] == "json")
        if how:
            spelled[part.name] = how
    line: dict[str, Any] = {"key": key, "media": {name: f"{key}.{name}" for name in sorted(media)}, "parts": values}
    return _dumped(line | ({"as": spelled} if spelled else {}))


def parts_of(line: Mapping[str, Any]) -> list[Part]:
    """The parts that such a line holds. Raises DatasetError WDS343 where it is none."""
    try:
        spelled = line.get("as", {})
        return [Part(name, _data(value, spelled.get(name, ""))) for name, value in sorted(line["parts"].items())]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_ours("a line of the primary does not hold the parts of a sample") from error


def not_ours(message: str) -> DatasetError:
    """That a primary is not as `convert` writes it."""
    return DatasetError(message, hint="convert the original again: `--layout polylithic`", code="WDS343")


def _value(data: bytes, *, is_json: bool) -> tuple[Any, str]:
    """(what stands in the line, how it was spelled: nothing for text)."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
    if is_json and len(data) <= _MOST_JSON:
        try:
            value = json.loads(text, parse_constant=_refuse)
            for how, options in _SPELLINGS.items():
                for end in ("", "\n"):
                    if json.dumps(value, **options) + end == text:
                        return value, how + (" newline" if end else "")
        except (ValueError, RecursionError):
            return text, ""
    return text, ""


def _data(value: Any, how: str) -> bytes:
    if not how:
        if not isinstance(value, str):
            raise TypeError("text is expected")
        return value.encode()
    if how == "base64":
        return b64decode(value, validate=True)
    spelling = how.removesuffix(" newline")
    return (json.dumps(value, **_SPELLINGS[spelling]) + ("\n" if spelling != how else "")).encode()


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON may escape and UTF-8 has not
        return json.dumps(value, separators=(",", ":")).encode()


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
