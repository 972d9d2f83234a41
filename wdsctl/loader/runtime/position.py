"""The numbers that a hook may ask for while it runs: of its input, and of the batch that is being made.

Each thread has its own: several loaders may draw in one process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wdsctl.core.errors import LoaderError

_INDEX_MASK = (1 << 63) - 1  # numbers fit a tensor of int64


class _Position(threading.local):
    sample_index: int | None = None
    batch_index: int | None = None


_position = _Position()


@contextmanager
def within_batch(index: int) -> Iterator[None]:
    """Within the block, hooks run for the batch of this rank with this number."""
    before, _position.batch_index = _position.batch_index, index
    try:
        yield
    finally:
        _position.batch_index = before


def begin_hook(origin_hash: int) -> int | None:
    """A hook begins, for the input with this hash. Returns what `end_hook` takes: a hook may run within one of another
    loader."""
    before = _position.sample_index
    _position.sample_index = origin_hash & _INDEX_MASK
    return before


def end_hook(before: int | None) -> None:
    """The hook has returned, or has yielded an output."""
    _position.sample_index = before


def current_sample_index() -> int:
    """See `TaskEncoder.current_sample_index`."""
    if _position.sample_index is None:
        raise LoaderError("current_sample_index is known within hooks only", hint="read it in a hook of a task encoder")
    return _position.sample_index


def current_batch_index() -> int:
    """See `TaskEncoder.current_batch_index`."""
    if _position.sample_index is None or _position.batch_index is None:
        raise LoaderError(
            "current_batch_index is known within hooks only, and not while a sample is restored",
            hint="read it in a hook of a task encoder; use current_sample_index in hooks that restore_sample runs",
        )
    return _position.batch_index
