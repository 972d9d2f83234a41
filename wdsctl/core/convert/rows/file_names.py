"""Names of files for samples of any key: below their folder, whatever the key says."""

from __future__ import annotations

import re
from hashlib import blake2b

LONGEST = 255  # bytes of a name, on nearly every file system

#: Parts that are short texts in UTF-8, by the last piece of their names.
TEXTS = frozenset(
    {"txt", "text", "caption", "transcript", "cls", "cls2", "id", "index", "count", "html", "md", "srt", "vtt"}
)


#: What is written so must not be written otherwise: `%2E` is no dot, but a key's own.
_ESCAPED = re.compile(r"%|(%[0-9A-F]{2})+")


def file_name(key: str, part: str) -> str:
    """The path of a part, `key.part`, with what could lead elsewhere written as %XX. Different samples differ in it,
    but for names that are too long and have one hash.
    """
    return "/".join(map(_segment, f"{key}.{part}".split("/")))


def ending(part: str) -> str:
    """The last piece of a part's name, in lower case: `png` of `seg.png`."""
    return part.rpartition(".")[2].lower()


def _segment(text: str) -> str:
    if not text.strip(".") or _ESCAPED.fullmatch(text):
        return "".join(f"%{byte:02X}" for byte in text.encode()) or "%"
    text = text.replace("\0", "%00")
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= LONGEST:
        return text
    digest = blake2b(data, digest_size=8).hexdigest()
    tail = data[-64:].decode("utf-8", "ignore")
    tail = tail[tail.find(".") :] if "." in tail else ""
    room = LONGEST - len(digest) - len(tail.encode()) - 1
    return f"{data[:room].decode('utf-8', 'ignore')}-{digest}{tail}"
