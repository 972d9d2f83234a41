"""Finds the user's configuration file, and reads the tables of options that are in it.

A file counts because the user put it into their own folder or named it. One that merely lies where a command runs may
have come with a dataset, and changes nothing.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wdsctl.core.errors import InputError
from wdsctl.core.os_errors import translated

NAME = "wdsctl.toml"
PROJECT = "pyproject.toml"
#: Names one file to be used in the place of the user's own, or none. `--config` goes before it.
VARIABLE = "WDSCTL_CONFIG"
NONE = "none"
LARGEST_BYTES = 1 << 20  # of a file of options: more is another file, named by mistake


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may have options. `kind`: user, or named (by `--config` or WDSCTL_CONFIG)."""

    path: str
    kind: str


def candidates(environment: Mapping[str, str], named: str | None = None) -> list[Candidate]:
    """The files that count: the one that is named, or else the user's own. `named`: by `--config`."""
    named = environment.get(VARIABLE) if named is None else named
    if named is not None:
        return [] if named in ("", NONE) else [Candidate(os.path.abspath(os.path.expanduser(named)), "named")]
    user = user_file(environment)
    return [Candidate(user, "user")] if os.path.exists(user) else []


def user_file(environment: Mapping[str, str]) -> str:
    """Where the user's own configuration is, if there is one. As XDG has it, a relative folder is none: it would be
    another one in every working directory."""
    home = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.abspath(os.path.expanduser("~")), ".config")
    return os.path.join(home, "wdsctl", NAME)


def passed_over(environment: Mapping[str, str], named: str | None = None) -> bool:
    """Whether a `wdsctl.toml` in the working directory does not count, and the user has not said which file does."""
    if named is not None or VARIABLE in environment:
        return False
    return os.path.lexists(NAME) and os.path.abspath(NAME) != user_file(environment)


def tables(path: str) -> dict[str, Any]:
    """What a file says. Raises InputError WDS010 where it does not parse, StorageError and PermissionDenied."""
    with translated(path, "read"), open(path, "rb", opener=_opened) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise _unusable(path, "it is a pipe, not a file")
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise _unusable(path, f"it has more than {LARGEST_BYTES:,} bytes")
    content = _parsed(data, path)
    if os.path.basename(path) != PROJECT:
        return content
    tool = content.get("tool", {})
    mine = tool.get("wdsctl", {}) if isinstance(tool, dict) else {}
    if not isinstance(mine, dict):
        raise _unusable(path, "tool.wdsctl is no table")
    return mine


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer would be waited for


def _parsed(data: bytes, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise _unusable(path, f"it is no TOML: {error}") from error
    except RecursionError as error:
        raise _unusable(path, "its values are nested too deeply") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, f"it is not UTF-8 (byte {error.start:,})") from error


def _unusable(path: str, why: str) -> InputError:
    return InputError(
        f"the configuration cannot be read: {why}",
        where=path,
        hint=f"mend it, or go without: {VARIABLE}={NONE}",
        code="WDS010",
    )
