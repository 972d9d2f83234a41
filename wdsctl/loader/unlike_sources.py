"""Sources whose samples never make one batch: found before the first batch where that can be known, else at it.

A batch that fails is left out, which is right for a sample that is odd. Where two sources of a blend do not go
together, it would be every batch that has samples of both: the smaller source would never arrive, and keep its share on
paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from wdsctl.loader.columns import fields_of, is_structure
from wdsctl.loader.failures import FATAL, FatalSampleError, value_of
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.source import Source

HINT = (
    "make them alike in a cooker or in encode_sample, override batch in the task encoder, or give each source batches "
    "of its own by batch_group_criterion"
)

#: Samples of either source that did not go with one of the other, before they are taken to stand for all.
ENOUGH = 4

Makes = Callable[[list[Any]], Any]


class UnlikeSourcesError(FatalSampleError):
    """Samples of two sources do not go into one batch."""

    code = "WDS526"


def never_together(one: Source, other: Source) -> bool:
    """Whether no sample of one goes into a batch with one of the other, as they are read. False: it may, or nobody can
    tell before they are decoded."""
    return one.kinds is not None and other.kinds is not None and one.kinds.isdisjoint(other.kinds)


def nobody_knows(one: int, other: int) -> bool:  # noqa: ARG001 - of hooks, which may make anything of samples
    """In the place of `never_together` where samples are not batched as they are read."""
    return False


def check_sources(sources: Sequence[Source]) -> None:
    """Raise UnlikeSourcesError where two of these are `never_together`. Sources of one kind are compared once."""
    alike = {source.kinds: source for source in reversed(sources)}
    for one, other in combinations(reversed(alike.values()), 2):
        if never_together(one, other):
            raise _refused(_name(one), _name(other), _by_kind(one, other))


class Mixed:
    """The default batch, of which it is found out whether it fails because of its sources. One object a lane.

    `make`: the default batch. `are_apart`: whether two sources, by number, are `never_together`.

    A batch may fail because of one odd sample of a source. So four samples of each source must have failed to go with
    any of the other, each group going together by itself, in one batch or in several between which none was made of
    both.
    """

    def __init__(self, make: Makes, are_apart: Callable[[int, int], bool]) -> None:
        self._make = make
        self._are_apart = are_apart
        self._apart: dict[tuple[int, int], tuple[set[Any], set[Any]]] = {}  # restore keys, by pair of sources

    def __call__(self, samples: list[Any]) -> Any:
        """The batch. Raises UnlikeSourcesError, and whatever `make` raises."""
        try:
            made = self._make(samples)
        except FATAL:
            raise
        except Exception as error:
            self._find_out(samples, error)
            raise
        if self._apart:
            there = set(_by_source(samples))
            self._apart = {pair: keys for pair, keys in self._apart.items() if not there.issuperset(pair)}
        return made

    def _find_out(self, samples: Sequence[Any], error: Exception) -> None:
        groups = {number: group for number, group in _by_source(samples).items() if self._goes(group)}
        for one, other in combinations(groups, 2):
            if self._goes([*groups[one], *groups[other]]):
                continue
            pair = (one, other) if one < other else (other, one)
            keys = self._apart.setdefault(pair, (set(), set()))
            for number, found in zip(pair, keys, strict=True):
                found.update(value_of(sample, "__restore_key__") for sample in groups[number])
            if min(map(len, keys)) >= ENOUGH or self._are_apart(*pair):
                first, second = (groups[number][0] for number in pair)
                raise _refused(_name_in(first, pair[0]), _name_in(second, pair[1]), _difference(first, second, error))
            return

    def _goes(self, samples: list[Any]) -> bool:
        try:
            self._make(samples)
        except FATAL:
            raise
        except Exception:  # noqa: BLE001 - whatever a conversion of the user's raises: they do not go together
            return False
        return True


def _by_source(samples: Sequence[Any]) -> dict[int, list[Any]]:
    """The samples by the numbers of their sources, as far as their restore keys tell."""
    groups: dict[int, list[Any]] = {}
    for sample in samples:
        key = value_of(sample, "__restore_key__")
        if isinstance(key, tuple) and key and isinstance(key[0], int):
            groups.setdefault(key[0], []).append(sample)
    return groups


def _refused(one: str, other: str, how: str) -> UnlikeSourcesError:
    return UnlikeSourcesError(f"samples of {one} and of {other} cannot be batched together: {how}", hint=HINT)


def _name(source: Source) -> str:
    return f"{source.dataset_path} (source {source.number})"


def _name_in(sample: Any, number: int) -> str:
    sources = value_of(sample, "__sources__")
    return f"{sources[0].dataset_path} (source {number})" if sources else f"source {number}"


def _by_kind(one: Source, other: Source) -> str:
    """What differs between sources that are `never_together`."""
    (type_one, fields), (type_other, others) = (min(each.kinds or (), key=_sortable) for each in (one, other))
    if type_one != type_other:
        return f"{type_one} and {type_other}"
    return _fields(fields, others)


def _sortable(kind: tuple[str, frozenset[str]]) -> tuple[str, list[str]]:
    return kind[0], sorted(kind[1])


def _difference(one: Any, other: Any, error: Exception) -> str:
    """What differs between two samples; where nothing that shows, what the batching said."""
    if type(one) is not type(other):
        return f"{type(one).__name__} and {type(other).__name__}"
    if is_structure(one):
        mine, theirs = fields_of(one), fields_of(other)
        if mine.keys() != theirs.keys():
            return _fields(frozenset(mine), frozenset(theirs))
        for name in mine:
            kinds = [_kind(values[name]) for values in (mine, theirs)]
            if name not in BASE_FIELDS and kinds[0] != kinds[1]:
                return f"field '{name}' is {kinds[0]} in the first and {kinds[1]} in the second"
    return getattr(error, "message", "") or f"{type(error).__name__}: {error}"


def _fields(one: frozenset[str], other: frozenset[str]) -> str:
    """Of sets that differ."""
    sides = (("first", one - other), ("second", other - one))
    return ", and ".join(
        f"only the {which} has {', '.join(repr(name) for name in sorted(names))}" for which, names in sides if names
    )


def _kind(value: Any) -> str:
    """Of tensors what must agree: numbers of dimensions and dtypes."""
    if hasattr(value, "ndim") and hasattr(value, "dtype"):
        return f"a {type(value).__name__} of {value.ndim} dimensions and {value.dtype}"
    return "None" if value is None else f"of type {type(value).__name__}"
