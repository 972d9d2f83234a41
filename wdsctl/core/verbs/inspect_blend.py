"""`inspect` of a blend file: what it is made of, how much of each there is, how often each comes, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from wdsctl.core.blend_file import BlendPlan, Leaf, read_blend, resolve
from wdsctl.core.blend_file.tree import Branch, splits_of, tree_of
from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.core.urls import plain, shown
from wdsctl.core.verbs.blend_source import Found, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendNode:
    """One node of the tree. `share`: of all samples that are drawn, the part that comes from below it.

    `samples`: of a dataset, those that its split and subsets leave; `is_most`: a join may leave out some of them.
    `epochs`: how often each of them comes in `drawn` samples. None where that is not known.
    """

    kind: str  # dataset, file, blend, blend_epochized, concat or join
    where: str  # file:line
    path: str = ""
    split: str = ""
    name: str = ""
    weight: float | None = None  # or repetitions, as written
    share: float | None = None
    subset: str = ""
    samples: int | None = None
    is_most: bool = False
    epochs: float | None = None
    children: tuple[BlendNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong, and where in the blend file."""

    split: str
    where: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    step: int  # the first step that these shares hold for
    shares: tuple[float, ...]  # of the entries, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendSplit:
    """One split of the file. `samples`: of all its datasets, in one pass over each."""

    name: str
    weight_by: Literal["samples", "tokens"]
    datasets: int
    samples: int | None  # None where one of them cannot be counted
    drawn: int | None
    schedule: tuple[ScheduleStep, ...]
    tree: BlendNode | None  # None where the split cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendReport:
    root: str
    splits: tuple[BlendSplit, ...]
    problems: tuple[Problem, ...]


def inspect_blend(
    path: str, *, split: str | None = None, samples: int | None = None, catalog: str | None = None
) -> BlendReport:
    """What each split of a blend file (or only `split`) is made of.

    `samples`: so many are drawn; without it, as many as there are in one pass over all datasets. Weights are those of
    training, in which they count; of a schedule, the first. Cost: some queries a dataset; with weights in tokens, a
    look at the column of each. What is wrong in one of several splits, or with a dataset, is a problem in the report.
    Raises InputError where there is no such file, and else as `read_blend` does.
    """
    path = plain(path)
    names = splits_of(path)
    if split is not None:
        names = [split]
    sources = Sources(catalog)
    found = [_split(path, name, samples, sources, is_alone=len(names) < 2) for name in names or ["train"]]
    return BlendReport(
        root=shown(path),
        splits=tuple(each for each, _ in found),
        problems=tuple(problem for _, problems in found for problem in problems),
    )


def _split(
    path: str, name: str, drawn: int | None, sources: Sources, *, is_alone: bool
) -> tuple[BlendSplit, list[Problem]]:
    try:
        plan = read_blend(path, split_part=name)
        tree = tree_of(path, name)
    except WdsctlError as error:
        if is_alone:
            raise
        split = BlendSplit(
            name=name, weight_by="samples", datasets=0, samples=None, drawn=drawn, schedule=(), tree=None
        )
        return split, [_problem(name, error.where, error)]
    return _Opened(name, plan, sources, drawn).report(tree)


