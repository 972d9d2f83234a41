"""Find the folders of classes and of splits in a source, and judge whether they are classes; `imagefolder` reads them.

A folder of frames, of a scene, or of the parts of one sample is not a class: the files in it, their names and their
media types tell these apart.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.class_names import lists_class_names
from wdsctl.core.importers.common.folder_files import (
    has_split_name,
    is_recording_folder,
    list_folder,
    media_type_of,
    normalize_split_names,
    split_of_folder,
    walk_folders,
)
from wdsctl.core.importers.folders.equal_stems import are_named_after_splits
from wdsctl.core.importers.protocol import FormatMatch
from wdsctl.core.media.kinds import MediaType
from wdsctl.core.safe_open import check_entries_beneath
from wdsctl.core.samples.naming import split_name, strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_PROBED_FILES = 50  # files per class
_PROBED_CLASSES = 8
_MAX_WRAPPERS = 3  # folders around the classes, such as 101_ObjectCategories/

CLASSES_SCORE = 0.7  # of folders that may well be classes
_LISTED_SCORE = 0.75  # of folders with a list of the classes, or of the files of each split, beside them

#: Lists of files beside the classes -> their split, as in Speech Commands. All other files are for training.
SPLIT_LISTS = {"validation_list.txt": "val", "testing_list.txt": "test"}

#: Media beside the class folders are strays if the classes have at least 20 files for each of them. Of up to 10 files,
#: this asks too much of small datasets: 4 files for each are enough. Counting ends at 500 strays.
_STRAY_FACTOR = 20
_SMALL_STRAY_FACTOR = 4
_SMALL_STRAYS = 10
_MAX_STRAYS = 500

#: Files of a class whose names differ in the extension only are one file in two formats, and not the parts of one
#: sample, if they have the same media type and there are 4 names for each such name.
_REPEAT_FACTOR = 4

#: Folders beside splits, in lower case, whose images have no class.
_UNLABELED = frozenset({"unlabeled", "unlabelled"})


class ClassLayout(NamedTuple):
    """`top`: the folder that holds splits or classes, with a trailing slash unless it is the root. `splits`: folder ->
    split. `classes`: the names of the class folders in any split, sorted. `nested`: an example of a path if every class
    only has folders, which differ from class to class. `unlabeled`: the folders beside the splits whose media are not
    in class folders, such as `test` of a competition.
    """

    top: str
    splits: Mapping[str, str]
    classes: tuple[str, ...]
    nested: str
    unlabeled: tuple[str, ...] = ()

    def class_folders(self) -> list[str]:
        """Candidates for the paths of class folders; in a split, some may not exist."""
        return [
            f"{self.top}{split}{name}/" for split in [f"{s}/" for s in self.splits] or [""] for name in self.classes
        ]


def find_layout(root: str, *, probes: int | None = None) -> ClassLayout | None:
    """Find the folders of splits and classes; None if there are none. Raises OSError.

    `probes`: look into so many folders of classes only, and take all others for classes.
    """
    top = ""
    names = list_folder(root, root)
    folders = _folders_with_media(root, "", names.folders, probes)
    for _ in range(_MAX_WRAPPERS):
        if len(folders) != 1 or _has_many_media(names.files):
            break
        inner = list_folder(os.path.join(root, f"{top}{folders[0]}"), root)
        below = _folders_with_media(root, f"{top}{folders[0]}/", inner.folders, probes)
        if _has_many_media(inner.files) or not below:
            break
        if len(below) == 1 and split_of_folder(folders[0]):
            break
        top, names, folders = f"{top}{folders[0]}/", inner, below
    # val2017 alone may be a class, but not beside train2017.
    are_splits = len(folders) > 1 and all(map(split_of_folder, folders))
    named = {name: split_of_folder(name) for name in folders if are_splits or has_split_name(name)}
    unlabeled = tuple(
        name for name in folders if _may_lack_classes(name) and not _class_names(root, f"{top}{name}/", probes)
    )
    has_train = any(split.startswith("train") for split in named.values())
    if named and (has_train or len({*named, *unlabeled}) == len(folders)):
        standard = normalize_split_names(split for name, split in named.items() if name not in unlabeled)
        splits = {name: standard[split] for name, split in named.items() if name not in unlabeled}
        by_split = [_class_names(root, f"{top}{name}/", probes) for name in splits]
        # All other splits must have classes: train/1.jpg is an image without a class.
        classes = {name for found in by_split for name in found} if all(by_split) else set()
    else:
        splits, unlabeled, classes = {}, (), set(_class_names(root, top, probes))
    if not classes:
        return None
    layout = ClassLayout(top, splits, tuple(sorted(classes)), "", unlabeled)
    return layout._replace(nested=_nested_example(root, layout, probes))


def _may_lack_classes(name: str) -> bool:
    """Whether a folder beside training data is for evaluation or unlabeled by its name, such as `test1`."""
    split = split_of_folder(name)
    return name.lower() in _UNLABELED or (bool(split) and not split.startswith("train"))


def _has_many_media(names: Iterable[str]) -> bool:
    return sum(1 for name in names if media_type_of(name)) > _SMALL_STRAYS


def _class_names(root: str, prefix: str, probes: int | None) -> list[str]:
    """The class folders in a folder: those with media, and empty ones; not those with other files only.

    `_background_noise_` of Speech Commands is no class.
    """
    folders = [name for name in list_folder(os.path.join(root, prefix), root).folders if name != "_background_noise_"]
    probed = folders[:probes]
    found = [name for name in probed if _media_depth(root, f"{prefix}{name}/") is not None]
    if not found and not any(_media_depth(root, f"{prefix}{name}/") is not None for name in folders):
        return []
    empty = [name for name in probed if name not in found and _is_empty(os.path.join(root, prefix, name))]
    return [*found, *empty, *folders[len(probed) :]]


def _folders_with_media(root: str, prefix: str, folders: list[str], probes: int | None) -> list[str]:
    probed = folders[:probes]
    return [
        *(name for name in probed if _media_depth(root, f"{prefix}{name}/") is not None),
        *folders[len(probed) :],
    ]


def _media_depth(root: str, prefix: str, level: int = 0) -> int | None:
    """How many folders below `prefix` its first media file is; None if it has none. Stops at the first one."""
    folders = []
    with source_files.scan(os.path.join(root, prefix)) as entries:
        for entry in check_entries_beneath(entries, root):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            elif media_type_of(entry.name):
                return 0
    if level > 16:  # links in a circle
        return None
    for name in sorted(folders):
        depth = _media_depth(root, f"{prefix}{name}/", level + 1)
        if depth is not None:
            return depth + 1
    return None


def _is_empty(folder: str) -> bool:
    with source_files.scan(folder) as entries:
        return all(entry.name.startswith(".") for entry in entries)


def _nested_example(root: str, layout: ClassLayout, probes: int | None) -> str:
    """A path if no class has media of its own, and the classes have different folders; else empty."""
    inner: list[tuple[str, frozenset[str]]] = []
    for prefix in layout.class_folders()[:probes]:
        if source_files.is_folder(os.path.join(root, prefix)):
            depth = _media_depth(root, prefix)
            if depth == 0:
                return ""
            if depth is not None:
                inner.append((prefix, frozenset(list_folder(os.path.join(root, prefix), root).folders)))
    if len({folders for _, folders in inner}) < 2:
        return ""
    prefix, folders = inner[0]
    return f"{prefix}{min(folders)}/"


def match_class_folders(path: str) -> FormatMatch | None:
    """Judge whether the folders below `path` are classes; None if they are not, or cannot be read."""
    try:
        layout = find_layout(path, probes=_PROBED_CLASSES)
        if layout is None:
            return None
        probed = [_probe_class(path, prefix) for prefix in layout.class_folders()[:_PROBED_CLASSES]]
        outside = _list_outside(path, layout)
        strays = [name for name in outside if media_type_of(name)]
        names = [name.rpartition("/")[2] for name in outside]
        has_list = any(lists_class_names(name) or name in SPLIT_LISTS for name in names)
        has_few_strays = _are_few(len(strays), path, layout)
    except (OSError, WdsctlError):
        return None
    # Folders such as 0001/ that all hold rgb.jpg and depth.png are samples, not classes.
    if not any(probed) or not _are_lone_media(probed) or _have_equal_words(probed):
        return None
    if all(map(is_recording_folder, layout.classes)):
        return None
    return _match_classes(layout, probed, strays, has_few_strays=has_few_strays, has_list=has_list)


def _probe_class(root: str, prefix: str) -> list[str]:
    """The first files of a class folder; of the first folder in it if it has none. Empty if it does not exist."""
    folder = os.path.join(root, prefix)
    if not source_files.is_folder(folder):
        return []
    for _, names in islice(walk_folders(root, prefix), 4):
        if any(map(media_type_of, names.files)):
            return names.files[:_PROBED_FILES]
    return []


def _match_classes(
    layout: ClassLayout, probed: list[list[str]], strays: Sequence[str], *, has_few_strays: bool, has_list: bool
) -> FormatMatch:
    """The match of folders that may be classes. `strays`: media beside the folders. `has_list`: see `_LISTED_SCORE`."""
    shown = join_with_and([path_for_message(name) for name in layout.classes[:2]])
    if not has_few_strays:
        what = f"{pluralize(len(strays), 'media file')} beside the folders, such as {path_for_message(strays[0])}"
        return FormatMatch(0.1, f"a folder for each class, such as {shown}, but too many files are in no class: {what}")
    if len(layout.classes) < 2:
        return FormatMatch(0.1, f"files in a single folder, {shown}, which would be one class")
    if len(layout.classes) <= _PROBED_CLASSES and not layout.splits and sum(map(bool, probed)) == 1:
        return FormatMatch(0.2, f"possibly a folder for each class, such as {shown}, but only one has files")
    if _have_equal_names(probed) and all(re.fullmatch(r".*[0-9]{3,}", name) for name in layout.classes):
        return FormatMatch(0.2, f"possibly a folder for each class, such as {shown}; the folders may also be sequences")
    if are_named_after_splits(layout.classes):
        return FormatMatch(
            0.2, f"possibly a folder for each class, such as {shown}, but their names begin with those of splits"
        )
    note = f"; {pluralize(len(strays), 'media file')} beside them" if strays else ""
    return FormatMatch(
        _LISTED_SCORE if has_list else CLASSES_SCORE, f"media in a folder for each class, such as {shown}{note}"
    )


def _list_outside(root: str, layout: ClassLayout) -> list[str]:
    """The files in the folders around the classes: in the root, and in the folder that holds splits or classes."""
    return [
        f"{prefix}{name}"
        for prefix in dict.fromkeys(("", layout.top))
        for name in list_folder(os.path.join(root, prefix), root).files
    ]


def _are_few(strays: int, root: str, layout: ClassLayout) -> bool:
    """Whether so many files beside the class folders are few. Cost: lists at most 20 files of the classes for each."""
    if strays > _MAX_STRAYS:
        return False
    needed = strays * (_SMALL_STRAY_FACTOR if strays <= _SMALL_STRAYS else _STRAY_FACTOR)
    media = (
        name
        for folder in layout.class_folders()
        if source_files.is_folder(os.path.join(root, folder))
        for _, names in walk_folders(root, folder)
        for name in names.files
        if media_type_of(name)
    )
    return sum(1 for _ in islice(media, needed)) == needed


def _are_lone_media(probed: list[list[str]]) -> bool:
    """Whether every media file is a sample of its own. `probed`: the names of files of each class.

    Files that share a key with another one are the parts of one sample, such as a photo and its mask or its caption. A
    few names that occur twice with the same media type do not count: see `_REPEAT_FACTOR`.
    """
    names_seen = repeats = 0
    for names in probed:
        keys = [split_name(name) for name in names]
        media = {key[0] for key, name in zip(keys, names, strict=True) if key and media_type_of(name)}
        counts = Counter(key[0] for key in keys if key and key[0] in media)
        own_repeats = _repeated_stems(names)
        if any(count > own_repeats.get(key, 1) for key, count in counts.items()):
            return False
        if names and 2 * len(media) < len(names):
            return False
        names_seen += len(media)
        repeats += len(own_repeats)
    return repeats * _REPEAT_FACTOR <= names_seen


def _repeated_stems(names: Iterable[str]) -> dict[str, int]:
    """Stem -> its number of files, for the stems that several of these media files of one folder have.

    Leaves out stems of files that are not all of one media type.
    """
    types: dict[str, list[MediaType | None]] = {}
    for name in names:
        types.setdefault(strip_extension(name), []).append(media_type_of(name))
    return {stem: len(found) for stem, found in types.items() if len(found) > 1 and len(set(found)) == 1 and found[0]}


def _have_equal_names(probed: list[list[str]]) -> bool:
    """Whether all folders have the same names of files, and more than one."""
    found = {tuple(names) for names in probed if names}
    return len(probed) > 1 and len(found) == 1 and len(next(iter(found))) > 1


def _have_equal_words(probed: list[list[str]]) -> bool:
    """Whether all folders have the same names of files, and most media have no digit: they name roles, not numbers."""
    media = [name for name in probed[0] if media_type_of(name)]
    words = [name for name in media if not re.search("[0-9]", strip_extension(name))]
    return _have_equal_names(probed) and 2 * len(words) > len(media)
