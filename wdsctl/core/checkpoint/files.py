"""Finds the states of a loader in JSON files and files of `torch.save`, at any depth.

Nothing in a file is run (`torch_file`), and sizes are compared with limits before memory is taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

from wdsctl.core.checkpoint.state import STATE_FIELDS, LoaderState
from wdsctl.core.checkpoint.torch_file import is_torch_file, read_torch_file
from wdsctl.core.errors import InputError, translate_os_errors
from wdsctl.core.file_limits import scale_limit
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import open_named
from wdsctl.core.text import natural_sort_key
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

STATE_FILE_SUFFIXES = (".json", ".pt", ".pth", ".ckpt", ".bin", ".tar")  # of files in a folder that are read
MAX_JSON_BYTES = 256 << 20  # a state takes kilobytes, with 10,000 lanes megabytes
MAX_SEARCH_DEPTH = 100  # levels of a checkpoint
_MAX_FOLDER_DEPTH = 3  # below a named folder, where a hint looks for states
_MIN_STATE_FIELDS = 5  # a dict with at least this many of the fields is a state, perhaps truncated


@dataclass(frozen=True, slots=True)
class FoundState:
    """A state in a file: `value` is all that the file has, `keys` lead to the state in it; none at the top level.

    `is_torch`: the file is one of `torch.save`, not JSON.
    """

    path: str
    keys: tuple[str, ...]
    state: LoaderState
    value: Any
    is_torch: bool

    @property
    def key(self) -> str:
        """The keys as one text, such as `train.dataloader_state_dict`."""
        return ".".join(self.keys)

    def with_state(self, state: LoaderState | None) -> Any:
        """The file's value with another state in the place of this one."""
        return _replace_nested(self.value, self.keys, state)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file of a folder without a state, with the reason."""

    path: str
    why: str


def find_states(paths: Sequence[str], key: str = "") -> tuple[list[FoundState], list[SkippedFile]]:
    """The states in files, and in the files of folders (not in subfolders), in the natural order of file names.

    Files and folders may be URLs. Objects are copied to a temporary folder one after another.

    `key`: only states under this key. Raises InputError for a file that is missing, cannot be read (WDS521) or has no
    state (WDS522). In a folder such files are skipped, unless no file has a state.
    """
    found: list[FoundState] = []
    skipped: list[SkippedFile] = []
    for path in paths:
        if is_url(path):
            remote_found, remote_skipped = _find_at_url(normalize_root(path), key)
            found += remote_found
            skipped += remote_skipped
        elif os.path.isdir(path):
            paths_in_folder = _list_state_files(path)
            for each in paths_in_folder:
                try:
                    found += read_states(each, key)
                except InputError as error:
                    skipped.append(SkippedFile(each, error.message))
        else:
            found += read_states(path, key)
    if not found:
        where = paths[0] if len(paths) == 1 else ""
        under = f" under the key {key!r}" if key else ""
        reason = f"none of the {len(skipped)} files has a state{under}" if skipped else "the folder has no such file"
        raise _no_state_error(where, reason, _find_state_folder(where), key)
    return sorted(found, key=lambda each: natural_sort_key(each.path)), skipped


def _find_at_url(url: str, key: str) -> tuple[list[FoundState], list[SkippedFile]]:
    """The states in an object, or in the objects of a folder of a store, as `find_states`."""
    from wdsctl.core.storage.objects import ObjectStore, download

    store = ObjectStore(url)
    names = {each: each.url.removeprefix(f"{url}/") for each in store.list(url)}
    listed = [each for each, name in names.items() if "/" not in name and _is_state_file(name)]
    whole = None if names else store.stat(url)
    if not (names or whole):
        raise InputError(
            "the object or folder does not exist",
            where=redact_secrets(url),
            hint="pass the objects of a checkpoint, or their folder",
        )
    found: list[FoundState] = []
    skipped: list[SkippedFile] = []
    for each in [whole] if whole else listed:
        shown = redact_secrets(each.url)
        with TemporaryDirectory(prefix="wdsctl-") as folder:
            copy = os.path.join(folder, "state")
            download([each], copy)
            try:
                found += [replace(state, path=shown) for state in read_states(copy, key)]
            except InputError as error:
                if whole:
                    raise InputError(error.message, where=shown, hint=error.hint, code=error.code) from error
                skipped.append(SkippedFile(shown, error.message))
    return found, skipped


def read_states(path: str, key: str = "") -> list[FoundState]:
    """The states in one file, in order. Raises InputError as `find_states`."""
    if not os.path.isfile(path):
        raise InputError(
            f"the file {path} does not exist", where=path, hint="pass the files of a checkpoint, or their folder"
        )
    value, is_torch = _read(path)
    found = [
        FoundState(path, keys, state, value, is_torch)
        for keys, state in _find_nested_states(value)
        if not key or key in keys
    ]
    if not found:
        raise _no_state_error(
            path, f"the file has no state under the key {key!r}" if key else "no value in the file is a state", key=key
        )
    return found


def _read(path: str) -> tuple[Any, bool]:
    """(value of the file, whether it is a file of `torch.save`)."""
    with translate_os_errors(path, "read"), open_named(path) as file:
        if is_torch_file(file):
            return read_torch_file(file, path), True
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        is_large = size > scale_limit(MAX_JSON_BYTES)
        data = file.read(1 if is_large else size)
    is_json = data[:1] in {b"{", b"["}
    if is_json and is_large:
        raise _unreadable_error(path, f"JSON of more than {MAX_JSON_BYTES:,} bytes, the limit for a state")
    try:
        return read_json(data), False
    except ValueError as error:
        kind = "a bare pickle" if data[:1] == b"\x80" else "neither JSON nor a torch.save file"
        raise _unreadable_error(path, f"damaged JSON: {error}" if is_json else kind) from error


def _unreadable_error(path: str, problem: str) -> InputError:
    hint = "save the state again with json.dump or torch.save"
    return InputError(f"the file is {problem}", where=path, hint=hint, code="WDS521")


def _find_nested_states(value: Any) -> Iterator[tuple[tuple[str, ...], LoaderState]]:
    """(keys, state) of all states in a value, in order. Cycles are entered once, and levels below MAX_SEARCH_DEPTH not
    at all."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    seen: set[int] = set()
    while waiting:
        keys, each = waiting.pop()
        if not isinstance(each, dict | list | tuple) or id(each) in seen or len(keys) > MAX_SEARCH_DEPTH:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            if sum(field in each for field in ("version", *STATE_FIELDS)) >= _MIN_STATE_FIELDS:
                yield keys, each
                continue
            children = [((*keys, str(key)), inner) for key, inner in dict.items(each)]
        else:
            children = [((*keys, str(i)), inner) for i, inner in enumerate(each)]
        waiting += reversed(children)


