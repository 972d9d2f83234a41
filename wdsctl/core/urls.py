"""Roots that are URLs: told apart from paths, and shown without what must stay secret. Text only; nothing is opened."""

from __future__ import annotations

import re
from urllib.parse import unquote

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(::[A-Za-z][\w+.:-]*)?://")
_USER = re.compile(r"(://)[^/\s@]*@")
_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")


def is_url(root: str) -> bool:
    """Whether a root names a store that is not mounted: `s3://bucket/shards`. `file://` is a path like any other."""
    scheme = protocol(root)
    return scheme not in ("", "file")


def protocol(root: str) -> str:
    """`s3` of `s3://bucket/shards`; empty for a path."""
    match = _URL.match(root)
    return match[1].lower() if match else ""


def plain(root: str) -> str:
    """A path as it is, `file:///data/shards` as `/data/shards`, and any other URL without slashes at its end."""
    if protocol(root) == "file":
        return unquote("/" + root.partition("://")[2].removeprefix("localhost").lstrip("/"))
    if not is_url(root):
        return root
    scheme, separator, rest = root.partition("://")
    return f"{scheme}{separator}{rest.rstrip('/')}"


def is_chained(root: str) -> bool:
    """Whether a URL is of several layers, as fsspec has them: `simplecache::s3://bucket/shards`."""
    return is_url(root) and "::" in root.partition("://")[0]


def shown(text: str) -> str:
    """A URL, or words that have URLs in them, without user, password and query. Paths come back as they are."""
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text)) if "://" in text else text
