"""Holds documents against the schemas of docs/schemas: as much of JSON Schema as these use."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"
TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}


@cache
def schema_of(command: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{command.replace(' ', '-')}.json").read_text(encoding="utf-8"))
    return found


def check(document: dict[str, Any]) -> None:
    """Raise AssertionError where a command's document is not what its schema says."""
    schema = schema_of(document.get("command", "error"))
    wrong = mismatch(document, schema, schema.get("$defs", {}))
    assert not wrong, wrong


def mismatch(value: Any, schema: dict[str, Any], known: dict[str, Any], at: str = "$") -> str:
    """What is wrong, and where; nothing where all is as it should be."""
    if "$ref" in schema:
        return mismatch(value, known[schema["$ref"].rpartition("/")[2]], known, at)
    if "anyOf" in schema:
        found = [mismatch(value, each, known, at) for each in schema["anyOf"]]
        return "" if "" in found else " or ".join(found)
    if value != schema.get("const", value) or value not in schema.get("enum", [value]):
        return f"{at}: {value!r} is not {schema}"
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return f"{at}: {value!r} is no {kind}"
    if kind == "array":
        inner = [mismatch(each, schema.get("items", {}), known, f"{at}[{i}]") for i, each in enumerate(value)]
    elif kind == "object":
        inner = _of_object(value, schema, known, at)
    else:
        return ""
    return next(filter(None, inner), "")


def _of_object(value: dict[str, Any], schema: dict[str, Any], known: dict[str, Any], at: str) -> list[str]:
    properties, more = schema.get("properties", {}), schema.get("additionalProperties", {})
    missing = [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    odd = [f"{at}: {name} is not expected" for name in value if more is False and name not in properties]
    inner = {name: properties.get(name, more or {}) for name in value}
    return [*missing, *odd, *(mismatch(value[name], each, known, f"{at}.{name}") for name, each in inner.items())]
