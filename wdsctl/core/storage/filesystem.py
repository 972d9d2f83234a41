"""Open fsspec's filesystems, and list what is in them. Of the modules that read, only this one imports fsspec.

Every process opens its own filesystem, since fsspec's event loop runs in a thread, and threads do not survive a fork
(fsspec's documentation, "Async").
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from wdsctl.core.errors import StorageError
from wdsctl.core.storage.answer_limits import MAX_FOLDER_DEPTH
from wdsctl.core.storage.cache_layers import CachedFiles, cache_options
from wdsctl.core.storage.hub_ranges import bounded_lists
from wdsctl.core.storage.remote_errors import call_or_error, translate_remote
from wdsctl.core.urls import cache_layer, protocol, redact_secrets, reveal_query

T = TypeVar("T")

MAX_CONCURRENT_REQUESTS = 16  # that reads wait for, and as many in the background
MAX_CONNECTIONS = 3 * MAX_CONCURRENT_REQUESTS
CONNECT_TIMEOUT_SECONDS = 15
READ_TIMEOUT_SECONDS = 30  # between two bytes; the driver's own limit is 300 s for a response of any size


def open_filesystem(root: str) -> tuple[Any, str]:
    """Open fsspec's filesystem: (filesystem, root as it spells it). Uses fsspec's configuration; raises its errors."""
    from fsspec.core import url_to_fs

    layer, options = cache_layer(root), _driver_options(protocol(root))
    if not layer:
        filesystem, base = url_to_fs(root, **options)
        if "abfs" in filesystem.protocol:
            run_call(filesystem, _bound_azure(filesystem))
        return filesystem, base
    cache, base = url_to_fs(root, **{layer: cache_options(layer), protocol(root): options})
    return CachedFiles(cache), base


def _driver_options(scheme: str) -> dict[str, Any]:
    _separate_random_pauses(scheme)
    if scheme in ("http", "https"):
        return _http_options()
    if scheme in ("gs", "gcs"):
        return _google_options()
    if scheme in ("s3", "s3a"):
        from fsspec.config import conf

        # botocore keeps 10 connections, and further requests wait for one of them.
        configured = conf.get(scheme, {}).get("config_kwargs", {})
        return {"config_kwargs": {"max_pool_connections": MAX_CONNECTIONS, **_s3_options(), **configured}}
    return {}


#: In the drivers, the modules that draw from Python's global generator: the pause before another try, and the order of
#: servers that wait for a connection.
_PAUSING_MODULES = {
    **dict.fromkeys(("s3", "s3a"), ("botocore.retryhandler", "aiobotocore.retries.standard", "aiohttp.connector")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs.retry", "aiohttp.connector")),
    **dict.fromkeys(("http", "https", "abfs", "abfss", "az"), ("aiohttp.connector",)),
}


@cache
def _separate_random_pauses(scheme: str) -> None:
    """Let the driver draw its pauses from the system: its retries are in fsspec's thread, at any time, and would change
    what hooks and training loops draw."""
    generator = random.SystemRandom()
    for name in _PAUSING_MODULES.get(scheme, ()):
        try:
            module: Any = import_module(name)
        except ImportError:  # the driver is missing, which fsspec reports, or an older version without this module
            continue
        if name == "aiobotocore.retries.standard":  # the default of a parameter draws
            module.ExponentialBackoff = partial(module.ExponentialBackoff, random=generator.random)
        else:
            module.random = generator


def _s3_options() -> dict[str, Any]:
    """Bound the answers of S3, check its redirects, and send no checksums besides ours."""
    try:
        from wdsctl.core.storage.s3_session import session_options
    except ImportError:  # the driver is missing, which fsspec reports
        return {}
    return session_options()


def _google_options() -> dict[str, Any]:
    """Bound the answers of Google Cloud Storage, and check its redirects."""
    try:
        from wdsctl.core.storage.http_client import BoundedResponse, shared_checks
    except ImportError:  # the driver is missing, which fsspec reports
        return {}
    from fsspec.config import conf

    configured = {**conf.get("gcs", {}).get("session_kwargs", {}), **conf.get("gs", {}).get("session_kwargs", {})}
    bounds = {"auto_decompress": False, "response_class": BoundedResponse, "trace_configs": [shared_checks()]}
    headers = {"Accept-Encoding": "identity", **configured.get("headers", {})}
    return {"session_kwargs": {**bounds, **configured, "headers": headers}}


async def _bound_azure(filesystem: Any) -> None:
    """Bound the lists of Azure: their pages, and the size of each; and follow no redirect. Its driver takes no session.

    Azure itself never redirects.
    """
    from wdsctl.core.storage.http_client import bound_session

    pipeline = filesystem.service_client._pipeline  # noqa: SLF001 - so the driver's library has it
    for policy in pipeline._impl_policies:  # noqa: SLF001
        if hasattr(policy, "max_redirects"):
            policy.allow = False
    transport = pipeline._transport  # noqa: SLF001
    await transport.open()
    bound_session(transport.session)


def _http_options() -> dict[str, Any]:
    from aiohttp import ClientTimeout
    from fsspec.config import conf

    from wdsctl.core.storage.http_client import open_session

    configured = {**conf.get("http", {}).get("client_kwargs", {}), **conf.get("https", {}).get("client_kwargs", {})}
    timeout = ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS)
    headers = {"Accept-Encoding": "identity", **configured.get("headers", {})}
    client = {"timeout": timeout, "auto_decompress": False, **configured, "headers": headers}
    own_session = any("get_client" in conf.get(scheme, {}) for scheme in ("http", "https"))
    return {"client_kwargs": client, **({} if own_session else {"get_client": open_session})}


def list_files_below(filesystem: Any, base: str) -> dict[str, dict[str, Any]]:
    """List all files below a folder with the facts of fsspec's driver, by name. Raises the driver's errors."""
    found: dict[str, dict[str, Any]]
    with bounded_lists(filesystem):
        found = _walk_files(filesystem, base) if _has_generic_find(filesystem) else filesystem.find(base, detail=True)
    return found


def _has_generic_find(filesystem: Any) -> bool:
    """Whether a filesystem has fsspec's generic `find`, which silently skips folders that it cannot list."""
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    kind = type(filesystem)
    if filesystem.async_impl:
        return kind._find is AsyncFileSystem._find  # noqa: SLF001 - so fsspec names its coroutines
    return bool(kind.find is AbstractFileSystem.find)