class _Opened:
    """A plan with what its datasets have."""

    def __init__(self, name: str, plan: BlendPlan, sources: Sources, drawn: int | None) -> None:
        self.name = name
        self.plan = plan
        self.problems: list[Problem] = []
        self.found = [self._look(sources, leaf) for leaf in plan.leaves]
        self.members = {
            member.where: self._look(sources, member)
            for leaf in plan.leaves
            if leaf.join
            for member in leaf.join.members
        }
        counts = [None if each is None else each.samples for each in self.found]
        known = [number for number in counts if number is not None]
        self.samples = sum(known) if len(known) == len(counts) else None
        self.drawn = drawn if drawn is not None else self.samples
        self.shares = self._shares()

    def report(self, tree: Branch) -> tuple[BlendSplit, list[Problem]]:
        figures = iter(self._figures())
        split = BlendSplit(
            name=self.name,
            weight_by=self.plan.weight_unit,
            datasets=len(self.found),
            samples=self.samples,
            drawn=self.drawn,
            schedule=tuple(
                ScheduleStep(step=segment.step, shares=tuple(map(float, segment.weights)))
                for segment in self.plan.schedule
            ),
            tree=self._node(tree, figures),
        )
        return split, self.problems

    def _look(self, sources: Sources, leaf: Leaf) -> Found | None:
        try:
            found = sources.find(leaf.path, leaf.split_part, leaf.split_config or "")
            start, stop = resolve(leaf.subsets, found.samples)
            return found.part(start, stop)
        except WdsctlError as error:
            self.problems.append(_problem(self.name, leaf.where, error))
            return None

    def _shares(self) -> list[Fraction | None]:
        """Of the samples that are drawn, the share of each arm. By tokens they follow from the lengths of all."""
        weights: list[Fraction | None] = [arm.weight for arm in self.plan.arms]
        if self.plan.weight_unit == "samples":
            return weights
        means = [self._mean_length(i) for i in range(len(self.plan.arms))]
        if any(mean is None and arm.weight for mean, arm in zip(means, self.plan.arms, strict=True)):
            return [None] * len(weights)
        rates = [arm.weight / mean if mean else Fraction(0) for arm, mean in zip(self.plan.arms, means, strict=True)]
        total = sum(rates)
        return [rate / total for rate in rates] if total else [None] * len(rates)

    def _mean_length(self, arm: int) -> Fraction | None:
        """Of the samples of one pass over an arm, in tokens."""
        tokens = count = 0
        for found, stretch in self._of_arm(arm):
            if found is None:
                return None
            try:
                tokens += int(found.tokens() * stretch)
            except WdsctlError as error:
                self.problems.append(_problem(self.name, self.plan.arms[arm].where, error))
                return None
            count += int(found.samples * stretch)
        if tokens <= 0 < self.plan.arms[arm].weight:
            none = InputError("its samples have no tokens", hint="look at the function of `tokens`", code="WDS211")
            self.problems.append(_problem(self.name, self.plan.arms[arm].where, none))
        return Fraction(tokens, count) if tokens > 0 else None

    def _of_arm(self, arm: int) -> Iterator[tuple[Found | None, Fraction]]:
        begin = sum(len(each.stretches) for each in self.plan.arms[:arm])
        stretches = self.plan.arms[arm].stretches
        for found, stretch in zip(self.found[begin : begin + len(stretches)], stretches, strict=True):
            yield found, stretch.repetitions

    def _figures(self) -> Iterator[_Figures]:
        """Of each leaf, in order: its share of what is drawn, and how often each of its samples comes."""
        leaves = iter(self.plan.leaves)
        for i, share in enumerate(self.shares):
            found = list(self._of_arm(i))
            sizes = [None if each is None else int(each.samples * times) for each, times in found]
            known = [size for size in sizes if size is not None]
            whole = sum(known) if len(known) == len(sizes) else None
            for (each, _), size in zip(found, sizes, strict=True):
                figures = _Figures(next(leaves), each)
                if share is not None and len(found) == 1:
                    figures = replace(figures, share=float(share))
                if share is not None and whole and size is not None:
                    figures = self._with_epochs(figures, share * size / whole)
                yield figures

    def _with_epochs(self, figures: _Figures, share: Fraction) -> _Figures:
        found = figures.found
        epochs = None
        if found is not None and found.samples and self.drawn is not None:
            epochs = float(share * self.drawn / found.samples)
        return replace(figures, share=float(share), epochs=epochs)

    def _node(self, branch: Branch, figures: Iterator[_Figures]) -> BlendNode:
        if branch.kind == "dataset":
            return _leaf(branch, next(figures))
        if branch.kind == "join":
            return self._joined(branch, next(figures))
        children = tuple(self._node(child, figures) for child in branch.children)
        shares = [child.share for child in children if child.share is not None]
        return _made(branch, share=sum(shares) if len(shares) == len(children) else None, children=children)

    def _joined(self, branch: Branch, figures: _Figures) -> BlendNode:
        join = figures.leaf.join
        primary = _leaf(branch.children[0], figures, is_most=join is not None and "skip" in join.nonmatch)
        members = [(other, self.members.get(other.where)) for other in branch.children[1:]]
        others = [_made(other, samples=None if found is None else found.samples) for other, found in members]
        return _made(branch, share=primary.share, children=(primary, *others))


@dataclass(frozen=True, slots=True)
class _Figures:
    leaf: Leaf
    found: Found | None
    share: float | None = None
    epochs: float | None = None


def _leaf(branch: Branch, figures: _Figures, *, is_most: bool = False) -> BlendNode:
    return _made(
        branch,
        share=figures.share,
        subset=" of ".join(map(str, reversed(figures.leaf.subsets))),
        samples=None if figures.found is None else figures.found.samples,
        is_most=is_most,
        epochs=figures.epochs,
    )


def _made(
    branch: Branch,
    *,
    share: float | None = None,
    subset: str = "",
    samples: int | None = None,
    is_most: bool = False,
    epochs: float | None = None,
    children: tuple[BlendNode, ...] = (),
) -> BlendNode:
    return BlendNode(
        kind=branch.kind,
        where=branch.where,
        path=shown(branch.path),
        split=branch.split_part,
        name=branch.name,
        weight=None if branch.amount is None else float(branch.amount),
        share=share,
        subset=subset,
        samples=samples,
        is_most=is_most,
        epochs=epochs,
        children=children,
    )


def _problem(split: str, where: str, error: WdsctlError) -> Problem:
    beside = f" ({error.where})" if error.where and error.where != where else ""
    return Problem(split=split, where=where, code=error.code, message=f"{error.message}{beside}", hint=error.hint)
