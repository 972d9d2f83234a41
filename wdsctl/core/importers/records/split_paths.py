"""The splits that paths of shards and tables tell, all together: by their folders, or by their names.

train/0000.parquet, split=train/0000.parquet          folders, also below other folders
train-00000-of-00042.tar, photos-val-0001.jsonl       names that differ only in split and number
en/train-0.jsonl, de/train-0.jsonl                    the same in several folders: configurations of one dataset
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.shard_patterns import ShardPatterns
from wdsctl.core.dataset.split_rules import STANDARD_SPLITS, can_name_split
from wdsctl.core.errors import Finding
from wdsctl.core.importers.records.folder_files import (
    PATTERN_CHARACTERS,
    SPLIT_NAMES,
    is_split_folder,
    partition_split,
)
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_ENDING = r"(?P<ending>(?:\.[A-Za-z][A-Za-z0-9]*)+)"

_SPLIT_FILE = re.compile(
    rf"(?P<folder>(?:.*/)?)(?P<prefix>(?:[^/]*[-_.])?)(?P<split>{'|'.join(sorted(SPLIT_NAMES, key=len, reverse=True))})"
    rf"(?:[-_.]?(?P<number>\d+(?:-of-\d+)?))?{_ENDING}",
    re.IGNORECASE,
)

#: A file of a dataset on the Hugging Face Hub, whose split may have any name.
_HUB_FILE = re.compile(r"(?P<folder>(?:.*/)?)(?P<split>[^/]+)-(?P<number>\d+-of-\d+)" + _ENDING)

_MAX_SHOWN = 3


class PathSplit(NamedTuple):
    """The split of a file. `pattern`: matches the file, and numbered ones that are added later.

    `configuration`: the folder above the split, with a trailing slash. `is_stated`: the folder is `split=NAME`.
    """

    split: str
    pattern: str
    configuration: str
    is_stated: bool = False


def find_path_splits(paths: Sequence[str], *, needs_train: bool = True) -> list[PathSplit]:
    """The split of each path below a root, if all paths together tell splits; else empty.

    `needs_train`: tell none without a split for training, unless folders state them (`split=val`).
    """
    found = _by_folder(paths) or _by_name(paths) or find_hub_splits(paths)
    is_sure = all(each.is_stated for each in found) or any(each.split.lower().startswith("train") for each in found)
    return found if is_sure or not needs_train else []


def split_patterns(found: Sequence[PathSplit], paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Split -> the patterns of its shards. Empty without splits, or if a name has characters of patterns."""
    if any(map(PATTERN_CHARACTERS.search, paths)):
        return {}
    by_pattern = {each.pattern: each.split for each in found}
    table, splits = ShardPatterns(list(by_pattern)), list(by_pattern.values())
    is_clear = all(
        {splits[i] for i in table.find(path)} == {each.split} for path, each in zip(paths, found, strict=bool(found))
    )
    patterns: dict[str, dict[str, None]] = {}
    for path, each in zip(paths, found, strict=bool(found)):
        patterns.setdefault(each.split, {})[each.pattern if is_clear else path] = None
    return {split: tuple(own) for split, own in patterns.items()}


def normalize_split_name(name: str) -> str:
    """The usual name of a split: `val` for `validation`. Other names stay."""
    return STANDARD_SPLITS.get(name.lower(), name)


def configuration_findings(found: Sequence[PathSplit], root: str, verb: str, *arguments: str) -> list[Finding]:
    """The finding WDS260 if a split has files of several configurations. `verb`, `arguments`: of the command that takes
    `root`.
    """
    by_split: dict[str, set[str]] = {}
    for each in found:
        by_split.setdefault(each.split, set()).add(each.configuration)
    if all(len(configurations) < 2 for configurations in by_split.values()):
        return []
    names = sorted(set().union(*by_split.values()))
    shown = [path_for_message(name or "./") for name in names[:_MAX_SHOWN]]
    shown += [f"{len(names) - _MAX_SHOWN:,} more"] if names[_MAX_SHOWN:] else []
    one = next(name for name in names if name).rstrip("/")
    return [
        Finding(
            code="WDS260",
            severity="note",
            message=f"{pluralize(len(names), 'configuration')} joined, each split with the samples of all: "
            f"{join_with_and(shown)}; to take one, pass its folder: {shell_command(verb, f'{root}/{one}', *arguments)}",
            count=len(names),
        )
    ]


