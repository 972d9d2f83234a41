"""Write to stdout and stderr: answers and data to stdout, everything else to stderr. No other module writes.

Only Rich and image previews write terminal sequences. `render_text` and `write_plain` escape control characters in all
other texts. On a terminal, lines are wrapped between words, and commands that people copy stay in one piece.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from wdsctl.cli.agents import is_for_agent
from wdsctl.core.errors import StorageError, WdsctlError, is_out_of_space
from wdsctl.core.text import escape_control_chars, escape_json_controls, quote_ansi_c

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table


JSON_SCHEMA_VERSION = 1
#: The width if stdout is not a terminal: lines in pipes and files are not wrapped.
UNLIMITED_COLUMNS = 100_000
#: A column of text is readable from this width.
MIN_TEXT_COLUMNS = 8

T = TypeVar("T")


class PipeClosed(Exception):  # noqa: N818 - not an error
    """The reader of stdout is gone (`wdsctl inspect DATASET | head -1`)."""


class PartialDocument(Exception):  # noqa: N818 - it carries the error
    """An error after the first entries of a JSON document, which ends with it."""

    def __init__(self, error: WdsctlError) -> None:
        super().__init__(error)
        self.error = error


class TsvTable(NamedTuple):
    """A list as a table for programs: `columns` are the names of fields of the entries, as in their JSON."""

    columns: Sequence[str]
    entries: Iterable[Any]

    def rows(self) -> Iterator[list[Any]]:
        for entry in self.entries:
            yield [getattr(entry, name) for name in self.columns]


class Output(NamedTuple):
    """The output options of a command."""

    json: bool = False
    quiet: bool = False
    no_color: bool = False

    def answer(
        self,
        command: str,
        report: T,
        render: Callable[[T], Iterable[RenderableType]],
        *,
        names: Iterable[object] | None = None,
        table: TsvTable | None = None,
        is_explicit: bool = False,
    ) -> None:
        """Write the command's report to stdout, as one JSON document, or as lines and tables for people.

        `names`: what --quiet prints instead, of a command that lists or writes things. A coding agent gets `table` as
        TSV, or else the JSON document, unless the user asked for the text (`is_explicit`).
        """
        if self.quiet and names is not None and not self.json:
            write_plain(sys.stdout, "".join(f"{quote_ansi_c(str(name))}\n" for name in names))
        elif self.json or (self.is_for_agent and table is None and not is_explicit):
            write_plain(sys.stdout, json_document({"command": command, **to_json_types(report)}))
        elif self.is_for_agent and table is not None:
            write_plain(sys.stdout, tsv_lines([table.columns, *table.rows()]))
        else:
            write_styled(
                sys.stdout, render_text(render(report), sys.stdout, is_colored=has_color(sys.stdout, self.no_color))
            )

    @property
    def is_for_agent(self) -> bool:
        """Whether a coding agent reads stdout, and no option selects what it gets."""
        return not (self.json or self.quiet) and is_for_agent()

    def note(self, *pieces: RenderableType) -> None:
        """Write a note to stderr, unless --quiet. A failure to write (a full disk) is ignored."""
        if not self.quiet:
            self.warn(*pieces)

    def warn(self, *pieces: RenderableType) -> None:
        """Write to stderr, also with --quiet: what a question is about, or why the exit code is 5."""
        with suppress(StorageError):
            write_styled(sys.stderr, render_text(pieces, sys.stderr, is_colored=has_color(sys.stderr, self.no_color)))


def json_document(content: Mapping[str, Any]) -> str:
    text = json.dumps({"schema": JSON_SCHEMA_VERSION, **content}, ensure_ascii=False, indent=2, allow_nan=False)
    return escape_json_controls(text) + "\n"


def json_line(value: Any) -> str:
    """A part of a JSON document, on one line."""
    return escape_json_controls(json.dumps(value, ensure_ascii=False))


def json_list_document(head: Mapping[str, Any], name: str, entries: Iterable[str]) -> Iterator[str]:
    """Stream a JSON document whose last field is a list. `entries`: JSON texts, perhaps a billion.

    An error before the first entry is raised. A later one ends the document, as its field `error`, and is raised as
    PartialDocument, whose cause it is: stdout stays one valid document.
    """
    rest = iter(entries)
    first = next(rest, None)
    opening = json_line({"schema": JSON_SCHEMA_VERSION, **head}).removesuffix("}")
    yield f'{opening}, "{name}": [' + ("" if first is None else f"\n{first}")
    try:
        for entry in rest:
            yield f",\n{entry}"
    except PipeClosed:
        raise
    except Exception as error:
        shown = error if isinstance(error, WdsctlError) else bug_error(error)
        yield f'\n], "error": {json_line(error_fields(shown))}}}\n'
        raise PartialDocument(shown) from error
    yield "]}\n" if first is None else "\n]}\n"


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def tsv_lines(rows: Iterable[Sequence[Any]]) -> str:
    r"""Rows as tab-separated values: \t, \n, \r and \\ escaped, other control characters as \x1b or \u202e.

    None is an empty cell, bytes are in hex, and lists and mappings are JSON.
    """
    lines = ("\t".join(_tsv_text(value).translate(_TSV_ESCAPES) for value in row) + "\n" for row in rows)
    return escape_control_chars("".join(lines))


def _tsv_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool | list | tuple | Mapping) or is_dataclass(value):
        return json.dumps(to_json_types(value), ensure_ascii=False)
    return str(value)


def bug_error(error: Exception) -> WdsctlError:
    """The error for an exception that no code expected."""
    return WdsctlError(
        f"wdsctl has a bug: {type(error).__name__}: {error}",
        hint="report the bug with the command and the traceback, which is on stderr",
        code="WDS011",
    )


def error_fields(error: WdsctlError) -> dict[str, str]:
    """An error as fields of a JSON document."""
    return {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}


def to_json_types(value: Any) -> Any:
    """Convert dataclasses, mappings and tuples to types that JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_types(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in value]
    return value