def _replace_nested(value: Any, keys: Sequence[str], state: Any) -> Any:
    """A copy of a value along `keys` with the value there replaced."""
    if not keys:
        return state
    first, rest = keys[0], keys[1:]
    if isinstance(value, dict):
        return {key: _replace_nested(each, rest, state) if str(key) == first else each for key, each in value.items()}
    return [_replace_nested(each, rest, state) if str(i) == first else each for i, each in enumerate(value)]


def _list_state_files(path: str) -> list[str]:
    with translate_os_errors(path, "list"):
        names = list(filter(_is_state_file, os.listdir(path)))
    files = [each for name in names if os.path.isfile(each := os.path.normpath(os.path.join(path, name)))]
    return sorted(files, key=natural_sort_key)


def _find_state_folder(path: str) -> str:
    """The last folder, in natural order, below a local folder that has files of a data loader's ranks; "" without."""
    if not os.path.isdir(path):
        return ""
    found = []
    for folder, folders, names in os.walk(path):
        if folder.removeprefix(path).count(os.sep) >= _MAX_FOLDER_DEPTH:
            folders.clear()
        if any(_is_state_file(name) and "dataloader" in name for name in names):
            found.append(folder)
    return max(found, key=natural_sort_key, default="")


def _is_state_file(name: str) -> bool:
    return name.endswith(STATE_FILE_SUFFIXES) and not name.startswith(".")


def _no_state_error(path: str, reason: str, folder: str = "", key: str = "") -> InputError:
    hint = (
        "omit --key: `wdsctl checkpoint info FILES` lists the keys of states"
        if key
        else "pass the file with the saved state; states of Energon's loaders are not supported"
    )
    return InputError(
        f"found no state of a wdsctl loader: {reason}",
        where=path,
        hint=f"pass the folder of one checkpoint: {folder}" if folder else hint,
        code="WDS522",
    )
