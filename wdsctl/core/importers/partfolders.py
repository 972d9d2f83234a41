"""A folder for each part: `images/7.jpg` and `masks/7.png` are the parts `jpg` and `mask.png` of one sample.

The folders are below folders of splits, above them (`images/train/7.jpg`), or without any. One of them is named after
media (`_MEDIA_FOLDERS`), or two form a pair (`_PAIRS`); the others have files of the same names. Names may have an
addition for each part: `7_leftImg8bit.png`, `7_gtFine_labelIds.png`.

Sources: https://www.cityscapes-dataset.com/dataset-overview (additions to names);
https://groups.csail.mit.edu/vision/datasets/ADE20K (images/ and annotations/ above the splits).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import Finding, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import extension_of_name
from wdsctl.core.importers.records.folder_files import (
    FolderFiles,
    ListedSamples,
    list_folder,
    media_type_of,
    split_of_folder,
    unused_files_findings,
    walk_folders,
)
from wdsctl.core.importers.records.samples import SourceSample, row_number_key, strip_extension
from wdsctl.core.importers.records.source import SampleSource
from wdsctl.core.samples.naming import safe_key
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

#: Names of folders, in lower case, whose files are samples. A class of pictures is hardly named like this.
_MEDIA_FOLDERS = frozenset({
    "image", "images", "img", "imgs", "jpegimages", "leftimg8bit", "photos", "pictures", "rgb", "video", "videos",
    "audio", "audios", "wav", "wavs",
})  # fmt: skip
_MASK_FOLDERS = frozenset({
    "mask", "masks", "annotation", "annotations", "label", "labels", "gt", "gts", "gtfine", "ground_truth",
    "groundtruth", "seg", "segs", "segmentation", "segmentations", "segmentationclass", "segmentation_masks", "trimaps",
})  # fmt: skip
#: Two folders that are the sides of one task: the first has the inputs.
_PAIRS = {
    "input": ("output", "outputs", "target", "targets", "gt"),
    "inputs": ("outputs", "targets"),
    "source": ("target",),
    "low": ("high",),
    "lr": ("hr",),
    "before": ("after",),
}

_MAX_WRAPPERS = 3  # folders around the folders of parts
_PROBED_NAMES = 200
_EQUAL_SHARE = 0.5  # of the probed files of a folder that have a file of the same name in the first one

_SEPARATORS = "_-. "


class PartFoldersImporter:
    """Keys are the paths of the first folder's files, without that folder and the extension. There are no options."""

    name = "partfolders"
    about = "a folder for each part, with files of the same names: images/7.jpg and masks/7.png"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            groups = _find_groups(path) if source_files.is_folder(path) else []
        except (OSError, WdsctlError):
            return None
        if not groups:
            return None
        first = groups[0]
        shown = join_with_and([path_for_message(f"{first.prefix}{name}") for name in (first.main, *first.others)])
        return FormatMatch(0.83, f"{shown} have files of the same names")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ())
        with translate_os_errors(path, "list"):
            groups = _find_groups(path)
        if not groups:
            raise InputError(
                "no two folders have files with the same names",
                hint="check the path: images/ and masks/, for example, need files of the same names",
                where=path_for_message(path),
                code="WDS003",
            )
        folder = _PartFolders(path, groups)
        samples = ListedSamples(folder.files, folder.samples, folder.make_sample)
        return SampleSource(samples, folder.split_names, folder.describe)


IMPORTER = PartFoldersImporter()


class _Group(NamedTuple):
    """Folders below `prefix`, which ends in a slash unless it is the root: `main` has the media, `others` further parts
    of the same samples.
    """

    prefix: str
    main: str
    others: tuple[str, ...]


class _Sample(NamedTuple):
    """`files`: name of the part -> path."""

    name: str
    files: dict[str, str]
    split: str


