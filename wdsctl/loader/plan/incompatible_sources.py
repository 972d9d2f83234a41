"""Samples that cannot be batched together: found before the first batch if possible, otherwise at it.

A batch that fails is left out, which is right for one bad sample. But if two sources of a blend are incompatible, every
batch with samples of both fails, and the training would hardly ever see samples of the smaller source. The same holds
for a source in which many samples have other fields than the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from wdsctl.core.errors import join_indented
from wdsctl.core.samples.fields import list_first_names
from wdsctl.core.text import pluralize
from wdsctl.loader.batching.columns import is_structure, structure_fields
from wdsctl.loader.order.growth import version_orders
from wdsctl.loader.order.shuffle import UNSHUFFLED
from wdsctl.loader.plan.components import Component, SourceRange
from wdsctl.loader.reading.source import MAX_EXAMINED_SAMPLES, SplitSource
from wdsctl.loader.runtime.failure_rates import STRUCTURAL_FAILURE_RATE
from wdsctl.loader.runtime.failures import FATAL_ERRORS, FatalSampleError
from wdsctl.loader.runtime.sample_fields import get_field
from wdsctl.loader.samples import BASE_FIELDS

COMPATIBILITY_HINT = (
    "return the same fields for both from a cooker or from encode_sample, or batch each source separately with "
    "batch_group_criterion"
)

UNLIKE_SAMPLES_HINT = (
    "return the same fields for all samples from a cooker or from encode_sample, or batch them separately with "
    "batch_group_criterion"
)

MAX_SETS_NAMED = 4  # sets of fields in a message

#: Samples of each source that must have failed with one of the other before the sources count as incompatible.
MIN_FAILED_SAMPLES = 4

MakeBatch = Callable[[list[Any]], Any]


class IncompatibleSourcesError(FatalSampleError):
    """Samples of two sources cannot be batched together."""

    code = "WDS526"


def are_incompatible(one: SplitSource, other: SplitSource) -> bool:
    """Whether no sample of one source can be batched with one of the other, as they are read. False: they may, or this
    is unknown before they are decoded."""
    return (
        one.sample_kinds is not None
        and other.sample_kinds is not None
        and one.sample_kinds.isdisjoint(other.sample_kinds)
    )


def assume_not_incompatible(one: int, other: int) -> bool:  # noqa: ARG001 - of hooks, which may make anything of samples
    """Replaces `are_incompatible` if hooks change samples before they are batched."""
    return False


class UnlikeSamplesError(FatalSampleError):
    """Samples of one source cannot be batched together."""

    code = "WDS536"


def check_like_samples(components: Sequence[Component], shares: Sequence[float], batch_size: int) -> None:
    """Raise UnlikeSamplesError if more than `STRUCTURAL_FAILURE_RATE` of the batches would have samples of one source
    with other fields. `shares`: of a batch, one for each component.

    Cost: none if all samples of a source have the same parts, else some 20 ns a sample, up to a million.
    """
    for component, share in zip(components, shares, strict=True):
        for piece in component.source_ranges:
            if len({fields for fields in piece.source.batch_fields if fields is not None}) > 1:
                is_shuffled = any(each.order.passes != UNSHUFFLED for each in version_orders(component.order))
                check_like_range(piece, batch_size * share if is_shuffled else batch_size, is_shuffled=is_shuffled)


def check_like_range(piece: SourceRange, batch_samples: float, *, is_shuffled: bool) -> None:
    """Raise UnlikeSamplesError if too many batches with `batch_samples` samples of this range would fail."""
    source, count = piece.source, min(piece.positions, MAX_EXAMINED_SAMPLES)
    step = piece.positions / count if is_shuffled else 1  # the first ones, if the order is that of the dataset
    positions = piece.first_position + (np.arange(count) * step).astype(np.int64)
    by_layout = source.layouts_at(positions)
    numbers: dict[frozenset[str], int] = {}  # of sets of fields
    group_of_layout = np.array(
        [-1 if fields is None else numbers.setdefault(fields, len(numbers)) for fields in source.batch_fields]
    )
    groups = group_of_layout[by_layout]
    is_known = groups >= 0  # other samples fail before they are in a batch
    groups, positions = groups[is_known], positions[is_known]
    sizes = np.bincount(groups, minlength=len(numbers))
    if np.count_nonzero(sizes) < 2:
        return
    if is_shuffled:
        failing = 1 - float(((sizes / len(groups)) ** max(1.0, batch_samples)).sum())
    else:
        starts = np.arange(0, len(groups), int(batch_samples))
        failing = float(np.mean(np.maximum.reduceat(groups, starts) != np.minimum.reduceat(groups, starts)))
    if failing > STRUCTURAL_FAILURE_RATE:
        first = {number: int(positions[np.argmax(groups == number)]) for number in np.flatnonzero(sizes).tolist()}
        raise _unlike_samples_error(source, list(numbers), sizes.tolist(), first, failing)


def _unlike_samples_error(
    source: SplitSource, sets: Sequence[frozenset[str]], sizes: Sequence[int], first: Mapping[int, int], failing: float
) -> UnlikeSamplesError:
    """`sets`: of fields, with the number of samples of each; `first`: the position of the first sample of each."""
    most = sorted(first, key=lambda number: -sizes[number])
    common = frozenset.intersection(*(sets[number] for number in most))
    lines = []
    for number in most[:MAX_SETS_NAMED]:
        own = list_first_names(sorted(sets[number] - common)) or "no more fields"
        lines.append(f"{pluralize(sizes[number], 'sample')}: {own}; such as {source.describe_position(first[number])}")
    lines += [f"and {len(most) - MAX_SETS_NAMED} more sets of fields"] if len(most) > MAX_SETS_NAMED else []
    shared = f"; all have {list_first_names(sorted(common))}" if common else ""
    head = f"{failing:.0%} of the batches would fail, because the samples have different fields{shared}"
    field_map, optional = source.propose_crude_fields()
    own_map = ""
    if field_map:
        own_map = f"`field_map: {json.dumps(field_map, ensure_ascii=False)}`"
        own_map += f" and `optional: {json.dumps(optional, ensure_ascii=False)}`" if optional else ""
        own_map = f"write {own_map} in dataset.yaml; or "
    return UnlikeSamplesError(
        join_indented(head, *lines), where=source.dataset_path, hint=f"{own_map}{UNLIKE_SAMPLES_HINT}"
    )


def check_compatible(sources: Sequence[SplitSource]) -> None:
    """Raise IncompatibleSourcesError if two of these sources are `are_incompatible`. Sources of one kind are compared
    once."""
    source_by_kinds = {source.sample_kinds: source for source in reversed(sources)}
    for one, other in combinations(reversed(source_by_kinds.values()), 2):
        if are_incompatible(one, other):
            raise incompatible_error(source_label(one), source_label(other), _kind_difference(one, other))


class SourceCheckingBatcher:
    """The default batch function, which finds out whether a failure is due to incompatible sources. One object per
    lane.

    `make_batch`: the default batch function. `are_sources_incompatible`: takes the numbers of two sources.

    A batch may fail because of one odd sample. So four samples of each source must have failed with any of the other,
    each group being batchable by itself, in one batch or in several between which no batch of both was made.
    """

    def __init__(self, make_batch: MakeBatch, are_sources_incompatible: Callable[[int, int], bool]) -> None:
        self._make_batch = make_batch
        self._are_incompatible = are_sources_incompatible
        self._failed_pairs: dict[tuple[int, int], tuple[set[Any], set[Any]]] = {}  # restore keys, by pair of sources

    def __call__(self, samples: list[Any]) -> Any:
        """Make the batch. Raises IncompatibleSourcesError, and whatever `make_batch` raises."""
        try:
            batch = self._make_batch(samples)
        except FATAL_ERRORS:
            raise
        except Exception as error:  # whatever the user's code raised: it may be because of two sources
            self._check_pairs(samples, error)
            raise
        if self._failed_pairs:
            there = set(_group_by_source(samples))
            self._failed_pairs = {pair: keys for pair, keys in self._failed_pairs.items() if not there.issuperset(pair)}
        return batch

    def _check_pairs(self, samples: Sequence[Any], error: Exception) -> None:
        groups = {number: group for number, group in _group_by_source(samples).items() if self._can_batch(group)}
        for one, other in combinations(groups, 2):
            if self._can_batch([*groups[one], *groups[other]]):
                continue
            pair = (one, other) if one < other else (other, one)
            keys = self._failed_pairs.setdefault(pair, (set(), set()))
            for number, found in zip(pair, keys, strict=True):
                found.update(get_field(sample, "__restore_key__") for sample in groups[number])
            if min(map(len, keys)) >= MIN_FAILED_SAMPLES or self._are_incompatible(*pair):
                first, second = (groups[number][0] for number in pair)
                raise incompatible_error(
                    _sample_source_label(first, pair[0]),
                    _sample_source_label(second, pair[1]),
                    _sample_difference(first, second, error),
                )
            return

    def _can_batch(self, samples: list[Any]) -> bool:
        try:
            self._make_batch(samples)
        except FATAL_ERRORS:
            raise
        except Exception:  # noqa: BLE001 - whatever a conversion of the user's raises: they do not go together
            return False
        return True


def _group_by_source(samples: Sequence[Any]) -> dict[int, list[Any]]:
    """The samples by the numbers of their sources, if their restore keys have them."""
    groups: dict[int, list[Any]] = {}
    for sample in samples:
        key = get_field(sample, "__restore_key__")
        if isinstance(key, tuple) and key and isinstance(key[0], int):
            groups.setdefault(key[0], []).append(sample)
    return groups


def incompatible_error(one: str, other: str, difference: str) -> IncompatibleSourcesError:
    """The error of two sources, each named by its `source_label`."""
    return IncompatibleSourcesError(
        f"samples of {one} and of {other} cannot be batched together: {difference}", hint=COMPATIBILITY_HINT
    )


def source_label(source: SplitSource) -> str:
    """The name of a source in messages."""
    return f"{source.dataset_path} (source {source.number})"


def _sample_source_label(sample: Any, number: int) -> str:
    sources = get_field(sample, "__sources__")
    return f"{sources[0].dataset_path} (source {number})" if sources else f"source {number}"


def _kind_difference(one: SplitSource, other: SplitSource) -> str:
    """The difference between two sources that are `are_incompatible`."""
    (type_one, fields), (type_other, others) = (
        min(each.sample_kinds or (), key=lambda kind: (kind[0], sorted(kind[1]))) for each in (one, other)
    )
    if type_one != type_other:
        return f"{type_one} and {type_other}"
    return _field_difference(fields, others)


def _sample_difference(one: Any, other: Any, error: Exception) -> str:
    """The difference between two samples; if none is visible, the message of the failed batch."""
    if type(one) is not type(other):
        return f"{type(one).__name__} and {type(other).__name__}"
    if is_structure(one):
        fields, other_fields = structure_fields(one), structure_fields(other)
        if fields.keys() != other_fields.keys():
            return _field_difference(frozenset(fields), frozenset(other_fields))
        for name in fields:
            kinds = [_describe_kind(values[name]) for values in (fields, other_fields)]
            if name not in BASE_FIELDS and kinds[0] != kinds[1]:
                return f"field '{name}' is {kinds[0]} in the first and {kinds[1]} in the second"
    return getattr(error, "message", "") or f"{type(error).__name__}: {error}"


def _field_difference(one: frozenset[str], other: frozenset[str]) -> str:
    """The difference between two sets of field names."""
    sides = (("first", one - other), ("second", other - one))
    return ", and ".join(
        f"only the {which} has {', '.join(repr(name) for name in sorted(names))}" for which, names in sides if names
    )


def _describe_kind(value: Any) -> str:
    """Type of a value; of tensors also what must agree: number of dimensions and dtype."""
    if hasattr(value, "ndim") and hasattr(value, "dtype"):
        return f"a {type(value).__name__} of {value.ndim} dimensions and {value.dtype}"
    return "None" if value is None else f"of type {type(value).__name__}"
