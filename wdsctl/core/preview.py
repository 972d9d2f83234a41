"""A part in one line, as a person wants to see it: text as text, an image as its format and size, the rest by kind."""

from __future__ import annotations

import io

from wdsctl.core.sniff import sniff

WIDTH = 60  # characters of text
HEAD = 64 << 10  # bytes that are enough: an image's header, the beginning of a text


def preview(head: bytes, size: int) -> str:
    """One line about a part of `size` bytes that begins with `head`."""
    content = sniff(head, size)
    if content.kind == "empty":
        return "empty"
    if content.kind == "image":
        return _image(head, content.format)
    if content.kind in ("text", "integer", "number", "json"):
        return _text(head)
    return f"{content.kind}, {content.format}" if content.format != content.kind else content.kind


def _text(head: bytes) -> str:
    text = " ".join(head[: 8 * WIDTH].decode("utf-8", "replace").split())
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…"


def _image(head: bytes, format_name: str) -> str:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(head)) as image:
            return f"{image.format or format_name}, {image.width} x {image.height}, {image.mode}"
    except (OSError, ValueError, Image.DecompressionBombError):
        # The header is damaged, or longer than what was read: the format alone is known.
        return format_name
