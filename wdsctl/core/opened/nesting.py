"""Refuses datasets in datasets: `index` of the outer one would include the shards of the inner one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.open_catalog import open_catalog_connection
from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command
from wdsctl.core.errors import UsageError, WdsctlError, translate_os_errors
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.shards.survey import has_tars
from wdsctl.core.urls import is_url, normalize_root, redact_secrets


def check_not_in_dataset(dest: str, catalog: str | None = None) -> None:
    """Raise UsageError WDS253 if a new dataset at DEST would be inside a prepared one.

    A dataset that wdsctl has begun at DEST may be continued. A parent folder that only collects datasets is allowed: it
    has no catalog, or one that lists only shards of the datasets inside. Cost: a check of each parent folder, of
    URLs one request.
    """
    here = normalize_root(dest) if is_url(dest) else os.path.realpath(dest)
    if (is_url(dest) or os.path.isdir(here)) and os.path.isdir(open_dataset(here, catalog).location.meta):
        return
    for folder in _folders_above(here):
        if is_prepared(folder) and not _is_collection(folder):
            shown = redact_secrets(folder)
            raise UsageError(
                f"the destination is inside the dataset {shown}, which would then include its shards",
                where=redact_secrets(dest),
                hint=f"choose a destination next to that dataset, such as {shown.rstrip('/')}-{os.path.basename(here)}",
                code="WDS253",
            )


def _folders_above(path: str) -> Iterator[str]:
    """All folders that contain the path, the nearest first; of a URL, without the scheme."""
    while (above := os.path.dirname(path)) != path and ("://" in above or not is_url(path)):
        yield above
        path = above


def check_holds_no_dataset(dest: str) -> None:
    """Raise UsageError WDS253 if there is a prepared dataset inside DEST. Cost: a walk through DEST.

    If DEST is a dataset itself, only datasets of tars inside it are an error. At a URL: a listing of DEST.
    """
    if is_url(dest):
        from wdsctl.core.dataset.remote_destination import check_holds_no_remote_dataset

        check_holds_no_remote_dataset(dest)
        return
    real = os.path.realpath(dest)
    is_there = is_prepared(real)
    inner = _inner_dataset(dest, of_tars=is_there)
    if inner is None:
        return
    sibling = f"{real}-{os.path.basename(inner)}"
    hint = f"choose a destination next to it, such as {sibling}"
    if is_there:
        hint = f"move {inner} next to the destination, such as to {sibling}; the move does not change that dataset"
        below = os.path.relpath(os.path.realpath(inner), real)
        if any(path.startswith(f"{below}/") for path in _shards(locate(real))):
            hint += (
                f"; then remove its shards from this catalog with {shell_command('index', dest, '--missing', 'drop')}"
            )
    raise UsageError(
        f"the destination contains the dataset {inner}, and would then include its shards",
        where=dest,
        hint=hint,
        code="WDS253",
    )


def is_prepared(folder: str) -> bool:
    """Whether wdsctl has made a dataset of the folder, or has begun to."""
    try:
        location = open_dataset(folder).location
    except WdsctlError:  # missing or unreadable: this user could not use it as a dataset
        return False
    if os.path.exists(location.catalog_path) or os.path.exists(location.config_path):
        return True
    if not os.path.exists(location.ledger_path):
        return False
    with suppress(WdsctlError), Ledger.open_for_reading(location.ledger_path) as ledger:
        return bool(ledger.planned_shards())
    return False


def _is_collection(folder: str) -> bool:
    """Whether its catalog lists only shards of prepared datasets inside."""
    folders = {os.path.dirname(path) for path in _shards(locate(folder))}
    known: dict[str, bool] = {"": False}

    def is_of_another(below: str) -> bool:
        if below not in known:
            known[below] = is_prepared(os.path.join(folder, below)) or is_of_another(os.path.dirname(below))
        return known[below]

    return bool(folders) and all(map(is_of_another, folders))


def _shards(location: DatasetLocation) -> list[str]:
    """Empty for a catalog that cannot be read: the command that reads it reports why."""
    with suppress(WdsctlError), open_catalog_connection(location.catalog_path) as catalog:
        return [path for (path,) in catalog.execute("SELECT path FROM shard WHERE removed IS NULL")]
    return []


def _inner_dataset(dest: str, *, of_tars: bool) -> str | None:
    def fail(error: OSError) -> None:
        raise error

    if not os.path.isdir(dest):
        return None
    with translate_os_errors(dest, "list"):
        for folder, folders, _ in os.walk(dest, onerror=fail):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in folders:
                path = os.path.join(folder, name)
                if is_prepared(path) and (has_tars(path) or not of_tars):
                    return path
    return None
