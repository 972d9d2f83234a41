from __future__ import annotations

from pathlib import Path

import pytest

from tests.energon import energons, energons_lines
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.energon.meta import energon_meta, find_meta_file
from wdsctl.core.errors import DatasetError


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    with energon_meta(str(tmp_path)) as meta:
        assert (meta.is_prepared(), meta.has_split()) == (False, False)
        assert (meta.config(), meta.split(), meta.counts()) == (None, None, None)


def test_older_names_are_known(tmp_path: Path) -> None:
    root = energons(tmp_path, split=None)
    meta_folder = tmp_path / ".nv-meta"
    (meta_folder / ".info.json").unlink()
    (meta_folder / ".info.yaml").write_text("energon_version: 6.0.0\nshard_counts:\n  a.tar: 3\n")
    (meta_folder / "split.json").write_text('{"split_parts": {"train": ["a.tar"]}}')
    with energon_meta(root) as meta:
        assert (meta.is_prepared(), meta.counts()) == (True, {"a.tar": 3})
        split = meta.split()
    assert split is not None
    assert split.rule.patterns == {"train": ("a.tar",)}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"shard_counts": {"a.tar": "many"}}'])
def test_counts_that_say_something_else_are_refused(text: str, tmp_path: Path) -> None:
    root = energons(tmp_path)
    (tmp_path / ".nv-meta" / ".info.json").write_text(text)
    with energon_meta(root) as meta, pytest.raises(DatasetError) as raised:
        meta.counts()
    assert raised.value.code == "WDS129"
    assert f"{root}/.nv-meta/.info.json" in raised.value.where


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    root = energons(tmp_path)
    (tmp_path / ".nv-meta" / "dataset.yaml").write_bytes(b"\xff\xfe")
    with energon_meta(root) as meta, pytest.raises(DatasetError, match="not UTF-8") as raised:
        meta.config()
    assert raised.value.where == f"{root}/.nv-meta/dataset.yaml"


def test_a_file_beside_our_dataset_yaml_wins(tmp_path: Path) -> None:
    place = locate(energons(tmp_path))
    assert find_meta_file(place, "split.yaml") == f"{tmp_path}/.nv-meta/split.yaml"
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "split.yaml").touch()
    assert find_meta_file(place, "split.yaml") == f"{tmp_path}/.wdsctl/split.yaml"


def test_a_file_of_lines_has_an_index_beside_it_and_nothing_in_the_folder(tmp_path: Path) -> None:
    energons_lines(tmp_path / "text.jsonl")
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / ".nv-meta" / ".info.json").write_text("not of these lines")
    for name, config in (("text.jsonl", DatasetConfig(split=SplitRule({"train": 1.0}))), ("other.jsonl", None)):
        with energon_meta(str(tmp_path), name) as meta:
            assert (meta.is_prepared(), meta.config()) == (config is not None, config)
            assert (meta.split(), meta.counts()) == (None, None)
