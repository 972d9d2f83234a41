"""YAML files of a few hundred bytes cannot take minutes or gigabytes to read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wdsctl.core.blend.yaml_tree import from_yaml, node_value
from wdsctl.core.dataset import config
from wdsctl.core.energon.split_yaml import parse_split_yaml
from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.importers.polylithic import _layout_of_blend
from wdsctl.core.yaml_files.document import key_line_range, parse_yaml
from wdsctl.core.yaml_files.limits import MAX_ALIASED_VALUES, MAX_YAML_DEPTH, compose_yaml, refuse_expansion


def _levels(first: str, entry: Callable[[int], str], count: int = 11) -> str:
    return "\n".join([f"a0: &a0 {first}", *(f"a{i}: &a{i} {entry(i)}" for i in range(1, count + 1))])


LISTS = _levels("[x]", lambda i: "[" + ", ".join([f"*a{i - 1}"] * 9) + "]")
MAPPINGS = _levels("{x: 1}", lambda i: "{" + ", ".join(f"k{n}: *a{i - 1}" for n in range(9)) + "}")
MERGES = _levels("{x: 1}", lambda i: "{<<: [" + ", ".join([f"*a{i - 1}"] * 9) + f"], k{i}: 1}}")
CHAIN = _levels("{x: 1}", lambda i: f"{{<<: *a{i - 1}, k{i}: 1}}", 2000)
DEEPER = _levels("[x]", lambda i: f"[*a{i - 1}]", MAX_YAML_DEPTH + 1)
BRACKETS = "a: " + "[" * 200_000
COLUMNS = "\n".join(" " * i + "a:" for i in range(3000))
CIRCLE = "a: &a [*a]"
SEXAGESIMAL = "a: 1" + ":10" * 200_000
SEXAGESIMAL_FLOAT = "a: 1" + ":10" * 200_000 + ".5"
HEXADECIMAL = "version: 0x" + "f" * 20_000

ATTACKS = {
    "lists": LISTS,
    "mappings": MAPPINGS,
    "merges": MERGES,
    "chain": CHAIN,
    "deeper": DEEPER,
    "brackets": BRACKETS,
    "columns": COLUMNS,
    "circle": CIRCLE,
    "sexagesimal": SEXAGESIMAL,
    "sexagesimal float": SEXAGESIMAL_FLOAT,
    "hexadecimal": HEXADECIMAL,
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("read", [parse_yaml, config.parse_config, parse_split_yaml])
def test_expanding_yaml_is_refused_at_once(read: Callable[[str, str], object], text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(DatasetError, match=r"more than|contains itself|the limit is"):
        read(text, "x.yaml")

    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("name", sorted(ATTACKS.keys() - {"merges"}))
def test_blend_files_have_same_limits(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(DatasetError, match=r"more than|contains itself|the limit is"):
        node_value(from_yaml(ATTACKS[name], "x.yaml"))

    assert time.perf_counter() - start < 5


def test_blend_files_merge_shared_mappings_without_growth() -> None:
    assert len(node_value(from_yaml(MERGES, "x.yaml"))["a11"]) == 12


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_convert_reads_blend_files_with_same_limits(tmp_path: Path, text: str) -> None:
    path = tmp_path / "blend.yaml"
    path.write_text(text)
    start = time.perf_counter()

    with pytest.raises(WdsctlError):
        _layout_of_blend(str(path), {"media": "image"})
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("text", [BRACKETS, COLUMNS])
def test_key_line_range_refuses_deep_nesting(text: str) -> None:
    with pytest.raises(ValueError, match="levels deep"):
        key_line_range(text, "a")


def test_long_lists_and_small_aliases_are_accepted() -> None:
    text = "a: &a\n" + "- 0\n" * (MAX_ALIASED_VALUES + 1) + "b: &b [1, 2]\nc: [*b, *b]\n"
    node = compose_yaml(text)

    assert node is not None
    refuse_expansion(node)


def test_depth_limit_is_deepest_accepted_level() -> None:
    assert parse_yaml("[" * MAX_YAML_DEPTH + "]" * MAX_YAML_DEPTH, "x.yaml").data is not None
    with pytest.raises(DatasetError, match=f"more than {MAX_YAML_DEPTH} levels deep"):
        parse_yaml("[" * (MAX_YAML_DEPTH + 2) + "]" * (MAX_YAML_DEPTH + 2), "x.yaml")


def test_numbers_of_hundred_digits_and_long_texts_are_read() -> None:
    assert parse_yaml("a: " + "1" * 100 + "\nb: " + "x" * 10_000, "x.yaml").data["a"] == int("1" * 100)
