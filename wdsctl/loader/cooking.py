"""Cookers: functions that make samples of crude ones, chosen by the subflavors of the dataset they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.samples.source_info import SourceInfo

F = TypeVar("F", bound=Callable[..., Any])

NEEDS = "__cooker_needs__"


@dataclass(frozen=True, slots=True)
class Cooker:
    """`cook(sample)` is for datasets whose subflavors have all these entries; None: for every dataset."""

    cook: Callable[..., Any]
    has_subflavors: Mapping[str, Any] | None = None

    def fits(self, subflavors: Mapping[str, Any] | None) -> bool:
        given = subflavors or {}
        wanted = self.has_subflavors or {}
        return all(name in given and given[name] == value for name, value in wanted.items())


def cooker(fn: F | None = None, *, need_cache: bool = False, need_primary: bool = False) -> Any:
    """Mark a function as a cooker, with or without brackets, and say what it wants besides its sample."""

    def mark(cook: F) -> F:
        setattr(cook, NEEDS, (need_cache, need_primary))
        return cook

    return mark if fn is None else mark(fn)


def basic_sample_keys(sample: Mapping[str, Any], additional_source_info: Sequence[SourceInfo] = ()) -> dict[str, Any]:
    """The base fields of a crude sample, to be handed to the constructor of the sample that is made of it."""
    fields = {name: sample.get(name) for name in BASE_FIELDS}
    if additional_source_info:
        fields["__sources__"] = (*(fields["__sources__"] or ()), *additional_source_info)
    return fields


def cooker_for(cookers: Sequence[Cooker], subflavors: Mapping[str, Any] | None, dataset: str) -> Cooker:
    """The first cooker that fits a dataset. Raises UsageError where none does, or where it wants what there is not."""
    for each in cookers:
        if each.fits(subflavors):
            need_cache, need_primary = getattr(each.cook, NEEDS, (False, False))
            if need_cache or need_primary:
                wanted = "cache" if need_cache else "primary"
                raise UsageError(
                    f"the cooker {each.cook.__qualname__} wants the {wanted} of auxiliary datasets, and there are none",
                    where=dataset,
                    hint="auxiliary datasets come with the polylithic formats; take need_cache and need_primary away",
                )
            return each
    known = "; ".join(str(dict(each.has_subflavors or {})) for each in cookers)
    raise UsageError(
        f"no cooker is for the subflavors {dict(subflavors or {})}",
        where=dataset,
        hint=f"the cookers are for {known or 'nothing: there are none'}; give a Cooker without has_subflavors",
    )
