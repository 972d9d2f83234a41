from __future__ import annotations

from pathlib import Path

import pytest

from tests.energon import an_energon_dataset, an_energon_jsonl
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import locate
from wdsctl.core.energon.meta import energon_meta, find_meta_file
from wdsctl.core.errors import DatasetError
from wdsctl.core.split_rules.rule import SplitRule


def test_folder_without_energon_metadata_has_none(tmp_path: Path) -> None:
    with energon_meta(str(tmp_path)) as meta:
        assert (meta.is_prepared(), meta.has_split()) == (False, False)
        assert (meta.config(), meta.split(), meta.counts()) == (None, None, None)


def test_older_file_names_are_read(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=None)
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
def test_invalid_shard_counts_are_refused(text: str, tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    (tmp_path / ".nv-meta" / ".info.json").write_text(text)
    with energon_meta(root) as meta, pytest.raises(DatasetError) as raised:
        meta.counts()
    assert raised.value.code == "WDS129"
    assert f"{root}/.nv-meta/.info.json" in raised.value.where


def test_meta_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path)
    (tmp_path / ".nv-meta" / "dataset.yaml").write_bytes(b"\xff\xfe")
    with energon_meta(root) as meta, pytest.raises(DatasetError, match="not UTF-8") as raised:
        meta.config()
    assert raised.value.where == f"{root}/.nv-meta/dataset.yaml"


def test_file_next_to_wdsctl_dataset_yaml_wins(tmp_path: Path) -> None:
    location = locate(an_energon_dataset(tmp_path))
    assert find_meta_file(location, "split.yaml") == f"{tmp_path}/.nv-meta/split.yaml"
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "split.yaml").touch()
    assert find_meta_file(location, "split.yaml") == f"{tmp_path}/.wdsctl/split.yaml"


def test_jsonl_file_uses_its_index_and_no_metadata_of_folder(tmp_path: Path) -> None:
    an_energon_jsonl(tmp_path / "text.jsonl")
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / ".nv-meta" / ".info.json").write_text("not of these lines")
    for name, config in (("text.jsonl", DatasetConfig(split=SplitRule({"train": 1.0}))), ("other.jsonl", None)):
        with energon_meta(str(tmp_path), name) as meta:
            assert (meta.is_prepared(), meta.config()) == (config is not None, config)
            assert (meta.split(), meta.counts()) == (None, None)
