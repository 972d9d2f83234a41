"""Choose the storage of a dataset by its root."""

from __future__ import annotations

from collections.abc import Mapping

from wdsctl.core.storage.remote_errors import OnRetry, RetryPolicy, ignore_retry
from wdsctl.core.storage.storage import LocalStorage, ProbeLookup, Storage
from wdsctl.core.urls import is_url, protocol


def storage_for(
    root: str,
    expected: Mapping[str, int] | None = None,
    probes: Mapping[str, ProbeLookup] | None = None,
    *,
    on_retry: OnRetry = ignore_retry,
) -> Storage:
    """Create the storage for files below `root`. Opens nothing; imports fsspec only for URLs.

    `expected` and `probes`: as for `LocalStorage`; for remote files, only sizes are checked. `on_retry`: called
    before every try of a remote request.
    """
    if not is_url(root):
        return LocalStorage(root, dict(expected or {}), probes=probes)
    from wdsctl.core.storage.remote import FsspecStorage

    return FsspecStorage(root, expected, retry_policy=RetryPolicy(on_retry=on_retry))


def workers_for(root: str, workers: int) -> int:
    """Limit the number of processes: only the process that created a `memory://` filesystem can read it."""
    return 1 if protocol(root) == "memory" else workers
