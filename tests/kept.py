"""Keeps what libraries read again for each client or command of a process: users have one in a process, tests many."""

from __future__ import annotations

from functools import cache
from typing import Any


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
def keep_parameters() -> None:
    """Keep the parameters that Typer reads from the signatures of commands."""
    import typer.main

    from wdsctl.cli import app

    for module, name in ((app, "with_common"), (typer.main, "get_params_from_function")):
        setattr(module, name, cache(getattr(module, name)))
