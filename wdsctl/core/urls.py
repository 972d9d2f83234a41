"""Distinguish URLs from paths, and remove secrets from texts. Works on text only; opens nothing."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TypeVar
from urllib.parse import parse_qsl, quote, unquote

from wdsctl.core.text import escape_to_line

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(::[A-Za-z][\w+.:-]*)?://")
# Patterns as text: `re` compiles one when it is first used, and keeps it. Few commands need these, and compiling them
# all takes 3 ms.
_CHAIN = r"::[A-Za-z][\w+.-]*://"
_IDENTITY_USER = r"(://)[^/\s@]*@"
_IDENTITY_QUERY = r"(://[^\s?'\"]*)\?[^\s'\"]*"

SECRET_MASK = "***"  # noqa: S105 - replaces a secret
MIN_SECRET_CHARS = 8  # minimum length of an environment variable's value to mask: shorter values may be ordinary words

#: A URL within text. A quote ends it, unless characters of a URL follow. A URL that passed through path functions has a
#: single slash.
_URL_IN_TEXT = (
    r"(?:[A-Za-z][A-Za-z0-9+.-]*://|(?<![A-Za-z])(?:https?|s?ftps?|ssh|s3a?|gc?s|abfss?|az|wasbs?|webdavs?):/"
    r"|[A-Za-z][A-Za-z0-9+.-]+:/(?=[^/\s:@]+:[^\s]*@))"
    r"[^\s'\"<>`]*(?:['\"][\w%=&+/@.-][^\s'\"<>`]*)*"
)
_SCHEME = r"(:/{1,2})"
_HOST_AND_PORT = r"(?:localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(?:\.[\w-]+)+):\d{1,5}"
#: A percent-encoded URL: a parameter of another URL, or a file name.
_ENCODED_USER = r"(?i)(%3A%2F%2F)[^\s'\"/&]*%40"
_ENCODED_QUERY = r"(?i)(%3A%2F%2F[^\s'\"/&]*?)%3F[^\s'\"/&]*"
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'&;,)}\]]+)"
#: `name=value` with a name that marks a secret. Short names count only as URL parameters.
_SENSITIVE_PAIR = (
    r"(?i)((?:(?<![A-Za-z0-9])(?:x-(?:amz|goog)-(?:signature|credential|security-token)|awsaccesskeyid|"
    r"(?:aws_)?secret_?(?:access_?)?key|(?:aws_)?session_?token|client_?secret|(?:access|refresh|id|auth|bearer)_?token|"
    r"api_?key|account_?key|sas_?token|sharedaccess(?:signature|key)|shared_access_signature|password|passwd|pwd)"
    r"|(?<=[?&])(?:sig|signature|token|key|secret|credential))"
    r"[\"']?(?:\s*=\s*|%3D|(?<=[\"'])\s*:\s*))" + _VALUE
)
_SENSITIVE_HEADER = (
    r"(?i)((?<![A-Za-z])(?:proxy-authorization|authorization|set-cookie|cookie|x-api-key|x-auth-token|"
    r"x-amz-security-token|x-ms-authorization-auxiliary)[\"']?\s*[:=]\s*)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\r\n'\"}]+)"
)
#: A quick test: a text without any of these has no match for the two slow patterns above.
_SECRET_HINTS = (
    "sig",
    "token",
    "secret",
    "passw",
    "pwd",
    "credential",
    "cookie",
    "authorization",
    "keyid",
    *(f"key{end}" for end in ("=", "%", ":", "'", '"', " =", " :")),
)
_SENSITIVE_NAME = (
    r"SECRET|PASSWORD|PASSWD|(?<!\w)TOKEN$|_TOKEN$|ACCESS_KEY|ACCOUNT_KEY|API_KEY|STORAGE_KEY|SAS_TOKEN"
    r"|CONNECTION_STRING"
)


#: fsspec's caches that a URL may begin with: `simplecache::s3://bucket/shards`.
CACHE_LAYERS = ("simplecache", "filecache", "blockcache")

#: Parameters that sign a URL, without another effect on what it returns. Lower case; a star stands for any end.
_SIGNING_PARAMETERS = (
    r"x-amz-(algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|checksum-mode)"
    r"|x-goog-(algorithm|credential|date|expires|signedheaders|signature)|x-id"
    r"|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id|hash-algorithm"
    r"|s[veprti]|sig|sip|spr|srt?|ss|ske?|sko?id|sktid|skt|sks|skv|skoid|saoid|suoid|scid|sdd|ses"
    r"|response-(cache-control|content-(disposition|encoding|language|type)|expires)|rsc[cdelt]"
)
_SIGNED_USER = "signed-query"  # in the place of a user: what follows it is a query, see `hide_query`


def is_url(root: str) -> bool:
    """Whether a root is a URL such as `s3://bucket/shards`. A `file://` URL counts as a path."""
    scheme = protocol(root)
    return scheme not in ("", "file")


def protocol(root: str) -> str:
    """Return `s3` for `s3://bucket/shards` and for `simplecache::s3://bucket/shards`, and "" for a path."""
    if not _URL.match(root):
        return ""
    return root.partition("://")[0].rpartition("::")[2].lower()


def normalize_root(root: str) -> str:
    """Remove trailing slashes from a URL, and turn `file:///data/shards` into `/data/shards`.

    Returns a path unchanged.
    """
    if protocol(root) == "file":
        return unquote("/" + root.partition("://")[2].removeprefix("localhost").lstrip("/"))
    if not is_url(root):
        return root
    scheme, separator, rest = root.partition("://")
    return root if "?" in rest else f"{scheme}{separator}{rest.rstrip('/')}"


def without_query(path: str) -> str:
    """The path, or the URL up to its `?`."""
    return path.partition("?")[0] if is_url(path) else path


def is_chained(root: str) -> bool:
    """Whether a URL has several fsspec layers: `simplecache::s3://bucket/shards`, `zip://a.tar::s3://bucket/x.zip`."""
    return is_url(root) and ("::" in root.partition("://")[0] or re.search(_CHAIN, root) is not None)


def cache_layer(root: str) -> str:
    """Return the cache that a URL begins with, such as `simplecache`; "" if it has none, or other layers."""
    layer, _, store = root.partition("::")
    return layer.lower() if layer.lower() in CACHE_LAYERS and is_url(store) and not is_chained(store) else ""


def store_url(root: str) -> str:
    """Return a URL without the cache before it: that of the store."""
    return root.partition("::")[2] if cache_layer(root) else root


def is_signature(query: str) -> bool:
    """Whether a query only signs its URL.

    Any other parameter may select what the URL returns: without it, two files would have the same identity.
    """
    names = [name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)]
    return any(name in ("signature", "sig", "x-amz-signature", "x-goog-signature") for name in names) and all(
        re.fullmatch(_SIGNING_PARAMETERS, name) for name in names
    )


def hide_query(url: str) -> str:
    """Move the query of a signed URL to the place of a user: `https://signed-query:QUERY@host/a.tar`.

    Names can then be joined to its folder, and whatever removes users and passwords removes the signature.
    """
    plain, _, query = url.partition("?")
    scheme, separator, rest = plain.partition("://")
    return f"{scheme}{separator}{_SIGNED_USER}:{quote(query, safe='')}@{rest}"


def reveal_query(url: str) -> tuple[str, str]:
    """Return (URL, query) of a result of `hide_query`, or of a URL that was joined to it; (url, "") of another URL."""
    scheme, separator, rest = url.partition("://")
    if not rest.startswith(f"{_SIGNED_USER}:"):
        return url, ""
    query, _, rest = rest.removeprefix(f"{_SIGNED_USER}:").partition("@")
    return f"{scheme}{separator}{rest}", unquote(query)


def is_signed(url: str) -> bool:
    """Whether a URL carries a signature, as a query or hidden by `hide_query`."""
    return is_url(url) and ("?" in url or reveal_query(url)[1] != "")


def url_identity(root: str) -> str:
    """Return a URL without user, password and query, to identify its data for all users.

    Do not print the result: if the password contains a slash, a piece of it remains.
    """
    return re.sub(_IDENTITY_QUERY, r"\1", re.sub(_IDENTITY_USER, r"\1", root))


def redact_secrets(text: str) -> str:
    """Remove secrets from a text, to print, log or store it.

    Removes users, passwords, queries and tokens from URLs, and masks secret values of headers, parameters and
    environment variables. Errors call it when they are created, and so do notes, logs, tracebacks and command lines.
    Does not change paths. From a URL with a password, removes everything up to the last `@`, since a password may
    contain slashes and `@`.
    """
    if ":/" in text:
        whole = _URL.match(text) is not None and not any(map(str.isspace, text))
        text = _redact_url(text) if whole else re.sub(_URL_IN_TEXT, lambda found: _redact_url(found[0]), text)
    if "%" in text:
        text = re.sub(_ENCODED_QUERY, r"\1", re.sub(_ENCODED_USER, r"\1", text))
    low = text.lower()
    if any(word in low for word in _SECRET_HINTS):
        text = re.sub(_SENSITIVE_PAIR, _mask_value, re.sub(_SENSITIVE_HEADER, _mask_value, text))
    for value in _environment_secrets():
        text = text.replace(value, SECRET_MASK)
    return text


def _redact_url(url: str) -> str:
    """Remove user, password, query and secret fragments from one URL."""
    scheme, slashes, rest = re.split(_SCHEME, url, maxsplit=1)
    authority = rest.partition("/")[0]
    if "@" in rest and (":" in authority and not re.fullmatch(_HOST_AND_PORT, authority)):
        rest = rest[rest.rindex("@") + 1 :]
    elif "@" in authority:
        rest = rest[authority.rindex("@") + 1 :]
    rest = rest.partition("?")[0]
    path, mark, fragment = rest.partition("#")
    return f"{scheme}{slashes}{path if '=' in fragment else path + mark + fragment}"


def _mask_value(found: re.Match[str]) -> str:
    return f"{found[1]}{SECRET_MASK}"


def _environment_secrets() -> list[str]:
    """Return the secret values in the environment, the longest first."""
    values = (os.environ.get(name, "") for name in _secret_variable_names(len(os.environ)))
    secret = {value for value in values if len(value) >= MIN_SECRET_CHARS and not value.startswith(("/", "~", "."))}
    return sorted(secret, key=lambda value: (-len(value), value))


@lru_cache(maxsize=4)
def _secret_variable_names(_size: int) -> list[str]:
    """Return the names of secret environment variables.

    `_size`: the number of variables. It is the cache key, so that a new variable is noticed without a slow search.
    """
    return [name for name in os.environ if re.search(_SENSITIVE_NAME, name)]


ValueT = TypeVar("ValueT")


def redact_repr(kind: type[ValueT]) -> type[ValueT]:
    """Remove secrets and escape control characters in a class's `repr`."""
    plain = kind.__repr__

    def redacted(self: ValueT) -> str:
        return escape_to_line(redact_secrets(plain(self)))

    kind.__repr__ = redacted  # type: ignore[method-assign, assignment]
    return kind
