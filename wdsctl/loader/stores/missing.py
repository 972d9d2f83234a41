"""Errors of lookups: a name that is not there, one that is there twice, and one that leads elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from wdsctl.core.errors import SampleFailed

_SHOWN = 5  # names that a hint lists


def missing(store: str, name: str, near: Sequence[str] = (), hint: str = "") -> SampleFailed:
    """`near`: names of the store that this one may have been meant to be."""
    if near:
        names = ", ".join(repr(each) for each in near[:_SHOWN])
        hint = f"there is {names}: names are compared letter by letter"
    return SampleFailed(
        f"the store has no {name!r}",
        where=f"store {store}, entry {name}",
        hint=hint or "look at the reference in the primary, and whether the store was prepared since it was added",
        code="WDS550",
    )


def twice(store: str, name: str, places: Sequence[str]) -> SampleFailed:
    """`places`: shard and index of each."""
    return SampleFailed(
        f"the store has {len(places)} entries of the name {name!r}: {' and '.join(places[:_SHOWN])}",
        where=f"store {store}, entry {name}",
        hint="`wdsctl index` reports such keys as WDS106; rename all but one of them",
        code="WDS551",
    )


def outside(store: str, name: str, why: str) -> SampleFailed:
    """A name that is no name of a file below the folder of a store."""
    return SampleFailed(
        f"{name!r} {why}",
        where=f"store {store}, entry {name}",
        hint="entries are named by their path below the folder of the store, such as 'a/0001.jpg'",
        code="WDS552",
    )
