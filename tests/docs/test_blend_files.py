"""Every file on the page about blend files is valid, and the code of the page runs with them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from wdsctl.core.blend import Subset, read_blend
from wdsctl.core.blend.parse import ENTRY_KEYS_BY_KIND, KEYS_BY_KIND
from wdsctl.core.blend.scope import COMMON_NODE_KEYS
from wdsctl.core.errors import DatasetError

PAGE = ROOT / "docs" / "blend-files.md"
FILES = {block.note: block.text for block in blocks(PAGE) if block.mark == "file"}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_every_example_is_readable(name: str) -> None:
    assert sum(component.weight for component in read_blend(name).components) == 1


def test_every_yaml_block_is_an_example() -> None:
    assert len(FILES) == sum(block.language == "yaml" for block in blocks(PAGE)) > 3


def test_code_of_page_runs() -> None:
    for block in [block for block in blocks(PAGE) if block.language == "python"]:
        exec(compile("\n" * block.line + block.text, str(PAGE), "exec"), {})  # noqa: S102 - the page is ours


def test_examples_have_documented_weights() -> None:
    assert [component.weight for component in read_blend("first.yaml").components] == [Fraction(3, 4), Fraction(1, 4)]
    assert {leaf.subsets[-1] for leaf in read_blend("subset.yaml").leaves} == {Subset(Fraction(0), Fraction(1, 2))}
    assert [[str(weight) for weight in each.weights] for each in read_blend("schedule.yaml").schedule] == [
        ["3/4", "1/4", "0"],
        ["1/3", "1/3", "1/3"],
        ["0", "1/4", "3/4"],
    ]
    with pytest.raises(DatasetError, match="unknown key 'weight' at line 6"):
        read_blend("anchors.yaml", split_part="val")


def test_every_key_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    keys = {*COMMON_NODE_KEYS, *KEYS_BY_KIND, *(key for keys in ENTRY_KEYS_BY_KIND.values() for key in keys)}
    keys |= {key for keys in KEYS_BY_KIND.values() for key in keys}

    assert [key for key in sorted(keys) if f"`{key}" not in text and f"{key}:" not in text] == []
