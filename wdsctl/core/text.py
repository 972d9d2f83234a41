"""Format text for messages: numbers with nouns, lists of names, and data that is safe to print.

File names may contain any bytes, and keys and texts come from data. Characters that control a terminal, are invisible
or reorder text are escaped: in names by `escape_unprintable`, in longer text by `escape_control_chars`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """Return `1 shard` or `1,204 shards`. `plural`: the plural, unless it is the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def join_with_and(names: Sequence[str]) -> str:
    """Return `train`, `train and val`, or `train, val and test`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def natural_sort_key(name: str) -> list[tuple[int, int, str]]:
    """Sorts `rank10` after `rank9`: numbers by their value, whatever their length."""
    return [
        (0, len(piece.lstrip("0")), piece.lstrip("0")) if i % 2 else (1, 0, piece)
        for i, piece in enumerate(re.split("([0-9]+)", name))
    ]


#: ASCII controls except tab and newline; Latin-1 controls (a terminal reads U+009B as ESC [); bidirectional controls;
#: invisible characters except the two joiners that words and emojis need; line and paragraph separators.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


#: Half a surrogate pair that does not stand for a byte of a path.
_HALF_PAIR = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def printable_path(path: str) -> str:
    r"""Return the path as valid Unicode, for any stream or database. Bytes that are not UTF-8 become `\xNN`.

    Half a surrogate pair, which no path has but texts of JSON may have, becomes `\uNNNN`.
    """
    if path.isascii():
        return path
    path = _HALF_PAIR.sub(lambda found: _escape(found[0]), path)
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def escape_control_chars(text: str) -> str:
    r"""Escape characters that control a terminal, are invisible or reorder text: ESC becomes `\x1b`.

    Keeps newlines.
    """
    return _UNSAFE.sub(lambda found: _escape(found[0]), text)


def escape_to_line(text: str) -> str:
    r"""Escape text like `escape_control_chars`, and newlines as `\n`."""
    return escape_control_chars(text).replace("\n", "\\n")


def escape_json_controls(text: str) -> str:
    r"""Escape control characters of a JSON document, such as `\u001b`. Its value stays the same."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def quote_ansi_c(text: str) -> str:
    r"""Quote a name for a shell: as `$'a\x1bb'` if it has unprintable characters, else unchanged."""
    if text.isprintable():
        return text
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _shell_escape(c) for c in quoted) + "'"


def _shell_escape(letter: str) -> str:
    r"""Escape a character for a shell, where `\xNN` is a byte: use it for ASCII and undecodable bytes only."""
    number = ord(letter)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return f"\\u{number:04x}" if 0x80 <= number <= 0xFFFF else _escape(letter)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode()


def escape_unprintable(text: str) -> str:
    r"""Escape all unprintable characters; a newline becomes `\n`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def short_repr(value: object) -> str:
    """Return the value's repr, cut to 60 characters; only its type if Python refuses to print it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits, very deep nesting
        return f"{type(value).__name__} too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def path_for_message(path: str) -> str:
    """Return a path for a message: printable, on one line."""
    return escape_unprintable(printable_path(path))


_MARKDOWN_MARKS = re.compile(r"[\\`*\[\]<>&|~$#]|(?<![^\W_])_|_(?![^\W_])")


def markdown_text(text: str) -> str:
    """Escape text for one line of Markdown: no markup, HTML, or unprintable characters."""
    return _MARKDOWN_MARKS.sub(r"\\\g<0>", escape_unprintable(text))


def markdown_code(text: str) -> str:
    r"""Format text as a code span, also in tables, where | ends a cell even in code: ` becomes `\x60`, | `\x7c`."""
    escaped = escape_unprintable(text).replace("`", "\\x60").replace("|", "\\x7c")
    return f"`{escaped or ' '}`"
