"""How a verb tells what it is doing. The command line draws it; a test records it; nobody has to listen."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        """A new phase begins (`scan`, `write`, `merge`, ...), with its totals where they are known."""

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        """So much more is done; `doing` names the slowest thing under way, where there is one."""

    def note(self, message: str) -> None:
        """Something the user should read even if the bars scroll by."""


class Silent:
    """Nobody listens."""

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None: ...

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

    def note(self, message: str) -> None: ...


SILENT = Silent()