def _find_groups(root: str) -> list[_Group]:
    """The groups of folders: one in the root or in a lone folder below it, or one in each split. Raises OSError."""
    prefix = ""
    for _ in range(_MAX_WRAPPERS + 1):
        names = list_folder(os.path.join(root, prefix), root)
        group = _find_group(root, prefix, names.folders)
        if group:
            return [group]
        splits = [name for name in names.folders if name.lower() == split_of_folder(name)]
        if splits:
            below = [f"{prefix}{name}/" for name in splits]
            found = [_find_group(root, each, list_folder(os.path.join(root, each), root).folders) for each in below]
            return [each for each in found if each]
        if len(names.folders) != 1 or any(map(media_type_of, names.files)):
            return []
        prefix = f"{prefix}{names.folders[0]}/"
    return []


def _find_group(root: str, prefix: str, folders: list[str]) -> _Group | None:
    by_word = {name.lower(): name for name in reversed(folders)}
    mains = [by_word[word] for word in sorted(_MEDIA_FOLDERS & by_word.keys())]
    if not mains and len(folders) == 2:
        mains = [name for word, name in by_word.items() if any(each in by_word for each in _PAIRS.get(word, ()))]
    for main in mains:
        others = tuple(name for name in folders if name != main and _have_equal_names(root, prefix, main, name))
        if others:
            return _Group(prefix, main, others)
    return None


def _have_equal_names(root: str, prefix: str, main: str, other: str) -> bool:
    """Whether the first files of the folder `other` have partners of the same names in the folder `main`."""
    for path, names in islice(walk_folders(root, f"{prefix}{other}/"), 16):
        files = [name for name in names.files if extension_of_name(name)]
        if not files:
            continue
        partner = os.path.join(root, f"{prefix}{main}/{path[len(prefix) + len(other) + 1 :]}")
        if not source_files.is_folder(partner):
            return False
        media = [strip_extension(name) for name in list_folder(partner, root).files if media_type_of(name)]
        stems = _index_stems(media)
        probed = files[:_PROBED_NAMES]
        found = {stem for name in probed if (stem := _partner_of(strip_extension(name), stems))}
        matches = sum(1 for name in probed if _partner_of(strip_extension(name), stems))
        return len(found) > 1 and matches >= _EQUAL_SHARE * len(probed)
    return False


def _index_stems(paths: Iterable[str]) -> dict[str, str]:
    """Path without the addition that all names have -> path. `paths` have no extensions."""
    paths = list(paths)
    addition = _common_addition(paths)
    return {path[: len(path) - len(addition)]: path for path in paths}


def _common_addition(paths: list[str]) -> str:
    """The end of all names, if it begins with a separator and has letters: `_leftImg8bit`."""
    names = sorted(path.rpartition("/")[2][::-1] for path in paths)
    if len(names) < 2:
        return ""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(names[0], names[-1], strict=False))
    end = "".join(one for one, _ in same)[::-1]
    found = re.search(r"[_.-](?=[^\W\d_])[\w-]*$", end)
    return found[0] if found else ""


def _partner_of(path: str, stems: dict[str, str]) -> str:
    """The path that this one belongs to: that of the same name, or the longest one that it begins with; "" if none."""
    if path in stems:
        return stems[path]
    for end in range(len(path) - 1, path.rfind("/") + 1, -1):
        if path[end] in _SEPARATORS and path[:end] in stems:
            return stems[path[:end]]
    return ""


