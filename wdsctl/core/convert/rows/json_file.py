"""Large JSON files without holding them: the elements of a list, the members of an object, by where they are.

The file is mapped and looked at through a window. Source: RFC 8259 (the grammar).
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from typing import Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular

WINDOW = 1 << 20
LONGEST = 1 << 30  # bytes of one element

_NEAR_END = 12  # bytes within which the parser stops at a cut: the longest token is shorter
_NUMBER = "0123456789+-.eE"
_BOM = b"\xef\xbb\xbf"


class JsonFile:
    """Places are bytes from the start of the file. Raises DatasetError WDS233 where it is no JSON."""

    def __init__(self, path: str, *, window: int = WINDOW) -> None:
        self._path = path
        self._window = window
        with translated(path, "read"), open(path, "rb", opener=regular) as file:
            file.seek(0, 2)
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b""
        self._base = 0
        self._text = ""
        self._parser = json.JSONDecoder()

    def close(self) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()

    def piece(self, start: int, stop: int) -> bytes:
        return self._data[start:stop]

    def value(self, start: int, stop: int) -> Any:
        """What stands there. It was looked through before, but as bytes."""
        try:
            return json.loads(self._data[start:stop])
        except (ValueError, RecursionError) as error:
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise self._damaged(why, start) from error

    def start(self) -> int:
        """Where the value of the whole file begins."""
        return self._skipped(len(_BOM) if self._data[:3] == _BOM else 0)

    def kind(self, at: int) -> bytes:
        """The first byte of the value there: `[` of a list, `{` of an object."""
        return self._data[at : at + 1]

    def elements(self, at: int) -> Iterator[tuple[int, int]]:
        """(start, stop) of each element of the list whose bracket is at `at`."""
        return self.elements_from(at + 1)

    def elements_from(self, at: int) -> Iterator[tuple[int, int]]:
        """The same, from an element on: `at` is its first byte, or before it."""
        at = self._skipped(at)
        while self.kind(at) != b"]":
            at = self._skipped(at + 1) if self.kind(at) == b"," else at
            stop = self._end(at)
            yield at, stop
            at = self._skipped(stop)
            if self.kind(at) not in (b",", b"]"):
                raise self._damaged("a list goes on without a comma, or is cut", at)

    def members(self) -> Iterator[tuple[str, int]]:
        """(name, where the value begins) of each member of the file's object."""
        at = self._skipped(self.start() + 1)
        while self.kind(at) != b"}":
            at = self._skipped(at + 1) if self.kind(at) == b"," else at
            stop = self._end(at)
            if self.kind(at) != b'"' or self.kind(value := self._skipped(stop)) != b":":
                raise self._damaged("an object is broken or cut", at)
            value = self._skipped(value + 1)
            yield self.value(at, stop), value
            at = self._skipped(self._behind(value))
            if self.kind(at) not in (b",", b"}"):
                raise self._damaged("an object goes on without a comma, or is cut", at)

    def _behind(self, value: int) -> int:
        """Where a member's value ends. Of lists, element by element."""
        if self.kind(value) != b"[":
            return self._end(value)
        last = value + 1
        for _, last in self.elements(value):  # noqa: B007 - the last one counts
            pass
        return self._skipped(last) + 1

    def _skipped(self, at: int) -> int:
        while self._data[at : at + 1] in (b" ", b"\t", b"\r", b"\n") and at < len(self._data):
            at += 1
        return at

    def _end(self, at: int) -> int:
        """Where the value that begins at `at` ends. Bytes are read as Latin-1, so that letters are bytes."""
        size = self._window
        if not self._base <= at < self._base + len(self._text):
            self._look(at, size)
        while True:
            is_all = self._base + len(self._text) >= len(self._data)
            try:
                _, end = self._parser.raw_decode(self._text, at - self._base)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_END
                if is_all or not is_cut or size >= LONGEST:
                    why = "the file is cut" if is_cut and is_all else error.msg
                    raise self._damaged(why, self._base + error.pos) from error
            except (ValueError, RecursionError) as error:
                raise self._damaged(str(error), at) from error
            else:
                # A number that goes on behind the window looks whole: what follows one is no letter of a number.
                if is_all or end + _NEAR_END < len(self._text) or self._text[end : end + 1].strip(_NUMBER):
                    return self._base + end
            # The window ended inside the value: once more from its first byte, and further each time.
            size = size if self._base < at else size * 4
            self._look(at, size)

    def _look(self, at: int, size: int) -> None:
        self._base, self._text = at, self._data[at : at + size].decode("latin-1")

    def _damaged(self, why: str, at: int) -> DatasetError:
        return DatasetError(
            f"the JSON cannot be read: {why}",
            hint="copy the file again from its origin; `python -m json.tool FILE > /dev/null` looks through it",
            where=f"{named(self._path)} (byte {at:,})",
            code="WDS233",
        )
