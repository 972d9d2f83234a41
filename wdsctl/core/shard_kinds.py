"""Tars or files of lines: a dataset is of one kind. Told by names alone."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import is_lines, unpacker
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import shown

#: What may lie beside files of lines without being data to be put into shards.
BESIDE = (".md", ".rst", ".txt", ".json", ".yaml", ".yml", ".html", ".idx", ".md5", ".sha256")


def one_kind(root: str, shards: Sequence[ShardFile], known: Iterable[str]) -> tuple[list[ShardFile], list[Finding]]:
    """The shards that are of the kind that the catalog has, by its paths `known`; a finding for those that are not.

    Raises InputError WDS127 where there are both and the catalog knows none.
    """
    lines = [shard for shard in shards if is_lines(shard.path)]
    if len(lines) in (0, len(shards)):
        return list(shards), []
    tars = [shard for shard in shards if not is_lines(shard.path)]
    first = next(iter(known), None)
    if first is None:
        raise InputError(
            f"{counted(len(tars), 'tar')} and {counted(len(lines), 'file')} of lines in one folder: which is meant?",
            where=shown(root),
            hint=f"name the file, {lines[0].path}, in the place of the folder, or leave one kind out: "
            "`--exclude '*.jsonl'` or `--exclude '*.tar'`",
            code="WDS127",
        )
    kept, left = (lines, tars) if is_lines(first) else (tars, lines)
    message = f"{'tars beside files' if kept is lines else 'files'} of lines{'' if kept is lines else ' beside tars'}"
    finding = Finding(
        code="WDS127", severity="note", message=f"{message}: left out", shard=left[0].path, count=len(left)
    )
    return kept, [finding]


def is_of_lines(names: Iterable[str]) -> bool:
    """Whether files of lines, compressed or not, are there, and beside them nothing that could be raw data."""
    found = False
    for name in names:
        if is_lines(name) or unpacker(name):
            found = True
        elif "." in posixpath.basename(name) and not name.lower().endswith(BESIDE):
            return False
    return found
