"""Interpret names of shards: the format of a shard and of a folder, and brace ranges such as `shard-{000..999}.tar`.

Sources: https://jsonlines.org (`.jsonl`; `.ndjson` is the same format); GNU Bash manual, "Brace Expansion" (commas,
ranges, steps, leading zeros): `{train,val}/*.tar`, `{00..98..2}`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.urls import is_url

JSONL_SUFFIXES = (".jsonl", ".ndjson")
TAR_SUFFIX = ".tar"

#: Commands that unpack compressed files, which wdsctl does not read, by their last extension.
UNPACK_COMMANDS = {".gz": "gunzip", ".zst": "unzstd", ".bz2": "bunzip2", ".xz": "unxz", ".lz4": "unlz4"}


ShardFormat = Literal["tar", "jsonl", "mds", "litdata", "zip"]

#: Last extension -> format. LitData's extension is too general: `_LITDATA_NAME` recognises its chunks.
_FORMAT_BY_SUFFIX: dict[str, ShardFormat] = {
    TAR_SUFFIX: "tar",
    **dict.fromkeys(JSONL_SUFFIXES, "jsonl"),
    ".mds": "mds",
    ".zip": "zip",
}
#: Of Parquet files, which earlier versions read in place.
FORMER_SHARD_SUFFIXES = (".parquet", ".pq")

_LITDATA_NAME = re.compile(r"chunk-\d+-\d+(\.[a-z0-9]+)?\.bin")
_COMPRESSED_MDS_NAME = re.compile(r".+\.mds\.(zstd|gz|bz2|br|snappy)")


def shard_format(name: str) -> ShardFormat | None:
    """The format of a shard of this name; None if no shard has such a name, or it is compressed."""
    lower = name.lower()
    found = _FORMAT_BY_SUFFIX.get(lower[lower.rfind(".") :])
    if found is None and lower.endswith(".bin"):
        match = _LITDATA_NAME.fullmatch(lower.rpartition("/")[2])
        return "litdata" if match and not match[1] else None
    return found


_NOUNS: dict[ShardFormat | None, str] = {
    "jsonl": "JSONL files",
    "mds": "MDS shards",
    "litdata": "LitData chunks",
    "zip": "zips",
}


def describe_format(name: str) -> str:
    """What shards of the format of this name are called, in plural."""
    return _NOUNS.get(shard_format(name), "tars")


def is_tar_name(name: str) -> bool:
    return name.lower().endswith(TAR_SUFFIX)


def is_jsonl_name(name: str) -> bool:
    return name.lower().endswith(JSONL_SUFFIXES)


def compressed_format(name: str) -> ShardFormat | None:
    """The format of a compressed MDS shard or LitData chunk of this name; None for other names."""
    base = name.lower().rpartition("/")[2]
    if _COMPRESSED_MDS_NAME.fullmatch(base):
        return "mds"
    match = _LITDATA_NAME.fullmatch(base)
    return "litdata" if match and match[1] else None


def unpack_command(name: str) -> str:
    """Return the command that unpacks a compressed JSONL file; empty for other names."""
    lower = name.lower()
    for ending, tool in UNPACK_COMMANDS.items():
        if lower.endswith(ending) and is_jsonl_name(lower.removesuffix(ending)):
            return tool
    return ""


#: Files that may lie beside JSONL files without turning the folder into one of raw data.
SIDECAR_SUFFIXES = (".md", ".rst", ".txt", ".json", ".yaml", ".yml", ".html", ".idx", ".md5", ".sha256")

COMPRESSED_TAR_SUFFIXES = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.lz4")
ANY_TAR_SUFFIXES = (TAR_SUFFIX, *COMPRESSED_TAR_SUFFIXES)  # compressed or not
COMPRESSED_JSONL_SUFFIXES = tuple(lines + packed for lines in JSONL_SUFFIXES for packed in UNPACK_COMMANDS)


def may_be_raw(name: str) -> bool:
    """Whether a file of this name is neither a shard nor one that may lie beside shards."""
    is_sidecar = "." not in posixpath.basename(name) or name.lower().endswith(SIDECAR_SUFFIXES)
    return not (is_sidecar or shard_format(name) or compressed_format(name))


def is_jsonl_folder(names: Iterable[str]) -> bool:
    """Whether these paths include JSONL files, compressed or not, and nothing that could be raw data.

    Files without an extension and files with one of `SIDECAR_SUFFIXES` are not raw data.
    """
    found = False
    for name in names:
        if is_jsonl_name(name) or unpack_command(name):
            found = True
        elif "." in posixpath.basename(name) and not name.lower().endswith(SIDECAR_SUFFIXES):
            return False
    return found


def are_shards(paths: Iterable[str]) -> bool:
    """Whether one of these paths is a tar, or they are those of a folder of JSONL. Stops at the first tar."""
    names = []
    for path in paths:
        if path.lower().endswith(ANY_TAR_SUFFIXES):
            return True
        names.append(path)
    return is_jsonl_folder(names)


def in_place_format(names: Iterable[str]) -> ShardFormat | None:
    """The format of a folder with these paths, if all its shards can be read in place, and nothing could be raw data.

    MDS shards and LitData chunks, compressed or not, have names of their own, so that other files may lie beside them.
    """
    found: set[ShardFormat] = set()
    is_mixed = False
    for name in names:
        form = shard_format(name) or compressed_format(name)
        if form in ("tar", "jsonl"):
            return None
        if form is not None:
            found.add(form)
        is_mixed = is_mixed or may_be_raw(name)
    if len(found) != 1:
        return None
    [form] = found
    return None if is_mixed and form == "zip" else form


def split_file_root(root: str) -> tuple[str, str]:
    """Return (folder, name) of a root that is a tar or JSONL file, compressed or not; else (root, "")."""
    if not (is_jsonl_name(root) or unpack_command(root) or root.lower().endswith(TAR_SUFFIX)):
        return root, ""
    folder, _, name = root.rpartition("/")
    if is_url(root) and folder.endswith(":/"):  # `memory://x.jsonl` has no folder
        return root, ""
    return folder or ("/" if root.startswith("/") else "."), name


MAX_NAMES = 1_000_000  # names that one text may expand to
MAX_TOTAL_CHARS = 1 << 28  # of all names together
MAX_BRACES = 64  # in one text: each brace costs a search per name

_INNERMOST = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def has_braces(text: str) -> bool:
    """Whether the text has braces with a comma or a range in them."""
    return any(_brace_choices(match[1]) is not None for match in _INNERMOST.finditer(text))


def expand_braces(text: str, *, max_names: int | None = None) -> list[str]:
    """Expand brace ranges, in order. Braces without a comma or a range are literal.

    `max_names`: `MAX_NAMES` by default. Raises UsageError for too many names, characters or braces.
    """
    max_names = MAX_NAMES if max_names is None else max_names
    if text.count("{") > MAX_BRACES and has_braces(text):
        raise UsageError(
            f"{text[:60]!r} has more than {MAX_BRACES} braces",
            hint="pass the folder, or a glob such as 'glob:DIR/*.tar'",
        )
    try:
        names = list(islice(_expand_bounded(text), max_names + 1))
    except UsageError:
        raise
    except (RecursionError, ValueError) as error:  # numbers of thousands of digits
        raise UsageError(
            f"cannot expand the braces of {text[:60]!r}: {error}", hint="write a range such as shard-{000..999}.tar"
        ) from error
    if len(names) > max_names:
        raise UsageError(
            f"{text[:60]!r} expands to more than {max_names:,} names",
            hint="pass the folder, or a glob such as 'glob:DIR/*.tar'",
        )
    return names


def _expand_bounded(text: str) -> Iterator[str]:
    total_chars = 0
    for name in _expand_all(text):
        total_chars += len(name)
        if total_chars > MAX_TOTAL_CHARS:
            raise UsageError(
                f"{text[:60]!r} expands to names of more than {MAX_TOTAL_CHARS:,} characters in total",
                hint="pass the folder, or a glob such as 'glob:DIR/*.tar'",
            )
        yield name


def _expand_all(text: str) -> Iterator[str]:
    """Expand the first innermost braces, so that braces further left vary more slowly."""
    for match in _INNERMOST.finditer(text):
        choices = _brace_choices(match[1])
        if choices is not None:
            head, tail = text[: match.start()], text[match.end() :]
            yield from (name for choice in choices for name in _expand_all(f"{head}{choice}{tail}"))
            return
    yield text


def _brace_choices(inside: str) -> Iterator[str] | None:
    match = _RANGE.fullmatch(inside)
    if match:
        return _brace_range(match[1], match[2], abs(int(match[3] or 1)) or 1)
    return iter(inside.split(",")) if "," in inside else None


def _brace_range(first: str, last: str, step: int) -> Iterator[str]:
    width = (
        max(len(first), len(last))
        if any(len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in (first, last))
        else 0
    )
    start, stop = int(first), int(last)
    numbers = range(start, stop + 1, step) if start <= stop else range(start, stop - 1, -step)
    return (f"{number:0{width}d}" for number in numbers)
