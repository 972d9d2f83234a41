"""Progress of a command: the command line draws it, a test records it, and callers may ignore it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        """Begin a phase (`scan`, `write`, `merge`, ...), with its totals if they are known."""

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        """Add to what is done. `doing` names the slowest current item, if there is one."""

    def note(self, message: str) -> None:
        """Show a message that the user should read even if the bars scroll by."""


class SilentProgress:
    """Shows nothing."""

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None: ...

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

    def note(self, message: str) -> None: ...


SILENT_PROGRESS = SilentProgress()
