from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, memory_reader
from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import values_at_path
from wdsctl.core.validate.refs import RefRule, RefUsage, check_refs, find_media_names
from wdsctl.core.validate.request import parse_ref

SAMPLE = {"image": "1.jpg", "meta": {"image": "2.jpg"}, "turns": [{"image": ["3.jpg", None]}, {"text": "x"}]}


@pytest.mark.parametrize(
    ("path", "names"),
    [("image", ["1.jpg"]), ("meta.image", ["2.jpg"]), ("turns.image", ["3.jpg"]), ("none", []), ("image.x", [])],
)
def test_values_at_path_traverses_objects_and_lists(path: str, names: list[str]) -> None:
    assert list(values_at_path(SAMPLE, path)) == names


def test_find_media_names_finds_fields_with_media_names() -> None:
    assert list(find_media_names(SAMPLE)) == [("image", "1.jpg"), ("meta.image", "2.jpg"), ("turns.image", "3.jpg")]


def test_parse_ref_returns_field_and_store() -> None:
    assert parse_ref("meta.image=filesystem://a=b") == ("meta.image", "filesystem://a=b")
    for text in ("image", "image=", "=media", "a..b=media"):
        with pytest.raises(UsageError, match="--refs"):
            parse_ref(text)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("1.jpg", []),
        ("9.jpg", ["WDS550"]),
        ("1.JPG", ["WDS154"]),
        ("../1.jpg", ["WDS552"]),
        ("/etc/passwd", ["WDS552"]),
        (7, ["WDS156"]),
        ({"path": "1.jpg"}, ["WDS156"]),
        (["1.jpg", "9.jpg"], ["WDS550"]),
        (None, []),
    ],
)
def test_check_refs_checks_every_name(tmp_path: Path, name: Any, codes: list[str]) -> None:
    store = a_folder(tmp_path, {"1.jpg": b"1"})
    data = json.dumps({"image": name}).encode()
    found, usage = LocatedFindingCollector("a.tar"), RefUsage()
    parts = {"json": PartToCheck(4, "k", "json", 0, len(data))}
    check_refs(memory_reader(data), parts, (RefRule("image", store, "media"),), found, usage)

    assert [each.finding.code for each in found.to_findings()] == codes
    assert all(each.positions == (4,) for each in found.to_findings())


def test_check_refs_ignores_invalid_json(tmp_path: Path) -> None:
    found, usage = LocatedFindingCollector("a.tar"), RefUsage()
    parts = {"json": PartToCheck(0, "k", "json", 0, 1)}
    check_refs(memory_reader(b"{"), parts, (RefRule("image", str(tmp_path), "media"),), found, usage)
    assert (found.to_findings(), usage.name_counts) == ((), {})


def test_values_at_path_handles_nested_lists_in_order() -> None:
    value: list[object] = ["last"]
    for i in range(5000):
        value = [i, value]
    assert [*values_at_path({"a": [{"b": value}, {"b": None}]}, "a.b")] == [*range(4999, -1, -1), "last"]
