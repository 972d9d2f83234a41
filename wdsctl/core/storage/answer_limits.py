"""Limits of what servers may send, and of where they may redirect to, for all clients."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from wdsctl.core.errors import StorageError
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, scale_limit
from wdsctl.core.urls import redact_secrets

MAX_WHOLE_BYTES = 64 << 20  # of an answer to a request without a range: lists of files, catalog pointers
MAX_LIST_PAGES = 10_000  # of a list of files; S3 and Google list 1,000 files on a page, Azure 5,000
MAX_FOLDER_DEPTH = 100  # below the root of a dataset: of pages that link to ever deeper folders
HEADER_SECONDS = 120.0  # until the headers of an answer are complete
GRACE_SECONDS = 60.0  # in which an answer may be slower than this:
MIN_BYTES_PER_SECOND = 1024

REDIRECT_HINT = "if you trust that server, pass its URL instead"


def redirect_message(host: str) -> str:
    return f"the server redirects to {host}, an address of this machine or of a private network"


def too_long_error(url: str) -> StorageError:
    """Build the error for an answer to a request without a range that has more than `MAX_WHOLE_BYTES` bytes."""
    return StorageError(
        f"the answer of the server has more than {MAX_WHOLE_BYTES:,} bytes",
        where=redact_secrets(url),
        hint="check the URL; wdsctl reads only lists of files and small documents without a range",
    )


#: Networks whose addresses end in an IPv4 address that packets are sent on to: IPv4-compatible, and NAT64.
_TRANSLATED_NETWORKS = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))


def is_public_address(text: str) -> bool:
    """Whether an IP address is neither of this machine nor of a private network, nor leads to one by translation."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if any(address in network for network in _TRANSLATED_NETWORKS):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    return address.is_global


#: By which S3, Google, Azure and the Hub name the next page of a list.
_PAGE_PARAMETERS = ("pageToken", "continuation-token", "marker", "key-marker", "cursor")
_MAX_PAGE_REQUESTS = 20  # of one page in a row: drivers repeat failed requests six times


class PageCount(NamedTuple):
    page: str  # its URL
    requests: int  # of the page
    pages: int


#: URL of a list -> how far it was read. The first page of a list begins it again.
ListProgress = dict[str, PageCount]


def check_page(lists: ListProgress, url: str) -> None:
    """Note the request for a page of a list.

    Raises StorageError if the pages do not end: the same one again and again, or ever more.
    """
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    of_list = parts._replace(query=urlencode([each for each in query if each[0] not in _PAGE_PARAMETERS])).geturl()
    if not any(name in _PAGE_PARAMETERS and value for name, value in query):
        lists.pop(of_list, None)
        return
    page, requests, pages = lists.get(of_list, PageCount("", 0, 1))
    is_repeated = page == url
    lists[of_list] = PageCount(url, requests + 1 if is_repeated else 1, pages + (not is_repeated))
    if lists[of_list].requests > _MAX_PAGE_REQUESTS:
        problem, hint = "the store names the same next page again and again", "check the store"
    elif lists[of_list].pages > scale_limit(MAX_LIST_PAGES):
        problem = f"it has more than {scale_limit(MAX_LIST_PAGES):,} pages"
        hint = f"check the store; if it has so many files, {RAISE_LIMITS_HINT}"
    else:
        return
    raise StorageError(
        f"the list of files has no end: {problem}",
        where=redact_secrets(parts._replace(query="").geturl()),
        hint=f"{hint}, or copy the dataset to another one",
    )
