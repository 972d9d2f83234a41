from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.core.blend.trees import AMOUNTS, files, nodes, of, repetitions, weights
from wdsctl.core.blend import BlendComponent, BlendPlan, RepeatedLeaf, Subset, read_blend
from wdsctl.core.errors import DatasetError

A, B, C, D = ({"path": f"/{name}"} for name in "abcd")


def expected(node: dict[str, Any]) -> list[tuple[str, Fraction]]:
    """What a tree of blends comes to, spelled out."""
    if "path" in node:
        return [(node["path"], Fraction(1))]
    own = [Fraction(str(entry["weight"])) for entry in node["blend"]]
    return [
        (path, weight / sum(own) * share)
        for weight, entry in zip(own, node["blend"], strict=True)
        for path, share in expected(entry)
    ]


@given(nodes("blend", "weight"))
def test_weights_are_products_of_shares_and_sum_to_one(tree: dict[str, Any]) -> None:
    plan = read_blend(tree)

    assert [(arm.repeated_leaves[0].leaf.path, arm.weight) for arm in plan.components] == expected(tree)
    assert sum(arm.weight for arm in plan.components) == 1
    assert read_blend(yaml_copy(tree)) == plan


@given(nodes("blend_epochized", "repetitions"))
def test_repetitions_are_products_in_one_order(tree: dict[str, Any]) -> None:
    def spelled(node: dict[str, Any], times: Fraction) -> list[tuple[str, Fraction]]:
        times *= Fraction(str(node.get("repetitions", 1)))
        if "path" in node:
            return [(node["path"], times)]
        return [each for entry in node["blend_epochized"] for each in spelled(entry, times)]

    (arm,) = read_blend(tree).components

    assert [(each.leaf.path, each.repetitions) for each in arm.repeated_leaves] == spelled(tree, Fraction(1))


@given(st.lists(nodes("blend", "weight"), min_size=1, max_size=4), st.data())
def test_flattening_a_part_first_changes_nothing(parts: list[dict[str, Any]], data: st.DataObject) -> None:
    own = data.draw(st.lists(AMOUNTS, min_size=len(parts), max_size=len(parts)))
    flat = [of(*({"path": path, "weight": weight} for path, weight in expected(part))) for part in parts]

    nested, flattened = (
        read_blend(of(*({"path": part, "weight": weight} for part, weight in zip(each, own, strict=True))))
        for each in (parts, flat)
    )

    assert nested == flattened


def yaml_copy(tree: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump({"splits": {"train": tree}}))
    return copy


def test_a_group_in_place_and_by_path_are_the_same(tmp_path: Path) -> None:
    main = files(
        tmp_path,
        main="blend:\n  - {path: /a}\n  - {path: inner.yaml, weight: 2}\n",
        inner="splits: {train: {blend: [{path: /b}, {path: /c, weight: 3}]}}",
    )
    inner = {"blend": [B, C | {"weight": 3}]}

    assert (
        read_blend(main) == read_blend(of(A, inner | {"weight": 2})) == read_blend(of(A, {"path": inner, "weight": 2}))
    )
    assert weights(read_blend(main)) == {"a": Fraction(1, 3), "b": Fraction(1, 6), "c": Fraction(1, 2)}


def test_an_epochized_blend_in_a_blend_is_one_arm() -> None:
    plan = read_blend(of(A, of(B | {"repetitions": 0.7}, C | {"repetitions": 3}, kind="blend_epochized", weight=3)))

    assert [(arm.weight, len(arm.repeated_leaves)) for arm in plan.components] == [
        (Fraction(1, 4), 1),
        (Fraction(3, 4), 2),
    ]
    assert repetitions(plan) == {"a": 1, "b": Fraction(7, 10), "c": 3}


def test_concat_lays_end_to_end_and_repeats_within_an_epochized_blend() -> None:
    inner = of(A, B, kind="concat")

    assert repetitions(read_blend(inner)) == {"a": 1, "b": 1}
    assert repetitions(read_blend(of(inner | {"repetitions": 2}, C, kind="blend_epochized"))) == {
        "a": 2,
        "b": 2,
        "c": 1,
    }


def test_a_single_dataset_is_one_component_with_all_of_the_weight(tmp_path: Path) -> None:
    main = files(tmp_path, main="path: a\nshuffle_over_epochs_multiplier: -1\n")

    (component,) = read_blend(main).components

    assert component == BlendComponent(Fraction(1), component.repeated_leaves, -1)
    assert component.where == f"{main}:1"


