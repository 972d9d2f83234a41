"""Choose the storage of a dataset by its root."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from wdsctl.core.storage.remote_errors import OnRetry, OnSilence, RetryPolicy, ignore_retry, ignore_silence
from wdsctl.core.storage.storage import LocalStorage, ProbeLookup, Storage
from wdsctl.core.urls import cache_layer, is_url, protocol


def storage_for(
    root: str,
    expected: Mapping[str, int] | None = None,
    probes: Mapping[str, ProbeLookup] | None = None,
    *,
    on_retry: OnRetry = ignore_retry,
    on_silence: OnSilence = ignore_silence,
) -> Storage:
    """Create the storage for files below `root`. Opens nothing; imports fsspec only for URLs.

    `expected` and `probes`: as for `LocalStorage`; for remote files, only sizes are checked. `on_retry`: called
    before every try of a remote request; `on_silence`: while a read waits for its answer.
    """
    if not is_url(root):
        return LocalStorage(root, dict(expected or {}), probes=probes)
    from wdsctl.core.storage.remote import FsspecStorage

    return FsspecStorage(root, expected, retry_policy=RetryPolicy(on_retry=on_retry, on_silence=on_silence))


def check_unchanged(storage: Storage, path: str, number: int) -> None:
    """Raise StorageError WDS403 for a remote file whose content no longer has the number that a listing gave it."""
    from wdsctl.core.storage.remote import FsspecStorage

    if isinstance(storage, FsspecStorage):
        storage.check_unchanged(path, number)


def check_range_requests(root: str, path: str, size: int) -> None:
    """Raise StorageDown if the web server of `root` ignores range requests, without which samples cannot be read.

    A scan need not notice: a request for a whole file succeeds on any server. `path`, `size`: of one file below the
    root. Cost: a request to a web server; none to other stores, nor through a cache of fsspec.
    """
    if protocol(root) in ("http", "https") and not cache_layer(root):
        from wdsctl.core.storage.remote import FsspecStorage

        FsspecStorage(root).check_range_requests(path, size)


def workers_for(root: str, workers: int) -> int:
    """Limit the number of processes: only the process that created a `memory://` filesystem can read it."""
    return 1 if protocol(root) == "memory" else workers


#: Modules whose threads do not survive a fork, by the protocols that are read through them. Others read through
#: asyncio or sockets, and wdsctl opens them again in a forked process.
_MODULES_WITH_THREADS = {
    "msc": "multistorageclient",
    **dict.fromkeys(("hdfs", "arrow_hdfs", "viewfs"), "pyarrow._hdfs"),  # a Java machine
}


def find_fork_unsafe(roots: Iterable[str]) -> str:
    """The first of these protocols that a process forked from this one could not read; empty if there is none.

    Before its module is imported, no thread of it can run, and forked processes read such a store as well.
    """
    protocols = (protocol(root) for root in roots)
    return next((each for each in protocols if _MODULES_WITH_THREADS.get(each, "") in sys.modules), "")
