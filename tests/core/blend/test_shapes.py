from __future__ import annotations

from typing import Any

import pytest

from wdsctl.core.blend.parse import KEYS_BY_KIND, node_kind, select_split_node
from wdsctl.core.blend.yaml_tree import from_mapping, from_yaml
from wdsctl.core.errors import DatasetError


@pytest.mark.parametrize("kind", KEYS_BY_KIND)
def test_node_kind_is_its_defining_key(kind: str) -> None:
    assert node_kind(from_mapping({kind: [], "split_part": "x"}, "mapping")) == kind


@pytest.mark.parametrize(
    ("node", "entry_of", "why"),
    [
        ({"path": "a", "blend": []}, "", "path and blend exclude each other"),
        ({"subflavors": {}}, "", "path or blend is missing"),
        ({}, "", "path or blend is missing"),
        ([], "", "expected a mapping with path or blend, found a list"),
        ({"pth": "a"}, "", "unknown key 'pth' at mapping.pth; did you mean 'path'"),
        ({"blend": [], "aux": {}}, "", "unknown key 'aux'"),
        ({"path": "a", "weight": 1}, "", "unknown key 'weight'"),
        ({"path": "a", "weight": 1}, "blend_epochized", "unknown key 'weight'"),
        ({"path": "a", "repetitions": 1}, "concat", "unknown key 'repetitions'"),
        ({"path": "a", "repetition": 1}, "blend_epochized", "did you mean 'repetitions'"),
        ({"path": "a", "split": "x"}, "blend", "did you mean 'split_part'"),
    ],
)
def test_node_kind_refuses_missing_or_conflicting_keys(node: Any, entry_of: str, why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        node_kind(
            from_mapping({"x": node}, "m").value["x"] if isinstance(node, list) else from_mapping(node, "mapping"),
            entry_of,
        )

    assert caught.value.code == "WDS600"


@pytest.mark.parametrize(
    "classes",
    [
        "",
        "__module__: megatron.energon\n__class__: MetadatasetV2\n",
        "__module__: megatron.energon.metadataset\n__class__: Metadataset\n",
        "__class__: MetadatasetV2\n",
        "__module__: megatron.energon\n__class__: Recipe\n",
        "__module__: wdsctl.loader\n__class__: MetadatasetV2\n",
    ],
)
def test_select_split_node_accepts_optional_energon_classes(classes: str) -> None:
    part, name = select_split_node(from_yaml(classes + "splits:\n  val: {path: a}\n", "x.yaml"), "val")

    assert (list(part.value), name) == (["path"], "val")
    assert list(select_split_node(from_yaml(classes + "path: a\n", "x.yaml"), "val")[0].value) == ["path"]


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("__class__: MetadatsetV2\nsplits: {}", ":1", "did you mean 'MetadatasetV2'"),
        ("__module__: my.code\nsplits: {}", ":1", "is not supported: blend files cannot run code"),
        ("splits: {}", ":1", "expected a mapping of names, found nothing"),
        ("splits:\n", ":1", "expected a mapping of names, found nothing"),
        ("splits: [a]", ":1", "expected a mapping of names, found a list"),
        ("splits: {train: {path: a}}\nsplit: {}", ":2", "unknown key 'split' at line 2; did you mean 'splits'"),
        ("", "", "expected `splits:`, found nothing"),
        ("- a", ":1", "expected `splits:`, found a list"),
    ],
)
def test_select_split_node_refuses_invalid_files_with_line(text: str, where: str, why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        select_split_node(from_yaml(text, "x.yaml"), "train")

    assert (caught.value.code, caught.value.where) == ("WDS600", f"x.yaml{where}")


def test_unknown_split_is_refused_with_existing_splits() -> None:
    with pytest.raises(DatasetError, match="the blend file has no split 'trian'; did you mean 'train'") as caught:
        select_split_node(from_yaml("splits:\n  train: {path: a}\n  val: {path: a}\n", "x.yaml"), "trian")

    assert (caught.value.code, caught.value.hint) == ("WDS606", "use one of the splits train, val")


@pytest.mark.parametrize(
    ("text", "why", "hint"),
    [
        ("a: 1\nb: 2\n", "not a blend file: its keys are 'a', 'b'", "begin a blend file with `splits:`"),
        (
            "splitz: {train: {path: a}}\n",
            "its keys are 'splitz'; did you mean 'splits'",
            "begin a blend file with `splits:`",
        ),
        ("sample_type: CrudeSample\nsubflavors: {}\n", "its keys are 'sample_type', 'subflavors'", "dataset.yaml"),
    ],
)
def test_file_of_other_kind_is_refused_with_hint(text: str, why: str, hint: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        select_split_node(from_yaml(text, "odd.yaml"), "train")

    assert (caught.value.code, caught.value.where) == ("WDS600", "odd.yaml:1")
    assert hint in caught.value.hint
