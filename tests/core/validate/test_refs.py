from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, reading
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
def test_a_field_is_found_through_objects_and_lists(path: str, names: list[str]) -> None:
    assert list(values_at_path(SAMPLE, path)) == names


def test_fields_that_hold_names_of_media_are_found() -> None:
    assert list(find_media_names(SAMPLE)) == [("image", "1.jpg"), ("meta.image", "2.jpg"), ("turns.image", "3.jpg")]


def test_the_option_names_a_field_and_a_store() -> None:
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
def test_every_name_is_looked_up(tmp_path: Path, name: Any, codes: list[str]) -> None:
    store = a_folder(tmp_path, {"1.jpg": b"1"})
    data = json.dumps({"image": name}).encode()
    found, referred = LocatedFindingCollector("a.tar"), RefUsage()
    sights = {"json": PartToCheck(4, "k", "json", 0, len(data))}
    check_refs(reading(data), sights, (RefRule("image", store, "media"),), found, referred)

    assert [each.finding.code for each in found.to_findings()] == codes
    assert all(each.positions == (4,) for each in found.to_findings())


def test_json_that_does_not_parse_is_left_to_another_level(tmp_path: Path) -> None:
    found, referred = LocatedFindingCollector("a.tar"), RefUsage()
    sights = {"json": PartToCheck(0, "k", "json", 0, 1)}
    check_refs(reading(b"{"), sights, (RefRule("image", str(tmp_path), "media"),), found, referred)
    assert (found.to_findings(), referred.name_counts) == ((), {})


def test_names_in_lists_of_any_depth_are_found_in_order() -> None:
    value: list[object] = ["last"]
    for i in range(5000):
        value = [i, value]
    assert [*values_at_path({"a": [{"b": value}, {"b": None}]}, "a.b")] == [*range(4999, -1, -1), "last"]
