"""The splits that paths of shards and tables tell, all together: by their folders, or by their names.

train/0000.parquet, split=train/0000.parquet          folders, also below other folders
train-00000-of-00042.tar, photos-val-0001.jsonl       names that differ only in split and number
en/train-0.jsonl, de/train-0.jsonl                    the same in several folders: configurations of one dataset

Files whose paths tell no split, such as `other.jsonl` beside `train.jsonl` and `val.jsonl`, are in none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.shard_patterns import ShardPatterns
from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.compressed import strip_compression
from wdsctl.core.importers.common.folder_files import (
    PATTERN_CHARACTERS,
    SPLIT_NAMES,
    is_split_folder,
    partition_split,
)
from wdsctl.core.invocation import current_invocation
from wdsctl.core.split_rules.names import NO_SPLIT, SPLIT_VALUES, STANDARD_SPLITS, can_name_split
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
    """The split of a file; empty for none. `pattern`: matches the file, and numbered ones that are added later.

    `configuration`: the folder above the split, with a trailing slash. `is_stated`: the folder is `split=NAME`.
    """

    split: str
    pattern: str
    configuration: str
    is_stated: bool = False


def find_path_splits(paths: Sequence[str], *, needs_train: bool = True) -> list[PathSplit]:
    """The split of each path below a root, if all paths together tell splits; else empty.

    If only some paths are named after splits, and these tell several, one of them for training, all others are in no
    split: they may repeat samples of the splits. `needs_train`: tell none without a split for training, unless folders
    state them (`split=val`).
    """
    found = _by_folder(paths) or _by_name(paths) or find_hub_splits(paths)
    if not found:
        return _find_splits_of_some(paths)
    is_sure = all(each.is_stated for each in found) or _has_train(found)
    return found if is_sure or not needs_train else []


def _find_splits_of_some(paths: Sequence[str]) -> list[PathSplit]:
    named = [path for path in paths if _named_split(path)]
    found = (_by_folder(named) or _by_name(named)) if len(named) < len(paths) else []
    if not _has_train(found) or len({each.split for each in found}) < 2:
        return []
    by_path = dict(zip(named, found, strict=True))
    return [by_path.get(path, PathSplit("", path, "")) for path in paths]


def _has_train(found: Sequence[PathSplit]) -> bool:
    return any(each.split.lower().startswith("train") for each in found)


def _named_split(path: str) -> PathSplit | None:
    """The split that a folder or the name of a file tells on its own; None if neither does."""
    return _split_of_folders(path) or _split_of_name(path)


def split_patterns(found: Sequence[PathSplit], paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Split -> the patterns of its shards. Empty without splits, or if a name has characters of patterns."""
    if any(map(PATTERN_CHARACTERS.search, paths)):
        return {}
    by_pattern = {each.pattern: each.split for each in found if each.split}
    table, splits = ShardPatterns(list(by_pattern)), list(by_pattern.values())
    is_clear = all(
        {splits[i] for i in table.find(path)} == {each.split} - {""}
        for path, each in zip(paths, found, strict=bool(found))
    )
    patterns: dict[str, dict[str, None]] = {}
    for path, each in zip(paths, found, strict=bool(found)):
        if each.split:
            patterns.setdefault(each.split, {})[each.pattern if is_clear else path] = None
    return {split: tuple(own) for split, own in patterns.items()}


def normalize_split_name(name: str) -> str:
    """The usual name of a split: `val` for `validation`. Other names stay."""
    return STANDARD_SPLITS.get(name.lower(), name)


def path_split_findings(found: Sequence[PathSplit], paths: Sequence[str], root: str) -> list[Finding]:
    """The findings about the splits of a source's files, and about names of splits that tell none (WDS258)."""
    remedy = "move {} into folders named after {} splits, such as `train`, and run the command again"
    return [
        *unused_split_findings([] if found else paths, f"to make them splits, {remedy.format('all files', 'their')}"),
        *unnamed_split_findings(found, paths, remedy.format("them", "the")),
        *configuration_findings(found, root, current_invocation("convert", ())[0], "DEST"),
    ]


def configuration_findings(found: Sequence[PathSplit], root: str, verb: str, *arguments: str) -> list[Finding]:
    """The finding WDS260 if a split has files of several configurations. `verb`, `arguments`: of the command that takes
    `root`.
    """
    by_split: dict[str, set[str]] = {}
    for each in found:
        if each.split:
            by_split.setdefault(each.split, set()).add(each.configuration)
    if all(len(configurations) < 2 for configurations in by_split.values()):
        return []
    names = sorted(set().union(*by_split.values()))
    shown = _join_paths([name or "./" for name in names])
    one = next(name for name in names if name).rstrip("/")
    return [
        Finding(
            code="WDS260",
            severity="note",
            message=f"{pluralize(len(names), 'configuration')} joined, each split with the samples of all: {shown}; to "
            f"take one, pass its folder: {shell_command(verb, f'{root}/{one}', *arguments)}",
            count=len(names),
        )
    ]


