"""The session of S3's driver with bounded answers. Imports aiobotocore.

It follows redirects as aiohttp does, to any address.
"""

from __future__ import annotations

import inspect
import os
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
    """Options of botocore's configuration, as far as its version has them: aiobotocore 2.20 has the session.

    botocore adds no CRC-32 to uploads, unless the user's environment has a choice: wdsctl sends the MD5 of each. Over
    HTTPS, botocore would also copy the body to add the CRC-32 after it.
    """
    options: dict[str, Any] = {}
    if "http_session_cls" in inspect.signature(AioConfig.__init__).parameters:
        options["http_session_cls"] = BoundedSession
    checksum = "request_checksum_calculation"  # older versions have none, and add none
    if checksum in AioConfig.OPTION_DEFAULTS and "AWS_REQUEST_CHECKSUM_CALCULATION" not in os.environ:
        options[checksum] = "when_required"
    return options
