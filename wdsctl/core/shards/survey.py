"""Survey a folder: what the names of its files say, before anything is opened."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from wdsctl.core.dataset.shard_names import (
    ANY_TAR_SUFFIXES,
    COMPRESSED_TAR_SUFFIXES,
    SIDECAR_SUFFIXES,
    UNPACK_COMMANDS,
    are_shards,
    in_place_format,
    is_jsonl_name,
    shard_format,
    unpack_command,
)
from wdsctl.core.errors import Finding
from wdsctl.core.shards.list import list_paths, walk_local, walk_remote
from wdsctl.core.urls import is_url


def has_in_place_shards(root: str) -> bool:
    """Whether `root` is a folder of shards of another format than tar and JSONL. Cost: a walk through the folder."""
    return in_place_format(list_paths(root)) is not None


def has_shards(root: str, only: str = "", *, forbidden: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether there is a tar, compressed or not, at any depth below `root`, or `root` is a folder of JSONL files.

    The walk stops at the first tar. JSONL files beside media are labels, not shards (see `is_jsonl_folder`). With
    `only`, the dataset is one file, and the answer is true.

    `forbidden`: folders as (device, inode). Raises ForbiddenFolder if a link below `root` leads to one of them.
    """
    if only:
        return True
    found = walk_remote(root) if is_url(root) else walk_local(root, "", [], set(), forbidden)
    return are_shards(path for path, _ in found)


class FolderSurvey(NamedTuple):
    """What the names below a folder say. The walk ends at the first uncompressed tar.

    `has_shards`: as the function. `outside_shard`: the first link to a shard that leads out of the folder; empty if
    none was found. `may_have_links`: whether there may be links to folders. `endings`: the last extensions of all
    names, in lower case with the dot; None if not all are known.
    """

    has_plain_tars: bool
    has_shards: bool
    outside_shard: str
    may_have_links: bool
    endings: frozenset[str] | None


_MAX_ENDINGS = 1000


_kept_surveys: ContextVar[dict[str, FolderSurvey] | None] = ContextVar("kept surveys", default=None)


@contextmanager
def keep_surveys() -> Iterator[None]:
    """Walk through every folder once for `survey_folder` within this context: several checks of one command ask."""
    token = _kept_surveys.set({})
    try:
        yield
    finally:
        _kept_surveys.reset(token)


def survey_folder(root: str) -> FolderSurvey:
    """Survey a local folder. Cost: a walk through it, up to the first uncompressed tar."""
    kept = _kept_surveys.get()
    if kept is None:
        return _survey_folder(root)
    real = os.path.realpath(root)
    if real not in kept:
        kept[real] = _survey_folder(root)
    return kept[real]


def _survey_folder(root: str) -> FolderSurvey:
    findings: list[Finding] = []
    links: list[str] = []
    endings: set[str] = set()
    judged: set[str] = set()  # endings of which a second file says nothing new
    has_packed_tars = has_lines = has_raw = False
    for path, _ in walk_local(root, "", findings, set(), links=links):
        ending = path[path.rfind(".") :].lower()
        if ending in judged:
            continue
        name = posixpath.basename(path).lower()
        if "." not in name:
            continue
        if ending == ".tar":
            return FolderSurvey(True, True, "", may_have_links=True, endings=None)
        endings.add(ending)
        if name.endswith(COMPRESSED_TAR_SUFFIXES):
            has_packed_tars = True
        elif is_jsonl_name(name) or unpack_command(name):
            has_lines = True
        elif not name.endswith(SIDECAR_SUFFIXES):
            has_raw = True
        if ending not in UNPACK_COMMANDS:
            judged.add(ending)
    outside = [finding.shard for finding in findings if finding.code == "WDS409"]
    endings.update(path[path.rfind(".") :].lower() for path in outside)
    return FolderSurvey(
        has_plain_tars=False,
        has_shards=has_packed_tars or (has_lines and not has_raw),
        outside_shard=_first_shard(outside),
        may_have_links=bool(links),
        endings=frozenset(endings) if len(endings) <= _MAX_ENDINGS else None,
    )


def has_tars(root: str) -> bool:
    """Whether there is a tar, compressed or not, at any depth below `root`."""
    return any(path.lower().endswith(ANY_TAR_SUFFIXES) for path in list_paths(root))


def find_jsonl_file(root: str) -> str:
    """Return the path of the first JSONL file below `root`, in sort order; empty if there is none."""
    return min((path for path in list_paths(root) if is_jsonl_name(path)), default="")


def find_outside_shard(root: str) -> str:
    """Return the path below the folder `root` of a link to a shard outside of it; empty if there is none."""
    findings: list[Finding] = []
    for _ in walk_local(root, "", findings, set()):
        pass
    return _first_shard(finding.shard for finding in findings if finding.code == "WDS409")


def _first_shard(names: Iterable[str]) -> str:
    return min(
        (name for name in names if shard_format(name) or name.lower().endswith(COMPRESSED_TAR_SUFFIXES)),
        default="",
    )
