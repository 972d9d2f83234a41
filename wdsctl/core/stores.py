"""Which storage a dataset is read through: decided by its root, in one place."""

from __future__ import annotations

from collections.abc import Mapping

from wdsctl.core.patience import Hear, Patience, nobody
from wdsctl.core.storage import LocalStorage, Probes, Storage
from wdsctl.core.urls import is_url, protocol


def storage_for(
    root: str,
    expected: Mapping[str, int] | None = None,
    probes: Mapping[str, Probes] | None = None,
    *,
    hear: Hear = nobody,
) -> Storage:
    """The storage of what lies below `root`. Nothing is opened yet; fsspec is imported where it is needed.

    `expected` and `probes` are those of `LocalStorage`; of what is far away sizes alone are checked.
    `hear`: of every request to what is far away.
    """
    if not is_url(root):
        return LocalStorage(root, dict(expected or {}), probes=probes)
    from wdsctl.core.remote_storage import FsspecStorage

    return FsspecStorage(root, expected, patience=Patience(hear=hear))


def workers_for(root: str, workers: int) -> int:
    """How many processes may work on it: `memory://` is seen by the process that made it, and by no other."""
    return 1 if protocol(root) == "memory" else workers
