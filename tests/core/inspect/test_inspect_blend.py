from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, samples, some_shards, split_by_ratios
from wdsctl.core.blend import read_blend
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.blend import inspect_blend
from wdsctl.core.inspect.blend_tree import BlendNode, read_blend_tree

BLEND = """\
splits:
  train:
    blend:
      - {path: a, weight: 3, name: main}
      - weight: 1
        blend_epochized:
          - {path: b, repetitions: 1.5}
          - {path: inner.yaml, repetitions: 2}
  val:
    concat: [{path: a}, {path: b}]
"""
INNER = "splits: {train: {path: a, subset: {range: [0%, 50%]}}, val: {path: a}}\n"


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """A blend of `a` (20 training and 10 validation samples) and `b` (10 and 5)."""
    for name, shards in (("a", 6), ("b", 3)):
        root = some_shards(tmp_path / name, shards)
        index(root)
        split_by_ratios(root, {"train": 2, "val": 1})
    (tmp_path / "blend.yaml").write_text(BLEND)
    (tmp_path / "inner.yaml").write_text(INNER)
    return tmp_path / "blend.yaml"


def leaves(node: BlendNode | None) -> list[BlendNode]:
    if node is None or node.kind == "dataset":
        return [node] if node else []
    return [leaf for child in node.children for leaf in leaves(child)]


def test_inspect_blend_shares_samples_and_epochs_match_plan(blend: Path) -> None:
    report = inspect_blend(str(blend), samples=1200)
    train, val = report.splits
    found = [(Path(leaf.path).name, leaf.samples, leaf.share, leaf.epochs) for leaf in leaves(train.tree)]

    # A pass over the second entry is 15 samples of b and 20 of the first half of a.
    assert found == [
        ("a", 20, 0.75, 45.0),
        ("b", 10, pytest.approx(0.25 * 15 / 35), pytest.approx(300 * 15 / 35 / 10)),
        ("a", 10, pytest.approx(0.25 * 20 / 35), pytest.approx(300 * 20 / 35 / 10)),
    ]
    assert (train.samples, train.datasets, val.samples, val.datasets, report.problems) == (40, 3, 15, 2, ())
    assert [leaf.epochs for leaf in leaves(inspect_blend(str(blend), split="val").splits[0].tree)] == [1.0, 1.0]
    assert [leaf.epochs for leaf in leaves(val.tree)] == [1.0, 1.0]  # `samples` is the length of a training


def test_blend_tree_leaves_match_plan(blend: Path) -> None:
    for name in ("train", "val"):
        plan = read_blend(blend, split_part=name)
        assert [(leaf.path, leaf.split_part) for leaf in plan.leaves] == [
            (leaf.path, leaf.split) for leaf in leaves(read_blend_tree(str(blend), name))
        ]


def test_inspect_blend_reports_problems_by_line_and_shows_rest(blend: Path) -> None:
    blend.write_text(BLEND.replace("{path: b, ", "{path: c, ").replace("concat:", "conkat:"))
    report = inspect_blend(str(blend), samples=100)

    assert [(each.split, each.where, each.code) for each in report.problems] == [
        ("train", f"{blend}:7", "WDS002"),
        ("val", f"{blend}:10", "WDS600"),
    ]
    assert leaves(report.splits[0].tree)[0].epochs == pytest.approx(3.75)
    assert (report.splits[0].samples, report.splits[1].tree) == (None, None)
    with pytest.raises(DatasetError, match="conkat"):
        inspect_blend(str(blend), split="val")


def test_inspect_blend_reports_missing_split_and_catalog(blend: Path) -> None:
    blend.write_text("splits: {train: {blend: [{path: a, split_part: test}, {path: '.'}]}}")
    codes = [each.code for each in inspect_blend(str(blend)).problems]
    assert codes[0] == "WDS211"
    assert len(codes) == 2
    with pytest.raises(InputError, match="the blend file does not exist"):
        inspect_blend(str(blend.with_name("none.yaml")))


def test_inspect_blend_converts_token_weights_to_sample_shares(blend: Path) -> None:
    """The samples of `long` are twice as long as those of `b`: half as many of them have as many tokens."""
    long = a_dataset(blend.parent / "long", {"a.tar": samples(0, 6, size=16)})
    index(long, columns={"tokens": "size:jpg"})
    split_by_ratios(long, {"train": 1})
    index(str(blend.parent / "b"), columns={"tokens": "size:jpg"})
    blend.write_text("splits: {train: {weight_by: tokens, blend: [{path: long}, {path: b, subset: {range: [0, 5]}}]}}")
    report = inspect_blend(str(blend))
    assert [leaf.share for leaf in leaves(report.splits[0].tree)] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert report.splits[0].weight_by == "tokens"

    blend.write_text("splits: {train: {weight_by: tokens, blend: [{path: long}, {path: a}]}}")
    report_without_column = inspect_blend(str(blend))
    assert [each.code for each in report_without_column.problems] == ["WDS310"]


def test_join_samples_are_upper_bound_if_nonmatch_is_skip(blend: Path) -> None:
    blend.write_text("splits: {train: {join: {x: {path: a}, y: {path: b, nonmatch: skip}}}}")
    (split_,) = inspect_blend(str(blend)).splits
    assert split_.tree is not None
    (join,) = split_.tree.children
    assert [(each.name, each.samples, each.is_most, each.share) for each in join.children] == [
        ("x", 20, True, 1.0),
        ("y", 10, False, None),
    ]


def test_inspect_blend_uses_split_config_of_entry(blend: Path) -> None:
    (blend.parent / "a" / ".wdsctl" / "mine.yaml").write_text("split_parts: {train: ['shard-{000..002}.tar']}\n")
    blend.write_text("splits:\n  train:\n    blend:\n    - {path: a, split_config: mine.yaml}\n    - {path: a}\n")
    report = inspect_blend(str(blend))

    assert [leaf.samples for leaf in leaves(report.splits[0].tree)] == [15, 20]
    assert report.problems == ()
