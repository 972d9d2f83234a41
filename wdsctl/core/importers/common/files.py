"""Find the files that rows refer to, and name the files and parts of samples.

A reference leads to a file below the folder of the file with the rows, or below the folder that the user names
(`-O base=FOLDER`); the data cannot allow other folders. With `base`, absolute paths and `..` are allowed.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from stat import S_ISREG
from typing import Any
from urllib.parse import unquote

from wdsctl.core.errors import DatasetError, UsageError, WdsctlError, wdsctl_error_from
from wdsctl.core.importers.common.encoded_media import is_encoded_medium
from wdsctl.core.importers.common.templates import check_template, is_template, parse_template
from wdsctl.core.importers.common.values import parse_list_option
from wdsctl.core.importers.protocol import FilePart, Options
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS
from wdsctl.core.safe_open import is_beneath
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message
from wdsctl.core.urls import is_url

#: For references in rows. References in an index are relative to the index's folder, and no option changes that.
_BASE_OPTION_HINT = "`-O base=FOLDER` sets the folder that references are relative to"
_DOWNLOAD_HINT = "download the files, and write their paths into the rows"


def make_file_part(
    name: str, base: str, reference: str, where: str, *, allowed: str = "", is_base_known: bool = False
) -> FilePart:
    """Make a part of the file that `reference` names below the folder `base`, without reading the file.

    If there is no such file, takes the only one whose path differs in its spelling (`find_spelled`). `allowed`: the
    folder that the user names, if any; references may lead anywhere below it, and may be relative to it, unless
    `is_base_known`. Raises DatasetError WDS230 if the reference leads outside (an absolute path, `..`, a link, a URL),
    WDS231 if the file does not exist, or two have spellings of its name.
    """
    path = (
        _resolve_allowed("" if is_base_known else allowed, base, reference, where, limit=allowed)
        if allowed
        else resolve_reference(base, reference, where, base_option=_BASE_OPTION_HINT)
    )
    try:
        if source_files.is_remote(path):
            path = source_files.absolute(path)
            return FilePart(name, path, 0, source_files.stat_file(path).size, allowed or base)
        status = os.stat(path)
        if not S_ISREG(status.st_mode):
            raise _missing_file_error(reference, "not a regular file", where, _BASE_OPTION_HINT)
        return FilePart(name, path, 0, status.st_size, allowed or base)
    except (FileNotFoundError, NotADirectoryError) as error:
        spelled = find_spelled(base, reference)
        if len(spelled) == 1:
            return make_file_part(name, base, spelled[0], where, allowed=allowed, is_base_known=is_base_known)
        if spelled:
            raise _several_files_error(reference, spelled, where) from error
        raise _missing_file_error(reference, "the file does not exist", where, _BASE_OPTION_HINT) from error
    except OSError as error:
        raise wdsctl_error_from(error, path, "read") from error


def find_spelled(base: str, reference: str) -> tuple[str, ...]:
    """The files below `base` whose paths differ from the reference in spelling only: upper and lower case, backslashes,
    blanks at the ends, percent-encoding, and the forms of Unicode. More than one: none is closer than the others.

    Looks nowhere for absolute paths, `..` and URLs, nor in a store. Cost: lists the folders on the way.
    """
    if is_url(base) or is_url(reference):
        return ()
    path = reference.strip().replace("\\", "/").removeprefix("./")
    components = path.split("/")
    if not path or path.startswith("/") or ".." in components or "\0" in path:
        return ()
    found = [""]
    for component in components:
        found = [
            os.path.join(folder, name) for folder in found for name in _alike(os.path.join(base, folder), component)
        ]
    files = tuple(each for each in found if each != reference and os.path.isfile(os.path.join(base, each)))
    same_case = tuple(each for each in files if spelling(each, keeps_case=True) == spelling(path, keeps_case=True))
    return same_case if len(same_case) == 1 else files


def spelling(text: str, *, keeps_case: bool = False) -> str:
    """A text that is equal for names that differ in case, percent-encoding, and the form of Unicode."""
    if not text.isascii() or "%" in text:
        text = unicodedata.normalize("NFC", unquote(text))
    return text if keeps_case else text.casefold()


def _alike(folder: str, name: str) -> Sequence[str]:
    return _names_by_spelling(os.path.abspath(folder)).get(spelling(name), ())


@lru_cache(maxsize=64)
def _names_by_spelling(folder: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            found.setdefault(spelling(name), []).append(name)
    return found


class Stems:
    """Files by their names without endings, such as `0` for `0.jpg`: paths relative to a folder.

    `name_of`: the name of a path, if it is another one.
    """

    def __init__(self, paths: Iterable[str], name_of: Callable[[str], str] = strip_extension) -> None:
        self._name_of = name_of
        self._paths: dict[str, list[str]] = {}
        for path in paths:
            self._paths.setdefault(spelling(name_of(path)), []).append(path)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def example(self) -> str:
        return next((paths[0] for paths in self._paths.values()), "")

    @property
    def note(self) -> str:
        """How rows name the files, for the user."""
        name = self._name_of(self.example)
        kind = "in several folders" if name == os.path.basename(self.example) else "without extension"
        return f"names files {kind}, such as {path_for_message(name)} for {path_for_message(self.example)}"

    def find_all(self, name: str) -> list[str]:
        """The files that a name may mean; those with exactly this name, if there are some."""
        found = self._paths.get(spelling(name.strip().replace("\\", "/").removeprefix("./")), [])
        return [path for path in found if self._name_of(path) == name] or found

    def find(self, name: str, where: str) -> str:
        """The file that a name means; the name itself if there is none. Raises DatasetError WDS231 for several."""
        found = self.find_all(name)
        if len(found) > 1:
            raise _several_files_error(name, found, where)
        return found[0] if found else name


def _several_files_error(reference: str, paths: Sequence[str], where: str) -> DatasetError:
    shown = join_with_and([path_for_message(each) for each in paths[:5]])
    return DatasetError(
        f"{path_for_message(reference)!r}: several files may have this name: {shown}",
        hint="write the path of one of them into the row, with its ending and spelling",
        where=where,
        code="WDS231",
    )


def resolve_reference(base: str, reference: str, where: str, *, base_option: str = "") -> str:
    """The path of `reference` below `base`. Raises DatasetError WDS230 if it leads outside, WDS231 if it is empty.

    `base_option`: the hint that names the option for the base folder; empty if there is no such option.
    """
    if not _can_name_file(reference):
        raise _missing_file_error(reference, "not a file name", where, base_option)
    if is_url(reference) or "://" in reference:
        raise _outside_error(reference, "is a URL, which wdsctl never fetches", where, _DOWNLOAD_HINT)
    if os.path.isabs(reference):
        raise _outside_error(reference, "is an absolute path", where, _allow_path_hint(base_option, reference))
    if ".." in reference.split("/"):
        raise _outside_error(
            reference, "contains `..`", where, _allow_path_hint(base_option, os.path.join(base, reference))
        )
    path = os.path.join(base, reference)
    folder, name = os.path.split(path)
    real = os.path.join(_real_folder(folder), name)
    if os.path.islink(real):
        real = os.path.realpath(real)
    if not (is_below(_real_folder(base), real) or (not is_url(base) and is_beneath(path, (base,)))):
        raise _outside_error(reference, "is a link that leads outside", where, _allow_path_hint(base_option, real))
    return path


def _can_name_file(reference: str) -> bool:
    """Whether a text is not blank, and has no characters that no name of a file has."""
    try:
        return b"\0" not in os.fsencode(reference) and bool(reference.strip())
    except UnicodeEncodeError:  # half a surrogate pair: JSON can escape it
        return False


def _resolve_allowed(allowed: str, base: str, reference: str, where: str, *, limit: str) -> str:
    """The path of `reference`, relative to `allowed`, if it is not empty, or else to `base`.

    Raises DatasetError WDS230 if the path is not below `limit`.
    """
    if not _can_name_file(reference):
        raise _missing_file_error(reference, "not a file name", where, _BASE_OPTION_HINT)
    if is_url(reference) or "://" in reference:
        raise _outside_error(reference, "is a URL, which wdsctl never fetches", where, _DOWNLOAD_HINT)
    folders = (allowed, base) if allowed else (base,)
    paths = dict.fromkeys(os.path.join(folder, reference) for folder in folders)  # one path if absolute
    below = [path for path in paths if is_below(_real_folder(limit), _resolve_cached(path))]
    if not below:
        wider = _allow_path_hint(_BASE_OPTION_HINT, next(reversed(paths)))
        raise _outside_error(reference, f"leads out of {path_for_message(limit)}, which `-O base=` names", where, wider)
    return next((path for path in below if source_files.is_file(path)), below[0])


def path_from_allowed(allowed: str, base: str, reference: str, where: str) -> str:
    """The path of the file relative to `allowed`, for keys, which must not depend on the location of that folder.

    Raises as `make_file_part`.
    """
    if not (os.path.isabs(reference) or ".." in reference.split("/")):
        return reference
    return source_files.relative(_resolve_allowed(allowed, base, reference, where, limit=allowed), allowed)


def _resolve_cached(path: str) -> str:
    """The real path. Caches the real paths of folders, which rows share."""
    folder, name = os.path.split(path)
    real = os.path.join(_real_folder(folder), name)
    return source_files.resolve_links(real) if name in ("", ".", "..") or source_files.is_link(real) else real


def _allow_path_hint(base_option: str, path: str) -> str:
    """The hint that names the option which allows `path`; empty if no option can."""
    if not base_option:
        return ""
    folder = os.path.dirname(source_files.absolute(path))
    return (
        f"if you trust the file, allow its folder with `-O base={shlex.quote(folder)}`, or all folders with `-O base=/`"
    )


def find_base(
    folder: str, references: Iterable[str], *, subfolders: Iterable[str] = ("images", "media", "data")
) -> str:
    """The folder that references are relative to: `folder`, or the first of `subfolders` that has one of the files.

    `folder` wins if it has any of the files, or if no candidate has one.
    """
    relative = [reference for reference in references if not os.path.isabs(reference)]
    for base in (folder, *(os.path.join(folder, name) for name in subfolders)):
        if any(source_files.is_file(os.path.join(base, reference)) for reference in relative if "\0" not in reference):
            return base
    return folder


def is_below(base: str, real: str) -> bool:
    """Whether a real path is below the folder `base`, which must be a real path too."""
    return real.startswith(base if base.endswith("/") else f"{base}/")


def _real_folder(folder: str) -> str:
    return _resolve_absolute(source_files.absolute(folder))


@lru_cache(maxsize=4096)
def _resolve_absolute(folder: str) -> str:
    return source_files.resolve_links(folder)


def _outside_error(reference: str, what: str, where: str, way_out: str = "") -> WdsctlError:
    return DatasetError(
        f"the reference {path_for_message(reference)!r} {what}: refused",
        hint=way_out or "references must be relative, and stay in the folder of their file",
        where=where,
        code="WDS230",
    )


def _missing_file_error(reference: str, what: str, where: str, base_option: str) -> WdsctlError:
    return DatasetError(
        f"{path_for_message(reference)!r}: {what}",
        hint=_with_base_hint("check the row that names the file", base_option),
        where=where,
        code="WDS231",
    )


def _with_base_hint(hint: str, base_option: str) -> str:
    return f"{hint}; {base_option}" if base_option else hint


_EXTENSION_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,16}")

#: A column whose values end in one of these extensions is taken for a column of references.
REFERENCED_EXTENSIONS = MEDIA_EXTENSIONS | {
    *("npy", "npz", "pt", "pth", "h5", "safetensors", "ply", "glb", "obj", "pdf", "nii", "dcm")
}


def extension_of_name(path: str) -> str:
    """The extension of a file name, in lower case; empty if there is none, or it cannot name a part."""
    ending = path[path.rfind("/") + 1 :].rpartition(".")
    return ending[2].lower() if ending[0] and _EXTENSION_PATTERN.fullmatch(ending[2]) else ""


PROBED_ROWS = 100  # rows that detect which fields are references


def find_media_fields(format_name: str, options: Options, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The fields and templates that `-O files=` names, which may be none, or else the fields where at least half of the
    values look like paths of media.

    Raises UsageError if `files`, `text` or `key` name a field that no row has.
    """
    fields = tuple(dict.fromkeys(name for row in rows for name in row))
    named = parse_list_option(options, "files")
    key = options.get("key", ":row")
    for name in filter(is_template, named):
        check_template(parse_template(name), fields)
    for name in (
        *(name for name in named if not is_template(name)),
        *filter(None, [options.get("text", "")]),
        *([key] if not key.startswith(":") else []),
    ):
        if name not in fields:
            raise UsageError(
                f"{format_name}: no row has a field {name!r}",
                hint=f"{did_you_mean(name, fields)} the fields are {', '.join(fields)}".strip(),
            )
    if key.startswith(":") and key not in (":row", ":stem"):
        raise UsageError(
            f"{format_name}: invalid option key={key}",
            hint="pass a field name, :row (row numbers) or :stem (file names)",
        )
    if "files" in options:
        return named
    return tuple(name for name in fields if _is_file_field([row[name] for row in rows if row.get(name)]))


