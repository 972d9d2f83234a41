"""Every blend file is read as a plan or refused with an error that has a location."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.core.blend.trees import write_files
from wdsctl.core.blend import BlendComponent, BlendPlan, read_blend
from wdsctl.core.blend.files import BlendFileCache
from wdsctl.core.blend.parse import expand_node
from wdsctl.core.blend.scope import Scope
from wdsctl.core.blend.yaml_tree import Node, from_yaml
from wdsctl.core.errors import DatasetError, WdsctlError


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
        ("blend_epochized:\n- {path: a, repetitions: 0}", 1, "WDS602", "repetitions: all are 0"),
        ("\nblend: []", 2, "WDS600", "blend: expected a list, found nothing"),
        ("concat:", 1, "WDS600", "concat: expected a list, found nothing"),
        ("blend: {path: a}", 1, "WDS600", "blend: expected a list, found a mapping"),
        ("blend:\n- a", 2, "WDS600", "expected a mapping with path or blend, found 'a'"),
        ("path:", 1, "WDS600", "path: expected text, found nothing"),
        ("blend:\n- join: [{path: a}, {path: b}]\n  joiner: x\n  weight: 1", 3, "WDS605", "joiner: expected a class"),
        ("join: {a: {path: a}}\nnonmatch: none", 1, "WDS605", "expected two members or more, found one member"),
        ("path: inner.yaml\naux: {a: b}", 2, "WDS600", "aux: not allowed here, because the path is another blend file"),
        (
            "path: {path: a}\nsplit_config: x",
            2,
            "WDS600",
            "split_config: not allowed here, because the path is a blend",
        ),
        (
            "path: a.jsonl\ndataset_config: x",
            2,
            "WDS600",
            "dataset_config: not allowed here, because the path is a JSONL file",
        ),
        ("path: a\naux: [b]", 2, "WDS600", "aux: expected a mapping, found a list"),
        ("path: a\naux:\n  b: 5", 3, "WDS600", "b: expected text, found 5"),
        ("blend: [path: a]\nweight_by: token", 2, "WDS600", "found 'token'; did you mean 'tokens'"),
        ("blend:\n- {path: a, name: x}\n- path: b\n  name: x", 4, "WDS600", "'x' is the name of another entry too"),
        ("concat:\n- {path: a, name: 5}", 2, "WDS600", "name: expected text, found 5"),
        ('path: "a\\0.yaml"', 1, "WDS600", "path: expected text"),
        ("blend:\n- {path: a, name: '5'}", 2, "WDS600", "looks like the number of an entry"),
        ("path: none.yaml", 1, "WDS002", ".*/none.yaml does not exist"),
        ("path: main.yaml", 1, "WDS601", r"in a cycle: .*main.yaml \(train\) -> .*main.yaml \(train\)"),
        ("path: inner.yaml\nsplit_part: vla", 2, "WDS606", "the blend file has no split 'vla'; did you mean 'val'"),
    ],
)
def test_read_blend_reports_errors_with_file_line_and_key(
    tmp_path: Path, main: str, line: int, code: str, why: str
) -> None:
    path = write_files(tmp_path, main=main, inner="\nsplits: {val: {path: a}, train: {path: b}}")

    with pytest.raises(WdsctlError, match=why) as caught:
        read_blend(path)

    file = tmp_path / "inner.yaml" if code == "WDS606" else path
    assert (caught.value.code, caught.value.where) == (code, f"{file}:{line}")


def test_cycle_of_files_is_reported_per_split(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    main = write_files(
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


def test_exponential_aliases_are_refused() -> None:
    lines = ["a0: &a0 {path: x}"]
    lines += [f"a{i}: &a{i} {{concat: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    top = from_yaml("\n".join(lines), "x.yaml").value["a11"]

    with pytest.raises(DatasetError, match="more than 1,000 references") as caught:
        expand_node(top, Scope("/data", "train", 1), BlendFileCache(max_references=1000))
    assert caught.value.where == "x.yaml:1"


def test_deeply_nested_aliases_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 {path: x}", *(f"a{i}: &a{i} {{concat: [*a{i - 1}]}}" for i in range(1, 500))]

    with pytest.raises(DatasetError, match="levels deep"):
        read_blend(
            write_files(tmp_path, main="splits:\n" + "".join(f"  {line}\n" for line in lines)), split_part="a499"
        )


def test_blend_of_10000_entries_has_10000_components(tmp_path: Path) -> None:
    main = write_files(tmp_path, main="blend:\n" + "".join(f"- {{path: d{i}, weight: {i}.5}}\n" for i in range(10_000)))

    plan = read_blend(main)

    assert len(plan.components) == 10_000
    assert sum(component.weight for component in plan.components) == 1


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
def test_expand_node_returns_plan_or_error_with_location(value: Any) -> None:
    text = yaml.safe_dump({"blend": [{"path": value, "weight": 1}, value]})
    node = from_yaml(text, "x.yaml")

    outcome = expand(node)

    assert isinstance(outcome, BlendComponent | BlendPlan) or outcome.where.startswith("x.yaml:")
    assert isinstance(outcome, BlendComponent | BlendPlan) or outcome.code in {
        "WDS600",
        "WDS602",
        "WDS603",
        "WDS604",
        "WDS606",
    }


def expand(node: Node) -> BlendComponent | BlendPlan | WdsctlError:
    try:
        return expand_node(node, Scope("/data", "train", 1), BlendFileCache())
    except WdsctlError as error:
        return error


@pytest.mark.parametrize("place", ["entries", "schedule"])
def test_weights_without_short_common_denominator_are_refused(place: str) -> None:
    weights = [f"1/{prime}" for prime in range(3, 2000, 2) if all(prime % i for i in range(3, 45, 2) if i < prime)]
    node: dict[str, Any] = {"blend": [{"path": "a", "weight": weight} for weight in weights]}
    if place == "schedule":
        node = {"blend": [{"path": "a"} for _ in weights], "schedule": [{"step": 5, "weights": weights}]}
    with pytest.raises(DatasetError, match="no common denominator below") as caught:
        read_blend(node)
    assert caught.value.code == "WDS602"