def has_color(stream: TextIO, no_color: bool = False) -> bool:
    """Whether to color the text of this stream."""
    is_disabled = no_color or os.environ.get("NO_COLOR") or os.environ.get("WDSCTL_NO_COLOR")
    return not is_disabled and is_interactive(stream)


def is_interactive(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def is_regular_file(stream: TextIO) -> bool:
    """Whether the stream is a file on disk, rather than a pipe or terminal."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # streams in memory have no descriptor
        return False


def can_encode(stream: TextIO, characters: str) -> bool:
    """Whether the stream's encoding has these characters."""
    try:
        characters.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_width(stream: TextIO) -> int:
    """Columns to wrap prose to."""
    return shutil.get_terminal_size((80, 24)).columns if stream.isatty() else 80


def render_text(pieces: Iterable[RenderableType], stream: TextIO, *, is_colored: bool) -> str:
    """Render lines and tables: fitted to the width of a terminal, not wrapped elsewhere."""
    pieces = list(pieces)
    lines = None if stream.isatty() or is_colored else _plain_lines(pieces)
    if lines is None:
        lines = _rich_lines(pieces, stream, is_colored=is_colored)
    # Rich pads cells to the width of their column.
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _plain_lines(pieces: Sequence[RenderableType]) -> list[str] | None:
    """The lines as Rich renders them without colors and width, but without loading it. None if it has to lay them out.

    Loading Rich takes half as long as a short command.
    """
    texts: list[str] = []
    for piece in pieces:
        lines = piece.plain_lines() if isinstance(piece, LabelledLines) else [piece]
        if lines is None:
            return None
        for line in lines:
            if not isinstance(line, str):
                return None
            texts += escape_control_chars(line).expandtabs(8).split("\n")
    return texts


class LabelledLines(NamedTuple):
    """Lines `label  text`. `gap`: spaces after the longest label."""

    rows: Sequence[tuple[str, RenderableType]]
    gap: int

    def plain_lines(self) -> list[str] | None:
        """The lines for a stream without width and colors; None if a text is a table."""
        width = max((_display_width(label) for label, _ in self.rows), default=0) + self.gap
        lines = []
        for label, text in self.rows:
            if not isinstance(text, str):
                return None
            lines.append(f"  {label}{' ' * (width - _display_width(label))}{text}")
        return lines

    def __rich__(self) -> Table:
        from rich.table import Table

        grid = Table.grid(padding=(0, self.gap, 0, 0))
        grid.add_column(no_wrap=True, overflow="fold", style="bold")
        grid.add_column(overflow="fold")
        for label, text in self.rows:
            grid.add_row(f"  {label}", text)
        return grid


def _rich_lines(pieces: Iterable[RenderableType], stream: TextIO, *, is_colored: bool) -> list[str]:
    import io

    from rich.console import Console
    from rich.table import Table

    console = Console(
        file=io.StringIO(),
        width=terminal_width(stream) if stream.isatty() else UNLIMITED_COLUMNS,
        force_terminal=is_colored,
        no_color=not is_colored,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        for each in pieces:
            piece = each.__rich__() if isinstance(each, LabelledLines) else each
            if isinstance(piece, Table):
                fit_table(piece, console.width)
            if isinstance(piece, str):
                console.print(wrap_lines(escape_control_chars(piece), console.width), soft_wrap=True)
            else:
                console.print(_Sanitized(piece))
    return capture.get().splitlines()


def fit_table(table: Table, columns: int) -> None:
    """Let all columns wrap if the terminal is too narrow for those that should not: Rich would cut their cells."""
    from rich.cells import cell_len

    widths = [max(cell_len(str(cell)) for cell in (column.header, *column.cells)) for column in table.columns]
    needed = sum(
        width if column.no_wrap else min(width, MIN_TEXT_COLUMNS)
        for width, column in zip(widths, table.columns, strict=True)
    )
    if needed + sum(table.padding[1::2]) * len(widths) > columns:
        for column in table.columns:
            column.no_wrap = False


class _Sanitized(NamedTuple):
    """A renderable with control characters escaped in all its texts. Control segments, such as images, pass."""

    piece: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for segment in console.render(self.piece, options):
            yield segment if segment.control else Segment(escape_control_chars(segment.text), segment.style)


def write_plain(stream: TextIO, text: str) -> None:
    """Write a text, escaping control characters. Raises PipeClosed or StorageError."""
    write_styled(stream, escape_control_chars(text))


def write_styled(stream: TextIO, text: str) -> None:
    """Write a text of `render_text`, which may have colors. Writes `\\uNNNN` for what the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        raise output_error(stream, error) from error


def write_bytes(stream: TextIO, data: bytes) -> None:
    """Write bytes unchanged, after any text written before.

    A stream without a buffer (a notebook's) gets them as UTF-8, with `\\xNN` for invalid bytes.
    """
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        write_plain(stream, data.decode("utf-8", "backslashreplace"))
        return
    try:
        stream.flush()
        buffer.write(data)
        buffer.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        raise output_error(stream, error) from error


def output_error(stream: TextIO, error: OSError) -> StorageError:
    """The error for a stream that cannot be written."""
    return StorageError(
        f"cannot write the output: {error.strerror}",
        hint="write the output to a disk with free space, and run the command again: its other work is complete",
        where=str(getattr(stream, "name", "<stream>")),  # a number for a stream of a descriptor
        code="WDS401" if is_out_of_space(error) else "WDS404",
    )


#: Not wrapped within: commands in backticks, numbers with their units, arrows.
_UNBREAKABLE = re.compile(r"`[^`\n]*`|\d [kKMGTP]i?B\b|\d (?:ms|min|s|h|%)(?!\w)|--> \S")
#: Lines that begin so are commands to copy, and are not wrapped.
_COMMAND_PREFIXES = ("next: ", "wdsctl ")
_GLUE = "\ufdd0"  # a noncharacter: no text contains it


def wrap_lines(text: str, columns: int) -> str:
    """Wrap lines to `columns` between words; continuation lines are indented by two more spaces.

    A longer word stays whole, and so do lines with escape sequences (images).
    """
    return "\n".join(_wrap_line(line, columns) for line in text.split("\n"))


def _wrap_line(line: str, columns: int) -> str:
    if _display_width(line) <= columns or "\x1b" in line or line.lstrip().startswith(_COMMAND_PREFIXES):
        return line
    text = line.lstrip(" ")
    indent = line[: len(line) - len(text)]
    tokens = _UNBREAKABLE.sub(lambda match: match[0].replace(" ", _GLUE), text).split(" ")
    lines, current = [], indent + tokens[0]
    for token in tokens[1:]:
        if _display_width(f"{current} {token}") > columns:
            lines.append(current)
            current = f"{indent}  {token}"
        else:
            current = f"{current} {token}"
    return "\n".join([*lines, current]).replace(_GLUE, " ")


def _display_width(text: str) -> int:
    """The number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