def list_references(rows: Iterable[Mapping[str, Any]], fields: Iterable[str]) -> list[str]:
    """The references in these fields of the rows."""
    names = tuple(fields)
    values = (each for row in rows for name in names for each in _iter_texts(row.get(name)))
    return [each for each in values if not is_encoded_medium(each)]


def _is_file_field(values: Sequence[Any]) -> bool:
    return bool(values) and 2 * sum(map(is_media_path, values)) >= len(values)


def is_media_path(value: Any) -> bool:
    """Whether a value, or every item of a list, looks like the path of a media file, or is an encoded medium."""
    texts = [text.rstrip() for text in _iter_texts(value)]
    return bool(texts) and all(
        is_encoded_medium(text)
        or (extension_of_name(text) in REFERENCED_EXTENSIONS and not is_url(text) and "\n" not in text)
        for text in texts
    )


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(each is None or isinstance(each, str) for each in value):
        yield from (each for each in value if each is not None)


MAX_NAME_BYTES = 255  # limit of a file name on nearly every file system

#: Extensions of parts that are short texts in UTF-8.
TEXT_PARTS = frozenset(
    {"txt", "text", "caption", "transcript", "cls", "cls2", "id", "index", "count", "html", "md", "srt", "vtt"}
)


#: Names that look escaped are escaped themselves, so that `%2E` in a key differs from an escaped dot.
_ESCAPED = re.compile(r"%|(%[0-9A-F]{2})+")


