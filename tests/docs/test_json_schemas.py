from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cli.json_schema import find_mismatch
from tests.docs.pages import ROOT, load_script
from wdsctl.cli.app import build_full_app


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load_script("json_schemas")


def test_schemas_are_up_to_date(generator: ModuleType) -> None:
    assert generator.stale(ROOT / "docs" / "schemas") == [], "run `make docs`"


def test_stale_schema_fails_check(generator: ModuleType, tmp_path: Path) -> None:
    assert generator.run([], tmp_path / "schemas") == 0
    assert generator.run(["--check"], tmp_path / "schemas") == 0
    (tmp_path / "schemas" / "log.json").write_text("{}")
    (tmp_path / "schemas" / "old.json").write_text("{}")
    assert generator.stale(tmp_path / "schemas") == ["log.json", "old.json"]
    assert generator.run(["--check"], tmp_path / "schemas") == 1


def test_every_command_has_schema(generator: ModuleType) -> None:
    app = build_full_app()
    names = {str(command.name) for command in app.registered_commands}
    for group in app.registered_groups:
        inside = group.typer_instance.registered_commands if group.typer_instance else []
        names |= {f"{group.name} {command.name}" for command in inside}
    assert set(generator.schemas()) == names | {"error"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1, "b": ["x"]}, ""),
        ({"a": 1.5, "b": []}, "$.a: 1.5 is no integer"),
        ({"a": True, "b": []}, "$.a: True is no integer"),
        ({"a": 1, "b": [2]}, "$.b[0]: 2 is no string"),
        ({"b": []}, "$: a is missing"),
        ({"a": 1, "b": [], "c": 0}, "$: c is not expected"),
    ],
)
def test_mismatch_reports_first_difference(value: Any, expected: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"$ref": "#/$defs/Text"}}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert find_mismatch(json.loads(json.dumps(value)), schema, {"Text": {"type": "string"}}) == expected
