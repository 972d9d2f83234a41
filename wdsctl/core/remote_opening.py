"""A store's driver, opened for a root, with an end to its waiting."""

from __future__ import annotations

from typing import Any

from wdsctl.core.urls import protocol

CONNECT = 15  # seconds until a server takes a connection
SILENCE = 30  # seconds without a byte from it; the driver itself waits 300 for all of an answer, however large


def opened_root(root: str) -> tuple[Any, str]:
    """fsspec's filesystem, and the root as it spells it. What is configured for fsspec holds. Raises what it raises."""
    from fsspec.core import url_to_fs

    return url_to_fs(root, **(_of_http() if protocol(root) in ("http", "https") else {}))  # type: ignore[no-any-return]


def _of_http() -> dict[str, Any]:
    from aiohttp import ClientTimeout
    from fsspec.config import conf

    configured = {**conf.get("http", {}).get("client_kwargs", {}), **conf.get("https", {}).get("client_kwargs", {})}
    timeout = ClientTimeout(total=None, sock_connect=CONNECT, sock_read=SILENCE)
    return {"client_kwargs": {"timeout": timeout, **configured}}
