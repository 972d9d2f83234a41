"""Cookers: functions that make samples of crude ones, chosen by the subflavors of the dataset they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, overload

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.samples.source_info import SourceInfo

F = TypeVar("F", bound=Callable[..., Any])

NEEDS = "__cooker_needs__"


class Needs(NamedTuple):
    """What a cooker wants besides its sample and the stores of its dataset."""

    cache: bool = False
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Cooker:
    """`cook(sample)` is for datasets whose subflavors have all these entries; None: for every dataset."""

    cook: Callable[..., Any]
    has_subflavors: Mapping[str, Any] | None = None

    def fits(self, subflavors: Mapping[str, Any] | None) -> bool:
        given = subflavors or {}
        wanted = self.has_subflavors or {}
        return all(name in given and given[name] == value for name, value in wanted.items())


@overload
def cooker(fn: F) -> F: ...


@overload
def cooker(fn: None = None, *, need_cache: bool = False, need_primary: bool = False) -> Callable[[F], F]: ...


def cooker(fn: F | None = None, *, need_cache: bool = False, need_primary: bool = False) -> Any:
    """Mark a function as a cooker, with or without brackets, and say what it wants besides its sample.

    It is called as `cook(sample, **stores)`, each auxiliary store by its name in the blend file; with `primary=`, the
    dataset of the sample as a store, if `need_primary`; with `cache=`, the cache pool, if `need_cache`.
    """

    def mark(cook: F) -> F:
        setattr(cook, NEEDS, Needs(need_cache, need_primary))
        return cook

    return mark if fn is None else mark(fn)


def basic_sample_keys(sample: Mapping[str, Any], additional_source_info: Sequence[SourceInfo] = ()) -> dict[str, Any]:
    """The base fields of a crude sample, to be handed to the constructor of the sample that is made of it."""
    fields = {name: sample.get(name) for name in BASE_FIELDS}
    if additional_source_info:
        fields["__sources__"] = (*(fields["__sources__"] or ()), *additional_source_info)
    return fields


def needs_of(cook: Callable[..., Any]) -> Needs:
    needs: Needs = getattr(cook, NEEDS, Needs())
    return needs


def cooker_for(cookers: Sequence[Cooker], subflavors: Mapping[str, Any] | None, dataset: str) -> Cooker:
    """The first cooker that fits a dataset. Raises UsageError where none does."""
    for each in cookers:
        if each.fits(subflavors):
            return each
    known = "; ".join(str(dict(each.has_subflavors or {})) for each in cookers)
    raise UsageError(
        f"no cooker is for the subflavors {dict(subflavors or {})}",
        where=dataset,
        hint=f"the cookers are for {known or 'nothing: there are none'}; give a Cooker without has_subflavors",
    )
