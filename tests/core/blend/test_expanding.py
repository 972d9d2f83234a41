from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.blend.trees import AMOUNTS, make_node, nodes, repetitions, weights, write_files
from wdsctl.core.blend import BlendComponent, BlendPlan, RepeatedLeaf, Subset, read_blend
from wdsctl.core.errors import DatasetError, PermissionDenied

A, B, C, D = ({"path": f"/{name}"} for name in "abcd")


def expected(node: dict[str, Any]) -> list[tuple[str, Fraction]]:
    """The paths and weights of a tree of blends, computed recursively."""
    if "path" in node:
        return [(node["path"], Fraction(1))]
    own = [Fraction(str(entry["weight"])) for entry in node["blend"]]
    return [
        (path, weight / sum(own) * share)
        for weight, entry in zip(own, node["blend"], strict=True)
        for path, share in expected(entry)
    ]


@given(nodes("blend", "weight"))
def test_blend_weights_are_products_of_shares_and_sum_to_one(tree: dict[str, Any]) -> None:
    plan = read_blend(tree)

    assert [(component.repeated_leaves[0].leaf.path, component.weight) for component in plan.components] == expected(
        tree
    )
    assert sum(component.weight for component in plan.components) == 1
    assert read_blend(yaml_copy(tree)) == plan


@given(nodes("blend_epochized", "repetitions"))
def test_repetitions_are_products_along_the_path(tree: dict[str, Any]) -> None:
    def expand(node: dict[str, Any], times: Fraction) -> list[tuple[str, Fraction]]:
        times *= Fraction(str(node.get("repetitions", 1)))
        if "path" in node:
            return [(node["path"], times)]
        return [each for entry in node["blend_epochized"] for each in expand(entry, times)]

    (component,) = read_blend(tree).components

    assert [(each.leaf.path, each.repetitions) for each in component.repeated_leaves] == expand(tree, Fraction(1))


@settings(max_examples=40)
@given(st.lists(nodes("blend", "weight"), min_size=1, max_size=4), st.data())
def test_flattening_inner_blend_keeps_plan(parts: list[dict[str, Any]], data: st.DataObject) -> None:
    own = data.draw(st.lists(AMOUNTS, min_size=len(parts), max_size=len(parts)))
    flat = [make_node(*({"path": path, "weight": weight} for path, weight in expected(part))) for part in parts]

    nested, flattened = (
        read_blend(make_node(*({"path": part, "weight": weight} for part, weight in zip(each, own, strict=True))))
        for each in (parts, flat)
    )

    assert nested == flattened


def yaml_copy(tree: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump({"splits": {"train": tree}}))
    return copy


def test_inline_group_equals_group_by_path(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="blend:\n  - {path: /a}\n  - {path: inner.yaml, weight: 2}\n",
        inner="splits: {train: {blend: [{path: /b}, {path: /c, weight: 3}]}}",
    )
    inner = {"blend": [B, C | {"weight": 3}]}

    assert (
        read_blend(main)
        == read_blend(make_node(A, inner | {"weight": 2}))
        == read_blend(make_node(A, {"path": inner, "weight": 2}))
    )
    assert weights(read_blend(main)) == {"a": Fraction(1, 3), "b": Fraction(1, 6), "c": Fraction(1, 2)}


def test_epochized_blend_in_blend_is_one_component() -> None:
    plan = read_blend(
        make_node(A, make_node(B | {"repetitions": 0.7}, C | {"repetitions": 3}, kind="blend_epochized", weight=3))
    )

    assert [(component.weight, len(component.repeated_leaves)) for component in plan.components] == [
        (Fraction(1, 4), 1),
        (Fraction(3, 4), 2),
    ]
    assert repetitions(plan) == {"a": 1, "b": Fraction(7, 10), "c": 3}


def test_concat_keeps_order_and_repeats_in_epochized_blend() -> None:
    inner = make_node(A, B, kind="concat")

    assert repetitions(read_blend(inner)) == {"a": 1, "b": 1}
    assert repetitions(read_blend(make_node(inner | {"repetitions": 2}, C, kind="blend_epochized"))) == {
        "a": 2,
        "b": 2,
        "c": 1,
    }


def test_single_dataset_is_one_component_of_weight_one(tmp_path: Path) -> None:
    main = write_files(tmp_path, main="path: a\nshuffle_over_epochs_multiplier: -1\n")

    (component,) = read_blend(main).components

    assert component == BlendComponent(Fraction(1), component.repeated_leaves, -1)
    assert component.where == f"{main}:1"


