"""Paths and values as text for people, streams and databases: a file's name may be any bytes."""

from __future__ import annotations

import os


def printable(path: str) -> str:
    r"""The path as text that any stream and any database takes: bytes that are no UTF-8 appear as `\xNN`."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def one_line(text: str) -> str:
    r"""`text` on one line, with nothing in it that moves a terminal's cursor: a newline appears as `\n`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def short(value: object) -> str:
    """The value as code would have it, cut to 60 characters; only its type where Python will not write it out."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more than 4,300 digits, lists in lists without end
        return f"{type(value).__name__} too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def named(path: str) -> str:
    """The path as a message names it: printable, and on one line."""
    return one_line(printable(path))
