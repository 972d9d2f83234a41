"""Parse the ROOT argument: a folder or URL, or a selection of shards in it.

    DIR/shard-{000..999}.tar    a brace range: all of these shards must exist
    'DIR/**/*.tar'  glob:...    all shards that match, now and later
    @list.txt    -              the paths in a file or on stdin, one per line or NUL-terminated (`find -print0`)

The root of the dataset is then the common folder of these shards. The catalog stores the selection for later runs,
which add new shards only if they match a glob.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import BinaryIO, NamedTuple

from wdsctl.core.dataset.shard_names import expand_braces, has_braces
from wdsctl.core.dataset.timed_regex import compile_path_regex
from wdsctl.core.errors import InputError, UsageError, translate_os_errors
from wdsctl.core.file_limits import MAX_INDEX_BYTES, read_whole
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import open_named
from wdsctl.core.text import path_for_message, pluralize, printable_path
from wdsctl.core.urls import is_url, normalize_root, redact_repr, redact_secrets


@dataclass(frozen=True)
class ShardSelection:
    """The selected shards of a dataset, by paths relative to the root, with `/`. Empty for all shards."""

    globs: tuple[str, ...] = ()
    braces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        return not (self.globs or self.braces or self.names)

    @cached_property
    def named_paths(self) -> frozenset[str]:
        """All paths that the user gave one by one or by a brace range."""
        return frozenset(self.names).union(*map(expand_braces, self.braces))

    @cached_property
    def _matches_globs(self) -> Callable[[str], bool]:
        return _compile_globs(self.globs)

    def includes(self, path: str) -> bool:
        return self.is_all or path in self.named_paths or self._matches_globs(path)

    def unmatched(self, paths: Iterable[str]) -> list[str]:
        """Return the named paths that are not in `paths`, and the globs (`glob:PATTERN`) without a match."""
        existing = set(paths)
        unmatched_globs = [glob for glob in self.globs if not any(map(_compile_globs((glob,)), existing))]
        return [*(f"glob:{glob}" for glob in unmatched_globs), *sorted(self.named_paths - existing)]

    def to_json(self) -> str:
        return json.dumps({key: list(value) for key, value in asdict(self).items() if value})

    def describe(self) -> str:
        """Return a short text: globs, brace ranges, and the number of named shards."""
        names = [pluralize(len(self.names), "named shard")] if self.names else []
        return ", ".join([*(f"glob:{glob}" for glob in self.globs), *self.braces, *names]) or "all shards"


ALL_SHARDS = ShardSelection()


def shard_selection_from_json(text: str | None) -> ShardSelection:
    """Parse the output of `to_json`; all shards for None. Raises ValueError or TypeError if it is invalid."""
    fields = read_json(text or "{}")
    return ShardSelection(**{key: tuple(map(str, value)) for key, value in fields.items()})


def _compile_globs(globs: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a path matches one of the globs. Raises UsageError if one is invalid."""
    import regex

    text = ", ".join(globs)
    try:
        return compile_path_regex("|".join(map(glob_to_regex, globs)) or "(?!)", text)
    except (regex.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"invalid glob {text[:60]!r}: {error.msg if isinstance(error, regex.error) else error}",
            hint="write ranges in ascending order, such as `[0-9]`",
        ) from error


def glob_to_regex(glob: str) -> str:
    """Translate a glob: `*`, `?` and `[...]` match within a folder, `**` matches any number of folders."""
    expression, position = "", 0
    while position < len(glob):
        if glob.startswith("**/", position):
            expression, position = expression + "(?:[^/]+/)*", position + 3
        elif glob.startswith("**", position):
            expression, position = expression + ".*", position + 2
        else:
            piece, position = _translate_glob_char(glob, position)
            expression += piece
    return expression


def _translate_glob_char(glob: str, position: int) -> tuple[str, int]:
    char = glob[position]
    if char == "[":
        end = glob.find("]", position + 2 + (glob[position + 1 : position + 2] == "!"))
        if end > 0:
            members = glob[position + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            escaped = f"^{members[1:]}" if members.startswith("!") else members.replace("^", "\\^", 1)
            return f"(?!/)[{escaped}]", end + 1
    return {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)), position + 1


GLOB_PREFIX = "glob:"
STDIN_ROOT = "-"

_WILDCARD = re.compile(r"[*?\[]")
_URL_WILDCARD = re.compile(r"[*\[]")  # a `?` in a URL begins its query


@redact_repr
class RootSpec(NamedTuple):
    """A parsed ROOT argument. `root`: for `locate`. `selection`: None if the argument selects no shards."""

    root: str
    selection: ShardSelection | None = None