def part_path(key: str, part: str) -> str:
    """The path of a part, `key.part`, where segments such as `..` are escaped as %XX.

    Different parts have different paths, except if a hash that shortens long names collides.
    """
    return "/".join(map(_escape_segment, f"{key}.{part}".split("/")))


def is_text_part(part: str) -> bool:
    """Whether a part is a text or JSON, which tables hold in their rows."""
    extension = part_extension(part)
    return extension in TEXT_PARTS or extension == "json"


def exported_file_path(key: str, part: str) -> str:
    """The path of a part that `convert` writes as a file beside rows, relative to the file with the rows."""
    return f"files/{part_path(key, part)}"


def part_extension(part: str) -> str:
    """The extension of a part's name, in lower case: `png` of `seg.png`."""
    return part.rpartition(".")[2].lower()


def _escape_segment(text: str) -> str:
    if not text.strip(".") or _ESCAPED.fullmatch(text):
        return "".join(f"%{byte:02X}" for byte in text.encode()) or "%"
    text = text.replace("\0", "%00")
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= MAX_NAME_BYTES:
        return text
    digest = blake2b(data, digest_size=8).hexdigest()
    tail = data[-64:].decode("utf-8", "ignore")
    tail = tail[tail.find(".") :] if "." in tail else ""
    room = MAX_NAME_BYTES - len(digest) - len(tail.encode()) - 1
    return f"{data[:room].decode('utf-8', 'ignore')}-{digest}{tail}"
