"""Roots that are URLs: told apart from paths, and shown without what must stay secret. Text only; nothing is opened."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from urllib.parse import unquote

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(::[A-Za-z][\w+.:-]*)?://")
_IDENTITY_USER = re.compile(r"(://)[^/\s@]*@")
_IDENTITY_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")

HIDDEN = "***"
SHORTEST = 8  # letters of a variable's value that is taken out of texts: shorter ones may be any word

#: A URL among words: in quotes it ends with them, unless what follows goes on with it. One that was taken for a path
#: has a single slash.
_URL_IN_TEXT = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*://|(?<![A-Za-z])(?:https?|s?ftps?|ssh|s3a?|gc?s|abfss?|az|wasbs?|webdavs?):/"
    r"|[A-Za-z][A-Za-z0-9+.-]+:/(?=[^/\s:@]+:[^\s]*@))"
    r"[^\s'\"<>`]*(?:['\"][\w%=&+/@.-][^\s'\"<>`]*)*"
)
_SCHEME = re.compile(r"(:/{1,2})")
_HOST_AND_PORT = re.compile(r"(?:localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(?:\.[\w-]+)+):\d{1,5}")
#: A URL that is itself the parameter of another, or the name of a file.
_ENCODED_USER = re.compile(r"(?i)(%3A%2F%2F)[^\s'\"/&]*%40")
_ENCODED_QUERY = re.compile(r"(?i)(%3A%2F%2F[^\s'\"/&]*?)%3F[^\s'\"/&]*")
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'&;,)}\]]+)"
#: `name=value` of what is secret by its name; of short names only as parameters of a URL.
_PAIR = re.compile(
    r"(?i)((?:(?<![A-Za-z0-9])(?:x-(?:amz|goog)-(?:signature|credential|security-token)|awsaccesskeyid|"
    r"(?:aws_)?secret_?(?:access_?)?key|(?:aws_)?session_?token|client_?secret|(?:access|refresh|id|auth|bearer)_?token|"
    r"api_?key|account_?key|sas_?token|sharedaccess(?:signature|key)|shared_access_signature|password|passwd|pwd)"
    r"|(?<=[?&])(?:sig|signature|token|key|secret|credential))"
    r"[\"']?(?:\s*=\s*|%3D|(?<=[\"'])\s*:\s*))" + _VALUE
)
_HEADER = re.compile(
    r"(?i)((?<![A-Za-z])(?:proxy-authorization|authorization|set-cookie|cookie|x-api-key|x-auth-token|"
    r"x-amz-security-token|x-ms-authorization-auxiliary)[\"']?\s*[:=]\s*)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\r\n'\"}]+)"
)
#: Without one of them there is nothing for the two to find, which are slow to look.
_SIGNS = (
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
_SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|(?<!\w)TOKEN$|_TOKEN$|ACCESS_KEY|ACCOUNT_KEY|API_KEY|STORAGE_KEY|SAS_TOKEN|CONNECTION_STRING"
)


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


def identity(root: str) -> str:
    """What names the data of a URL, whoever reads it: without user, password and query. It may not be printed: where a
    password has a slash in it, a piece of it stays."""
    return _IDENTITY_QUERY.sub(r"\1", _IDENTITY_USER.sub(r"\1", root))


def shown(text: str) -> str:
    """Words as they may be printed, logged and stored: URLs in them without user, password, query and tokens, and
    without what a header, a parameter or a variable of the environment holds that is secret.

    Every error passes here as it is made, and so do notes, logs, tracebacks and command lines. Paths come back as they
    are. Of a URL with a password all goes up to the last `@`: there may be slashes and others of it in a password.
    """
    if ":/" in text:
        whole = _URL.match(text) is not None and not any(map(str.isspace, text))
        text = _bare(text) if whole else _URL_IN_TEXT.sub(lambda found: _bare(found[0]), text)
    if "%" in text:
        text = _ENCODED_QUERY.sub(r"\1", _ENCODED_USER.sub(r"\1", text))
    low = text.lower()
    if any(word in low for word in _SIGNS):
        text = _PAIR.sub(_hidden, _HEADER.sub(_hidden, text))
    for value in _secrets():
        text = text.replace(value, HIDDEN)
    return text


def _bare(url: str) -> str:
    """One URL without what is not shown of it."""
    scheme, slashes, rest = _SCHEME.split(url, maxsplit=1)
    authority = rest.partition("/")[0]
    if "@" in rest and (":" in authority and not _HOST_AND_PORT.fullmatch(authority)):
        rest = rest[rest.rindex("@") + 1 :]
    elif "@" in authority:
        rest = rest[authority.rindex("@") + 1 :]
    rest = rest.partition("?")[0]
    path, mark, fragment = rest.partition("#")
    return f"{scheme}{slashes}{path if '=' in fragment else path + mark + fragment}"


def _hidden(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}"


def _secrets() -> list[str]:
    """What the environment holds that is secret, the longest first."""
    values = (os.environ.get(name, "") for name in _secret_names(len(os.environ)))
    secret = {value for value in values if len(value) >= SHORTEST and not value.startswith(("/", "~", "."))}
    return sorted(secret, key=lambda value: (-len(value), value))


@lru_cache(maxsize=4)
def _secret_names(_size: int) -> list[str]:
    """`_size`: how many variables there are, so that one more is seen: looking at all is slow."""
    return [name for name in os.environ if _SECRET_NAME.search(name)]