def unnamed_split_findings(found: Sequence[PathSplit], paths: Sequence[str], remedy: str) -> list[Finding]:
    """The finding WDS213 if some files are in no split, because only the others are named after splits.

    `remedy`: what to do to train on them.
    """
    unnamed = [path for path, each in zip(paths, found, strict=bool(found)) if not each.split]
    if not unnamed:
        return []
    splits = join_with_and(list(dict.fromkeys(each.split for each in found if each.split)))
    are = "is" if len(unnamed) == 1 else "are"
    return [
        Finding(
            code="WDS213",
            severity="warning",
            message=f"{pluralize(len(unnamed), 'file')} {are} in no split, because other files are named after the "
            f"splits {splits}: {_join_paths(unnamed)}; to train on them, {remedy}",
            count=len(unnamed),
        )
    ]


def split_options_of_names(paths: Sequence[str]) -> list[str]:
    """The options of `split` that make the splits that some names of files say: `--pattern val=val.jsonl`.

    Empty if no name, or every name, says the same split, or none says `val` or `test`.
    """
    named = [_named_split(path) for path in paths]
    splits = [_usual_split(each.split) if each else "" for each in named]
    if len(set(splits)) < 2 or set(splits) <= {"", "train"}:
        return []
    patterns = dict.fromkeys(f"{split}={each.pattern}" for split, each in zip(splits, named, strict=True) if each)
    rest = ["--rest", NO_SPLIT if "train" in splits else "train"] if "" in splits else []
    return [*(word for pattern in patterns for word in ("--pattern", pattern)), *rest]


def unused_split_findings(paths: Sequence[str], remedy: str) -> list[Finding]:
    """The finding WDS258 if names of files say `val` or `test`, but all samples are for training. `remedy`: what to do
    about it.
    """
    if not split_options_of_names(paths):
        return []
    held_out = [path for path in paths if (each := _named_split(path)) and _usual_split(each.split) != "train"]
    are = "file is" if len(held_out) == 1 else "files are"
    return [
        Finding(
            code="WDS258",
            severity="warning",
            message=f"{len(held_out):,} {are} named like splits ({_join_paths(held_out)}), but all samples are for "
            f"training, because not all names tell a split: {remedy}",
        )
    ]


def _usual_split(name: str) -> str:
    """`val` for `val_small` and `validation`, and other names as they are."""
    return STANDARD_SPLITS.get(re.split("[-_]", name.lower())[0], name)


def _join_paths(paths: Sequence[str]) -> str:
    shown = [path_for_message(path) for path in paths[:_MAX_SHOWN]]
    return join_with_and([*shown, *([f"{len(paths) - _MAX_SHOWN:,} more"] if paths[_MAX_SHOWN:] else [])])


def _by_folder(paths: Sequence[str]) -> list[PathSplit]:
    """By folders `split=NAME`, or folders named after splits: `train`, `val_small`."""
    found = []
    for path in paths:
        split = _split_of_folders(path)
        if split is None:
            return []
        found.append(split)
    is_one = len({each.split for each in found}) == 1
    return [] if is_one and any(each.configuration for each in found) and not found[0].is_stated else found


def _split_of_folders(path: str) -> PathSplit | None:
    *folders, _ = path.split("/")
    at = next((i for i, name in enumerate(folders) if partition_split(name)), None)
    at = next((i for i, name in enumerate(folders) if is_split_folder(name)), None) if at is None else at
    if at is None:
        return None
    above, stated = "".join(f"{name}/" for name in folders[:at]), partition_split(folders[at])
    return PathSplit(stated or folders[at], f"glob:{above}{folders[at]}/**", above, is_stated=bool(stated))


def _split_of_name(path: str) -> PathSplit | None:
    match = _SPLIT_FILE.fullmatch(path)
    if match is None:
        return None
    begin = path[: match.start("number")]
    pattern = f"glob:{begin}[0-9]*{match['ending']}" if match["number"] else path
    return PathSplit(STANDARD_SPLITS[match["split"].lower()], pattern, match["folder"])


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
        named = _split_of_name(path)
        if match and named:
            found.append(named)
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


def splits_by_word(paths: Sequence[str]) -> list[str]:
    """The splits of files whose names differ in the word of a split alone: `train-v1.1.json`, `dev-v1.1.json`.

    Where none is named `train` and one is for evaluation, as in Clotho and FSD50K, the development set is `train`.
    Empty if the names tell none.
    """
    names = [
        re.split("[-_. ]", os.path.splitext(strip_compression(os.path.basename(path)))[0].lower()) for path in paths
    ]
    if len(set(map(len, names))) != 1 or len(set(map(os.path.dirname, paths))) != 1:
        return []
    differing = [words for words in zip(*names, strict=True) if len(set(words)) > 1]
    if len(differing) != 1 or not all(word in SPLIT_VALUES for word in differing[0]):
        return []
    splits = [SPLIT_VALUES[word] for word in differing[0]]
    if "train" not in splits and any(word.startswith("eval") for word in differing[0]):
        splits = ["train" if word.startswith("dev") else SPLIT_VALUES[word] for word in differing[0]]
    return splits if "train" in splits and len(set(splits)) == len(paths) else []
