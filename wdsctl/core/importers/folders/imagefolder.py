"""Folders of classes: images, video or audio in a folder for each class, below folders of splits or not.

Parts: the media file, `cls` (number of the class by the order of folders) and `txt` (its name: that of the folder, or
what a file such as LOC_synset_mapping.txt says). Keys are the paths without the extension; files of one folder whose
names differ in the extension only keep it in their keys.

Sources: https://pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html (classes sorted by name);
https://arxiv.org/abs/1804.03209 (Speech Commands, whose splits are lists of files).
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import Finding, InputError, Severity, WdsctlError, translate_os_errors
from wdsctl.core.importers.class_names import read_class_names
from wdsctl.core.importers.protocol import (
    FieldUse,
    FilePart,
    FormatMatch,
    Options,
    Part,
    Source,
    SourceDescription,
)
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import extension_of_name
from wdsctl.core.importers.records.folder_files import (
    digest_of_folder,
    list_folder,
    media_type_of,
    split_of_folder,
    unused_files_findings,
    walk_files,
    walk_folders,
)
from wdsctl.core.importers.records.samples import SourceSample, failed_sample, row_number_key, strip_extension
from wdsctl.core.importers.records.source import SampleSource
from wdsctl.core.media.kinds import MediaType
from wdsctl.core.safe_open import check_entries_beneath
from wdsctl.core.samples.naming import safe_key, split_name
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_PROBED_FILES = 50  # files per class
_PROBED_CLASSES = 8
_MAX_WRAPPERS = 3  # folders around the classes, such as 101_ObjectCategories/
_SHOWN_CLASSES = 5

CLASSES_SCORE = 0.7  # of folders that may well be classes

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

#: Lists of files beside the classes -> their split, as in Speech Commands. All other files are for training.
_SPLIT_LISTS = {"validation_list.txt": "val", "testing_list.txt": "test"}


class ImageFolderImporter:
    """Options: `-O classes=first` takes the first folder below the splits as the class, `classes=deepest` the path of
    the last one.
    """

    name = "imagefolder"
    about = "images, video or audio in a folder for each class, below train, val, test or directly"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            layout = _find_layout(path, probes=_PROBED_CLASSES)
            if layout is None:
                return None
            probed = [_probe_class(path, prefix) for prefix in layout.class_folders()[:_PROBED_CLASSES]]
            strays = _list_outside_media(path, layout)
            has_few_strays = _are_few(len(strays), path, layout)
        except (OSError, WdsctlError):
            return None
        # Folders such as 0001/ that all hold rgb.jpg and depth.png are samples, not classes.
        if not any(probed) or not _are_lone_media(probed) or _have_equal_words(probed):
            return None
        return _match_classes(layout, probed, strays, has_few_strays=has_few_strays)

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ("classes",))
        choice = given.parse_choice_option(self.name, options, "classes", ("auto", "first", "deepest"))
        with translate_os_errors(path, "list"):
            layout = _find_layout(path)
        if layout is None:
            raise InputError(
                "no class folders found",
                hint="check the path: each class needs its own folder",
                where=path_for_message(path),
                code="WDS003",
            )
        if choice == "auto" and layout.nested:
            raise InputError(
                f"the class could be the first or the last folder of paths such as {path_for_message(layout.nested)}",
                hint="pass `-O classes=first` or `-O classes=deepest`",
                where=path_for_message(path),
                code="WDS235",
            )
        samples = _ClassFolderSamples(path, layout, is_deepest=choice == "deepest")
        return SampleSource(samples, samples.split_names, samples.describe)


IMPORTER = ImageFolderImporter()


class _Layout(NamedTuple):
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


def _find_layout(root: str, *, probes: int | None = None) -> _Layout | None:
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
    named = {name: split_of_folder(name) for name in folders if name.lower() == split_of_folder(name)}
    unlabeled = tuple(
        name for name in folders if _may_lack_classes(name) and not _class_names(root, f"{top}{name}/", probes)
    )
    has_train = any(split.startswith("train") for split in named.values())
    if named and (has_train or len({*named, *unlabeled}) == len(folders)):
        splits = {name: split for name, split in named.items() if name not in unlabeled}
        by_split = [_class_names(root, f"{top}{name}/", probes) for name in splits]
        # All other splits must have classes: train/1.jpg is an image without a class.
        classes = {name for found in by_split for name in found} if all(by_split) else set()
    else:
        splits, unlabeled, classes = {}, (), set(_class_names(root, top, probes))
    if not classes:
        return None
    layout = _Layout(top, splits, tuple(sorted(classes)), "", unlabeled)
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


def _nested_example(root: str, layout: _Layout, probes: int | None) -> str:
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
    layout: _Layout, probed: list[list[str]], strays: Sequence[str], *, has_few_strays: bool
) -> FormatMatch:
    """The match of folders that may be classes. `strays`: media beside the folders."""
    shown = join_with_and([path_for_message(name) for name in layout.classes[:2]])
    if not has_few_strays:
        what = f"{pluralize(len(strays), 'media file')} beside the folders, such as {path_for_message(strays[0])}"
        return FormatMatch(0.1, f"a folder for each class, such as {shown}, but too many files are in no class: {what}")
    if len(layout.classes) < 2:
        return FormatMatch(0.1, f"files in a single folder, {shown}, which would be one class")
    if _have_equal_names(probed) and all(re.fullmatch(r".*[0-9]{3,}", name) for name in layout.classes):
        return FormatMatch(0.2, f"possibly a folder for each class, such as {shown}; the folders may also be sequences")
    note = f"; {pluralize(len(strays), 'media file')} beside them" if strays else ""
    return FormatMatch(CLASSES_SCORE, f"media in a folder for each class, such as {shown}{note}")


def _list_outside_media(root: str, layout: _Layout) -> list[str]:
    """The media in the folders around the classes: in the root, and in the folder that holds splits or classes."""
    return [
        f"{prefix}{name}"
        for prefix in dict.fromkeys(("", layout.top))
        for name in list_folder(os.path.join(root, prefix), root).files
        if media_type_of(name)
    ]


def _are_few(strays: int, root: str, layout: _Layout) -> bool:
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


class _ClassFolderSamples:
    """Walks through the folders in the order of names, with the names of one folder in memory at a time."""

    def __init__(self, root: str, layout: _Layout, *, is_deepest: bool) -> None:
        self._root = root
        self._layout = layout
        self._is_deepest = is_deepest
        self._split_of = {} if layout.splits else _read_split_lists(root, layout.top)
        names = layout.classes
        if is_deepest:
            names = tuple(sorted({each[1] for path, _ in self._media() if (each := self._place(path))}))
        self._numbers = {name: number for number, name in enumerate(names)}
        candidates = [
            f"{prefix}{name}"
            for prefix in dict.fromkeys((layout.top, ""))
            for name in list_folder(os.path.join(root, prefix), root).files
        ]
        self._class_names = read_class_names(root, candidates, names)

    @property
    def split_names(self) -> tuple[str, ...]:
        names = self._layout.splits.values() or (("train", *_SPLIT_LISTS.values()) if self._split_of else ())
        return tuple(dict.fromkeys(names))

    def _media(self) -> Iterator[tuple[str, bool]]:
        """Yield (path, whether another file of its folder has its stem) of the files in class folders."""
        for prefix, names in walk_folders(self._root):
            media = [name for name in names.files if media_type_of(name) and self._place(f"{prefix}{name}")]
            stems = Counter(map(strip_extension, media))
            yield from ((f"{prefix}{name}", stems[strip_extension(name)] > 1) for name in media)

    def _place(self, path: str) -> tuple[str, str] | None:
        """(split, class) of a file; None if it is in no class's folder."""
        layout = self._layout
        if not path.startswith(layout.top):
            return None
        segments = path[len(layout.top) :].split("/")
        split = layout.splits.get(segments.pop(0), "") if layout.splits else ""
        if len(segments) < 2 or bool(layout.splits) != bool(split) or segments[0] == "_background_noise_":
            return None
        if self._split_of:
            split = self._split_of.get("/".join(segments), "train")
        return split, "/".join(segments[:-1]) if self._is_deepest else segments[0]

    def _unlabeled_folder(self, path: str) -> str:
        """The folder of unlabeled media that has this file, as a path without a trailing slash; empty if none has."""
        folders = (f"{self._layout.top}{name}" for name in self._layout.unlabeled)
        return next((folder for folder in folders if path.startswith(f"{folder}/")), "")

    def samples(self, start: int) -> Iterator[SourceSample]:
        for sample_index, (path, shares_stem) in enumerate(islice(self._media(), start, None), start):
            yield self._sample(sample_index, path, path if shares_stem else strip_extension(path))

    def _sample(self, sample_index: int, path: str, name: str) -> SourceSample:
        where = os.path.join(self._root, path)
        split, label = self._place(path) or ("", "")
        if label not in self._numbers:
            changed = InputError(
                "the class folder of this file is new since wdsctl listed the source",
                hint="run the same command again to list the source again",
                where=path_for_message(where),
                code="WDS202",
            )
            return failed_sample(sample_index, changed)
        try:
            with translate_os_errors(where, "read"):
                size = source_files.stat_file(where).size
        except WdsctlError as error:  # for example a broken link
            return failed_sample(sample_index, error)
        parts = (
            Part("cls", str(self._numbers[label]).encode()),
            FilePart(extension_of_name(path), where, 0, size, self._root),
            Part("txt", self._class_names.names.get(label, label).encode("utf-8", "surrogateescape")),
        )
        key = safe_key(name) or row_number_key(sample_index)
        return SourceSample(key, tuple(sorted(parts, key=lambda part: part.name)), split=split)

    def describe(self) -> SourceDescription:
        """Cost: lists all folders."""
        files: Counter[str] = Counter()  # by extension
        classes: Counter[tuple[str, str]] = Counter()  # by split and class
        unused: list[str] = []
        unlabeled: Counter[str] = Counter()  # by folder beside the splits
        repeats: list[str] = []
        hidden = listed = 0
        for prefix, names in walk_folders(self._root):
            hidden += names.hidden
            stems: dict[str, str] = {}
            for name in names.files:
                path = f"{prefix}{name}"
                place = self._place(path) if media_type_of(path) else None
                if place is not None:
                    files[extension_of_name(path)] += 1
                    classes[place] += 1
                    listed += path[len(self._layout.top) :] in self._split_of
                    first = stems.setdefault(strip_extension(path), path)
                    if first != path:
                        repeats.append(path_for_message(first) + " and " + path_for_message(path))
                elif media_type_of(path) and (folder := self._unlabeled_folder(path)):
                    unlabeled[folder] += 1
                elif not (self._split_of and name in _SPLIT_LISTS and prefix == self._layout.top):
                    unused.append(path)
        media_types = {media_type_of(f"x.{extension}") for extension in files}
        unused = [path for path in unused if path not in self._class_names.files]
        findings = [
            *unused_files_findings(unused, "not a media file in a class folder", hidden),
            *(_unlabeled_finding(self._root, folder, count) for folder, count in unlabeled.items()),
            *self._class_findings(classes),
        ]
        if repeats:
            what = "file differs from another one" if len(repeats) == 1 else "files differ from others"
            findings.append(
                Finding(
                    code="WDS241",
                    severity="warning",
                    message=f"{len(repeats):,} {what} in the extension only, such as {repeats[0]}: each file is a "
                    "sample, whose key includes the extension",
                    count=len(repeats),
                )
            )
        if listed < len(self._split_of):
            count = len(self._split_of) - listed
            findings.append(
                Finding(
                    code="WDS231",
                    severity="error",
                    message=f"{pluralize(count, 'line')} of {join_with_and(list(_SPLIT_LISTS))} without a file",
                    count=count,
                )
            )
        return SourceDescription(
            tuple(self._field_uses(files, classes)), tuple(findings), _class_config(files, media_types)
        )

    def _field_uses(self, files: Counter[str], classes: Counter[tuple[str, str]]) -> Iterator[FieldUse]:
        for extension, count in sorted(files.items()):
            yield FieldUse(f"*.{extension}", extension, f"{pluralize(count, 'file')}, one sample each")
        names, source, _ = self._class_names
        shown = [f"{number} {path_for_message(names.get(name, name))}" for name, number in self._numbers.items()]
        more = f" and {len(shown) - _SHOWN_CLASSES:,} more" if len(shown) > _SHOWN_CLASSES else ""
        by = f"numbered by folder, named by {path_for_message(source)}" if source else "numbered by name"
        note = f"{pluralize(len(shown), 'class', 'classes')}, {by}: {', '.join(shown[:_SHOWN_CLASSES])}{more}"
        yield FieldUse("class folders", "cls, txt", note)
        by_split: Counter[str] = Counter()
        for (split, _), count in classes.items():
            by_split[split] += count
        for split in self.split_names:
            source = next((folder for folder, name in self._layout.splits.items() if name == split), "lists of files")
            yield FieldUse(source, f"split {split}", pluralize(by_split[split], "sample"))

    def _class_findings(self, classes: Counter[tuple[str, str]]) -> Iterator[Finding]:
        totals: Counter[str] = Counter()
        for (_, name), count in classes.items():
            totals[name] += count
        if len(self._numbers) == 1:
            yield _class_finding(list(self._numbers), "all samples have the same class")
        empty = [name for name in self._numbers if not totals[name]]
        if empty:
            yield _class_finding(
                empty, "the folder of the class is empty: the class keeps its number, but has no samples"
            )
        single = [name for name in self._numbers if totals[name] == 1]
        if single:
            yield _class_finding(single, "the class has a single sample, so only one split can have the class")
        for split in self.split_names:
            lacking = [name for name in self._numbers if totals[name] and not classes[split, name]]
            own = [name for name in self._numbers if classes[split, name]]
            if len(self.split_names) > 1 and own and all(totals[name] == classes[split, name] for name in own):
                what = (
                    f"all classes of the split {split} are missing from the other splits, so its folders may not be "
                    "classes"
                )
                yield _class_finding(own, what, severity="error")
            elif lacking and len(self.split_names) > 1:
                yield _class_finding(lacking, f"the split {split} has no sample of the class")

    def digest(self) -> bytes:
        """A digest of the names, sizes and times of all files."""
        return digest_of_folder(self._root, walk_files(self._root))

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _class_config(files: Counter[str], media_types: set[MediaType | None]) -> DatasetConfig | None:
    """The sample type and field map; None if the media are of several types, or there are none."""
    extensions = ",".join(sorted(files))
    if media_types == {"image"}:
        return DatasetConfig("ImageClassificationSample", {"image": extensions, "label": "cls", "label_name": "txt"})
    if media_types == {"video"}:
        return DatasetConfig("VideoSample", {"video": extensions, "text": "txt"})
    if media_types == {"audio"}:
        return DatasetConfig("AudioSample", {"audio": extensions, "text": "txt"})
    return None


