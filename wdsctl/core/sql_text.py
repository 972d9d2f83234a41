"""SQL as words, to tell what SQLite's messages are about: it says what is wrong, and Python does not hear where.

Source of the forms: https://www.sqlite.org/c3ref/complete.html and https://www.sqlite.org/lang_keywords.html (quoting).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["blank", "text", "quoted", "number", "parameter", "name", "sign", "open"]

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<text>[xX]?'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
  | (?P<number>0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<parameter>\?[0-9]*|[:@$][A-Za-z_0-9]+)
  | (?P<name>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
  | (?P<open>['"`\[])
  | (?P<sign>->>|->|\|\||<<|>>|<=|>=|<>|!=|==|.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """`kind` "open" is a quotation mark that nothing closes. `at`: where it begins."""

    kind: Kind
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    @property
    def meaning(self) -> str:
        """A name without its quotes."""
        if self.kind != "quoted":
            return self.text
        quote = self.text[-1]
        inner = self.text[1:-1]
        return inner if quote == "]" else inner.replace(quote * 2, quote)


def tokens(sql: str) -> list[Token]:
    """The words and signs, without blanks and comments. Every character is in one of them or in a blank."""
    found = (Token(match.lastgroup or "sign", match[0], match.start()) for match in _TOKEN.finditer(sql))  # type: ignore[arg-type]
    return [token for token in found if token.kind != "blank"]


def pointed(sql: str, at: int, length: int = 1, *, width: int = 72) -> str:
    """Two lines: the line of `sql` that has the place `at`, cut to `width` characters around it, and marks below."""
    begin = sql.rfind("\n", 0, at) + 1
    end = sql.find("\n", at)
    line = sql[begin : len(sql) if end < 0 else end].replace("\t", " ").rstrip("\r")
    column = at - begin
    if len(line) > width:
        kept = width - 6
        first = max(0, min(column - kept // 2, len(line) - kept))
        head, tail = "..." if first else "", "..." if first + kept < len(line) else ""
        line = f"{head}{line[first : first + kept]}{tail}"
        column += len(head) - first
    return f"{line}\n{' ' * column}{'^' * max(1, min(length, len(line) - column))}"
