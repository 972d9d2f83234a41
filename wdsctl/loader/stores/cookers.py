"""Cookers: user functions that build samples from crude samples, chosen by the subflavors of the dataset.

A cooker is called with the stores of its dataset by name, and with the primary and the cache if it asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import isgenerator, signature
from types import GenericAlias
from typing import Any, NamedTuple, TypeVar, overload

from wdsctl.core.errors import UsageError
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.runtime.sample_fields import get_field, set_field
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.samples.build import SourceInfo
from wdsctl.loader.stores.cache import CachePool
from wdsctl.loader.stores.open import PreparedStore, PrimaryStore
from wdsctl.loader.stores.store import FileStore

F = TypeVar("F", bound=Callable[..., Any])

NEEDS_ATTRIBUTE = "__cooker_needs__"


class CookerNeeds(NamedTuple):
    """The arguments that a cooker needs besides its sample and the stores of its dataset."""

    cache: bool = False
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Cooker:
    """`cook(sample, **stores)` for datasets whose subflavors include `has_subflavors`; None: for every dataset."""

    cook: Callable[..., Any]
    has_subflavors: Mapping[str, Any] | None = None

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        """`Cooker[CrudeSample]`, for annotations."""
        return GenericAlias(cls, item)

    def fits(self, subflavors: Mapping[str, Any] | None) -> bool:
        labels = subflavors or {}
        required = self.has_subflavors or {}
        return all(name in labels and labels[name] == value for name, value in required.items())


@overload
def cooker(fn: F) -> F: ...


@overload
def cooker(fn: None = None, *, need_cache: bool = False, need_primary: bool = False) -> Callable[[F], F]: ...


def cooker(fn: F | None = None, *, need_cache: bool = False, need_primary: bool = False) -> Any:
    """Mark a function as a cooker: `@cooker` or `@cooker(need_cache=True)`.

    It is called as `cook(sample, **stores)`, with each auxiliary store by its name in the blend file. `need_primary`
    adds `primary=`, the dataset of the sample as a store; `need_cache` adds `cache=`, the cache pool.
    """

    def mark(cook: F) -> F:
        setattr(cook, NEEDS_ATTRIBUTE, CookerNeeds(need_cache, need_primary))
        return cook

    return mark if fn is None else mark(fn)


def basic_sample_keys(sample: Mapping[str, Any], additional_source_info: Sequence[SourceInfo] = ()) -> dict[str, Any]:
    """The base fields of a crude sample, for the constructor of a sample: `Mine(**basic_sample_keys(sample))`.

    `additional_source_info` is appended to its `__sources__`.
    """
    fields = {name: sample.get(name) for name in BASE_FIELDS}
    if additional_source_info:
        fields["__sources__"] = (*(fields["__sources__"] or ()), *additional_source_info)
    return fields


def cooker_needs(cook: Callable[..., Any]) -> CookerNeeds:
    needs: CookerNeeds = getattr(cook, NEEDS_ATTRIBUTE, CookerNeeds())
    return needs


def find_cooker(cookers: Sequence[Cooker], subflavors: Mapping[str, Any] | None, dataset: str) -> Cooker:
    """The first cooker that matches a dataset's subflavors. Raises UsageError if none does."""
    for each in cookers:
        if each.fits(subflavors):
            return each
    known = "; ".join(str(dict(each.has_subflavors or {})) for each in cookers)
    raise UsageError(
        f"no cooker matches subflavors {dict(subflavors or {})}",
        where=dataset,
        hint=f"add a Cooker without has_subflavors; there are cookers for {known or 'no dataset'}",
    )


CookHook = Callable[..., Any]  # `TaskEncoder.cook_crude_sample`


@dataclass(frozen=True, slots=True)
class SourceCooker:
    """Cooks the samples of one source. Entries that the cooker reads from stores are added to `__sources__`."""

    cook_hook: CookHook
    cooker: Cooker
    stores: Mapping[str, FileStore]
    primary: PreparedStore | None
    cache: CachePool | None

    def __call__(self, sample: Any) -> Any:
        aux: dict[str, Any] = dict(self.stores)
        if self.primary is not None:
            aux["primary"] = PrimaryStore(self.primary, sample["__restore_key__"][2])
        if self.cache is not None:
            aux["cache"] = self.cache
        sources_before = len(sample["__sources__"])
        cooked = self.cook_hook(sample, cooker=self.cooker, aux=aux)
        if isgenerator(cooked):
            return (_add_new_sources(each, sample, sources_before) for each in cooked)
        return _add_new_sources(cooked, sample, sources_before)


def bind_cooker(
    cook_hook: CookHook, cooker: Cooker, source: SplitSource, pool: CachePool, *, is_user_hook: bool
) -> Callable[..., Any]:
    """The function that cooks the samples of a source. `is_user_hook`: the user overrides `cook_crude_sample`.

    Raises UsageError if the cooker does not accept the stores that the blend file names for its dataset.
    """
    needs = cooker_needs(cooker.cook)
    names = [*source.aux, *(["primary"] if needs.primary else []), *(["cache"] if needs.cache else [])]
    _check_cooker(cooker, source, names, is_user_hook=is_user_hook)
    if not names:
        return partial(cook_hook, cooker=cooker, aux={})
    if needs.cache:
        pool.open()
    primary = None
    if needs.primary:
        if source.location is None:
            raise UsageError(
                "need_primary needs a dataset with a catalog, but this dataset has none",
                where=source.dataset_path,
                hint="run `wdsctl prepare` on the dataset, or remove need_primary from the cooker",
            )
        offsets: Any = source.offsets
        primary = PreparedStore(source.location, offsets, source.decoder)
    for store in source.aux.values():
        if isinstance(store, PreparedStore):
            _ = store.name_index, store.keyframe_file  # opened before workers are forked, which share them
    return SourceCooker(cook_hook, cooker, source.aux, primary, pool if needs.cache else None)


def _check_cooker(cooker: Cooker, source: SplitSource, names: list[str], *, is_user_hook: bool) -> None:
    reserved = sorted({name for name in names if names.count(name) > 1})
    if reserved:
        raise UsageError(
            f"an auxiliary store has the reserved name {reserved[0]!r}, which is another argument of the cooker",
            where=source.dataset_path,
            hint="rename the store under `aux`",
        )
    if is_user_hook:
        return
    try:
        parameters = signature(cooker.cook)
    except (TypeError, ValueError):
        return  # a function in C has no signature
    try:
        parameters.bind(None, **dict.fromkeys(names))
    except TypeError as error:
        name, arguments = getattr(cooker.cook, "__qualname__", repr(cooker.cook)), ", ".join(names) or "nothing else"
        raise UsageError(
            f"cannot call the cooker {name}{parameters} with a sample and {arguments}: {error}",
            where=source.dataset_path,
            hint="add a parameter for each store under `aux`, and for primary and cache if the cooker is marked to "
            "need them",
        ) from error


def _add_new_sources(cooked: Any, sample: Any, sources_before: int) -> Any:
    """The cooked sample with the sources that stores added to the crude one: the cooker may have copied `__sources__`
    before it read from a store."""
    added = (sample["__sources__"] or ())[sources_before:]
    if added and cooked is not None and cooked is not sample:
        sources = get_field(cooked, "__sources__") or ()
        missing = [source for source in added if source not in sources]
        if missing:
            set_field(cooked, "__sources__", (*sources, *missing))
    return cooked
