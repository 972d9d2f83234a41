"""Limits of what servers may send, and of where they may redirect to, for all clients."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

MAX_WHOLE_BYTES = 64 << 20  # of an answer to a request without a range: lists of files, catalog pointers
MAX_LIST_PAGES = 10_000  # of a list of files; S3 and Google list 1,000 files on a page
MAX_FOLDER_DEPTH = 100  # below the root of a dataset: of pages that link to ever deeper folders
HEADER_SECONDS = 120.0  # until the headers of an answer are complete
GRACE_SECONDS = 60.0  # in which an answer may be slower than this:
MIN_BYTES_PER_SECOND = 1024

REDIRECT_HINT = "if you trust that server, pass its URL instead"


def redirect_message(host: str) -> str:
    return f"the server redirects to {host}, an address of this machine or of a private network"


def is_public_address(text: str) -> bool:
    """Whether an IP address is neither of this machine nor of a private network."""
    address = ip_address(text.partition("%")[0])
    return ((address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address).is_global
