"""A number that changes when the content of a file in a store does, from what its driver says of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

#: What stores call it: a name for the content, and where there is none, a time.
_TAGS = ("etag", "generation", "md5hash", "content_md5", "md5", "checksum", "sha256", "blob_id")
_TIMES = ("mtime", "lastmodified", "last_modified", "last-modified", "updated", "created")


def change_mark(facts: Mapping[str, Any]) -> int:
    """A number of 63 bits that stands for the file's content, in the place of its time.

    A hash of the etag, or of what else names the content; else the time in nanoseconds; 0 where the store says neither.
    """
    lower = {str(name).lower(): value for name, value in facts.items()}
    for name in _TAGS:
        if lower.get(name):
            digest = blake2b(str(lower[name]).encode(), digest_size=8).digest()
            return int.from_bytes(digest, "little") >> 1
    for name in _TIMES:
        if lower.get(name):
            return _nanoseconds(lower[name])
    return 0


def _nanoseconds(when: Any) -> int:
    if isinstance(when, datetime):
        return int(when.timestamp()) * 1_000_000_000 + when.microsecond * 1000
    if isinstance(when, (int, float)):
        return int(when * 1_000_000_000)
    digest = blake2b(str(when).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
