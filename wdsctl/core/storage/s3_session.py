"""The session of S3's driver with bounded answers. Imports aiobotocore.

It follows redirects as aiohttp does, to any address.
"""

from __future__ import annotations

import inspect
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.httpsession import AIOHTTPSession

from wdsctl.core.storage.http_client import bound_session


class BoundedSession(AIOHTTPSession):  # type: ignore[misc]  # the package has no types
    """Opens aiohttp's sessions with the checks of `http_client`."""

    async def _get_session(self, proxy_url: Any) -> Any:
        session = await super()._get_session(proxy_url)
        bound_session(session)
        return session


def session_options() -> dict[str, Any]:
    """Options of botocore's configuration; none for an aiobotocore of before 2.20, which has no such option."""
    known = inspect.signature(AioConfig.__init__).parameters
    return {"http_session_cls": BoundedSession} if "http_session_cls" in known else {}
