"""Errors of queries that users write: SQLite's own messages, with "did you mean" for columns, views and functions.

Source of the forms of tokens: https://www.sqlite.org/lang_keywords.html (quoting) and
https://www.sqlite.org/lang_expr.html (literals, parameters).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wdsctl.core.errors import UsageError
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.views.sql_guard import DeniedAccess, Guard

#: The errors that the driver raises for a query, not for the file that it reads.
QUERY_ERRORS = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.Warning)

TokenKind = Literal["blank", "text", "quoted", "number", "parameter", "name", "sign"]

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<text>[xX]?'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
  | (?P<number>0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<parameter>\?[0-9]*|[:@$][A-Za-z_0-9]+)
  | (?P<name>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NOT_TEXT = re.compile(r"[\0\ud800-\udfff]")  # Python represents arguments' bytes that are not UTF-8 as surrogates

_NO_COLUMN = re.compile(r"no such column: (?:.*\.)?(.+)", re.DOTALL)
_NO_TABLE = re.compile(r"no such table: (?:.*\.)?(.+)", re.DOTALL)
_NO_FUNCTION = re.compile(r"no such function: ([\w>-]+)")


class Token(NamedTuple):
    kind: TokenKind
    text: str

    @property
    def identifier(self) -> str:
        """A name without its quotes."""
        if self.kind != "quoted":
            return self.text
        quote = self.text[-1]
        inner = self.text[1:-1]
        return inner if quote == "]" else inner.replace(quote * 2, quote)


@dataclass(frozen=True, slots=True)
class Query:
    """A text that a user wrote. `source`: where, such as `--where`. `doc`: the page that explains what it can name."""

    text: str
    source: str
    doc: str

    def error(self, message: str, hint: str) -> UsageError:
        return UsageError(message, where=self.source, hint=hint, code="WDS332")

    def tokens(self) -> list[Token]:
        """The tokens without blanks and comments. Raises UsageError for an empty text, and for parameters."""
        found = (Token(match.lastgroup or "sign", match[0]) for match in _TOKEN.finditer(self.text))  # type: ignore[arg-type]
        tokens = [token for token in found if token.kind != "blank"]
        if not tokens or _NOT_TEXT.search(self.text):
            raise UsageError(
                "the text is empty, or contains NUL characters or bytes that are not UTF-8",
                where=self.source,
                hint=self.doc,
            )
        parameter = next((token.text for token in tokens if token.kind == "parameter"), None)
        if parameter is not None:
            hint = "write the value instead; quote text with single quotes: 'jpg'"
            raise self.error(f"{parameter} is a query parameter, and wdsctl passes no values for parameters", hint)
        return tokens

    def check_quoted_names(self, tokens: Iterable[Token], names: Iterable[str]) -> None:
        """Raise UsageError for a double-quoted token that is not a name: SQLite would silently treat it as text."""
        known = {name.lower(): name for name in names}
        for token in tokens:
            if token.kind == "quoted" and token.identifier.lower() not in known:
                suggestion = did_you_mean(token.identifier, known.values())
                hint = f"quote text with single quotes: '{token.identifier}'{f'; {suggestion}' if suggestion else ''}"
                raise self.error(f"no such column: {token.identifier}", hint)

    def explain(  # noqa: PLR0911
        self, error: sqlite3.Error | sqlite3.Warning, guard: Guard, columns: Sequence[str]
    ) -> UsageError:
        """An error with SQLite's message, or with the access that the guard denied, and a hint. `columns`: existing
        ones."""
        message, views = str(error), tuple(guard.views)
        if guard.denied is not None:
            return self._denied_error(guard.denied, guard)
        if "cannot modify" in message:
            return self._denied_error(DeniedAccess("act", ""), guard)
        if match := _NO_COLUMN.match(message):
            elsewhere = [view for view, names in guard.views.items() if match[1].lower() in map(str.lower, names)]
            if elsewhere:
                return self.error(message, f"{match[1]} is a column of {', '.join(elsewhere)}")
            return self.error(message, did_you_mean(match[1], columns) or f"{self.doc} lists the columns")
        if match := _NO_TABLE.match(message):
            if match[1].lower() in views:  # the query names it in another database
                return self.error(message, f"write {match[1]} without a prefix")
            return self.error(message, did_you_mean(match[1], views) or f"{self.doc} lists the views")
        if match := _NO_FUNCTION.match(message):
            suggestion = did_you_mean(match[1], sorted(guard.functions))
            return self.error(message, suggestion or f"{self.doc} lists the functions")
        return self.error(guard.function_error or message, f"{self.doc} has examples")

    def _denied_error(self, denied: DeniedAccess, guard: Guard) -> UsageError:
        views = ", ".join(guard.views)
        if denied.kind == "function":
            hint = f"{self.doc} lists the functions that are allowed"
            return self.error(f"the function {denied.name} is not allowed", hint)
        if denied.kind == "column":
            return self.error(f"no such column: {denied.name}", f"{self.doc} lists the columns")
        if denied.kind == "view":
            return self.error(f"{denied.name} cannot be read: only the documented views can", f"the views are {views}")
        return self.error("only reading is allowed", f"write a SELECT over {views}")


def was_interrupted(error: sqlite3.Error | sqlite3.Warning, guard: Guard) -> bool:
    """Whether Ctrl-C ended a query, in SQLite or in one of our functions: SQLite reports only that these raised."""
    return str(error) == "interrupted" or ("user-defined function raised" in str(error) and not guard.function_error)


def timeout_error(seconds: float) -> UsageError:
    return UsageError(
        f"the query took longer than {seconds:g} s",
        where="--timeout",
        hint="select fewer rows (LIMIT, a narrower WHERE), or allow more time",
        code="WDS334",
    )