def list_entries(filesystem: Any, folder: str) -> list[dict[str, Any]]:
    """The entries of one folder. Of a page of a web server, only the links to what is in the folder."""
    if "http" not in filesystem.protocol:
        with bounded_lists(filesystem):
            found: list[dict[str, Any]] = filesystem.ls(folder, detail=True)
        return found
    folder = f"{folder.rstrip('/')}/"
    links = [each for each in filesystem.ls(folder, detail=True) if each["name"].startswith(folder)]
    return [each for each in links if not {"..", "?"} & {*each["name"].split("/"), *each["name"]}]


def _walk_files(filesystem: Any, base: str) -> dict[str, dict[str, Any]]:
    """List every file below a folder. Raises for a folder that cannot be listed: its shards would seem missing.

    Raises StorageError for folders that are nested too deeply.
    """
    found: dict[str, dict[str, Any]] = {}
    folders, seen = [base], set()
    while folders:
        folder = folders.pop()
        seen.add(folder)
        if folder.count("/") - base.count("/") > MAX_FOLDER_DEPTH:
            raise StorageError(
                f"the list of files has no end: it has folders in more than {MAX_FOLDER_DEPTH} folders",
                where=redact_secrets(base),
                hint="check the server: its pages may link to ever deeper folders; or copy the dataset to another one",
            )
        for facts in list_entries(filesystem, folder):
            if facts["type"] != "directory":
                found[facts["name"]] = facts
            elif facts["name"] not in seen:
                folders.append(facts["name"])
    return found


class OpenRoot(NamedTuple):
    """A filesystem for the files below `root`, a URL. `base`: the root as the driver spells it, without slashes at the
    end. `query`: of a signed URL, with its question mark."""

    root: str
    filesystem: Any
    base: str
    query: str

    def path(self, url: str) -> str:
        """A URL below the root as the driver spells it."""
        return f"{self.base.rstrip('/')}{url[len(self.root) :]}{self.query}"


def open_root(root: str) -> OpenRoot:
    """Open the filesystem of a URL. Raises WdsctlErrors."""
    url, query = reveal_query(root)
    opened = call_or_error(partial(open_filesystem, url))
    if isinstance(opened, Exception):
        raise translate_remote(opened, root, "open")
    return OpenRoot(root, *opened, f"?{query}" if query else "")


def begin_call(filesystem: Any, call: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a driver's coroutine in fsspec's event loop."""
    return asyncio.run_coroutine_threadsafe(call, filesystem.loop)


def run_call(filesystem: Any, call: Coroutine[Any, Any, T]) -> T:
    """Run a driver's coroutine, and wait for its result."""
    future = begin_call(filesystem, call)
    try:
        return future.result()
    finally:
        future.cancel()  # after Ctrl-C; does nothing to a finished call


def call_each(filesystem: Any, method: str, paths: Sequence[str]) -> list[Any]:
    """Call a method of a driver for each path, concurrently if the driver can. Returns the answer or error of each."""
    if not filesystem.async_impl:
        return [call_or_error(partial(getattr(filesystem, method), path)) for path in paths]

    async def call_all() -> list[Any]:
        calls = (getattr(filesystem, f"_{method}")(path) for path in paths)  # so fsspec names its coroutines
        return await asyncio.gather(*calls, return_exceptions=True)

    return run_call(filesystem, call_all())


_own_loops: dict[int, asyncio.AbstractEventLoop] = {}  # of this process, by its id: threads do not survive a fork


def own_loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of this process, for drivers that are not asynchronous."""
    pid = os.getpid()
    if pid not in _own_loops:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="wdsctl-read-ahead", daemon=True).start()
        _own_loops[pid] = loop
    return _own_loops[pid]
