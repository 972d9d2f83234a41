"""How a dataset may be named where it is not simply a folder: some of the shards in it.

    DIR/shard-{000..999}.tar    a brace range: all of these, none missing
    'DIR/**/*.tar'  glob:...    what matches, now and later
    @list.txt    -              the paths in a file, or on stdin: one a line (or ended by zeros, as `find -print0` does)

The root of the dataset is then the folder that all of them are in; its catalog holds exactly these shards.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wdsctl.core.braces import expanded, has_braces
from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named, printable
from wdsctl.core.repr_of import without_secrets
from wdsctl.core.selected_shards import EVERYTHING, Selection
from wdsctl.core.urls import is_url, plain, shown

GLOB = "glob:"
STDIN = "-"

_MAGIC = re.compile(r"[*?\[]")
_URL_MAGIC = re.compile(r"[*\[]")  # a `?` in a URL begins its query


@without_secrets
@dataclass(frozen=True, slots=True)
class RootSpec:
    """`root`: what `locate` takes. `selection`: which of its shards; None where nothing was said of it."""

    root: str
    selection: Selection | None = None


def root_spec(text: str) -> RootSpec:
    """What a notation names. Raises InputError WDS008 for one that names nothing, one shard twice, or several roots.

    Nothing is listed: whether the shards are there, `list_shards` says. A path that exists is that path, whatever is
    in its name.
    """
    if text == STDIN:
        return _of_names(_lines(sys.stdin.buffer.read(), "the list on stdin"), "the list on stdin")
    if text.startswith(GLOB):
        return _of_globs([plain(text.removeprefix(GLOB))])
    if not is_url(text) and os.path.lexists(text):
        return RootSpec(text)
    if text.startswith("@"):
        if not os.path.isfile(text[1:]):
            raise InputError("there is no such list", where=text[1:], hint="@FILE names a file with a path a line")
        with translated(text[1:], "read"), open(text[1:], "rb") as file:
            return _of_names(_lines(file.read(), text), text)
    if has_braces(text):
        names = expanded(plain(text))
        return _of_globs(names) if any(map(_is_glob, names)) else _of_braces(plain(text), names)
    return _of_globs([plain(text)]) if _is_glob(text) else RootSpec(text)


def _is_glob(text: str) -> bool:
    return (_URL_MAGIC if is_url(text) else _MAGIC).search(text) is not None


def _lines(data: bytes, source: str) -> list[str]:
    lines = data.split(b"\0") if b"\0" in data else data.removeprefix(b"\xef\xbb\xbf").splitlines()
    names = [os.fsdecode(line) for line in lines if line.strip()]
    if not names:
        raise InputError(f"{source} names no shards", where=source, hint="one path a line", code="WDS008")
    return names


def _of_names(names: Sequence[str], source: str) -> RootSpec:
    if odd := [name for name in names if printable(name) != name]:
        raise InputError(
            f"{counted(len(odd), 'name')} in {source} that are not UTF-8, such as {printable(odd[0])}",
            where=source,
            hint="rename these shards",
            code="WDS116",
        )
    whole = [_absolute(name) for name in names]
    root = _common([posixpath.dirname(name) for name in whole])
    inside = [_below(root, name) for name in whole]
    _refuse_twice(inside, root)
    return RootSpec(root, Selection(names=tuple(inside)))


def _of_braces(text: str, names: Sequence[str]) -> RootSpec:
    spec = _of_names(names, shown(text))
    at = _absolute(text)
    # A range in the name of a folder may lie above what all have in common: the names are kept then.
    below = at.removeprefix(f"{spec.root}/")
    is_whole = set(expanded(below)) == set(spec.selection.names) if spec.selection and below != at else False
    return RootSpec(spec.root, Selection(braces=(below,))) if is_whole else spec


def _of_globs(globs: Sequence[str]) -> RootSpec:
    whole = [_absolute(glob) for glob in globs]
    fixed = [_fixed(glob) for glob in whole]
    root = _common(fixed)
    inside = tuple(dict.fromkeys(_below(root, glob) for glob in whole))
    return RootSpec(root, EVERYTHING if "**" in inside else Selection(globs=inside))


def _absolute(name: str) -> str:
    return plain(name) if is_url(name) else os.path.abspath(name)


def _fixed(glob: str) -> str:
    """The folder above the first name with a wildcard; of a path without any, the folder that it is in."""
    match = (_URL_MAGIC if is_url(glob) else _MAGIC).search(glob)
    folder, _, _ = glob[: match.start() if match else len(glob)].rpartition("/")
    return folder or "/"


def _common(folders: Sequence[str]) -> str:
    """The folder that all of these are in."""
    least, most = min(folders).split("/"), max(folders).split("/")
    same = next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), min(len(least), len(most)))
    root = "/".join(least[:same])
    is_a_root = is_url(root) and root.partition("://")[2] if any(map(is_url, folders)) else True
    if not is_a_root:
        stores = Counter("/".join(folder.split("/")[:3]) if is_url(folder) else "local paths" for folder in folders)
        raise InputError(
            f"the shards are in {len(stores)} different stores: "
            + ", ".join(f"{count:,} in {shown(store)}" for store, count in stores.most_common(3)),
            hint="a dataset has one root; blend several datasets in training",
            code="WDS008",
        )
    return root or "/"


def _below(root: str, name: str) -> str:
    return name[len(root.rstrip("/")) + 1 :]


def _refuse_twice(names: Sequence[str], root: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"{counted(len(twice), 'shard')} named more than once, such as {named(twice[0])}",
            where=shown(root),
            hint="name each once",
            code="WDS008",
        )
