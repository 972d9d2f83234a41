"""Builders of blend files, and strategies for random trees of blends."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from wdsctl.core.blend import BlendPlan


def write_files(folder: Path, **texts: str) -> Path:
    """Write each text as NAME.yaml; return the path of `main.yaml`."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / "main.yaml"


def make_node(*entries: dict[str, Any], kind: str = "blend", **keys: Any) -> dict[str, Any]:
    return {kind: list(entries), **keys}


def weights(plan: BlendPlan) -> dict[str, Fraction]:
    """The weight of each component by the name of its first dataset."""
    return {
        component.repeated_leaves[0].leaf.path.rsplit("/", 1)[-1]: component.weight for component in plan.components
    }


def repetitions(plan: BlendPlan) -> dict[str, Fraction]:
    return {
        repeated_leaf.leaf.path.rsplit("/", 1)[-1]: repeated_leaf.repetitions
        for component in plan.components
        for repeated_leaf in component.repeated_leaves
    }


AMOUNTS = st.one_of(
    st.integers(1, 1000),
    st.fractions(Fraction(1, 100), 100, max_denominator=10**20).map(str),
    st.decimals("0.01", 99, places=3).map(float),
)
PATHS = st.integers(0, 9).map("/data/{}".format)


def nodes(kind: str, key: str) -> st.SearchStrategy[dict[str, Any]]:
    """Random nodes of nested groups of one kind, whose entries have amounts at `key`."""
    leaves = st.fixed_dictionaries({"path": PATHS})

    def groups(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        entries = st.builds(lambda node, amount: {**node, key: amount}, inner, AMOUNTS)
        return st.lists(entries, min_size=1, max_size=4).map(lambda each: {kind: each})

    return st.recursive(leaves, groups, max_leaves=12)
