"""Computes which component each draw of a lane comes from, in closed form and in the exact proportion of the weights.

The components are the leaves of a Huffman tree (light weights far from the root). Each node divides its draws between
two children: of its first x draws, floor((x * a + theta) / w) go left, where a is the weight of the left child, w the
total weight, and theta a keyed number in [0, w) (Bresenham's line). Over w draws these are exactly a draws. The number
of draws of a component takes one such division per level.

A bound on the deviation: at one node, the count differs from its share by less than 1. Further down the tree, the
deviation of a node above counts by the share of its draws that reach the component, so the total is at most 1 + p1 +
p1 p2 + ..., where p1 is the component's share of its node, p2 that node's share of its parent, and so on. In a Huffman
tree a sibling is no lighter than a node's children, so p2 <= 1 / (1 + max(p1, 1 - p1)), and the sum is below 3.37 for
any weights. `Mixture.max_deviation` is this sum for given weights. Observed deviations are smaller: see decision 9.

Lanes are not synchronized. Thetas are uniform and independent, and so is (x * a + theta) mod w for any x. So for a
fixed draw, over seeds, components are distributed by the weights at every node, and lanes with different seeds draw
independently.

A lane counts its draws from 0. After a split, child 0 continues the count of its parent and the other children count
from 0 again. Each such restart begins a new level of the lane. If weights change, the history of a level says which
segment of the schedule began at which draw. Without a schedule, the history is one segment from draw 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import UsageError
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.loader.lanes.rank_lanes import Lane

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class HuffmanTree:
    """A Huffman tree over weights, as int64 arrays with an entry per node.

    Nodes are numbered in the order of their creation, children before parents, so the root is the last. A child is the
    number of a node, or ~leaf. The heavier of two children is the left one.

    `children`: (nodes, 2), left and right. `left_weight`, `total_weight`: of the left child, and of both. `parents`: -1
    for the root. `leaf_parents`: an entry per leaf, -1 for weight 0. `levels`: the nodes by depth, the root first.
    """

    children: NDArray[np.int64]
    left_weight: NDArray[np.int64]
    total_weight: NDArray[np.int64]
    parents: NDArray[np.int64]
    leaf_parents: NDArray[np.int64]
    levels: tuple[NDArray[np.int64], ...]

    def path(self, leaf: int) -> list[tuple[int, bool]]:
        """(node, whether the path goes left) from the root to a leaf with a weight above 0."""
        steps: list[tuple[int, bool]] = []
        child, node = ~leaf, int(self.leaf_parents[leaf])
        while node >= 0:
            steps.append((node, int(self.children[node, 0]) == child))
            child, node = node, int(self.parents[node])
        return steps[::-1]


def build_huffman_tree(weights: Sequence[int]) -> HuffmanTree:
    """The tree of these weights, without weights of 0. Of equal weights, the one with the higher index counts as
    lighter. About 1.5 µs per weight."""
    leaves = deque(sorted((weight, ~leaf) for leaf, weight in enumerate(weights) if weight))
    # Ordered by number, and also by weight, because each sum is at least the previous one.
    nodes: deque[tuple[int, int]] = deque()
    children: list[tuple[int, int]] = []
    left: list[int] = []
    total: list[int] = []
    while len(leaves) + len(nodes) > 1:
        light, heavy = _pop_lightest(leaves, nodes), _pop_lightest(leaves, nodes)
        nodes.append((light[0] + heavy[0], len(children)))
        children.append((heavy[1], light[1]))
        left.append(heavy[0])
        total.append(light[0] + heavy[0])
    return _make_tree(len(weights), np.array(children, dtype=np.int64).reshape(-1, 2), np.array(left), np.array(total))


def _pop_lightest(leaves: deque[tuple[int, int]], nodes: deque[tuple[int, int]]) -> tuple[int, int]:
    return (leaves if not nodes or (leaves and leaves[0][0] <= nodes[0][0]) else nodes).popleft()


def _make_tree(
    leaves: int, children: NDArray[np.int64], left: NDArray[np.int64], total: NDArray[np.int64]
) -> HuffmanTree:
    parents = np.full(total.size, -1)
    leaf_parents = np.full(leaves, -1)
    for side in (0, 1):
        inner = np.flatnonzero(children[:, side] >= 0)
        outer = np.flatnonzero(children[:, side] < 0)
        parents[children[inner, side]] = inner
        leaf_parents[~children[outer, side]] = outer
    return HuffmanTree(children, left, total, parents, leaf_parents, _node_levels(children))


def _node_levels(children: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    levels = []
    level = np.arange(len(children))[-1:]
    while level.size:
        levels.append(level)
        below = children[level].ravel()
        level = below[below >= 0]
    return tuple(levels)


MAX_TOTAL_WEIGHT = 1 << 30


def integer_weights(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Integers in these proportions, with a sum below 2^30: exact if such integers exist, otherwise rounded.

    Weights of 0 stay 0, and positive weights are at least 1. Raises UsageError for negative weights, if no weight is
    positive, and for 2^29 or more weights.
    """
    _check_weights(weights)
    exact = _exact_weights(weights)
    if exact and sum(exact) < MAX_TOTAL_WEIGHT:
        return exact
    largest = max(weights)
    # 30 more bits than the result can have, as numerators and denominators may be thousands of digits long.
    scaled = [(weight.numerator * largest.denominator << 60) // (weight.denominator * largest.numerator)
              for weight in weights]  # fmt: skip
    total = sum(scaled)
    # Rounding adds at most 0.5 to each weight, and raising it to 1 adds less than 1.
    room = MAX_TOTAL_WEIGHT - 1 - len(weights)
    return tuple(
        max(1, (2 * value * room + total) // (2 * total)) if weight else 0
        for weight, value in zip(weights, scaled, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Mixture:
    """Components with integer weights, such as those of `integer_weights`. A component of weight 0 is never drawn.

    10,000 components take about 11 ms to build. A lane's draws are counted from 0, up to 2^62. Raises UsageError for
    negative weights, a sum of 2^30 or more, and if no weight is positive.
    """

    weights: tuple[int, ...]
    tree: HuffmanTree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_weights(self.weights)
        if sum(self.weights) >= MAX_TOTAL_WEIGHT:
            raise UsageError(
                "the weights of a blend add up to 2^30 or more", hint="scale the weights with integer_weights"
            )
        object.__setattr__(self, "tree", build_huffman_tree(self.weights))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The exact share of all draws that each component gets in the long run."""
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    @property
    def max_deviation(self) -> float:
        """An upper bound for the difference between the count of any component and its share of the draws, for all
        phases. 0 for a single component, below 3.37 for any weights.
        """
        tree, worst = self.tree, 0.0
        bounds = np.zeros(tree.total_weight.size)
        for level in tree.levels:
            for side in (0, 1):
                weights = tree.left_weight[level] if side == 0 else tree.total_weight[level] - tree.left_weight[level]
                bound = 1 + bounds[level] * weights / tree.total_weight[level]
                worst = max(worst, float(bound.max()))
                below = tree.children[level, side]
                bounds[below[below >= 0]] = bound[below >= 0]
        return worst

    def phases(self, seed: int) -> NDArray[np.int64]:
        """The thetas of a lane with this seed, one per node: the argument `phase` of the other methods."""
        thetas = hash_values(seed, np.arange(self.tree.total_weight.size)) % self.tree.total_weight.astype(np.uint64)
        return thetas.view(np.int64)

    def draws(self, phase: NDArray[np.int64], start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The components of draws [start, stop), and the number of each draw within its component: two int64 arrays.

        About 0.5 µs per draw at 1,000 components, and 15 µs per level of the tree.
        """
        tree = self.tree
        nth = np.arange(start, stop)
        nodes = np.full(nth.size, tree.total_weight.size - 1 if tree.total_weight.size else ~self._only_component())
        active = np.arange(nth.size if tree.total_weight.size else 0)
        while active.size:
            node, number = nodes[active], nth[active]
            is_left, gone_left = _left_draws(tree.left_weight[node], tree.total_weight[node], phase[node], number)
            child = tree.children[node, np.where(is_left, 0, 1)]
            nodes[active] = child
            nth[active] = np.where(is_left, gone_left, number - gone_left)
            active = active[child >= 0]
        return ~nodes, nth

    def component_at(self, phase: NDArray[np.int64], draw: int) -> tuple[int, int]:
        """The component of one draw, and the number of the draw within the component. About 1 µs per level."""
        tree, node = self.tree, len(self.tree.total_weight) - 1
        if node < 0:
            return self._only_component(), draw
        while node >= 0:
            left, total = int(tree.left_weight[node]), int(tree.total_weight[node])
            gone_left, rest = divmod(draw * left + int(phase[node]), total)
            is_left = rest + left >= total
            draw = gone_left if is_left else draw - gone_left
            node = int(tree.children[node, 0 if is_left else 1])
        return ~node, draw

    def count_component(self, phase: NDArray[np.int64], component: int, draws: int) -> int:
        """How many of the lane's first `draws` draws come from this component. About 1 µs per level."""
        if not self.weights[component]:
            return 0
        tree = self.tree
        for node, is_left in tree.path(component):
            gone_left = (draws * int(tree.left_weight[node]) + int(phase[node])) // int(tree.total_weight[node])
            draws = gone_left if is_left else draws - gone_left
        return draws

    def count_components(self, phase: NDArray[np.int64], draws: int) -> NDArray[np.int64]:
        """How many of the lane's first `draws` draws come from each component. About 0.3 ms for 10,000 components."""
        tree = self.tree
        component_counts = np.zeros(len(self.weights), dtype=np.int64)
        node_counts = np.full(tree.total_weight.size, draws)
        if not tree.total_weight.size:
            component_counts[self._only_component()] = draws
        for level in tree.levels:
            _, gone_left = _left_draws(
                tree.left_weight[level], tree.total_weight[level], phase[level], node_counts[level]
            )
            gone = np.stack((gone_left, node_counts[level] - gone_left), axis=1).ravel()
            below = tree.children[level].ravel()
            inner = below >= 0
            node_counts[below[inner]] = gone[inner]
            component_counts[~below[~inner]] = gone[~inner]
        return component_counts

    def _only_component(self) -> int:
        return next(component for component, weight in enumerate(self.weights) if weight)


def _left_draws(
    left: NDArray[np.int64], total: NDArray[np.int64], theta: NDArray[np.int64], number: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether draw `number` of a node goes left, and how many earlier draws did. With weights below 2^30, all products
    of remainders are below 2^60, and theta adds less than 2^30."""
    rounds = number // total
    level = (number - rounds * total) * left + theta
    gone = level // total
    is_left = level - gone * total + left >= total
    return is_left, gone + rounds * left


def _exact_weights(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """The smallest integers in these proportions; none if the first positive one would be too large."""
    unit = next(weight for weight in weights if weight)
    ratios = [weight / unit for weight in weights]
    scale = 1
    for ratio in ratios:
        scale = lcm(scale, ratio.denominator)
        if scale >= MAX_TOTAL_WEIGHT:
            return ()
    return tuple(int(ratio * scale) for ratio in ratios)


def _check_weights(weights: Sequence[Fraction] | Sequence[int]) -> None:
    if any(weight < 0 for weight in weights):
        raise UsageError(
            "the blend has a negative weight", hint="use weights of 0 or more; a dataset with weight 0 is never read"
        )
    if not any(weights):
        raise UsageError(
            "a blend needs at least one weight above 0", hint="set the weight of at least one dataset above 0"
        )
    if len(weights) >= MAX_TOTAL_WEIGHT // 2:
        raise UsageError(
            "a blend must have fewer than 2^29 components",
            hint="combine datasets by `concat`, which makes them one component",
        )


SegmentHistory = Sequence[Sequence[int]]  # (segment, the draw at which it began), ascending

CONSTANT_HISTORIES: tuple[tuple[tuple[int, int], ...], ...] = (((0, 0),),)


@dataclass(frozen=True, slots=True)
class MixtureSpan:
    """Draws [begin, end) of a level, under one mixture. `counts_before`: samples of each component before `begin`."""

    mixture: Mixture
    phase: Int64Array
    begin: int
    end: int | None
    counts_before: Int64Array

    def count_components(self, draws: int) -> Int64Array:
        """Samples of each component among the level's first `draws`, which end in this span."""
        return self.counts_before + self.mixture.count_components(self.phase, draws - self.begin)


class LaneMixture:
    """The draws of one lane. `histories`: one per level of the lane, the current level last."""

    def __init__(
        self, mixtures: Sequence[Mixture], seed: int, lane: Lane, histories: Sequence[SegmentHistory] = ()
    ) -> None:
        # The identity of the lane in each of its levels.
        ends = [i for i, split in enumerate(lane.splits) if split.child > 0]
        names = [Lane(lane.root, lane.splits[:end]).identity() for end in ends] + [lane.identity()]
        # A lane without histories has segment 0 from draw 0 on in all its levels.
        level_histories = list(histories) or [CONSTANT_HISTORIES[0]] * len(names)
        self._levels = [
            _build_spans(mixtures, seed, name, history) for name, history in zip(names, level_histories, strict=True)
        ]
        self._lane_splits = lane.splits

    def draws(self, start: int, stop: int) -> tuple[Int64Array, Int64Array]:
        """The components of draws [start, stop), and the number of each draw among this lane's samples of the
        component."""
        pieces = []
        for span in self._levels[-1]:
            low, high = max(start, span.begin), stop if span.end is None else min(stop, span.end)
            if low < high:
                which, nth = span.mixture.draws(span.phase, low - span.begin, high - span.begin)
                pieces.append((which, nth + span.counts_before[which]))
        which, nth = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return which, nth

    def component_at(self, draw: int) -> tuple[int, int]:
        """The component of one draw, and the number of the draw among this lane's samples of the component."""
        which, nth = self.draws(draw, draw + 1)
        return int(which[0]), int(nth[0])

    def count_component(self, component: int, draws: int) -> int:
        """How many of the lane's first `draws` draws come from this component."""
        return _count_component(self._levels[-1], component, draws)

    def taken_at_splits(self, component: int) -> tuple[int, ...]:
        """Samples of a component that the lane, or its ancestor at the time, had taken at each of the lane's splits."""
        level, taken = 0, []
        for split in self._lane_splits:
            taken.append(_count_component(self._levels[level], component, split.draws))
            level += split.child > 0
        return tuple(taken)


def _count_component(spans: Sequence[MixtureSpan], component: int, draws: int) -> int:
    span = next(span for span in reversed(spans) if span.begin <= draws)
    return int(span.counts_before[component]) + span.mixture.count_component(span.phase, component, draws - span.begin)


def _build_spans(
    mixtures: Sequence[Mixture], seed: int, name: tuple[int, ...], history: SegmentHistory
) -> tuple[MixtureSpan, ...]:
    spans: list[MixtureSpan] = []
    before = np.zeros(len(mixtures[0].weights), np.int64)
    for (segment, begin), following in pairwise([*history, None]):  # type: ignore[misc]
        end = None if following is None else following[1]
        blend = mixtures[segment]
        spans.append(MixtureSpan(blend, blend.phases(derive_seed("blend", seed, segment, *name)), begin, end, before))
        if end is not None:
            before = spans[-1].count_components(end)
    return tuple(spans)