def parse_root_spec(text: str) -> RootSpec:
    """Parse a ROOT argument. Raises InputError WDS008 if it names no shards, a shard twice, or several roots.

    Does not list the storage: `list_shards` checks whether the shards exist. An existing path is taken literally,
    even if it contains wildcards.
    """
    if text == STDIN_ROOT:
        return _spec_of_names(_split_list(_read_stdin(sys.stdin.buffer), "the list on stdin"), "the list on stdin")
    if text.startswith(GLOB_PREFIX):
        return _spec_of_globs([normalize_root(text.removeprefix(GLOB_PREFIX))])
    if not is_url(text) and os.path.lexists(text):
        return RootSpec(text)
    if text.startswith("@"):
        if not os.path.isfile(text[1:]):
            raise InputError(
                "the list of shards does not exist",
                where=text[1:],
                hint="pass an existing text file with one path per line as @FILE",
            )
        with translate_os_errors(text[1:], "read"), open_named(text[1:]) as file:
            return _spec_of_names(_split_list(read_whole(file, text[1:], MAX_INDEX_BYTES), text), text)
    if has_braces(text):
        names = expand_braces(normalize_root(text))
        return _spec_of_globs(names) if any(map(_is_glob, names)) else _spec_of_braces(normalize_root(text), names)
    return _spec_of_globs([normalize_root(text)]) if _is_glob(text) else RootSpec(text)


@lru_cache(maxsize=1)
def _read_stdin(stream: BinaryIO) -> bytes:
    """The list on stdin, also when a command reads its arguments again."""
    return stream.read()


def _is_glob(text: str) -> bool:
    return (_URL_WILDCARD if is_url(text) else _WILDCARD).search(text) is not None


def _split_list(data: bytes, source: str) -> list[str]:
    lines = data.split(b"\0") if b"\0" in data else data.removeprefix(b"\xef\xbb\xbf").splitlines()
    names = [os.fsdecode(line) for line in lines if line.strip()]
    if not names:
        raise InputError(f"{source} has no shards", where=source, hint="write one path per line", code="WDS008")
    return names


def _spec_of_names(names: Sequence[str], source: str) -> RootSpec:
    if odd := [name for name in names if printable_path(name) != name]:
        raise InputError(
            f"{source} has {pluralize(len(odd), 'name')} not in UTF-8, such as {printable_path(odd[0])}",
            where=source,
            hint="rename these shards",
            code="WDS116",
        )
    absolute = [_absolute_path(name) for name in names]
    root = _common_folder([posixpath.dirname(name) for name in absolute])
    relative = [_relative_to(root, name) for name in absolute]
    _refuse_duplicates(relative, root)
    return RootSpec(root, ShardSelection(names=tuple(relative)))


def _spec_of_braces(text: str, names: Sequence[str]) -> RootSpec:
    spec = _spec_of_names(names, redact_secrets(text))
    path = _absolute_path(text)
    # A brace range in a folder name may be above the common folder: then the names are kept.
    below = path.removeprefix(f"{spec.root}/")
    is_same = set(expand_braces(below)) == set(spec.selection.names) if spec.selection and below != path else False
    return RootSpec(spec.root, ShardSelection(braces=(below,))) if is_same else spec


def _spec_of_globs(globs: Sequence[str]) -> RootSpec:
    absolute = [_absolute_path(glob) for glob in globs]
    fixed = [_fixed_folder(glob) for glob in absolute]
    root = _common_folder(fixed)
    relative = tuple(dict.fromkeys(_relative_to(root, glob) for glob in absolute))
    return RootSpec(root, ALL_SHARDS if "**" in relative else ShardSelection(globs=relative))


def _absolute_path(name: str) -> str:
    return normalize_root(name) if is_url(name) else os.path.abspath(name)


def _fixed_folder(glob: str) -> str:
    """Return the folder before the first wildcard, or the folder of a path without wildcards."""
    match = (_URL_WILDCARD if is_url(glob) else _WILDCARD).search(glob)
    folder, _, _ = glob[: match.start() if match else len(glob)].rpartition("/")
    return folder or "/"


def _common_folder(folders: Sequence[str]) -> str:
    """Return the deepest folder that contains all of these paths."""
    least, most = min(folders).split("/"), max(folders).split("/")
    same = next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), min(len(least), len(most)))
    root = "/".join(least[:same])
    is_a_root = is_url(root) and root.partition("://")[2] if any(map(is_url, folders)) else True
    if not is_a_root:
        stores = Counter("/".join(folder.split("/")[:3]) if is_url(folder) else "local paths" for folder in folders)
        raise InputError(
            f"the shards are in {len(stores)} different stores: "
            + ", ".join(f"{count:,} in {redact_secrets(store)}" for store, count in stores.most_common(3)),
            hint="use a blend file to train on several datasets: one dataset has one root",
            code="WDS008",
        )
    return root or "/"


def _relative_to(root: str, name: str) -> str:
    return name[len(root.rstrip("/")) + 1 :]


def _refuse_duplicates(names: Sequence[str], root: str) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise InputError(
            f"{pluralize(len(duplicates), 'shard')} listed more than once, such as {path_for_message(duplicates[0])}",
            where=redact_secrets(root),
            hint="list each shard once",
            code="WDS008",
        )
