"""What SQLite says of a query, with the place in it and what was probably meant."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from wdsctl.core.errors import UsageError, lines
from wdsctl.core.fields import did_you_mean
from wdsctl.core.query_guard import Denied, Guard
from wdsctl.core.sql_text import Token, pointed, tokens

_COLUMN = re.compile(r"no such column: (?:.*\.)?(.+)", re.DOTALL)
_TABLE = re.compile(r"no such table: (?:.*\.)?(.+)", re.DOTALL)
_FUNCTION = re.compile(r"(?:no such function: |wrong number of arguments to function |misuse of .* )([\w>-]+)")
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")  # what the shell hands over of bytes that are no UTF-8
_NEAR = re.compile(r'(?:near "(.*)": syntax error|unrecognized token: "(.*)")', re.DOTALL)


#: What the driver raises over a query, and not over the file that it reads.
MISTAKES = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.Warning)


def was_interrupted(error: sqlite3.Error | sqlite3.Warning, guard: Guard) -> bool:
    """Whether Ctrl-C ended a query: in SQLite, or in a function of ours, of which SQLite only says that it raised."""
    return str(error) == "interrupted" or ("user-defined function raised" in str(error) and not guard.problem)


def too_long(seconds: float) -> UsageError:
    return UsageError(
        f"the query took longer than {seconds:g} s",
        where="--timeout",
        hint="ask for less (LIMIT, a narrower WHERE), or allow more time",
        code="WDS334",
    )


@dataclass(frozen=True, slots=True)
class Query:
    """A text that a user wrote. `where`: what it is to them, such as --where; `doc`: the page that tells of it.

    `before`: what stands before it when SQLite compiles it.
    """

    text: str
    where: str
    doc: str
    before: str = ""

    def refused(self, message: str, hint: str, word: Token | None = None) -> UsageError:
        """An error that points at a word of the text."""
        marks = pointed(self.text, word.at, len(word.text)).split("\n") if word is not None else []
        at = f"{self.where}, character {word.at + 1}" if word is not None else self.where
        return UsageError(lines(message, *marks), where=at, hint=hint, code="WDS332")

    def words(self) -> list[Token]:
        """Raises UsageError where a quotation is not closed, something is left to be filled in, or there is nothing."""
        words = tokens(self.text)
        if not words or _NO_TEXT.search(self.text):
            raise UsageError("the text is empty, or not all of it is text", where=self.where, hint=self.doc)
        for word in words:
            if word.kind == "open":
                raise self.refused(f"the quotation mark {word.text} is not closed", f"write another {word.text}", word)
            if word.kind == "parameter":
                hint = "write the value itself; text stands in single quotes: 'jpg'"
                raise self.refused(f"{word.text} is to be filled in, and nothing fills it in", hint, word)
        return words

    def check_quoted(self, words: Iterable[Token], known: Iterable[str]) -> None:
        """Raise UsageError for a word in double quotes that names nothing: SQLite would take it for text, silently."""
        names = {name.lower(): name for name in known}
        for word in words:
            if word.kind == "quoted" and word.meaning.lower() not in names:
                meant = did_you_mean(word.meaning, names.values())
                hint = f"text stands in single quotes: '{word.meaning}'{f'; {meant}' if meant else ''}"
                raise self.refused(f"there is no column {word.meaning}", hint, word)

    def explained(self, error: sqlite3.Error | sqlite3.Warning, guard: Guard, columns: Sequence[str]) -> UsageError:
        """SQLite's message, with the place and what was probably meant. `columns`: those that there are."""
        said, words = str(error), tokens(self.text)
        if guard.denied is not None:
            return self._denied(guard.denied, words, guard)
        for pattern, what, known in ((_COLUMN, "column", columns), (_TABLE, "view", tuple(guard.views))):
            if match := pattern.match(said):
                hint = did_you_mean(match[1], known) or f"{self.doc} lists the {what}s"
                if what == "view" and match[1].lower() in known:  # it was asked for in another database
                    hint = f"write {match[1]}, with nothing before it"
                return self.refused(f"there is no {what} {match[1]}", hint, _named(words, match[1]))
        if match := _FUNCTION.match(said):
            meant = did_you_mean(match[1], sorted(guard.functions)) if said.startswith("no such") else ""
            hint = meant or f"{self.doc} lists the functions"
            return self.refused(said, hint, _named(words, match[1]))
        return self._misspelt(said, words, guard)

    def _misspelt(self, said: str, words: Sequence[Token], guard: Guard) -> UsageError:
        """What is wrong with the text as a whole, or turns out to be wrong with it while it runs."""
        if "cannot modify" in said:
            return self._denied(Denied("act", ""), words, guard)
        match = _NEAR.match(said)
        # An expression stands in brackets of ours, whose end SQLite blames where that of the text is missing.
        is_cut = said == "incomplete input" or (match and match[1] == ")" and self._is_incomplete())
        if match and not is_cut:
            return self.refused(said, f"{self.doc} has examples", self._failing(words, match[1] or match[2], said))
        if is_cut:
            return self.refused("the text ends too early", f"{self.doc} has examples", words[-1] if words else None)
        return self.refused(guard.problem or said, f"{self.doc} tells what can be asked")

    def _denied(self, denied: Denied, words: Sequence[Token], guard: Guard) -> UsageError:
        word, views = _named(words, denied.name), ", ".join(guard.views)
        if denied.kind == "function":
            return self.refused(f"the function {denied.name} is not allowed", f"{self.doc} lists those that are", word)
        if denied.kind == "column":
            return self.refused(f"there is no column {denied.name}", f"{self.doc} lists the columns", word)
        if denied.kind == "view":
            message = f"{denied.name} cannot be read: only the documented views can"
            return self.refused(message, f"there are {views}", word)
        return self.refused("only reading is allowed", f"write a SELECT over {views}", words[0])

    def _is_incomplete(self) -> bool:
        with closing(sqlite3.connect(":memory:")) as connection:
            try:
                connection.execute(f"EXPLAIN {self.before}{self.text}").close()
            except sqlite3.Error as error:
                return str(error) == "incomplete input"
        return False

    def _failing(self, words: Sequence[Token], near: str, said: str) -> Token | None:
        """The word at which the text stops making sense: up to the one before, it is only incomplete."""
        alike = [word for word in words if word.text == near]
        with closing(sqlite3.connect(":memory:")) as connection:
            for word in alike[:-1]:
                try:
                    connection.execute(f"EXPLAIN {self.before}{self.text[: word.end]}").close()
                except sqlite3.Error as error:
                    if str(error) == said:
                        return word
        return alike[-1] if alike else None


def _named(words: Sequence[Token], name: str) -> Token | None:
    wanted = name.lower()
    return next((w for w in words if w.kind in ("name", "quoted", "sign") and w.meaning.lower() == wanted), None)
