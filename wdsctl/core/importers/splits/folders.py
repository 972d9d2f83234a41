"""Folders of raw files that are named after splits: splits if they have all samples, else parts of the keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.folder_files import (
    has_split_name,
    is_split_folder,
    partition_split,
    split_of_folder,
)
from wdsctl.core.split_rules.names import NO_SPLIT, STANDARD_SPLITS, split_of_value
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_TRAINING = frozenset(name for name, split in STANDARD_SPLITS.items() if split == "train")
_MAX_WRAPPERS = 3  # folders around the folders that are named like splits


class _SplitFolders(NamedTuple):
    """Folders below `prefix`, which ends in a slash unless it is the root: name -> number of samples.

    `inner`: the names of the folders in them, which may be classes.
    """

    prefix: str
    counts: dict[str, int]
    inner: set[str]

    @property
    def words(self) -> set[str]:
        """The first words of the folders, such as `train` for `train_small`."""
        return {re.split("[-_0-9]", (partition_split(name) or name).lower())[0] for name in self.counts}


def split_folder_rule(keys: Iterable[str]) -> SplitRule | None:
    """The rule that makes splits of the folders that are named after them; None if these do not have all samples.

    `keys`: the paths of the samples without extensions.
    """
    found, total = _find_split_folders(keys)
    return SplitRule({}, by_value=f"key:{_key_pattern(found)}") if _splits_of(found, total) else None


def splits_by_folder(keys: Iterable[str]) -> dict[str, str]:
    """Folder with a trailing slash -> the split that `split_folder_rule` makes of it; empty without such a rule."""
    found, total = _find_split_folders(keys)
    return {f"{found.prefix}{name}/": split for name, split in _splits_of(found, total).items()}


def split_folder_findings(keys: Iterable[str], dest: str) -> tuple[Finding, ...]:
    """The finding WDS258 if samples are in a folder that is named after a split, and others are not; else none.

    The name of a folder for training alone is no finding. `keys`: the paths of the samples without extensions. The
    caller has checked that no splits were requested, and that all samples of `dest` are for training.
    """
    found, total = _find_split_folders(keys)
    has_others = total > sum(found.counts.values())
    if len(found.words) + has_others < 2 or found.words <= _TRAINING:
        return ()
    return (_make_finding(found, dest, has_others=has_others),)


def _find_split_folders(keys: Iterable[str]) -> tuple[_SplitFolders, int]:
    """The folders named after splits that have most samples, and the number of all samples."""
    by_prefix: dict[str, _SplitFolders] = {}
    total = 0
    for key in keys:
        total += 1
        *folders, _ = key.split("/")
        at = next((i for i, name in enumerate(folders[: _MAX_WRAPPERS + 1]) if _is_named_like_split(name)), None)
        if at is not None:
            prefix = "".join(f"{name}/" for name in folders[:at])
            found = by_prefix.setdefault(prefix, _SplitFolders(prefix, {}, set()))
            found.counts[folders[at]] = found.counts.get(folders[at], 0) + 1
            found.inner.update(folders[at + 1 : at + 2])
    return max(
        by_prefix.values(), key=lambda each: sum(each.counts.values()), default=_SplitFolders("", {}, set())
    ), total


def _splits_of(found: _SplitFolders, total: int) -> dict[str, str]:
    """Folder -> split, if the folders have all samples, are named after different splits, and one is for training."""
    splits = {name: split_of_value(split_of_folder(name)) for name in found.counts if has_split_name(name)}
    is_clear = len(set(splits.values())) == len(found.counts) > 1 and "train" in splits.values()
    return splits if is_clear and total == sum(found.counts.values()) else {}


def _is_named_like_split(name: str) -> bool:
    return is_split_folder(name) or bool(split_of_folder(name))


def _make_finding(found: _SplitFolders, dest: str, *, has_others: bool) -> Finding:
    names = list(found.counts)
    shown = join_with_and([path_for_message(f"{found.prefix}{name}") for name in names])
    who = (
        f"the folder {shown} is named like a split" if len(names) == 1 else f"the folders {shown} are named like splits"
    )
    classes = " The folders inside are not classes, either." if len(found.inner) > 1 else ""
    rest = ["--rest", "train" if found.words.isdisjoint(_TRAINING) else NO_SPLIT] if has_others else []
    command = shell_command("split", dest, "--by-value", f"key:{_key_pattern(found)}", *rest)
    return Finding(
        code="WDS258",
        severity="warning",
        message=f"{who}, but all {pluralize(sum(found.counts.values()), 'sample')} are for training: the names become "
        f"parts of the keys.{classes} To make them splits, run {command}",
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
