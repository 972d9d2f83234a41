"""Define wdsctl's exceptions. Each says what happened, where, and one thing to try; `codes.md` explains each code.

The number after a class is its exit code.

    WdsctlError
    ├── UsageError        2  invalid request (also a ValueError)
    │   └── OptionConflict   2  options exclude each other, or have no effect
    ├── InputError        3  the requested input is missing or unreadable
    ├── DatasetError      3  shards or raw files are invalid
    ├── PermissionDenied  4  the system denies access (also a PermissionError)
    ├── StorageError      3  reading or writing bytes failed (also an OSError)
    │   ├── StorageDown   3  the whole storage does not respond, or is gone
    │   └── PreconditionFailed  3  another writer replaced or created the object first
    ├── CatalogError      6  the catalog is missing, damaged, too new or locked
    └── LoaderError       1  a saved state does not fit, or a sample fails

`translate_os_errors` turns an OSError into one of these errors, in the same way for all commands. A finding of a scan
or a check is a value, not an exception: one bad shard never stops a run.
"""

from __future__ import annotations

import errno
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from wdsctl.core.text import escape_control_chars, escape_to_line
from wdsctl.core.urls import redact_secrets


class MultilineMessage(str):
    """A message of several lines. In any other message, a newline comes from data and is written as `\\n`."""

    __slots__ = ()


def join_lines(*each: str) -> MultilineMessage:
    """Join lines into one message. A newline within a line is escaped."""
    return MultilineMessage("\n".join(map(escape_to_line, each)))


def join_indented(head: str, *each: str) -> MultilineMessage:
    """Join lines into one message, and indent all but the first."""
    return join_lines(head, *(f"  {line}" for line in each))


class WdsctlError(Exception):
    """The base class: an error that the user can act on.

    `code` is stable (`WDSnnn`), `where` is a place such as a path, a shard or a byte, `hint` is one thing to try.
    """

    exit_code = 1
    code = "WDS000"

    def __init__(self, message: str, *, hint: str, where: str = "", code: str = "") -> None:
        # Redact secrets here, before any caller prints, logs or stores the error.
        self.message = (
            MultilineMessage(redact_secrets(message))
            if isinstance(message, MultilineMessage)
            else escape_to_line(redact_secrets(message))
        )
        self.hint, self.where = escape_to_line(redact_secrets(hint)), redact_secrets(where)
        super().__init__(self.message)
        if code:
            self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by value: worker processes send errors to their parent."""
        return _rebuild, (type(self), self.message, self.hint, self.where, self.code)

    def __str__(self) -> str:
        """Return message, place and hint, one per line, as Python's tracebacks show them."""
        where = f"\n  where: {escape_to_line(self.where)}" if self.where else ""
        return escape_control_chars(f"{self.code}: {self.message}{where}\n  hint: {self.hint}")


def _rebuild(kind: type[WdsctlError], message: str, hint: str, where: str, code: str) -> WdsctlError:
    return kind(message, hint=hint, where=where, code=code)


class UsageError(WdsctlError, ValueError):
    exit_code = 2
    code = "WDS001"


