"""The user's configuration file: where it is, and what is in it.

A file counts if it is in the user's own folder, or if the user names it. A file in the working directory or in a
dataset may have come with data, and has no effect.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from typing import Any

from wdsctl.core.errors import InputError, translate_os_errors

CONFIG_FILE_NAME = "wdsctl.toml"
PROJECT_FILE_NAME = "pyproject.toml"
#: The variable that names another file, or none. The option `--config` overrides it.
CONFIG_VARIABLE = "WDSCTL_CONFIG"
NO_CONFIG = "none"
MAX_CONFIG_BYTES = 1 << 20  # a larger file was named by mistake


def find_config_file(environment: Mapping[str, str], config: str | None = None) -> str | None:
    """The path of the file that counts: the named one, else the user's own if it exists. `config`: from `--config`."""
    named = environment.get(CONFIG_VARIABLE) if config is None else config
    if named is not None:
        return None if named in ("", NO_CONFIG) else os.path.abspath(os.path.expanduser(named))
    user = user_config_path(environment)
    return user if os.path.exists(user) else None


def user_config_path(environment: Mapping[str, str]) -> str:
    """The path of the user's own file, which need not exist.

    A relative XDG_CONFIG_HOME is ignored, as its specification says: it would depend on the working directory.
    """
    home = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.abspath(os.path.expanduser("~")), ".config")
    return os.path.join(home, "wdsctl", CONFIG_FILE_NAME)


def has_unused_config(environment: Mapping[str, str], config: str | None = None) -> bool:
    """Whether the working directory has a `wdsctl.toml` without effect, and the user has not said which file to use."""
    if config is not None or CONFIG_VARIABLE in environment:
        return False
    return os.path.lexists(CONFIG_FILE_NAME) and os.path.abspath(CONFIG_FILE_NAME) != user_config_path(environment)


def read_config_file(path: str) -> dict[str, Any]:
    """The tables of a file; of a pyproject.toml those below `tool.wdsctl`.

    Raises InputError WDS010 for what is not TOML, StorageError and PermissionDenied.
    """
    with translate_os_errors(path, "read"), open(path, "rb", opener=_open_nonblocking) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise _unusable_error(path, "it is a pipe, not a file")
        data = file.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise _unusable_error(path, f"it has more than {MAX_CONFIG_BYTES:,} bytes")
    content = _parse_toml(data, path)
    if os.path.basename(path) != PROJECT_FILE_NAME:
        return content
    tool = content.get("tool", {})
    tables = tool.get("wdsctl", {}) if isinstance(tool, dict) else {}
    if not isinstance(tables, dict):
        raise _unusable_error(path, "tool.wdsctl is not a table")
    return tables


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # opening a pipe without a writer would block


def _parse_toml(data: bytes, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise _unusable_error(path, f"it is not TOML: {error}") from error
    except RecursionError as error:
        raise _unusable_error(path, "its values are nested too deeply") from error
    except UnicodeDecodeError as error:
        raise _unusable_error(path, f"it is not UTF-8 (byte {error.start:,})") from error


def _unusable_error(path: str, reason: str) -> InputError:
    return InputError(
        f"cannot read the configuration: {reason}",
        where=path,
        hint=f"correct the file, or ignore it: {CONFIG_VARIABLE}={NO_CONFIG}",
        code="WDS010",
    )