def test_concat_refuses_different_shuffle_multipliers(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="""\
blend:
- path: /c
- concat:
  - path: inner.yaml
  - path: /b
""",
        inner="""\
concat:
- path: /a
- path: /d
  shuffle_over_epochs_multiplier: null
""",
    )
    inner = tmp_path / "inner.yaml"

    with pytest.raises(DatasetError, match="entries with one common order need the same value") as caught:
        read_blend(main)

    assert (caught.value.code, caught.value.where) == ("WDS600", f"{main}:3")
    assert caught.value.message.endswith(f"found 1 ({inner}:2) and null ({inner}:3)")
    assert [leaf.path for leaf in read_blend(main, mode="val").leaves] == ["/c", "/a", "/d", "/b"]


@pytest.mark.parametrize("kind", ["blend_epochized", "concat"])
@pytest.mark.parametrize("mode", ["train", "val"])
def test_blend_in_finite_order_is_refused(tmp_path: Path, kind: str, mode: Any) -> None:
    main = write_files(tmp_path, main=f"{kind}:\n- path: /a\n- path: inner.yaml\n", inner="blend:\n- path: /b\n")

    with pytest.raises(DatasetError, match="which is finite; a blend is endless") as caught:
        read_blend(main, mode=mode)

    assert (caught.value.code, caught.value.where) == ("WDS604", f"{main}:3")
    assert f"{tmp_path}/inner.yaml:1" in caught.value.message


def test_split_part_is_inherited_and_selects_split_of_nested_file(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="splits: {train: {blend: [{path: /a}, {path: inner.yaml, split_part: other}, {path: inner.yaml}]}}",
        inner="splits: {other: {path: /b}, train: {path: /c, split_part: all}}",
    )

    assert [(leaf.path, leaf.split_part) for leaf in read_blend(main).leaves] == [
        ("/a", "train"),
        ("/b", "other"),
        ("/c", "all"),
    ]


def test_blend_file_without_splits_applies_to_every_split(tmp_path: Path) -> None:
    main = write_files(tmp_path, main="blend: [{path: inner.yaml}]", inner="{path: a}")

    assert [leaf.split_part for leaf in read_blend(main, split_part="val").leaves] == ["val"]


def test_outer_settings_reach_leaves() -> None:
    outer = make_node(
        A | {"subflavors": {"x": 1, "y": 1}, "subset": {"range": [0, 50]}, "shuffle_over_epochs_multiplier": 2},
        subflavors={"x": 2},
        subset={"range": ["50%", "end"]},
        shuffle_over_epochs_multiplier=3,
    )

    (leaf,) = read_blend(outer, multiplier=5).leaves

    assert leaf.subflavors == {"x": 2, "y": 1}
    assert leaf.subsets == (Subset(0, 50), Subset(Fraction(1, 2), None))
    assert (leaf.multiplier, read_blend(outer, multiplier=5).components[0].multiplier) == (30, 30)


def test_leaf_keeps_configs_and_aux_stores(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="path: shards\ndataset_config: d.yaml\nsplit_config: s.yaml\naux: {media: m, files: 'filesystem://f'}\n",
    )

    (leaf,) = read_blend(main).leaves

    assert (leaf.path, leaf.dataset_config, leaf.split_config) == (f"{tmp_path}/shards", "d.yaml", "s.yaml")
    assert leaf.aux == {"media": f"{tmp_path}/m", "files": f"filesystem://{tmp_path}/f"}
    assert leaf.where == f"{main}:1"


