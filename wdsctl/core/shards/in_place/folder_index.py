"""The index.json of folders of MDS shards and LitData chunks: which shards belong to the dataset, and their sizes.

Native readers read what the index lists, and nothing else; so does wdsctl. An index in the dataset's root decides for
all folders below, as that of merged MDS folders does; otherwise each folder has its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wdsctl.core.dataset.shard_names import ShardFormat
from wdsctl.core.errors import Finding
from wdsctl.core.json_text import read_json
from wdsctl.core.shards.in_place.kinds import INDEX_FILE
from wdsctl.core.shards.in_place.litdata import parse_index
from wdsctl.core.shards.in_place.mds import parse_entry

MISMATCH_CODE = "WDS168"


class ListedFile(NamedTuple):
    """A shard as an index describes it. `path`: below the root. `is_exact`: whether it has this size, or more."""

    path: str
    size: int
    is_exact: bool
    hashes: Mapping[str, str] = {}


class FolderIndexes(NamedTuple):
    """`listed`: path -> shard, of all indexes. `unlisted`: shards without an entry, though an index covers them."""

    listed: dict[str, ListedFile]
    unlisted: list[str]
    findings: list[Finding]


def read_folder_indexes(
    form: ShardFormat,
    shards: Mapping[str, int],
    read_file: Callable[[str], bytes | None],
    is_selected: Callable[[str], bool],
) -> FolderIndexes:
    """Read the indexes of these shards (path -> size) and compare them.

    `read_file`: reads a file below the root; None if it does not exist. `is_selected`: whether a path belongs to the
    dataset: others are not missing. Cost: one small read for each folder.
    """
    by_folder: dict[str, list[str]] = {}
    for path in shards:
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    findings: list[Finding] = []
    listed: dict[str, ListedFile] = {}
    unlisted: list[str] = []
    # Without shards in the root, an index.json there may be of something else.
    root_entries = _entries("", form, read_file, findings if "" in by_folder else [])
    covered = {"": list(shards)} if root_entries is not None else by_folder
    for folder, inside in sorted(covered.items()):
        entries = root_entries if not folder else _entries(folder, form, read_file, findings)
        if entries is None:
            if form == "mds" and not any(finding.shard == _index_path(folder) for finding in findings):
                message = f"there is no {INDEX_FILE} beside the shards, so their number and sizes cannot be checked"
                findings.append(Finding(code=MISMATCH_CODE, severity="warning", message=message, shard=min(inside)))
            continue
        listed |= {each.path: each for each in entries}
        unlisted += [path for path in inside if path not in listed]
        findings += _differences(folder, [each for each in entries if is_selected(each.path)], shards)
    if unlisted:
        message = f"shards that {INDEX_FILE} does not list: not indexed"
        findings.append(
            Finding(code=MISMATCH_CODE, severity="warning", message=message, shard=min(unlisted), count=len(unlisted))
        )
    return FolderIndexes(listed, unlisted, findings)


def _index_path(folder: str) -> str:
    return f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE


def _entries(
    folder: str, form: ShardFormat, read_file: Callable[[str], bytes | None], findings: list[Finding]
) -> list[ListedFile] | None:
    """The entries of a folder's index; None if it has none, or it cannot be read, which is a finding."""
    path = _index_path(folder)
    data = read_file(path)
    if data is None:
        return None
    try:
        content = read_json(data)
        if form == "mds":
            entries = [parse_entry(entry) for entry in content["shards"]]
            found = [ListedFile(each.name, each.size, is_exact=True, hashes=each.hashes) for each in entries]
        else:
            found = [ListedFile(each.name, each.size, is_exact=False) for each in parse_index(content).chunks]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        message = f"the index cannot be read: {error}"
        findings.append(Finding(code="WDS233", severity="error", message=message, shard=path))
        return None
    found_below = []
    for each in found:
        below = posixpath.normpath(posixpath.join(folder, each.path))
        if below.startswith(("/", "../")) or below == "..":
            message = f"the index names {each.path!r}, which is outside the dataset"
            findings.append(Finding(code="WDS230", severity="error", message=message, shard=path))
            continue
        found_below.append(each._replace(path=below))
    return found_below


def _differences(folder: str, entries: Sequence[ListedFile], shards: Mapping[str, int]) -> Iterator[Finding]:
    missing = [each.path for each in entries if each.path not in shards]
    if missing:
        message = f"shards that {_index_path(folder)} lists are missing"
        yield Finding(code=MISMATCH_CODE, severity="error", message=message, shard=missing[0], count=len(missing))
    for each in entries:
        size = shards.get(each.path)
        if size is not None and (size != each.size if each.is_exact else size < each.size):
            message = f"it has {size:,} bytes, but {_index_path(folder)} says {each.size:,}"
            yield Finding(code=MISMATCH_CODE, severity="error", message=message, shard=each.path)
