"""Checks documents against the schemas of docs/schemas; supports only the parts of JSON Schema that they use."""

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
def load_schema(command: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{command.replace(' ', '-')}.json").read_text(encoding="utf-8"))
    return found


def check(document: dict[str, Any]) -> None:
    """Raise AssertionError if a command's document does not match its schema."""
    schema = load_schema(document.get("command", "error"))
    problem = find_mismatch(document, schema, schema.get("$defs", {}))
    assert not problem, problem


def find_mismatch(value: Any, schema: dict[str, Any], definitions: dict[str, Any], at: str = "$") -> str:
    """The first mismatch and its position; empty if the value matches."""
    if "$ref" in schema:
        return find_mismatch(value, definitions[schema["$ref"].rpartition("/")[2]], definitions, at)
    if "anyOf" in schema:
        found = [find_mismatch(value, each, definitions, at) for each in schema["anyOf"]]
        return "" if "" in found else " or ".join(found)
    if value != schema.get("const", value) or value not in schema.get("enum", [value]):
        return f"{at}: {value!r} is not {schema}"
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return f"{at}: {value!r} is no {kind}"
    if kind == "array":
        inner = [
            find_mismatch(each, schema.get("items", {}), definitions, f"{at}[{i}]") for i, each in enumerate(value)
        ]
    elif kind == "object":
        inner = _object_mismatches(value, schema, definitions, at)
    else:
        return ""
    return next(filter(None, inner), "")


def _object_mismatches(
    value: dict[str, Any], schema: dict[str, Any], definitions: dict[str, Any], at: str
) -> list[str]:
    properties, more = schema.get("properties", {}), schema.get("additionalProperties", {})
    missing = [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    unexpected = [f"{at}: {name} is not expected" for name in value if more is False and name not in properties]
    inner = {name: properties.get(name, more or {}) for name in value}
    return [
        *missing,
        *unexpected,
        *(find_mismatch(value[name], each, definitions, f"{at}.{name}") for name, each in inner.items()),
    ]
