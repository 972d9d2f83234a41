"""Report folders of raw files that are named like splits: they become parts of the keys, and not splits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import Finding
from wdsctl.core.importers.records.folder_files import is_split_folder, split_of_folder
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_MAX_WRAPPERS = 3  # folders around the folders that are named like splits


class _SplitFolders(NamedTuple):
    """Folders below `prefix`, which ends in a slash unless it is the root: name -> number of samples.

    `inner`: the names of the folders in them, which may be classes.
    """

    prefix: str
    counts: dict[str, int]
    inner: set[str]


def split_folder_findings(keys: Iterable[str], dest: str) -> tuple[Finding, ...]:
    """The finding WDS258 if samples are in at least two folders that are named after different splits, else none.

    `keys`: the paths of the samples without extensions. The caller has checked that no splits were requested, and that
    all samples of `dest` are for training.
    """
    by_prefix: dict[str, _SplitFolders] = {}
    for key in keys:
        *folders, _ = key.split("/")
        at = next((i for i, name in enumerate(folders[: _MAX_WRAPPERS + 1]) if _is_named_like_split(name)), None)
        if at is not None:
            prefix = "".join(f"{name}/" for name in folders[:at])
            found = by_prefix.setdefault(prefix, _SplitFolders(prefix, {}, set()))
            found.counts[folders[at]] = found.counts.get(folders[at], 0) + 1
            found.inner.update(folders[at + 1 : at + 2])
    found = max(by_prefix.values(), key=lambda each: sum(each.counts.values()), default=_SplitFolders("", {}, set()))
    if len({re.split("[-_0-9]", name.lower())[0] for name in found.counts}) < 2:
        return ()
    return (_make_finding(found, dest),)


def _is_named_like_split(name: str) -> bool:
    return is_split_folder(name) or bool(split_of_folder(name))


def _make_finding(found: _SplitFolders, dest: str) -> Finding:
    names = list(found.counts)
    shown = join_with_and([path_for_message(f"{found.prefix}{name}") for name in names])
    classes = " The folders inside are not classes, either." if len(found.inner) > 1 else ""
    return Finding(
        code="WDS258",
        severity="warning",
        message=f"the folders {shown} are named like splits, but all {pluralize(sum(found.counts.values()), 'sample')} "
        f"are for training: the names become parts of the keys.{classes} To make them splits, run "
        f"{shell_command('split', dest, '--by-value', f'key:{_key_pattern(found)}')}",
    )


def _key_pattern(found: _SplitFolders) -> str:
    """A regular expression whose group is the name of the split in a key: `^data/(train|val)/`.

    A dot stays a dot, which matches any character: in the keys of shards, dots are `_`.
    """
    partitions = [name.rpartition("=") for name in found.counts]
    fields = sorted({field for field, _, _ in partitions})
    field = f"{fields[0]}=" if len(fields) == 1 and fields[0] else "(?:[^/]+=)?" if any(fields) else ""
    values = "|".join(_escape(value) for _, _, value in partitions)
    return f"^{_escape(found.prefix)}{field}({values})/"


def _escape(text: str) -> str:
    return re.sub(r"[\\^$*+?{}\[\]|()]", r"\\\g<0>", text)
