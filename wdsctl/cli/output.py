"""The one place that writes: data to stdout, everything else to stderr.

What a terminal would obey is written by nobody but Rich and the drawings of pictures: texts are made harmless in
`drawn` and `write`, whoever made them and wherever they go.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from wdsctl.cli.labelled import Labelled
from wdsctl.core.errors import StorageError, WdsctlError
from wdsctl.core.os_errors import is_full
from wdsctl.core.printable import harmless, harmless_json

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

SCHEMA = 1
#: Lines that are piped are as long as they are; only a terminal has a width.
UNLIMITED = 100_000

T = TypeVar("T")


class PipeClosed(Exception):  # noqa: N818 - no error of ours or of the user's
    """Nobody reads stdout any more (`wdsctl inspect DATASET | head -1`)."""


class Answered(Exception):  # noqa: N818 - the error is what it holds
    """What failed behind a document's first entries, and stands at the document's end."""

    def __init__(self, error: WdsctlError) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How this run of a command speaks."""

    json: bool = False
    quiet: bool = False
    no_color: bool = False

    def answer(self, command: str, report: T, render: Callable[[T], Iterable[RenderableType]]) -> None:
        """The command's data, on stdout: one JSON document, or lines and tables for people."""
        if self.json:
            write(sys.stdout, document({"command": command, **plain(report)}))
        else:
            write_drawn(sys.stdout, drawn(render(report), sys.stdout, is_colored=has_color(sys.stdout, self.no_color)))

    def say(self, *pieces: RenderableType) -> None:
        """Something beside the data, on stderr; nothing with --quiet. It ends no command: where stderr takes no more (a
        full disk), the answer and the exit code still say what became of it."""
        if not self.quiet:
            with suppress(StorageError):
                write_drawn(sys.stderr, drawn(pieces, sys.stderr, is_colored=has_color(sys.stderr, self.no_color)))


def document(content: Mapping[str, Any]) -> str:
    text = json.dumps({"schema": SCHEMA, **content}, ensure_ascii=False, indent=2, allow_nan=False)
    return harmless_json(text) + "\n"


def in_json(value: Any) -> str:
    """A piece of a document, on one line."""
    return harmless_json(json.dumps(value, ensure_ascii=False))


def listed(head: Mapping[str, Any], name: str, entries: Iterable[str]) -> Iterator[str]:
    """A document whose last field is a list, entry by entry, each JSON already: there may be a billion of them.

    What fails before the first entry is raised. What fails behind it ends the document, as its field `error`, and is
    raised as Answered: stdout stays one document.
    """
    rest = iter(entries)
    first = next(rest, None)
    opening = in_json({"schema": SCHEMA, **head}).removesuffix("}")
    yield f'{opening}, "{name}": [' + ("" if first is None else f"\n{first}")
    try:
        for entry in rest:
            yield f",\n{entry}"
    except WdsctlError as error:
        yield f'\n], "error": {in_json(facts(error))}}}\n'
        raise Answered(error) from error
    yield "]}\n" if first is None else "\n]}\n"


def facts(error: WdsctlError) -> dict[str, str]:
    """What a document says of an error."""
    return {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}


def plain(value: Any) -> Any:
    """Dataclasses, mappings and tuples as what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def has_color(stream: TextIO, no_color: bool = False) -> bool:
    """Whether to colour what goes to this stream: stdout and stderr are judged apart."""
    is_refused = no_color or os.environ.get("NO_COLOR") or os.environ.get("WDSCTL_NO_COLOR")
    return not is_refused and is_lively(stream)


def is_lively(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def is_file(stream: TextIO) -> bool:
    """Whether the stream is kept, and not read by somebody at once."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # a stream in memory has no descriptor
        return False


def can_write(stream: TextIO, letters: str) -> bool:
    """Whether the stream's encoding has these letters."""
    try:
        letters.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width(stream: TextIO) -> int:
    """Columns to wrap prose to."""
    return shutil.get_terminal_size((80, 24)).columns if stream.isatty() else 80


def drawn(pieces: Iterable[RenderableType], stream: TextIO, *, is_colored: bool) -> str:
    """On a terminal lines are broken between words, and tables fit it; elsewhere every line is as long as it is."""
    pieces = list(pieces)
    lines = None if stream.isatty() else undrawn(pieces)
    if lines is None:
        lines = _by_rich(pieces, stream, is_colored=is_colored)
    # Cells are padded to their column's width: nobody wants the blanks in a file.
    return "".join(f"{line.rstrip()}\n" for line in lines)


def undrawn(pieces: Iterable[RenderableType]) -> list[str] | None:
    """Lines that are what they are on a stream without a width; None where something needs Rich, which is slow to load.

    Rich takes control characters out, and tabs apart.
    """
    made: list[str] = []
    for piece in pieces:
        lines = piece.split("\n") if isinstance(piece, str) else piece.lines() if isinstance(piece, Labelled) else None
        if lines is None or not all(map(str.isprintable, lines)):
            return None
        made += lines
    return made


def _by_rich(pieces: Iterable[RenderableType], stream: TextIO, *, is_colored: bool) -> list[str]:
    import io

    from rich.console import Console

    from wdsctl.cli.wrapping import wrapped

    console = Console(
        file=io.StringIO(),
        width=width(stream) if stream.isatty() else UNLIMITED,
        force_terminal=is_colored,
        no_color=not is_colored,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        for piece in pieces:
            if isinstance(piece, str):
                console.print(wrapped(harmless(piece), console.width), soft_wrap=True)
            else:
                console.print(_Harmless(piece))
    return capture.get().splitlines()


@dataclass(frozen=True, slots=True)
class _Harmless:
    """A piece for Rich whose texts are harmless, whatever cells and lines they were put into. What is for the terminal
    alone is marked as such: pictures are."""

    piece: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for segment in console.render(self.piece, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


def write(stream: TextIO, text: str) -> None:
    """A text without colours. Raises PipeClosed or StorageError."""
    write_drawn(stream, harmless(text))


def write_drawn(stream: TextIO, text: str) -> None:
    """What `drawn` made, with its colours. What the stream's encoding lacks is written as \\uNNNN."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        raise unwritable(stream, error) from error


def write_bytes(stream: TextIO, data: bytes) -> None:
    """The same for bytes as they are, behind what was written as text.

    A stream of text alone (a notebook's) gets what of them is UTF-8, and the rest as \\xNN.
    """
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        write(stream, data.decode("utf-8", "backslashreplace"))
        return
    try:
        stream.flush()
        buffer.write(data)
        buffer.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        raise unwritable(stream, error) from error


def unwritable(stream: TextIO, error: OSError) -> StorageError:
    """What to raise where a stream takes no more."""
    return StorageError(
        f"cannot write the answer: {error.strerror}",
        hint="the command itself is done; send its output somewhere with space, and run it again to see it",
        where=getattr(stream, "name", "<stream>"),
        code="WDS401" if is_full(error) else "WDS404",
    )