class _PartFolders:
    def __init__(self, root: str, groups: list[_Group]) -> None:
        self.files = FolderFiles(root)
        self.samples: list[_Sample] = []
        self._folders: Counter[str] = Counter()  # path of a folder of parts -> its files in samples
        self._parts: Counter[tuple[str, str]] = Counter()  # name of the folder, name of the part
        self._unused: list[str] = []
        self._lacking: Counter[tuple[str, str]] = Counter()  # name of the folder, an example
        in_groups = set[str]()
        for group in groups:
            in_groups |= self._add_group(group)
        self._unused = [path for path in self.files.paths if path not in in_groups]

    def _add_group(self, group: _Group) -> set[str]:
        """Add the samples of a group. Returns the paths of their files."""
        top = f"{group.prefix}{group.main}/"
        media = [path for path in self.files.paths if path.startswith(top) and media_type_of(path)]
        by_name: dict[str, dict[str, str]] = {}
        used = set[str]()
        for path in media:
            files = by_name.setdefault(strip_extension(path[len(top) :]), {})
            part = extension_of_name(path)
            if part not in files:
                files[part] = path
                used.add(path)
                self._parts[group.main, part] += 1
        stems = _index_stems(by_name)
        for other in group.others:
            used |= self._add_folder(group, other, by_name, stems)
        for name, files in by_name.items():
            segments = next(iter(files.values())).split("/")[:-1]
            split = next(filter(None, map(split_of_folder, segments)), "")
            self.samples.append(_Sample(f"{group.prefix}{name}", files, split))
        return used

    def _add_folder(
        self, group: _Group, other: str, by_name: dict[str, dict[str, str]], stems: dict[str, str]
    ) -> set[str]:
        """Add the files of another folder to the samples. Returns the paths of those that have a sample."""
        top = f"{group.prefix}{other}/"
        paths = [path for path in self.files.paths if path.startswith(top) and extension_of_name(path)]
        named = [(path, strip_extension(path[len(top) :])) for path in paths]
        found = [(path, name, partner) for path, name in named if (partner := _partner_of(name, stems))]
        stem_of = {partner: stem for stem, partner in stems.items()}
        additions = {name[len(stem_of[partner]) :].strip(_SEPARATORS) for _, name, partner in found}
        role = "mask" if other.lower() in _MASK_FOLDERS else re.sub(r"\W", "_", other.lower())
        used = set[str]()
        have = set[str]()
        for path, name, partner in found:
            extension = extension_of_name(path)
            word = role
            if len(additions) > 1:
                word = re.sub(r"\W", "_", name[len(stem_of[partner]) :].strip(_SEPARATORS)) or role
            is_lone_text = media_type_of(path) is None and len(additions) == 1 and extension in ("txt", "json")
            part = extension if is_lone_text and extension not in by_name[partner] else f"{word}.{extension}"
            have.add(partner)
            if part not in by_name[partner]:
                by_name[partner][part] = path
                used.add(path)
                self._parts[other, part] += 1
        lacking = [name for name in by_name if name not in have]
        if lacking:
            self._lacking[other, f"{group.prefix}{group.main}/{lacking[0]}"] += len(lacking)
        return used

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sample.split for sample in self.samples if sample.split))

    def make_sample(self, sample: _Sample) -> SourceSample:
        parts = tuple(self.files.part(part, path) for part, path in sample.files.items())
        key = safe_key(sample.name) or row_number_key(self.samples.index(sample))
        return SourceSample(key, parts, split=sample.split)

    def describe(self) -> SourceDescription:
        return SourceDescription(tuple(self._field_uses()), tuple(self._findings()), self._config())

    def _field_uses(self) -> Iterator[FieldUse]:
        for (folder, part), count in self._parts.items():
            yield FieldUse(f"{folder}/*.{extension_of_name(f'x.{part}')}", part, pluralize(count, "file"))
        by_split = Counter(sample.split for sample in self.samples)
        for split in self.split_names:
            yield FieldUse("folders", f"split {split}", pluralize(by_split[split], "sample"))

    def _findings(self) -> Iterator[Finding]:
        for (folder, example), count in self._lacking.items():
            yield Finding(
                code="WDS201",
                severity="error",
                message=f"{pluralize(count, 'file')} without a file of the same name in "
                f"{path_for_message(folder)}/, such as "
                f"{path_for_message(example)}: the samples lack this part",
                count=count,
            )
        reason = "outside the folders of parts, or without a file of the same name"
        yield from unused_files_findings(self._unused, reason, self.files.hidden)

    def _config(self) -> DatasetConfig | None:
        """The sample type if the samples are images with one mask each; otherwise it is detected."""
        parts = list(self._parts)
        images = [part for _, part in parts if "." not in part and media_type_of(f"x.{part}") == "image"]
        masks = [part for _, part in parts if part.startswith("mask.") and media_type_of(f"x.{part}") == "image"]
        if not images or not masks or len(images) + len(masks) < len(parts):
            return None
        field_map = {"image": ",".join(sorted(set(images))), "mask": ",".join(sorted(set(masks)))}
        return DatasetConfig("SegmentationSample", field_map)
