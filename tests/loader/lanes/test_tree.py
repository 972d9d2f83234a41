"""build_huffman_tree: every weight is a leaf, light ones are deep."""

from __future__ import annotations

import heapq

from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.loader.lanes.mixture import build_huffman_tree

WEIGHTS = st.lists(st.integers(0, 1000), min_size=1, max_size=60).filter(any)


def cost_by_definition(weights: list[int]) -> int:
    """Sum of weight times depth, by merging the two lightest repeatedly."""
    heap = [weight for weight in weights if weight]
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        heapq.heappush(heap, merged := heapq.heappop(heap) + heapq.heappop(heap))
        cost += merged
    return cost


@settings(deadline=None)
@given(WEIGHTS)
def test_huffman_tree_has_minimal_weighted_depth(weights: list[int]) -> None:
    tree = build_huffman_tree(weights)

    depths = [len(tree.path(leaf)) if weight else 0 for leaf, weight in enumerate(weights)]

    assert sum(weight * depth for weight, depth in zip(weights, depths, strict=True)) == cost_by_definition(weights)


@settings(deadline=None)
@given(WEIGHTS)
def test_node_weights_are_sums_of_leaves_below(weights: list[int]) -> None:
    tree = build_huffman_tree(weights)

    below = [[0, 0] for _ in tree.total_weight]
    for leaf, weight in enumerate(weights):
        for node, is_left in tree.path(leaf) if weight else []:
            below[node][0 if is_left else 1] += weight

    assert [left for left, _ in below] == tree.left_weight.tolist()
    assert [left + right for left, right in below] == tree.total_weight.tolist()
    assert all(left >= right for left, right in below)


@settings(deadline=None)
@given(WEIGHTS)
def test_levels_list_every_node_once_from_root_down(weights: list[int]) -> None:
    tree = build_huffman_tree(weights)

    depth_of = {node: depth for depth, level in enumerate(tree.levels) for node in level.tolist()}

    assert sorted(node for level in tree.levels for node in level.tolist()) == list(range(tree.total_weight.size))
    assert all(depth_of[node] == depth_of[int(parent)] + 1 for node, parent in enumerate(tree.parents) if parent >= 0)


def test_zero_weights_have_no_leaf() -> None:
    tree = build_huffman_tree([0, 5, 0, 7])

    assert tree.leaf_parents.tolist() == [-1, 0, -1, 0]
    assert tree.path(1) == [(0, False)]
    assert tree.path(3) == [(0, True)]


def test_single_weight_needs_no_node() -> None:
    tree = build_huffman_tree([0, 9])

    assert tree.total_weight.size == 0
    assert tree.levels == ()
    assert tree.path(1) == []
