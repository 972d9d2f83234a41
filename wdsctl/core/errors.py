"""The tree of errors. Each says what happened, where, and one thing to try; `codes.py` tells more of each code.

    WdsctlError
    ├── UsageError        2  the request makes no sense (also a ValueError)
    ├── InputError        3  what was asked for is missing or unreadable
    ├── DatasetError      3  shards or raw files are not what they should be
    ├── PermissionDenied  4  the system does not let us (also a PermissionError)
    ├── StorageError      3  reading or writing bytes failed (also an OSError)
    │   └── StorageDown   3  not of one file: the storage itself does not answer, or is gone
    ├── CatalogError      6  the catalog is missing, damaged, too new or locked
    └── LoaderError       1  the runtime: states that do not fit, samples that fail

What `validate` finds wrong is a report, not an exception.
"""

from __future__ import annotations

from wdsctl.core.printable import harmless, on_a_line
from wdsctl.core.urls import shown


class Lines(str):
    """A message of several lines. In any other a line's end is from data, and is written as `\\n`."""

    __slots__ = ()


def lines(*each: str) -> Lines:
    """The lines as a message; what is a line's end within one of them stays in it."""
    return Lines("\n".join(map(on_a_line, each)))


def several(head: str, *each: str) -> Lines:
    """The same with all but the first indented."""
    return lines(head, *(f"  {line}" for line in each))


class WdsctlError(Exception):
    """Something the user can act on.

    `code` is stable (`WDSnnn`), `where` a place such as a path, a shard or a byte, `hint` one thing to try.
    """

    exit_code = 1
    code = "WDS000"

    def __init__(self, message: str, *, hint: str, where: str = "", code: str = "") -> None:
        # Every error passes here, whoever prints, logs or stores it: what is secret in a URL goes no further.
        self.message = Lines(shown(message)) if isinstance(message, Lines) else on_a_line(shown(message))
        self.hint, self.where = on_a_line(shown(hint)), shown(where)
        super().__init__(self.message)
        if code:
            self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by value: errors cross from worker processes to their parent."""
        return _rebuild, (type(self), self.message, self.hint, self.where, self.code)

    def __str__(self) -> str:
        """The whole story on one line a fact, as Python's tracebacks show it."""
        where = f"\n  where: {on_a_line(self.where)}" if self.where else ""
        return harmless(f"{self.code}: {self.message}{where}\n  hint: {self.hint}")


def _rebuild(kind: type[WdsctlError], message: str, hint: str, where: str, code: str) -> WdsctlError:
    return kind(message, hint=hint, where=where, code=code)


class UsageError(WdsctlError, ValueError):
    exit_code = 2
    code = "WDS001"


class InputError(WdsctlError):
    exit_code = 3
    code = "WDS002"


class DatasetError(WdsctlError):
    exit_code = 3
    code = "WDS200"


class PermissionDenied(WdsctlError, PermissionError):  # noqa: N818 - named after what it is, like its builtin
    exit_code = 4
    code = "WDS402"


class StorageError(WdsctlError, OSError):
    exit_code = 3
    code = "WDS404"


class StorageDown(StorageError):  # noqa: N818 - the noun is the error
    """No other file of the same storage can be read either: no route to it, or all of it is gone."""

    code = "WDS408"


class CatalogError(WdsctlError):
    exit_code = 6
    code = "WDS300"


class LoaderError(WdsctlError):
    code = "WDS500"


class StateMismatch(LoaderError):  # noqa: N818 - the noun is the error
    """A saved state does not belong to this plan, or not to this rank. The message has a line a difference."""

    code = "WDS501"


class SampleFailed(LoaderError):  # noqa: N818 - the noun is the error
    """One sample could not be read, decoded or encoded."""

    code = "WDS503"
