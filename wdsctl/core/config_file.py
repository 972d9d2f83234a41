"""Finds configuration files, and reads the tables of options that are in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wdsctl.core.errors import InputError
from wdsctl.core.os_errors import translated

NAME = "wdsctl.toml"
PROJECT = "pyproject.toml"
#: Names one file to be used in the place of all others, or none.
VARIABLE = "WDSCTL_CONFIG"
NONE = "none"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may have options. `kind`: project, user or named (by WDSCTL_CONFIG)."""

    path: str
    kind: str


def candidates(environment: Mapping[str, str], folder: str) -> list[Candidate]:
    """The files that count, the strongest first: the nearest one from `folder` upwards, and the user's.

    In one folder `wdsctl.toml` goes before `pyproject.toml`, which counts where it has a table `[tool.wdsctl]`. Costs
    two looks at the disk a folder.
    """
    named = environment.get(VARIABLE)
    if named is not None:
        return [] if named in ("", NONE) else [Candidate(os.path.abspath(os.path.expanduser(named)), "named")]
    found = []
    nearest = _nearest(folder)
    if nearest:
        found.append(Candidate(nearest, "project"))
    user = user_file(environment)
    if os.path.exists(user) and user != nearest:
        found.append(Candidate(user, "user"))
    return found


def user_file(environment: Mapping[str, str]) -> str:
    """Where the user's own configuration is, if there is one."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "wdsctl", NAME)


def tables(path: str) -> dict[str, Any]:
    """What a file says. Raises InputError WDS010 where it does not parse, StorageError and PermissionDenied."""
    with translated(path, "read"), open(path, "rb") as file:
        data = file.read()
    content = _parsed(data, path)
    if os.path.basename(path) != PROJECT:
        return content
    tool = content.get("tool", {})
    mine = tool.get("wdsctl", {}) if isinstance(tool, dict) else {}
    if not isinstance(mine, dict):
        raise _unusable(path, "tool.wdsctl is no table")
    return mine


def _nearest(folder: str) -> str:
    folder = os.path.abspath(folder)
    while True:
        for name in (NAME, PROJECT):
            path = os.path.join(folder, name)
            if os.path.exists(path) and (name == NAME or _mentions_us(path)):
                return path
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _mentions_us(path: str) -> bool:
    """A cheap look: parsing every pyproject.toml would cost more than most commands. One that is not ours to read is
    none of ours."""
    try:
        with open(path, "rb") as file:
            return b"tool.wdsctl" in file.read()
    except OSError:
        return False


def _parsed(data: bytes, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise _unusable(path, f"it is no TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, f"it is not UTF-8 (byte {error.start:,})") from error


def _unusable(path: str, why: str) -> InputError:
    return InputError(
        f"the configuration cannot be read: {why}",
        where=path,
        hint=f"mend it, or go without: {VARIABLE}={NONE}",
        code="WDS010",
    )
