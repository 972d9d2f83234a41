"""Folders of classes: images, video or audio in a folder for each class, below folders of splits or not.

Parts: the media file, `cls` (number of the class by the order of folders) and `txt` (its name: that of the folder, or
what a file such as LOC_synset_mapping.txt says). Keys are the paths without the extension; files of one folder whose
names differ in the extension only keep it in their keys.

Sources: https://pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html (classes sorted by name);
https://arxiv.org/abs/1804.03209 (Speech Commands, whose splits are lists of files).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import Finding, InputError, Severity, WdsctlError, translate_os_errors
from wdsctl.core.file_limits import iter_lines
from wdsctl.core.importers.class_names import Solutions, read_class_names, read_solutions
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    digest_of_folder,
    list_folder,
    media_type_of,
    split_of_folder,
    unused_files_findings,
    unused_finding,
    walk_files,
    walk_folders,
)
from wdsctl.core.importers.common.samples import SourceSample, failed_sample, row_number_key
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options, parse_choice_option
from wdsctl.core.importers.folders.class_folders import SPLIT_LISTS, ClassLayout, find_layout, match_class_folders
from wdsctl.core.importers.protocol import (
    FieldUse,
    FilePart,
    FormatMatch,
    Options,
    Part,
    Source,
    SourceDescription,
)
from wdsctl.core.media.kinds import MediaType
from wdsctl.core.samples.naming import safe_key, strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_SHOWN_CLASSES = 5

#: Folders of ImageNet, as Kaggle has it, for localisation and detection.
_OTHER_TASKS = frozenset({"Annotations", "ImageSets"})


class ImageFolderImporter:
    """Options: `-O classes=first` takes the first folder below the splits as the class, `classes=deepest` the path of
    the last one.
    """

    name = "imagefolder"
    about = "images, video or audio in a folder for each class, below train, val, test or directly"

    def recognise(self, path: str) -> FormatMatch | None:
        return match_class_folders(path)

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ("classes",))
        choice = parse_choice_option(self.name, options, "classes", ("auto", "first", "deepest"))
        with translate_os_errors(path, "list"):
            layout = find_layout(path)
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


class _ClassFolderSamples:
    """Walks through the folders in the order of names, with the names of one folder in memory at a time."""

    def __init__(self, root: str, layout: ClassLayout, *, is_deepest: bool) -> None:
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
        self._labels = read_solutions(root, candidates, self._numbers) if layout.unlabeled else Solutions({}, ())

    @property
    def split_names(self) -> tuple[str, ...]:
        names = [*self._layout.splits.values()] or (["train", *SPLIT_LISTS.values()] if self._split_of else [])
        return tuple(dict.fromkeys([*names, *(["val"] if self._labels.labels else [])]))

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
        if segments[0] in layout.unlabeled and split_of_folder(segments[0]) == "val":
            label = self._labels.labels.get(strip_extension(segments[-1]))
            return None if label is None else ("val", label)
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
                elif not (self._split_of and name in SPLIT_LISTS and prefix == self._layout.top):
                    unused.append(path)
        media_types = {media_type_of(f"x.{extension}") for extension in files}
        known = {*self._class_names.files, *self._labels.files}
        unused = [path for path in unused if path not in known]
        others = {path: None for path in unused if self._labels.files and _OTHER_TASKS.intersection(path.split("/"))}
        rest = [path for path in unused if path not in others] if others else unused
        findings = [
            *unused_files_findings(rest, "not a media file in a class folder", hidden),
            *([unused_finding(list(others), "boxes and lists of other tasks", severity="warning")] if others else []),
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
                    message=f"{pluralize(count, 'line')} of {join_with_and(list(SPLIT_LISTS))} without a file",
                    count=count,
                )
            )
        return SourceDescription(
            tuple(self._field_uses(files, classes)), tuple(findings), _class_config(files, media_types), tuple(unused)
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
            folders = (folder for folder, name in self._layout.splits.items() if name == split)
            source = next(folders, self._labels.files[0] if self._labels.labels else "lists of files")
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
    for name, split in SPLIT_LISTS.items():
        path = os.path.join(root, f"{top}{name}")
        if source_files.is_file(path):
            with translate_os_errors(path, "read"), source_files.open_file(path) as file:
                lines = (line.decode("utf-8", "surrogateescape").strip() for line in iter_lines(file, path))
                found.update((line, split) for line in lines if line)
    return found
