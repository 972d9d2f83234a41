"""Datasets that would lie in one another: `index` of the outer one takes the shards of the inner one for its own."""

from __future__ import annotations

import os
from contextlib import suppress

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.published import reading
from wdsctl.core.command_line import command
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate
from wdsctl.core.shard_list import holds_tars


def check_not_in_dataset(dest: str, catalog: str | None = None) -> None:
    """Raises UsageError WDS253 where a new dataset at DEST would lie in a prepared one.

    What wdsctl has begun there already may go on. A folder above that only collects datasets is none of its own: it has
    no catalog, or one of nothing but the shards of datasets below it. Cost: a look at each folder above.
    """
    real = os.path.realpath(dest)
    if os.path.isdir(real) and os.path.isdir(locate(real, catalog).meta):
        return
    folder = real
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        if is_prepared(folder) and not _is_collection(folder):
            beside = f"{folder.rstrip('/')}-{os.path.basename(real)}"
            raise UsageError(
                f"the destination lies in the dataset {folder}, which would take its shards for its own",
                where=dest,
                hint=f"give a destination beside that dataset, such as {beside}",
                code="WDS253",
            )


def check_holds_no_dataset(dest: str) -> None:
    """Raises UsageError WDS253 where a prepared dataset lies below DEST; in a dataset that is there already, one of
    tars, since it goes on beside others. Cost: a walk through DEST.
    """
    real = os.path.realpath(dest)
    is_there = is_prepared(real)
    inner = _inner_dataset(dest, of_tars=is_there)
    if inner is None:
        return
    beside = f"{real}-{os.path.basename(inner)}"
    hint = f"give a destination beside it, such as {beside}"
    if is_there:
        hint = f"move {inner} to a place beside the destination, such as {beside}: it stays the dataset that it is"
        if _has_shard_in(real, inner):
            hint += f"; then forget its shards here with {command('index', dest, '--missing', 'drop')}"
    raise UsageError(
        f"the destination holds the dataset {inner}, whose shards would be taken for its own",
        where=dest,
        hint=hint,
        code="WDS253",
    )


def is_prepared(folder: str) -> bool:
    """Whether wdsctl has made a dataset of a folder, or has begun to write one there."""
    try:
        place = locate(folder)
    except WdsctlError:  # not there, or not to be read: nothing has been made of it that this user could use
        return False
    if os.path.exists(place.catalog) or os.path.exists(place.dataset_yaml):
        return True
    if not os.path.exists(place.ledger):
        return False
    with suppress(WdsctlError), Ledger.peek(place.ledger) as ledger:
        return bool(ledger.planned_shards())
    return False


def _is_collection(folder: str) -> bool:
    """Whether all shards that its catalog has are those of prepared datasets below it."""
    folders = {os.path.dirname(path) for path in _shards(locate(folder))}
    known: dict[str, bool] = {"": False}

    def is_of_another(below: str) -> bool:
        if below not in known:
            known[below] = is_prepared(os.path.join(folder, below)) or is_of_another(os.path.dirname(below))
        return known[below]

    return bool(folders) and all(map(is_of_another, folders))


def _has_shard_in(folder: str, inner: str) -> bool:
    below = os.path.relpath(os.path.realpath(inner), folder)
    return any(path.startswith(f"{below}/") for path in _shards(locate(folder)))


def _shards(place: Place) -> list[str]:
    """Of a catalog that cannot be read, none: whoever reads it says why."""
    with suppress(WdsctlError), reading(place.catalog) as catalog:
        return [path for (path,) in catalog.execute("SELECT path FROM shard WHERE removed IS NULL")]
    return []


def _inner_dataset(dest: str, *, of_tars: bool) -> str | None:
    def fail(error: OSError) -> None:
        raise error

    if not os.path.isdir(dest):
        return None
    with translated(dest, "list"):
        for folder, folders, _ in os.walk(dest, onerror=fail):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in folders:
                path = os.path.join(folder, name)
                if is_prepared(path) and (holds_tars(path) or not of_tars):
                    return path
    return None
