"""Paths and values as text for people, streams and databases: a file's name may be any bytes.

Names, keys, texts and the words of libraries come from data. What of it a terminal would obey, or show in another order
than it stands in, is written as an escape: in names by `one_line`, and in all that is written by `harmless`.
"""

from __future__ import annotations

import json
import os
import re

#: Controls of ASCII but tabs and line ends, and of Latin-1 (a terminal takes U+009B for ESC [); what turns text around;
#: what is not seen, but for the two joiners that words and emojis are made with; ends of lines and paragraphs.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def printable(path: str) -> str:
    r"""The path as text that any stream and any database takes: bytes that are no UTF-8 appear as `\xNN`."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def harmless(text: str) -> str:
    r"""`text` of any lines, without what a terminal obeys or what hides or turns text: such as `\x1b` for ESC."""
    return _UNSAFE.sub(_escaped, text)


def on_a_line(text: str) -> str:
    r"""The same on one line: a newline appears as `\n`."""
    return harmless(text).replace("\n", "\\n")


def harmless_json(text: str) -> str:
    r"""The same of a JSON document: such as `\u001b`. It says what it said."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def shell_word(text: str) -> str:
    r"""A name as a shell reads it back: as it is, or `$'a\x1bb'` where it has something in it that is not printable."""
    if text.isprintable():
        return text
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _in_shell(c) for c in quoted) + "'"


def _in_shell(letter: str) -> str:
    r"""Of a shell `\xNN` is a byte, and a letter only below 128; a byte that was no UTF-8 is one."""
    number = ord(letter)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return f"\\u{number:04x}" if 0x80 <= number <= 0xFFFF else _escape(letter)


def _escaped(found: re.Match[str]) -> str:
    return _escape(found[0])


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode()


def one_line(text: str) -> str:
    r"""`text` on one line, with nothing in it that moves a terminal's cursor: a newline appears as `\n`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


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
