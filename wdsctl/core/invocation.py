"""Parse option values that the command line and `wdsctl.api` share, and describe a call for the history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

from wdsctl.core.errors import UsageError
from wdsctl.core.urls import redact_secrets

MAX_WORKERS = 10_000  # processes, or units that run at a time on a cluster
MAX_ARGUMENT_CHARS = 200  # length limit of one stored argument: a list of shards may be long


class Invocation(NamedTuple):
    """A command line, or a call from Python. A ledger has one run of each invocation, whatever its steps."""

    command: str  # one or two words
    arguments: tuple[str, ...]
    token: str  # 32 random hexadecimal digits


_INVOCATION: ContextVar[Invocation | None] = ContextVar("invocation", default=None)


def recording_invocation(command: str, arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Record all runs within the block, in each ledger, as one run of `command` (one or two words) with `arguments`."""
    return _recording(_new_invocation(command, arguments))


def recording_call(command: str, arguments: Sequence[str]) -> AbstractContextManager[None]:
    """As `recording_invocation`, for a function that users call from Python; within an invocation, continue it."""
    return _recording(current_invocation(command, arguments))


@contextmanager
def _recording(invocation: Invocation) -> Iterator[None]:
    token = _INVOCATION.set(invocation)
    try:
        yield
    finally:
        _INVOCATION.reset(token)


def current_invocation(command: str, arguments: Sequence[str]) -> Invocation:
    """Return what `recording_invocation` has set; otherwise a new invocation of `command` with `arguments`."""
    return _INVOCATION.get() or _new_invocation(command, arguments)


def _new_invocation(command: str, arguments: Sequence[str]) -> Invocation:
    return Invocation(command, tuple(map(redact_secrets, arguments)), os.urandom(16).hex())


def describe_request(request: Any) -> list[str]:
    """Format the fields of a request that differ from their defaults, as words such as `missing=keep`."""
    words: list[str] = []
    for each in fields(request):
        value = getattr(request, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if value == default or (not value and not isinstance(value, bool | int | float)):
            continue
        if is_dataclass(value):
            words += describe_request(value)
        else:
            words.append(redact_secrets(f"{each.name}={_value_text(value)}")[:MAX_ARGUMENT_CHARS])
    return words


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_value_text(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_value_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


#: Units as in GNU tools: K and KiB are powers of 1024, kB is a power of 1000.
SIZE_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?b?)", re.IGNORECASE)
SIZE_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_size_bytes(size: str | float) -> int:
    """Parse `1GiB`, `500MB`, `64k`, `1.5G` or `1073741824`, exactly; at least one byte.

    Returns an int unchanged, and a float such as 1e9 as an int. Raises UsageError.
    """
    if not isinstance(size, str):
        if size != size // 1:
            raise UsageError(
                f"{size} is not a whole number of bytes", hint="write 1GiB, 500MB, 64k or a number of bytes"
            )
        return int(size)
    from fractions import Fraction  # loads slowly, and every command imports this module

    match = SIZE_PATTERN.fullmatch(size.strip())
    if match is None or (match[3].lower() in {"i", "ib"} and not match[2]):
        raise UsageError(f"{size!r} is not a size", hint="write 1GiB, 500MB, 64k or a number of bytes")
    base = 1000 if match[2] and match[3].lower() == "b" else 1024
    size_bytes = int(Fraction(match[1]) * base ** SIZE_EXPONENTS[match[2].lower()])
    if size_bytes < 1:
        raise UsageError(f"{size!r} is less than one byte", hint="write 1GiB, 500MB, 64k or a number of bytes")
    return size_bytes


def parse_part_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Parse `jpg,txt`, and `jpg|png` for either of two parts; or names given one by one.

    Ignores a leading dot. Raises UsageError for an empty name.
    """
    pieces = names if not isinstance(names, str) else names.split(",") if names.strip() else []
    words = [[word.strip().lstrip(".") for word in name.split("|")] for name in pieces]
    if any("" in each for each in words):
        raise UsageError(f"{names!r} has an empty name", hint="separate names by single commas, such as jpg,txt")
    return tuple("|".join(each) for each in words)


def worker_count(requested: int | None) -> int:
    """Return `requested`, or the number of usable CPUs, at most 16: more processes only wait for the disk.

    Raises UsageError for more than 10,000: the system could not count them.
    """
    if requested is not None:
        if requested > MAX_WORKERS:
            raise UsageError(
                f"{requested:,} workers are too many; the limit is {MAX_WORKERS:,}",
                hint="pass a smaller `--workers` or `workers`, or set WDSCTL_WORKERS to a smaller number",
            )
        return requested
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, 16))
