"""Changes to libraries for processes with many clients and commands, where users have one of them."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

from fsspec.asyn import sync


@cache
def keep_service_models() -> None:
    """Keep botocore's descriptions of services, which are 1 MB of JSON for S3, and the certificates of TLS."""
    from aiobotocore.httpsession import AIOHTTPSession
    from botocore.loaders import JSONFileLoader

    load, build_context = cache(JSONFileLoader().load_file), AIOHTTPSession._build_verify_context
    contexts: dict[Any, Any] = {}

    def verify_context(session: Any) -> Any:
        if session._verify not in contexts:
            contexts[session._verify] = build_context(session)
        return contexts[session._verify]

    JSONFileLoader.load_file = lambda _, path: load(path)
    AIOHTTPSession._build_verify_context = verify_context


@cache
def close_patiently() -> None:
    """Give the connections of a filesystem that is dropped 20 s to close, instead of 0.1 s.

    After that time, s3fs closes them in another thread than theirs, which may fail on a loaded machine.
    """
    from s3fs import S3FileSystem

    close_at_once = S3FileSystem.close_session

    def close(loop: Any, client: Any) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if loop is not None and loop.is_running():
                sync(loop, client.__aexit__, None, None, None, timeout=20)
                return
        close_at_once(loop, client)

    S3FileSystem.close_session = staticmethod(close)


@cache
def keep_parameters() -> None:
    """Keep the parameters that Typer reads from the signatures of commands."""
    import typer.main

    from wdsctl.cli import app

    for module, name in ((app, "with_common"), (typer.main, "get_params_from_function")):
        setattr(module, name, cache(getattr(module, name)))
