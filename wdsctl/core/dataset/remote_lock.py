"""Hold the writer marker of a dataset in a store, and nothing for one on a disk. Imports no driver for the latter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.progress import Progress
from wdsctl.core.urls import is_url


def hold_remote_marker(
    location: DatasetLocation, wait: float, progress: Progress
) -> AbstractContextManager[Callable[[], None]]:
    """Keep other machines from writing to a dataset in a store. Yields a function that raises if one does now."""
    if not is_url(location.root):
        return nullcontext(_do_nothing)
    from wdsctl.core.dataset.writer_marker import hold_writer_marker

    return hold_writer_marker(location.root, wait=wait, note=progress.note)


def _do_nothing() -> None:
    pass
