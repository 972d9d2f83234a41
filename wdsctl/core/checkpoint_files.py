"""Finds the states of a loader in files: JSON and torch.save's, where the state may stand anywhere inside."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.errors import InputError
from wdsctl.core.job_state import FIELDS
from wdsctl.core.os_errors import translated
from wdsctl.core.state_form import State
from wdsctl.core.torch_file import is_torch_file, read_torch

SUFFIXES = (".json", ".pt", ".pth", ".ckpt", ".bin", ".tar")  # what is looked at in a folder
MOST_JSON_BYTES = 256 << 20  # a state of a loader takes kilobytes, of 10,000 lanes megabytes
DEEPEST = 100  # levels of a checkpoint in which a state is looked for
_ENOUGH = 5  # of the fields: what has so many of them is a state, perhaps a truncated one


@dataclass(frozen=True, slots=True)
class Found:
    """A state, the file that it is in, and the keys that lead to it there: `train.dataloader_state_dict`, or none."""

    path: str
    key: str
    state: State


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file of a folder in which no state is, with the reason."""

    path: str
    why: str


def find_states(paths: Sequence[str], key: str = "") -> tuple[list[Found], list[PassedOver]]:
    """The states in these files and folders (what lies in them, not below), in the natural order of their names.

    `key`: only those that one of the keys leading to them is called. Raises InputError for a file that is missing,
    cannot be read (WDS521) or has no state (WDS522); of a folder such files are passed over, unless all are.
    """
    found: list[Found] = []
    passed: list[PassedOver] = []
    for path in paths:
        if os.path.isdir(path):
            inside = _in_folder(path)
            for each in inside:
                try:
                    found += states_in(each, key)
                except InputError as error:
                    passed.append(PassedOver(each, error.message))
        else:
            found += states_in(path, key)
    if not found:
        where = paths[0] if len(paths) == 1 else ""
        raise _without_state(where, f"no file of {len(passed)} has one" if passed else "the folder has no such file")
    return sorted(found, key=lambda each: natural(each.path)), passed


def states_in(path: str, key: str = "") -> list[Found]:
    """The states in one file, in the order they stand there. Raises InputError as `find_states`."""
    if not os.path.isfile(path):
        raise InputError(f"there is no file {path}", where=path, hint="give the files of a checkpoint, or their folder")
    found = [Found(path, ".".join(keys), state) for keys, state in _walk(_read(path)) if not key or key in keys]
    if not found:
        raise _without_state(path, f"none under the key {key!r}" if key else "nothing in it looks like one")
    return found


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sorts `rank10` after `rank9`."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def _read(path: str) -> Any:
    with translated(path, "read"):
        if is_torch_file(path):
            return read_torch(path)
        with open(path, "rb") as file:
            is_large = os.fstat(file.fileno()).st_size > MOST_JSON_BYTES
            data = file.read(1) if is_large else file.read()
    is_json = data[:1] in {b"{", b"["}
    if is_json and is_large:
        raise _unread(path, f"JSON of more than {MOST_JSON_BYTES:,} bytes, and a state takes far fewer")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = "a pickle, or torch.save's of old" if data[:1] == b"\x80" else "neither JSON nor torch.save's"
        raise _unread(path, f"damaged JSON: {error}" if is_json else kind) from error


def _unread(path: str, kind: str) -> InputError:
    hint = "save states by json.dump, or by torch.save in its usual form"
    return InputError(f"the file is {kind}", where=path, hint=hint, code="WDS521")


def _walk(value: Any) -> Iterator[tuple[tuple[str, ...], State]]:
    """States, each with the keys that lead to it, in the order they stand. What contains itself is entered once, and
    what nests deeper than any checkpoint not at all."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    seen: set[int] = set()
    while waiting:
        keys, each = waiting.pop()
        if not isinstance(each, dict | list | tuple) or id(each) in seen or len(keys) > DEEPEST:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            if sum(field in each for field in ("version", *FIELDS)) >= _ENOUGH:
                yield keys, each
                continue
            inside = [((*keys, str(key)), inner) for key, inner in dict.items(each)]
        else:
            inside = [((*keys, str(i)), inner) for i, inner in enumerate(each)]
        waiting += reversed(inside)


def _in_folder(path: str) -> list[str]:
    with translated(path, "list"):
        names = [name for name in os.listdir(path) if name.endswith(SUFFIXES) and not name.startswith(".")]
    files = [each for name in names if os.path.isfile(each := os.path.normpath(os.path.join(path, name)))]
    return sorted(files, key=natural)


def _without_state(path: str, words: str) -> InputError:
    return InputError(
        f"there is no state of a wdsctl loader: {words}",
        where=path,
        hint="give the file that the state was saved in; files of Energon's loaders cannot be taken over",
        code="WDS522",
    )
