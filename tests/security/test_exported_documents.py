"""Names from data are text in the documents that wdsctl writes: no markup, no HTML, no characters that reorder text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
import yaml

from tests.build import a_dataset
from wdsctl.core.errors import Finding
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset
from wdsctl.core.text import escape_control_chars, markdown_code, markdown_text
from wdsctl.core.validate.ci_formats import format_sarif
from wdsctl.core.yaml_files.document import dump_yaml

PARTS = ("txt", "a|b`c", "x\n\n# Owned\n<img src=//tracker.example>", "\u202eb", "www.a", "[a](b)", "<script>", "j*g")


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = a_dataset(tmp_path, {"s.tar": {f"k{i}.{part}": b"1" for i in range(2) for part in PARTS}})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(pattern=("train=s.tar",))))
    return root


def test_card_shows_names_of_parts_as_text(root: str) -> None:
    text = Path(export(ExportRequest(root=root, target="hub")).path).read_text()
    assert escape_control_chars(text) == text
    head, _, card = text.removeprefix("---\n").partition("\n---\n")
    names = {feature["name"] for feature in yaml.safe_load(head)["dataset_info"]["features"]}
    assert any("\u202e" in name for name in names)
    rows = card.partition("|---|--:|--:|\n")[2].partition("\n\n")[0].splitlines()
    assert [row.count("|") for row in rows] == [4] * len(PARTS)
    assert all(row.count("`") == 2 for row in rows)
    assert [line for line in card.splitlines() if line.startswith("#")][1:] == ["## License"]


def test_croissant_escapes_names_and_keeps_their_values(root: str) -> None:
    text = Path(export(ExportRequest(root=root, target="croissant")).path).read_text()
    assert escape_control_chars(text) == text
    assert "<" not in text
    sets = [each for each in json.loads(text)["distribution"] if each["@type"] == "cr:FileSet"]
    assert "*.<script>" in {each["includes"] for each in sets}
    assert "*.j[*]g" in {each["includes"] for each in sets}
    assert all(each["name"].isprintable() for each in sets)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my_data-2.0", "my_data-2.0"),
        ("<b>", r"\<b\>"),
        ("a&lt;*b*_c_", r"a\&lt;\*b\*\_c\_"),
        ("[a](b)`$|~\\", r"\[a\](b)\`\$\|\~\\"),
        ("a\n# b\u202e", r"a\\n\# b\\u202e"),
    ],
)
def test_markdown_text_escapes_markup(text: str, expected: str) -> None:
    assert markdown_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("jpg", "`jpg`"), ("", "` `"), ("`|\\", r"`\x60\x7c\`"), ("a\n\u200b", r"`a\n\u200b`")],
)
def test_markdown_code_contains_no_mark_of_its_end(text: str, expected: str) -> None:
    assert markdown_code(text) == expected


def test_dump_yaml_escapes_characters_that_reorder_text() -> None:
    value = {"a\u202eb": ["\u2066", "é"]}
    text = dump_yaml(value)
    assert escape_control_chars(text) == text
    assert yaml.safe_load(text) == value


def test_sarif_messages_contain_no_links() -> None:
    severity: Literal["warning"] = "warning"
    finding = Finding(
        code="WDS101", severity=severity, message="bad [a](https://b.example)\u202e", shard="s.tar", key="[k](c)"
    )
    text = json.loads(format_sarif("/data", [finding]))["runs"][0]["results"][0]["message"]["text"]
    assert text == r"[k\](c): bad [a\](https://b.example)\u202e"