def test_one_order_is_shuffled_in_one_way(tmp_path: Path) -> None:
    main = files(
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
def test_a_blend_in_an_order_with_an_end_is_refused_with_the_reason(tmp_path: Path, kind: str, mode: Any) -> None:
    main = files(tmp_path, main=f"{kind}:\n- path: /a\n- path: inner.yaml\n", inner="blend:\n- path: /b\n")

    with pytest.raises(DatasetError, match="which is finite; a blend is endless") as caught:
        read_blend(main, mode=mode)

    assert (caught.value.code, caught.value.where) == ("WDS604", f"{main}:3")
    assert f"{tmp_path}/inner.yaml:1" in caught.value.message


def test_a_split_part_is_that_of_what_is_around_and_chooses_the_split_of_a_nested_file(tmp_path: Path) -> None:
    main = files(
        tmp_path,
        main="splits: {train: {blend: [{path: /a}, {path: inner.yaml, split_part: other}, {path: inner.yaml}]}}",
        inner="splits: {other: {path: /b}, train: {path: /c, split_part: all}}",
    )

    assert [(leaf.path, leaf.split_part) for leaf in read_blend(main).leaves] == [
        ("/a", "train"),
        ("/b", "other"),
        ("/c", "all"),
    ]


def test_a_file_without_splits_is_for_every_split(tmp_path: Path) -> None:
    main = files(tmp_path, main="blend: [{path: inner.yaml}]", inner="{path: a}")

    assert [leaf.split_part for leaf in read_blend(main, split_part="val").leaves] == ["val"]


def test_what_stands_further_out_reaches_the_leaves() -> None:
    outer = of(
        A | {"subflavors": {"x": 1, "y": 1}, "subset": {"range": [0, 50]}, "shuffle_over_epochs_multiplier": 2},
        subflavors={"x": 2},
        subset={"range": ["50%", "end"]},
        shuffle_over_epochs_multiplier=3,
    )

    (leaf,) = read_blend(outer, multiplier=5).leaves

    assert leaf.subflavors == {"x": 2, "y": 1}
    assert leaf.subsets == (Subset(0, 50), Subset(Fraction(1, 2), None))
    assert (leaf.multiplier, read_blend(outer, multiplier=5).components[0].multiplier) == (30, 30)


def test_a_leaf_keeps_its_configs_and_its_stores(tmp_path: Path) -> None:
    main = files(
        tmp_path,
        main="path: shards\ndataset_config: d.yaml\nsplit_config: s.yaml\naux: {media: m, files: 'filesystem://f'}\n",
    )

    (leaf,) = read_blend(main).leaves

    assert (leaf.path, leaf.dataset_config, leaf.split_config) == (f"{tmp_path}/shards", "d.yaml", "s.yaml")
    assert leaf.aux == {"media": f"{tmp_path}/m", "files": f"filesystem://{tmp_path}/f"}
    assert leaf.where == f"{main}:1"


def test_relative_paths_begin_where_their_file_is(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    main = files(tmp_path, main="blend: [{path: a}, {path: sub/inner.yaml}]")
    (tmp_path / "sub" / "inner.yaml").write_text("path: {concat: [{path: b}, {path: 's3://bucket/c'}]}")

    assert [leaf.path for leaf in read_blend(main).leaves] == [f"{tmp_path}/a", f"{tmp_path}/sub/b", "s3://bucket/c"]


def test_anchors_share_what_they_name(tmp_path: Path) -> None:
    main = files(
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


def test_validation_takes_every_leaf_once_in_order() -> None:
    tree = of(A | {"weight": 9}, of(B, C | {"weight": 0}), of(D | {"repetitions": 2.5}, kind="blend_epochized"))

    plan = read_blend(tree, mode="val")

    assert [leaf.path for leaf in plan.leaves] == ["/a", "/b", "/c", "/d"]
    assert set(repetitions(plan).values()) == {Fraction(1)}
    assert [(component.weight, component.multiplier) for component in plan.components] == [(Fraction(1), None)]
    assert plan.schedule == ()


def test_zero_means_never_and_keeps_its_place() -> None:
    assert weights(read_blend(of(A | {"weight": 0}, B))) == {"a": 0, "b": 1}
    assert repetitions(read_blend(of(A | {"repetitions": 0}, B, kind="blend_epochized"))) == {"a": 0, "b": 1}


def test_a_schedule_gives_the_weights_of_the_flat_arms() -> None:
    plan = read_blend(
        of(
            A | {"name": "a", "weight": 3},
            of(B, C | {"weight": 3}, name="rest"),
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
    assert tuple(arm.weight for arm in plan.components) == plan.schedule[0].weights


def test_unit_and_schedule_are_had_through_plain_references(tmp_path: Path) -> None:
    main = files(tmp_path, main="splits: {train: {path: inner.yaml}}", inner="{blend: [{path: a}], weight_by: tokens}")

    assert read_blend(main).weight_unit == "tokens"


@pytest.mark.parametrize("key", ["weight_by: tokens", "schedule: [{step: 0, weights: [1]}]"])
def test_unit_and_schedule_of_an_inner_blend_are_refused(tmp_path: Path, key: str) -> None:
    main = files(tmp_path, main="blend: [{path: inner.yaml}]", inner=f"blend: [path: a]\n{key}\n")

    with pytest.raises(DatasetError, match="applies to a whole job") as caught:
        read_blend(main)

    assert caught.value.where == f"{tmp_path}/inner.yaml:2"


@pytest.mark.parametrize("subset", [{"range": ["0%", "50%"]}, {"range": [5, "end"]}])
@pytest.mark.parametrize("kind", ["blend", "blend_epochized", "concat"])
def test_a_subset_of_a_group_is_one_of_each_of_its_leaves(subset: dict[str, Any], kind: str) -> None:
    plan = read_blend(of(A, B, kind=kind, subset=subset))

    assert len({leaf.subsets for leaf in plan.leaves}) == 1
    assert all(len(leaf.subsets) == 1 for leaf in plan.leaves)


def test_version_one_is_understood(tmp_path: Path) -> None:
    main = files(
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


def test_a_plan_is_built_of_plain_values() -> None:
    plan = read_blend(of(A, B))

    assert plan == BlendPlan(tuple(BlendComponent(Fraction(1, 2), (RepeatedLeaf(leaf),), 1) for leaf in plan.leaves))
