from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.core.blend_file.trees import AMOUNTS, files, nodes, of, repetitions, weights
from wdsctl.core.blend_file import Arm, BlendPlan, Stretch, Subset, read_blend
from wdsctl.core.blend_file.around import Around
from wdsctl.core.blend_file.expanding import expand
from wdsctl.core.blend_file.nodes import Node, from_yaml
from wdsctl.core.blend_file.parts import Mix, Run
from wdsctl.core.blend_file.texts import Texts
from wdsctl.core.errors import DatasetError, WdsctlError

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

    assert [(arm.stretches[0].leaf.path, arm.weight) for arm in plan.arms] == expected(tree)
    assert sum(arm.weight for arm in plan.arms) == 1
    assert read_blend(yaml_copy(tree)) == plan


@given(nodes("blend_epochized", "repetitions"))
def test_repetitions_are_products_in_one_order(tree: dict[str, Any]) -> None:
    def spelled(node: dict[str, Any], times: Fraction) -> list[tuple[str, Fraction]]:
        times *= Fraction(str(node.get("repetitions", 1)))
        if "path" in node:
            return [(node["path"], times)]
        return [each for entry in node["blend_epochized"] for each in spelled(entry, times)]

    (arm,) = read_blend(tree).arms

    assert [(each.leaf.path, each.repetitions) for each in arm.stretches] == spelled(tree, Fraction(1))


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

    assert [(arm.weight, len(arm.stretches)) for arm in plan.arms] == [(Fraction(1, 4), 1), (Fraction(3, 4), 2)]
    assert repetitions(plan) == {"a": 1, "b": Fraction(7, 10), "c": 3}


def test_concat_lays_end_to_end_and_repeats_within_an_epochized_blend() -> None:
    inner = of(A, B, kind="concat")

    assert repetitions(read_blend(inner)) == {"a": 1, "b": 1}
    assert repetitions(read_blend(of(inner | {"repetitions": 2}, C, kind="blend_epochized"))) == {
        "a": 2,
        "b": 2,
        "c": 1,
    }


@pytest.mark.parametrize("kind", ["blend_epochized", "concat"])
@pytest.mark.parametrize("mode", ["train", "val"])
def test_a_blend_in_an_order_with_an_end_is_refused_with_the_reason(tmp_path: Path, kind: str, mode: Any) -> None:
    main = files(tmp_path, main=f"{kind}:\n- path: /a\n- path: inner.yaml\n", inner="blend:\n- path: /b\n")

    with pytest.raises(DatasetError, match="an order with an end; a blend goes on for ever") as caught:
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
    assert (leaf.multiplier, read_blend(outer, multiplier=5).arms[0].multiplier) == (30, 30)


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
    assert (len(plan.arms), plan.schedule) == (1, ())


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
    assert tuple(arm.weight for arm in plan.arms) == plan.schedule[0].weights


def test_unit_and_schedule_are_had_through_plain_references(tmp_path: Path) -> None:
    main = files(tmp_path, main="splits: {train: {path: inner.yaml}}", inner="{blend: [{path: a}], weight_by: tokens}")

    assert read_blend(main).weight_unit == "tokens"


@pytest.mark.parametrize("key", ["weight_by: tokens", "schedule: [{step: 0, weights: [1]}]"])
def test_unit_and_schedule_of_an_inner_blend_are_refused(tmp_path: Path, key: str) -> None:
    main = files(tmp_path, main="blend: [{path: inner.yaml}]", inner=f"blend: [path: a]\n{key}\n")

    with pytest.raises(DatasetError, match="holds for a whole job") as caught:
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

    first, second = read_blend(main).arms

    assert (first.weight, first.multiplier) == (Fraction(5, 7), 2)
    assert first.stretches[0].leaf.subflavors == {"__subflavor__": "coyo"}
    assert second.stretches[0].leaf.split_part == "all"