@pytest.mark.parametrize("file", [".wdsctl/dataset.yaml", ".nv-meta/.info.json"])
def test_stores_that_are_datasets_may_be_outside_as_paths(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "blends"
    folder.mkdir()
    (tmp_path / "media" / file).parent.mkdir(parents=True)
    main = write_files(folder, main="path: ../data\naux: {media: ../media}\n")
    with pytest.raises(PermissionDenied, match="leads out of"):
        read_blend(main)

    (tmp_path / "media" / file).write_text("")

    (leaf,) = read_blend(main).leaves
    assert os.path.samefile(leaf.aux["media"], tmp_path / "media")
    for outside in ("filesystem://../media", f"filesystem://{tmp_path}"):
        with pytest.raises(PermissionDenied, match="leads out of"):
            read_blend(write_files(folder, main=f"path: ../data\naux: {{media: '{outside}'}}\n"))


def test_relative_paths_resolve_from_folder_of_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    main = write_files(tmp_path, main="blend: [{path: a}, {path: sub/inner.yaml}]")
    (tmp_path / "sub" / "inner.yaml").write_text("path: {concat: [{path: b}, {path: 's3://bucket/c'}]}")

    assert [leaf.path for leaf in read_blend(main).leaves] == [f"{tmp_path}/a", f"{tmp_path}/sub/b", "s3://bucket/c"]


def test_yaml_anchors_and_merge_keys_are_resolved(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="""\
splits:
  train:
    blend:
      - &web {path: web, weight: 3, subflavors: {kind: web}}
      - {<<: *web, path: books}
  val: {blend: [*web]}
""",
    )

    assert weights(read_blend(main)) == {"web": Fraction(1, 2), "books": Fraction(1, 2)}
    assert {leaf.subflavors["kind"] for leaf in read_blend(main).leaves} == {"web"}
    assert [leaf.split_part for leaf in read_blend(main, split_part="val").leaves] == ["val"]


def test_val_mode_reads_every_leaf_once_in_order() -> None:
    tree = make_node(
        A | {"weight": 9}, make_node(B, C | {"weight": 0}), make_node(D | {"repetitions": 2.5}, kind="blend_epochized")
    )

    plan = read_blend(tree, mode="val")

    assert [leaf.path for leaf in plan.leaves] == ["/a", "/b", "/c", "/d"]
    assert set(repetitions(plan).values()) == {Fraction(1)}
    assert [(component.weight, component.multiplier) for component in plan.components] == [(Fraction(1), None)]
    assert plan.schedule == ()


def test_zero_weight_and_repetitions_are_kept() -> None:
    assert weights(read_blend(make_node(A | {"weight": 0}, B))) == {"a": 0, "b": 1}
    assert repetitions(read_blend(make_node(A | {"repetitions": 0}, B, kind="blend_epochized"))) == {"a": 0, "b": 1}


def test_schedule_has_weights_of_flat_components() -> None:
    plan = read_blend(
        make_node(
            A | {"name": "a", "weight": 3},
            make_node(B, C | {"weight": 3}, name="rest"),
            weight_by="tokens",
            schedule=[{"step": 100, "weights": {"a": 0}}, {"step": 200, "weights": {"a": 1, "1": 1}}],
        )
    )

    assert plan.weight_unit == "tokens"
    assert [(step, [str(weight) for weight in each]) for step, each in plan.schedule] == [
        (0, ["3/4", "1/16", "3/16"]),
        (100, ["0", "1/4", "3/4"]),
        (200, ["1/2", "1/8", "3/8"]),
    ]
    assert tuple(component.weight for component in plan.components) == plan.schedule[0].weights


def test_weight_unit_is_read_through_plain_reference(tmp_path: Path) -> None:
    main = write_files(
        tmp_path, main="splits: {train: {path: inner.yaml}}", inner="{blend: [{path: a}], weight_by: tokens}"
    )

    assert read_blend(main).weight_unit == "tokens"


@pytest.mark.parametrize("key", ["weight_by: tokens", "schedule: [{step: 0, weights: [1]}]"])
def test_unit_and_schedule_of_inner_blend_are_refused(tmp_path: Path, key: str) -> None:
    main = write_files(tmp_path, main="blend: [{path: inner.yaml}]", inner=f"blend: [path: a]\n{key}\n")

    with pytest.raises(DatasetError, match="applies to a whole job") as caught:
        read_blend(main)

    assert caught.value.where == f"{tmp_path}/inner.yaml:2"


@pytest.mark.parametrize("subset", [{"range": ["0%", "50%"]}, {"range": [5, "end"]}])
@pytest.mark.parametrize("kind", ["blend", "blend_epochized", "concat"])
def test_subset_of_group_applies_to_each_leaf(subset: dict[str, Any], kind: str) -> None:
    plan = read_blend(make_node(A, B, kind=kind, subset=subset))

    assert len({leaf.subsets for leaf in plan.leaves}) == 1
    assert all(len(leaf.subsets) == 1 for leaf in plan.leaves)


def test_read_blend_accepts_version_1_files(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="""\
__module__: megatron.energon
__class__: Metadataset
splits:
  train:
    datasets:
      - {weight: 5, path: coyo, subflavor: coyo, shuffle_over_epochs_multiplier: 2}
      - {weight: 2, path: other.yaml, split_part: val, subflavors: {a: 1}}
""",
        other="splits: {val: {datasets: [{path: b, split_part: all}]}}",
    )

    first, second = read_blend(main).components

    assert (first.weight, first.multiplier) == (Fraction(5, 7), 2)
    assert first.repeated_leaves[0].leaf.subflavors == {"__subflavor__": "coyo"}
    assert second.repeated_leaves[0].leaf.split_part == "all"


def test_blend_plan_equals_plan_of_plain_values() -> None:
    plan = read_blend(make_node(A, B))

    assert plan == BlendPlan(tuple(BlendComponent(Fraction(1, 2), (RepeatedLeaf(leaf),), 1) for leaf in plan.leaves))
