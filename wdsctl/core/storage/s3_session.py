"""The session of S3's driver with bounded answers. Imports aiobotocore.

It follows redirects as aiohttp does, to any address.
"""

from __future__ import annotations

import inspect
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.httpsession import AIOHTTPSession

from wdsctl.core.storage.http_client import BoundedResponse, shared_checks


class BoundedSession(AIOHTTPSession):  # type: ignore[misc]  # the package has no types
    """Opens aiohttp's sessions with the checks of `http_client`."""

    async def _get_session(self, proxy_url: Any) -> Any:
        session = await super()._get_session(proxy_url)
        checks = shared_checks()
        if checks not in session._trace_configs:  # noqa: SLF001 - aiobotocore passes aiohttp no such options
            checks.freeze()
            session._trace_configs.append(checks)  # noqa: SLF001
            session._response_class = BoundedResponse  # noqa: SLF001
        return session


def session_options() -> dict[str, Any]:
    """Options of botocore's configuration; none for an aiobotocore of before 2.20, which has no such option."""
    known = inspect.signature(AioConfig.__init__).parameters
    return {"http_session_cls": BoundedSession} if "http_session_cls" in known else {}
