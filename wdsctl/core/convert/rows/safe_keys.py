"""Keys that any tar, file system and database takes, made of whatever names rows have."""

from __future__ import annotations

import re
from hashlib import blake2b

LONGEST = 200  # bytes in UTF-8: with a part's name behind it, a file name stays below the usual 255

_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\\]")


def safe_key(text: str) -> str:
    """`text` as a key: no dot in its last segment (parts begin there), no odd characters, no way out of a folder.

    Empty where nothing is left. Different texts may give one key: whoever makes the keys of a dataset tells.
    """
    segments = [_ODD.sub("_", segment) for segment in text.split("/")]
    segments = ["_" * len(segment) if set(segment) == {"."} else segment for segment in segments if segment]
    if not segments:
        return ""
    key = "/".join([*segments[:-1], segments[-1].replace(".", "_")])
    if key.startswith("__"):
        key = key[1:]  # names that begin like __this__ are not samples to readers of WebDataset
        key = f"x{key}" if key.startswith("__") else key
    return key if len(key.encode()) <= LONGEST else _shortened(key)


def stem(path: str) -> str:
    """A path without its ending: what the key of a file is made of. `a/b.c.jpg` gives `a/b.c`."""
    folder, slash, name = path.rpartition("/")
    base, dot, _ = name.rpartition(".")
    return f"{folder}{slash}{base if dot and base else name}"


def numbered(row: int, prefix: str = "") -> str:
    """The key of a row by its number alone."""
    return f"{prefix}{row:09d}"


def _shortened(key: str) -> str:
    """The beginning, and a hash of all of it: the same key every time."""
    digest = blake2b(key.encode(), digest_size=8).hexdigest()
    head = key.encode()[: LONGEST - 17].decode("utf-8", "ignore").rstrip("/")
    folder, slash, name = head.rpartition("/")
    return f"{folder}{slash}{name.replace('.', '_')}-{digest}"
