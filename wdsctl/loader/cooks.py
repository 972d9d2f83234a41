"""What runs a cooker: with the stores of its dataset by their names, and with what it says that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import isgenerator, signature
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.cache.pool import CachePool
from wdsctl.loader.cooking import Cooker, needs_of
from wdsctl.loader.failures import set_value, value_of
from wdsctl.loader.source import Source
from wdsctl.loader.stores.prepared import PreparedStore
from wdsctl.loader.stores.primary import Primary
from wdsctl.loader.stores.store import FileStore

CookSample = Callable[..., Any]  # `TaskEncoder.cook_crude_sample`


@dataclass(frozen=True, slots=True)
class Cook:
    """Cooks the samples of one source. What a store was asked for is among the `__sources__` of what comes out."""

    call: CookSample
    cooker: Cooker
    stores: Mapping[str, FileStore]
    primary: PreparedStore | None
    cache: CachePool | None

    def __call__(self, sample: Any) -> Any:
        given: dict[str, Any] = dict(self.stores)
        if self.primary is not None:
            given["primary"] = Primary(self.primary, sample["__restore_key__"][2])
        if self.cache is not None:
            given["cache"] = self.cache
        known = len(sample["__sources__"])
        made = self.call(sample, cooker=self.cooker, aux=given)
        if isgenerator(made):
            return _each_with_sources(made, sample, known)
        return _with_sources(made, sample, known)


def cook_of(call: CookSample, cooker: Cooker, source: Source, pool: CachePool, *, is_own: bool) -> Callable[..., Any]:
    """What cooks the samples of a source. `is_own`: `call` is a hook of the user's, which may call anything.

    Raises UsageError where the cooker does not take the stores that the blend file names for its dataset.
    """
    needs = needs_of(cooker.cook)
    names = [*source.aux, *(["primary"] if needs.primary else []), *(["cache"] if needs.cache else [])]
    _check(cooker, source, names, is_own=is_own)
    if not names:
        return partial(call, cooker=cooker, aux={})
    if needs.cache:
        pool.open()
    primary = _primary(source) if needs.primary else None
    for store in source.aux.values():
        if isinstance(store, PreparedStore):
            _ = store.names, store.films  # made now, for all processes that are forked from this one
    return Cook(call, cooker, source.aux, primary, pool if needs.cache else None)


def _primary(source: Source) -> PreparedStore:
    offsets: Any = source.offsets
    if source.place is None:
        raise UsageError(
            "need_primary is for prepared datasets, and this one has no catalog",
            where=source.dataset_path,
            hint="take need_primary away from its cooker",
        )
    return PreparedStore(source.place, offsets, source.decoder)


def _check(cooker: Cooker, source: Source, names: list[str], *, is_own: bool) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"an auxiliary store cannot be called {twice[0]!r}: the cooker gets something else under this name",
            where=source.dataset_path,
            hint="give it another name under `aux`",
        )
    if is_own:
        return
    try:
        taken = signature(cooker.cook)
    except (TypeError, ValueError):
        return  # of a function in C, nothing is known
    try:
        taken.bind(None, **dict.fromkeys(names))
    except TypeError as error:
        name, given = getattr(cooker.cook, "__qualname__", repr(cooker.cook)), ", ".join(names) or "nothing else"
        raise UsageError(
            f"the cooker {name}{taken} cannot be called with a sample and {given}: {error}",
            where=source.dataset_path,
            hint="it gets each store by its name under `aux`, and primary= and cache= where it says that it needs them",
        ) from error


def _with_sources(made: Any, sample: Any, known: int) -> Any:
    """What was made, with the sources that the sample has had added since it came: `basic_sample_keys` may have been
    called before the stores were asked."""
    added = (sample["__sources__"] or ())[known:]
    if added and made is not None and made is not sample:
        sources = value_of(made, "__sources__") or ()
        missing = [source for source in added if source not in sources]
        if missing:
            set_value(made, "__sources__", (*sources, *missing))
    return made


def _each_with_sources(made: Iterator[Any], sample: Any, known: int) -> Iterator[Any]:
    for each in made:
        yield _with_sources(each, sample, known)