class OptionConflict(UsageError):  # noqa: N818 - the noun is the error
    """Options that have no effect in this request, or exclude each other (`are_exclusive`).

    `options`: their flags, such as `--seed`. The command line leaves out those that are configured and not typed.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        where: str = "",
        code: str = "",
        options: Sequence[str] = (),
        are_exclusive: bool = False,
    ) -> None:
        super().__init__(message, hint=hint, where=where, code=code)
        self.options, self.are_exclusive = tuple(options), are_exclusive


def refuse_without_effect(*options: tuple[str, object, str, object]) -> None:
    """Raise OptionConflict for an option without effect in this request: it would mislead.

    Each of `options`: a flag (or with a value: `--on-error keep`), whether it is given, what it needs to have an
    effect, and whether that is given.
    """
    for flag, is_given, needed, is_met in options:
        if is_given and not is_met:
            raise OptionConflict(
                f"{flag} has no effect without {needed}",
                options=(flag.split()[0],),
                hint=f"add {needed}, or omit {flag}",
            )


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
    """The whole storage fails, not one file: there is no route to it, or it is gone."""

    code = "WDS408"


class PreconditionFailed(StorageError):  # noqa: N818 - the name of HTTP status 412
    """Another writer created or replaced an object first. Nothing was written."""

    code = "WDS418"


class CatalogError(WdsctlError):
    exit_code = 6
    code = "WDS300"


class LoaderError(WdsctlError):
    code = "WDS500"


class StateMismatch(LoaderError):  # noqa: N818 - the noun is the error
    """A saved state does not belong to this plan or rank. The message has one line for each difference."""

    code = "WDS501"


class SampleFailed(LoaderError):  # noqa: N818 - the noun is the error
    """One sample could not be read, decoded or encoded."""

    code = "WDS503"


def require_int(name: str, value: Any) -> int:
    """Convert to Python's `int`; numpy's integers cannot be hashed into seeds or written to a state.

    Raises UsageError.
    """
    try:
        return operator.index(value)
    except TypeError as error:
        raise UsageError(
            f"{name}: expected a whole number, found {value!r}", hint=f"set {name} to a whole number"
        ) from error


_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: Failures of the connection to the storage, or of the process, never of one file. Not EIO: a bad sector causes it too.
_STORAGE_DOWN_ERRNOS = frozenset(
    [
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENODEV,
        errno.ENOMEM,
        errno.ENOTCONN,
        errno.ENXIO,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
    ]
)


@contextmanager
def translate_os_errors(path: str, verb: str = "write") -> Iterator[None]:
    """Turn any OSError in the block into StorageError or PermissionDenied at `path`.

    WdsctlErrors pass through unchanged. `verb` is the verb of the message (`read`, `write`, `list`). A path that the
    OSError itself names replaces `path`. Exceptions are paths that the user does not know: drafts, and files in an
    open folder (`wdsctl/core/directories.py`).
    """
    try:
        yield
    except WdsctlError:
        raise
    except OSError as error:
        raise wdsctl_error_from(error, path, verb) from error


def is_out_of_space(error: OSError) -> bool:
    """Whether the device is full, or the user's quota is used up."""
    return error.errno in _DISK_FULL_ERRNOS


def wdsctl_error_from(error: OSError, path: str, verb: str) -> WdsctlError:
    """Build the WdsctlError for an OSError: WDS401 disk full, WDS402 permission, WDS408 storage down, else WDS404."""
    named = error.filename if isinstance(error.filename, str) else path
    is_inner = named.endswith(".partial") or named.startswith("/proc/self/fd/") or "/" not in named
    where = path if is_inner else named
    words = error.strerror or str(error)
    if is_out_of_space(error):
        return StorageError(
            f"cannot {verb}: {words}",
            where=where,
            hint="free some space and run the same command again: it continues from where it stopped",
            code="WDS401",
        )
    if error.errno in _DENIED_ERRNOS:
        return PermissionDenied(
            f"cannot {verb}: {words}",
            where=where,
            hint="check the owner and the mode of the path, and whether the file system is mounted read-only",
        )
    kind = StorageDown if error.errno in _STORAGE_DOWN_ERRNOS else StorageError
    again = "run the same command again: finished work is kept"
    hint = "check the path" if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError) else again
    return kind(f"cannot {verb}: {words}", where=where, hint=hint)


Severity = Literal["error", "warning", "note"]

#: In ascending order; `--fail-on` compares positions.
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One kind of problem in one place: in one sample, a shard, or a dataset. `count` is the number of occurrences.

    `key`, `part` and `offset` (in bytes) belong to the first occurrence.
    """

    code: str
    severity: Severity
    message: str
    shard: str = ""
    key: str = ""
    part: str = ""
    offset: int | None = None
    count: int = 1


def findings_at_least(findings: Iterable[Finding], severity: Severity) -> list[Finding]:
    """Return the findings with at least this severity."""
    floor = SEVERITIES.index(severity)
    return [finding for finding in findings if SEVERITIES.index(finding.severity) >= floor]


def count_by_code(findings: Iterable[Finding]) -> Counter[str]:
    """Count the occurrences of each code."""
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.code] += finding.count
    return counts