def _by_folder(paths: Sequence[str]) -> list[PathSplit]:
    """By folders `split=NAME`, or folders named after splits: `train`, `val_small`."""
    found = []
    for path in paths:
        *folders, _ = path.split("/")
        at = next((i for i, name in enumerate(folders) if partition_split(name)), None)
        at = next((i for i, name in enumerate(folders) if is_split_folder(name)), None) if at is None else at
        if at is None:
            return []
        above, stated = "".join(f"{name}/" for name in folders[:at]), partition_split(folders[at])
        split = stated or folders[at]
        found.append(PathSplit(split, f"glob:{above}{folders[at]}/**", above, is_stated=bool(stated)))
    is_one = len({each.split for each in found}) == 1
    return [] if is_one and any(each.configuration for each in found) and not found[0].is_stated else found


def _by_name(paths: Sequence[str]) -> list[PathSplit]:
    """By names that differ in split and number only, in each folder. A file with any name is in the split of its
    folder, such as `test/0.jsonl` beside `train.jsonl`.

    Names that begin with other words need a split for training in each folder: `cats-train-0.tar` in one folder and
    `dogs-val-0.tar` in another may be datasets of their own.
    """
    found, words, prefixes = list[PathSplit](), dict[str, set[str]](), set[str]()
    for path in paths:
        match = _SPLIT_FILE.fullmatch(path)
        folder = path.rpartition("/")[0]
        above, _, inner = folder.rpartition("/")
        if match:
            begin = path[: match.start("number")]
            pattern = f"glob:{begin}[0-9]*{match['ending']}" if match["number"] else path
            found.append(PathSplit(STANDARD_SPLITS[match["split"].lower()], pattern, match["folder"]))
            words.setdefault(match["folder"], set()).add(match["split"])
            prefixes.add(match["prefix"])
        elif split := STANDARD_SPLITS.get(inner.lower(), ""):
            found.append(PathSplit(split, f"glob:{folder}/**", f"{above}/" if above else ""))
        else:
            return []
    splits: dict[str, set[str]] = {}
    for each in found:
        splits.setdefault(each.configuration, set()).add(each.split)
    is_clear = len(prefixes) < 2 and all(
        len(own) == len({word.lower() for word in own}) == len({normalize_split_name(word) for word in own})
        for own in words.values()
    )
    has_train = all("train" in own for own in splits.values())
    return found if is_clear and len(set().union(*splits.values())) > 1 and (has_train or prefixes <= {""}) else []


def find_hub_splits(paths: Sequence[str]) -> list[PathSplit]:
    """The split of each file, if all are named as on the Hugging Face Hub, where a dataset has splits of any names
    beside that for training: `train-00000-of-00002.parquet`, `extra-00000-of-00001.parquet`. Else empty.
    """
    matches = [match for path in paths if (match := _HUB_FILE.fullmatch(path))]
    names: dict[str, set[str]] = {}
    for match in matches:
        names.setdefault(match["folder"], set()).add(match["split"])
    is_clear = len(matches) == len(paths) and all(
        len({normalize_split_name(name) for name in own}) == len(own)
        and all(map(can_name_split, own))
        and any(STANDARD_SPLITS.get(re.split("[-_.]", name.lower())[0]) == "train" for name in own)
        for own in names.values()
    )
    if not is_clear or len(set().union(*names.values())) < 2:
        return []
    return [
        PathSplit(
            normalize_split_name(each["split"]),
            f"glob:{each['folder']}{each['split']}-*-of-*{each['ending']}",
            each["folder"],
        )
        for each in matches
    ]
