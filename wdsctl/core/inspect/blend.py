"""`inspect` of a blend file: its datasets with samples, shares and epochs, and its errors. `validate` reports the
same errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from wdsctl.core.blend import BlendPlan, Leaf, list_split_names, read_blend, resolve
from wdsctl.core.catalog.values import SplitMembers
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import follow_to_primary
from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.inspect.blend_tree import BlendNode, read_blend_tree
from wdsctl.core.inspect.get import select_members
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.urls import normalize_root, redact_secrets

TOKENS_COLUMN = "tokens"  # the column for weights in tokens


@dataclass(frozen=True, slots=True)
class SplitRange:
    """The samples [first, first + samples) of one split of a dataset."""

    location: DatasetLocation
    generation: int
    members: SplitMembers
    samples: int
    first: int = 0

    def count_tokens(self) -> int:
        """Sum the column `tokens` over the samples. Raises InputError WDS310, CatalogError WDS311 and WDS314."""
        from wdsctl.core.columns.column_file import read_column_values
        from wdsctl.core.inspect.histograms import select_by_bits
        from wdsctl.core.offsets.read import Offsets

        offsets = Offsets(self.location.offsets_path(self.generation))
        lengths = read_column_values(self.location, TOKENS_COLUMN, self.generation, shards=offsets.shards)
        total, before = 0, 0
        for i, shard in enumerate(offsets.shards):
            if shard.id not in self.members.shards:
                continue
            first = int(offsets.shard_row[i])
            selected = select_by_bits(lengths[first : first + shard.samples], self.members.shards[shard.id])
            low, high = max(self.first - before, 0), max(self.first + self.samples - before, 0)
            total += int(selected[low:high].sum())
            before += len(selected)
        return total


class SplitRangeCache:
    """Finds the samples of splits, and reads each catalog once per split."""

    def __init__(self, catalog: str | None) -> None:
        self._catalog = catalog
        self._ranges: dict[tuple[str, str, str], SplitRange] = {}

    def find(self, path: str, split: str, split_config: str = "") -> SplitRange:
        """Find the samples of a split. `split_config`: the split file, if the split is not in the catalog.

        Raises InputError, CatalogError or PermissionDenied for a missing dataset, catalog or split, and DatasetError
        WDS217 for an invalid split file.
        """
        name = (path, split, split_config)
        if name not in self._ranges:
            self._ranges[name] = self._open(*name)
        return self._ranges[name]

    def _open(self, path: str, split: str, split_config: str) -> SplitRange:
        with open_indexed(follow_to_primary(path, self._catalog), self._catalog, takes_view=True) as dataset:
            dataset.catalog.check_not_media_folder()
            location = dataset.location
            if split_config:
                members: SplitMembers | None = _read_split_file(dataset, split, split_config)
            else:
                members = select_members(dataset, split)
            generation = dataset.catalog.generation
            samples = 0 if members is None else members.count(dataset.browser.shard_sample_counts())
        if members is None or not samples:
            hint = "run `wdsctl inspect DATASET` to see the samples of each split"
            raise InputError(
                f"the split {split!r} has no samples", where=location.display_path, hint=hint, code="WDS211"
            )
        return SplitRange(location, generation, members, samples)


def _read_split_file(dataset: OpenDataset, split: str, name: str) -> SplitMembers:
    from wdsctl.core.energon.split_file import find_split_file, read_split_from_file
    from wdsctl.core.views.selections import intersect_selections, read_view_samples

    split_shards = read_split_from_file(dataset, find_split_file(dataset.location, name), split)
    selection = {split_shard.shard: split_shard for split_shard in split_shards}
    if dataset.view:
        selection = intersect_selections(selection, read_view_samples(dataset, dataset.view))
    return SplitMembers({shard: split_shard.bits for shard, split_shard in selection.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendProblem:
    """An error, and its line in the blend file."""

    split: str
    where: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    step: int  # the first step with these shares
    shares: tuple[float, ...]  # one per entry, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendSplit:
    """One split of the file. `samples`: the samples of one pass over all datasets; None if a count is unknown."""

    name: str
    weight_by: Literal["samples", "tokens"]
    datasets: int
    samples: int | None
    drawn: int | None
    schedule: tuple[ScheduleStep, ...]
    tree: BlendNode | None  # None if the split cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendReport:
    root: str
    splits: tuple[BlendSplit, ...]
    problems: tuple[BlendProblem, ...]


def inspect_blend(
    path: str, *, split: str | None = None, samples: int | None = None, catalog: str | None = None
) -> BlendReport:
    """Show the datasets of each split of a blend file, or only of `split`.

    `samples`: the number of samples to draw; by default those of one pass over all datasets. Weights are those of the
    first step of a training run. The report lists errors in datasets, and in one of several splits, as problems.
    Costs a few queries per dataset; if weights are in tokens, also reads the column `tokens`. Raises InputError if
    the file does not exist, and the errors of `read_blend`.
    """
    path = normalize_root(path)
    names = list_split_names(path)
    if split is not None:
        names = [split]
    sources = SplitRangeCache(catalog)
    found = [_inspect_split(path, name, samples, sources, is_alone=len(names) < 2) for name in names or ["train"]]
    return BlendReport(
        root=redact_secrets(path),
        splits=tuple(each for each, _ in found),
        problems=tuple(problem for _, problems in found for problem in problems),
    )


def _inspect_split(
    path: str, name: str, drawn: int | None, sources: SplitRangeCache, *, is_alone: bool
) -> tuple[BlendSplit, list[BlendProblem]]:
    try:
        plan = read_blend(path, split_part=name)
        tree = read_blend_tree(path, name)
    except WdsctlError as error:
        if is_alone:
            raise
        split = BlendSplit(
            name=name, weight_by="samples", datasets=0, samples=None, drawn=drawn, schedule=(), tree=None
        )
        return split, [_blend_problem(name, error.where, error)]
    return _SplitInspection(name, plan, sources, drawn).report(tree)


_VALIDATION_SPLITS = ("val", "test")


class _SplitInspection:
    """One split of a blend, with its plan and the samples of its datasets."""

    def __init__(self, name: str, plan: BlendPlan, sources: SplitRangeCache, drawn: int | None) -> None:
        self.name = name
        self.plan = plan
        self.problems: list[BlendProblem] = []
        self.ranges = [self._find_range(sources, leaf) for leaf in plan.leaves]
        ranges = iter(self.ranges)
        #: Of each component: (samples, repetitions) of each of its datasets.
        self.component_ranges = [
            [(next(ranges), leaf.repetitions) for leaf in component.repeated_leaves] for component in plan.components
        ]
        self.join_members = {
            member.where: self._find_range(sources, member)
            for leaf in plan.leaves
            if leaf.join
            for member in leaf.join.members
        }
        counts = [None if each is None else each.samples for each in self.ranges]
        known = [number for number in counts if number is not None]
        self.samples = sum(known) if len(known) == len(counts) else None
        is_read_once = name in _VALIDATION_SPLITS  # `--samples` is the length of a training
        self.drawn = self.samples if drawn is None or is_read_once else drawn
        self.shares = self._component_shares()

    def report(self, tree: BlendNode) -> tuple[BlendSplit, list[BlendProblem]]:
        figures = iter(self._leaf_stats())
        split = BlendSplit(
            name=self.name,
            weight_by=self.plan.weight_unit,
            datasets=len(self.ranges),
            samples=self.samples,
            drawn=self.drawn,
            schedule=tuple(
                ScheduleStep(step=segment.step, shares=tuple(map(float, segment.weights)))
                for segment in self.plan.schedule
            ),
            tree=self._with_figures(tree, figures),
        )
        return split, self.problems

    def _find_range(self, sources: SplitRangeCache, leaf: Leaf) -> SplitRange | None:
        try:
            found = sources.find(leaf.path, leaf.split_part, leaf.split_config or "")
            start, stop = resolve(leaf.subsets, found.samples)
            return replace(found, first=found.first + start, samples=stop - start)
        except WdsctlError as error:
            self.problems.append(_blend_problem(self.name, leaf.where, error))
            return None

    def _component_shares(self) -> list[Fraction | None]:
        """Return each component's share of the drawn samples; None if unknown.

        Divides weights in tokens by the mean length of the component's samples.
        """
        components = self.plan.components
        weights: list[Fraction | None] = [component.weight for component in components]
        if self.plan.weight_unit == "samples":
            return weights
        means = [self._mean_tokens(i) for i in range(len(components))]
        if any(mean is None and component.weight for mean, component in zip(means, components, strict=True)):
            return [None] * len(weights)
        rates = [
            component.weight / mean if mean else Fraction(0) for component, mean in zip(components, means, strict=True)
        ]
        total = sum(rates)
        return [rate / total for rate in rates] if total else [None] * len(rates)

    def _mean_tokens(self, component: int) -> Fraction | None:
        """Return the mean number of tokens per sample in one pass over a component; None if unknown."""
        tokens = count = 0
        where = self.plan.components[component].where
        for split_range, repetitions in self.component_ranges[component]:
            if split_range is None:
                return None
            try:
                tokens += int(split_range.count_tokens() * repetitions)
            except WdsctlError as error:
                self.problems.append(_blend_problem(self.name, where, error))
                return None
            count += int(split_range.samples * repetitions)
        if tokens <= 0 < self.plan.components[component].weight:
            no_tokens = InputError(
                "the samples of the dataset have no tokens",
                hint="check the function that computes the column `tokens`",
                code="WDS211",
            )
            self.problems.append(_blend_problem(self.name, where, no_tokens))
        return Fraction(tokens, count) if tokens > 0 else None

    def _leaf_stats(self) -> Iterator[_LeafStats]:
        """Yield share and epochs of each leaf, in order."""
        leaves = iter(self.plan.leaves)
        for component_share, ranges in zip(self.shares, self.component_ranges, strict=True):
            sizes = [None if each is None else int(each.samples * repetitions) for each, repetitions in ranges]
            known = [size for size in sizes if size is not None]
            total = sum(known) if len(known) == len(sizes) else None
            for (split_range, _), size in zip(ranges, sizes, strict=True):
                share = component_share if len(ranges) == 1 else None
                epochs = None
                if component_share is not None and total and size is not None:
                    share = component_share * size / total
                    if split_range is not None and split_range.samples and self.drawn is not None:
                        epochs = float(share * self.drawn / split_range.samples)
                yield _LeafStats(next(leaves), split_range, None if share is None else float(share), epochs)

    def _with_figures(self, node: BlendNode, stats: Iterator[_LeafStats]) -> BlendNode:
        if node.kind == "dataset":
            return _leaf_with_figures(node, next(stats))
        if node.kind == "join":
            return self._join_with_figures(node, next(stats))
        children = tuple(self._with_figures(child, stats) for child in node.children)
        shares = [child.share for child in children if child.share is not None]
        return replace(node, share=sum(shares) if len(shares) == len(children) else None, children=children)

    def _join_with_figures(self, node: BlendNode, stats: _LeafStats) -> BlendNode:
        join = stats.leaf.join
        primary, *others = (replace(child, children=()) for child in node.children)  # a member is one dataset
        primary = replace(_leaf_with_figures(primary, stats), is_most=join is not None and "skip" in join.nonmatch)
        ranges = [self.join_members.get(other.where) for other in others]
        members = [
            replace(other, samples=None if found is None else found.samples)
            for other, found in zip(others, ranges, strict=True)
        ]
        return replace(node, share=primary.share, children=(primary, *members))


@dataclass(frozen=True, slots=True)
class _LeafStats:
    leaf: Leaf
    split_range: SplitRange | None
    share: float | None = None
    epochs: float | None = None


def _leaf_with_figures(node: BlendNode, stats: _LeafStats) -> BlendNode:
    return replace(
        node,
        share=stats.share,
        subset=" of ".join(map(str, reversed(stats.leaf.subsets))),
        samples=None if stats.split_range is None else stats.split_range.samples,
        epochs=stats.epochs,
    )


def _blend_problem(split: str, where: str, error: WdsctlError) -> BlendProblem:
    other_location = f" ({error.where})" if error.where and error.where != where else ""
    return BlendProblem(
        split=split, where=where, code=error.code, message=f"{error.message}{other_location}", hint=error.hint
    )
