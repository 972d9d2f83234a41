"""What a part holds, told from its first bytes and never from its name.

A table of signatures first, then the containers that need a second look, then text. Standard library only, and cheap:
some microseconds a part, plus the parse where a part is JSON. 4 KiB of head are enough for all but long JSON.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Literal

from wdsctl.core import sniff_media

ContentKind = Literal[
    "image", "video", "audio", "text", "integer", "number", "json", "array", "archive", "pickle", "empty", "binary"
]


@dataclass(frozen=True, slots=True)
class Content:
    """`format` is the usual short name: jpeg, mp4, utf-8, object (of JSON), npy, gzip; empty where there is none."""

    kind: ContentKind
    format: str = ""


#: (offset, magic, kind, format). Text does not begin like any of these by accident. What could be text (BM, ID3, PK, or
#: `wide` where a box's name stands) is looked at more closely in the functions below.
SIGNATURES: tuple[tuple[int, bytes, ContentKind, str], ...] = (
    (0, b"\xff\xd8\xff", "image", "jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image", "png"),
    (0, b"GIF87a", "image", "gif"),
    (0, b"GIF89a", "image", "gif"),
    (0, b"II*\0", "image", "tiff"),
    (0, b"MM\0*", "image", "tiff"),
    (0, b"II+\0", "image", "tiff"),
    (0, b"MM\0+", "image", "tiff"),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n", "image", "jpeg2000"),
    (0, b"\xff\x4f\xff\x51", "image", "jpeg2000"),
    (0, b"\0\0\0\x0cJXL \r\n\x87\n", "image", "jxl"),
    (0, b"fLaC\0", "audio", "flac"),
    (0, b"fLaC\x80", "audio", "flac"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video", "asf"),
    (0, b"\0\0\1\xba", "video", "mpeg"),
    (0, b"\0\0\1\xb3", "video", "mpeg"),
    (0, b"\x93NUMPY", "array", "npy"),
    (0, b"\x89HDF\r\n\x1a\n", "array", "hdf5"),
    (0, b"\x1f\x8b\x08", "archive", "gzip"),
    (0, b"\x28\xb5\x2f\xfd", "archive", "zstd"),
    (0, b"\xfd7zXZ\0", "archive", "xz"),
    (0, b"\x04\x22\x4d\x18", "archive", "lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "archive", "7z"),
    (257, b"ustar", "archive", "tar"),
    (0, b"%PDF-", "binary", "pdf"),
    (0, b"PAR1\x15", "binary", "parquet"),
)

#: The same for what a few fixed bytes do not tell: (pattern from the first byte on, kind, format).
PATTERNS: tuple[tuple[re.Pattern[bytes], ContentKind, str], ...] = (
    (re.compile(rb"\x00\x00\x01\x00[\x01-\x40]\x00...\x00", re.DOTALL), "image", "ico"),
    (re.compile(rb"\x01\xda[\x00\x01][\x01\x02]\x00[\x01-\x03]"), "image", "sgi"),
    (re.compile(rb"\n[\x00\x02-\x05][\x00\x01][\x01\x02\x04\x08].{60}\x00[\x01-\x04]", re.DOTALL), "image", "pcx"),
    # TGA has no mark: kind, a table of colors that is there and described, or neither; bits a pixel; flags.
    (re.compile(rb".\x00[\x02\x03\n\x0b]\x00{5}.{8}[\x01\x08\x10\x18 ][\x00-\x2f]", re.DOTALL), "image", "tga"),
    (re.compile(rb".\x01[\x01\t].{4}[\x0f\x10\x18 ].{8}\x08[\x00-\x2f]", re.DOTALL), "image", "tga"),
    (re.compile(rb"P[456]\s+(#[^\n]*\n\s*)*\d+\s+(#[^\n]*\n\s*)*\d+\s"), "image", "pnm"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "archive", "bzip2"),
    (re.compile(rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\."), "pickle", "torch"),
    # The length of the header as a little-endian u64, then the header, a JSON object.
    (re.compile(rb"....[\x00-\xff]\x00\x00\x00\{[ \"}]", re.DOTALL), "array", "safetensors"),
)

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def sniff(head: bytes, size: int | None = None) -> Content:
    """The content of a part whose first bytes are `head` and whose whole size is `size` (None: `head` is all of it)."""
    if not head:
        return Content("empty" if not size else "binary")
    is_whole = size is None or size <= len(head)
    return (
        _by_signature(head)
        or _by_media(head)
        or _by_container(head, is_whole=is_whole)
        or _by_text(head, is_whole=is_whole)
        or Content("binary")
    )


def _by_signature(head: bytes) -> Content | None:
    for offset, magic, kind, form in SIGNATURES:
        if head.startswith(magic, offset):
            return Content(kind, form)
    for pattern, kind, form in PATTERNS:
        if pattern.match(head):
            return Content(kind, form)
    return None


def _by_media(head: bytes) -> Content | None:
    found = sniff_media.sniff(head)
    return Content(*found) if found else None


def _by_container(head: bytes, *, is_whole: bool) -> Content | None:
    if head.startswith(b"PK"):
        return _zip(head)
    return Content("pickle", "pickle") if _is_pickle(head, is_whole=is_whole) else None


def _zip(head: bytes) -> Content | None:
    if head.startswith((b"PK\5\6", b"PK\7\x08")):
        return Content("archive", "zip")
    if not head.startswith(b"PK\3\4"):
        return None
    # The first member's name tells torch's and numpy's files apart from others: both writers put it first.
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith(b".npy"):
        return Content("array", "npz")
    if name.endswith((b"/data.pkl", b"/version", b"/.format_version")):
        return Content("pickle", "torch")
    return Content("archive", "zip")


def _is_pickle(head: bytes, *, is_whole: bool) -> bool:
    """Protocols 2 to 5. Older ones are plain text and cannot be told."""
    if len(head) < 4 or head[0] != 0x80 or not 2 <= head[1] <= 5:
        return False
    if is_whole and head[-1:] != b".":
        return False
    return head[1] < 4 or head[2:3] == b"\x95" or is_whole


def _by_text(head: bytes, *, is_whole: bool) -> Content | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _wide_text(head, is_whole=is_whole)
    if _CONTROL.search(head):
        return None
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        return None
    return _meaning(text.strip(), is_whole=is_whole)


def _wide_text(head: bytes, *, is_whole: bool) -> Content | None:
    try:
        text = codecs.getincrementaldecoder("utf-16")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        return None
    printable = sum(char.isprintable() or char.isspace() for char in text)
    return Content("text", "utf-16") if printable >= 0.95 * len(text) else None


def _meaning(text: str, *, is_whole: bool) -> Content:
    if is_whole and _INTEGER.fullmatch(text):
        return Content("integer", "utf-8")
    if is_whole and _NUMBER.fullmatch(text):
        return Content("number", "utf-8")
    form = {"{": "object", "[": "array", '"': "string"}.get(text[:1])
    if form and _is_json(text, is_whole=is_whole):
        return Content("json", form)
    return Content("text", "utf-8")


def _is_json(text: str, *, is_whole: bool) -> bool:
    """Whether all of the text parses; of a text that was cut off, whether the cut is what the parser stumbles over."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if is_whole:
            return False
        # The parser points at the start of a string that never ends, and else at most a token before the end.
        return error.msg.startswith("Unterminated string") or error.pos >= len(text) - 12
    except (ValueError, RecursionError):
        return False  # an integer of more digits than Python reads, or nesting deeper than its stack
    return True
