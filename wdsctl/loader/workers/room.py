"""Memory of the worker that this process is, for the result of the task under way: what is made there is not copied."""

from __future__ import annotations

from wdsctl.loader.workers.ring import Memory, Ring

#: The ring of the worker that this process is.
_mine: list[Ring] = []


def lend_rooms_of(ring: Ring) -> None:
    """From here on this process is the worker of this ring."""
    _mine[:] = [ring]


def room(size: int) -> Memory | None:
    """`size` bytes of whatever values, to make a result in; None outside of a worker, or where none are free.

    A result that holds the array itself, as the first of its arrays and tensors, is sent without a copy of it. The
    memory is the task's until it ends, and one task gets it once.
    """
    return _mine[0].room(size) if _mine else None