def _class_finding(names: list[str], what: str, *, severity: Severity = "warning") -> Finding:
    return Finding(
        code="WDS241",
        severity=severity,
        message=f"{pluralize(len(names), 'class', 'classes')}, such as {path_for_message(names[0])}: {what}",
        count=len(names),
    )


def _unlabeled_finding(root: str, folder: str, count: int) -> Finding:
    are = "file is" if count == 1 else "files are"
    return Finding(
        code="WDS239",
        severity="warning",
        message=f"{count:,} media {are} in no sample: {path_for_message(folder)}/ has no class folders. To prepare it "
        f"alone, without classes, run {shell_command('prepare', os.path.join(root, folder), 'DEST')}",
        count=count,
    )


def _read_split_lists(root: str, top: str) -> dict[str, str]:
    """Path below `top` -> its split, from the lists of Speech Commands; empty if there are none."""
    found: dict[str, str] = {}
    for name, split in _SPLIT_LISTS.items():
        path = os.path.join(root, f"{top}{name}")
        if source_files.is_file(path):
            with (
                translate_os_errors(path, "read"),
                source_files.open_file(path) as data,
                io.TextIOWrapper(data, encoding="utf-8", errors="surrogateescape") as file,
            ):
                found.update((line.strip(), split) for line in file if line.strip())
    return found