@pytest.mark.parametrize(
    ("main", "line", "code", "why"),
    [
        (
            "splits:\n  train:\n    blend:\n      - path: a\n        wieght: 2",
            5,
            "WDS600",
            "unknown key 'wieght' at line 5; did you mean 'weight'",
        ),
        ("blend:\n- path: a\n  weight: -1", 3, "WDS602", "weight: expected a number from zero up, found -1"),
        ("blend:\n- {path: a, weight: 0}\n- {path: b, weight: 0}", 1, "WDS602", "all weights are 0"),
        ("blend_epochized:\n- {path: a, repetitions: 0}", 1, "WDS602", "all repetitions are 0"),
        ("\nblend: []", 2, "WDS600", "blend: expected a list, found nothing"),
        ("concat:", 1, "WDS600", "concat: expected a list, found nothing"),
        ("blend: {path: a}", 1, "WDS600", "blend: expected a list, found a mapping"),
        ("blend:\n- a", 2, "WDS600", "expected a mapping with path or blend, found 'a'"),
        ("path:", 1, "WDS600", "path: expected a text, found nothing"),
        ("blend:\n- join: [{path: a}, {path: b}]\n  joiner: x\n  weight: 1", 3, "WDS605", "joiner: expected a class"),
        ("join: {a: {path: a}}\nnonmatch: none", 1, "WDS605", "expected two members or more, found one member"),
        ("path: inner.yaml\naux: {a: b}", 2, "WDS600", "aux: the path is another blend file"),
        ("path: {path: a}\nsplit_config: x", 2, "WDS600", "split_config: the path is a blend"),
        ("path: a.jsonl\ndataset_config: x", 2, "WDS600", "dataset_config: the path is a JSONL file"),
        ("path: a\naux: [b]", 2, "WDS600", "aux: expected a mapping, found a list"),
        ("path: a\naux:\n  b: 5", 3, "WDS600", "b: expected a text, found 5"),
        ("blend: [path: a]\nweight_by: token", 2, "WDS600", "found 'token'; did you mean 'tokens'"),
        ("blend:\n- {path: a, name: x}\n- path: b\n  name: x", 4, "WDS600", "'x' is the name of another entry too"),
        ("concat:\n- {path: a, name: 5}", 2, "WDS600", "name: expected a text, found 5"),
        ('path: "a\\0.yaml"', 1, "WDS600", "path: expected a text"),
        ("blend:\n- {path: a, name: '5'}", 2, "WDS600", "looks like the number of an entry"),
        ("path: none.yaml", 1, "WDS002", "there is no .*/none.yaml"),
        ("path: main.yaml", 1, "WDS601", r"lead back: .*main.yaml \(train\) -> .*main.yaml \(train\)"),
        ("path: inner.yaml\nsplit_part: vla", 2, "WDS606", "there is no split 'vla'; did you mean 'val'"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_key(
    tmp_path: Path, main: str, line: int, code: str, why: str
) -> None:
    path = files(tmp_path, main=main, inner="\nsplits: {val: {path: a}, train: {path: b}}")

    with pytest.raises(WdsctlError, match=why) as caught:
        read_blend(path)

    file = tmp_path / "inner.yaml" if code == "WDS606" else path
    assert (caught.value.code, caught.value.where) == (code, f"{file}:{line}")


def test_a_circle_of_files_is_named_whole_and_another_split_is_no_circle(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    main = files(
        tmp_path,
        main="splits: {train: {path: b.yaml}, val: {path: main.yaml, split_part: test}, test: {path: x}}",
        b="splits:\n  train:\n    blend:\n    - path: loop/main.yaml\n",
    )

    assert [leaf.path for leaf in read_blend(main, split_part="val").leaves] == [f"{tmp_path}/x"]
    with pytest.raises(
        DatasetError, match=r"main.yaml \(train\) -> .*b.yaml \(train\) -> .*main.yaml \(train\)"
    ) as caught:
        read_blend(main)
    assert (caught.value.code, caught.value.where) == ("WDS601", f"{tmp_path}/b.yaml:4")


def test_aliases_that_make_endlessly_many_references_are_refused() -> None:
    lines = ["a0: &a0 {path: x}"]
    lines += [f"a{i}: &a{i} {{concat: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    top = from_yaml("\n".join(lines), "x.yaml").value["a11"]

    with pytest.raises(DatasetError, match="more than 1,000 references") as caught:
        expand(top, Around("/data", "train", 1), Texts(most_references=1000))
    assert caught.value.where == "x.yaml:1"


def test_aliases_that_nest_for_ever_deeper_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 {path: x}", *(f"a{i}: &a{i} {{concat: [*a{i - 1}]}}" for i in range(1, 500))]

    with pytest.raises(DatasetError, match="levels deep"):
        read_blend(files(tmp_path, main="splits:\n" + "".join(f"  {line}\n" for line in lines)), split_part="a499")


def test_ten_thousand_entries_are_ten_thousand_arms(tmp_path: Path) -> None:
    main = files(tmp_path, main="blend:\n" + "".join(f"- {{path: d{i}, weight: {i}.5}}\n" for i in range(10_000)))

    plan = read_blend(main)

    assert len(plan.arms) == 10_000
    assert sum(arm.weight for arm in plan.arms) == 1


def test_a_plan_is_built_of_plain_values() -> None:
    plan = read_blend(of(A, B))

    assert plan == BlendPlan(tuple(Arm(Fraction(1, 2), (Stretch(leaf),), 1) for leaf in plan.leaves))


KEYS = [
    "path",
    "blend",
    "blend_epochized",
    "concat",
    "weight",
    "repetitions",
    "subset",
    "range",
    "splits",
    "train",
    "name",
    "split_part",
    "subflavors",
    "schedule",
    "step",
    "weights",
    "weight_by",
    "aux",
    "shuffle_over_epochs_multiplier",
]
ANYTHING = st.recursive(
    st.none() | st.integers(-2, 3) | st.sampled_from(["a", "x.jsonl", "50%", "end", "1/3", "tokens", ""]) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=10,
)


@given(ANYTHING)
def test_whatever_stands_in_a_file_it_is_a_plan_or_an_error_with_its_line(value: Any) -> None:
    text = yaml.safe_dump({"blend": [{"path": value, "weight": 1}, value]})
    node = from_yaml(text, "x.yaml")

    outcome = outcome_of(node)

    assert isinstance(outcome, Run | Mix) or outcome.where.startswith("x.yaml:")
    assert isinstance(outcome, Run | Mix) or outcome.code in {"WDS600", "WDS602", "WDS603", "WDS604", "WDS606"}


def outcome_of(node: Node) -> Run | Mix | WdsctlError:
    try:
        return expand(node, Around("/data", "train", 1), Texts())
    except WdsctlError as error:
        return error
