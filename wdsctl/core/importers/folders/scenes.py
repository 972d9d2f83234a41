"""A folder for each sample: `0001/rgb.jpg` and `0001/depth.png` are the parts `rgb.jpg` and `depth.png` of `0001`.

All folders have files of the same names, which say what the files are. Folders of many numbered files are classes of
photos or frames of videos, also with a text file in each. Folders named like splits, above them, are splits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from statistics import median
from typing import NamedTuple

from wdsctl.core.errors import Finding, InputError, WdsctlError
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    FolderNames,
    ListedSamples,
    is_document,
    media_type_of,
    normalize_split_names,
    split_of_folder,
    unused_files_findings,
    walk_folders,
)
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key, split_name, strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_PROBED_FOLDERS = 20
_MAX_PARTS = 1000  # of a sample: folders with more files of the same names are no samples
_USUAL_SHARE = 0.8  # a name is usual if so many folders have it

#: Media of a sample whose names are numbered: so few are parts of it, and so many may also be the photos of a class.
_FEW_NUMBERED = 4
_SOME_NUMBERED = 12
SCENES_SCORE = 0.8  # of folders that are samples without doubt
_UNSURE_SCORE = 0.7  # that of class folders: the user decides


class ScenesImporter:
    """Keys are the paths of the folders. There are no options."""

    name = "scenes"
    about = "a folder for each sample, with files of the same names"

    def recognise(self, path: str) -> FormatMatch | None:
        if not source_files.is_folder(path):
            return None
        try:
            below = ((prefix, names) for prefix, names in walk_folders(path) if prefix and names.files)
            probed = list(islice(below, _PROBED_FOLDERS))
        except (OSError, WdsctlError):
            return None
        usual = _usual_names(names for _, names in probed)
        if len(usual) > _MAX_PARTS:
            return None
        usual = [name for name in usual if not is_document(name)]
        stems = Counter(key[0] for key in map(split_name, usual) if key)
        words = [stem for stem in stems if not re.search("[0-9]", stem)]
        is_leaf = all(not names.folders for _, names in probed)
        if len(probed) < 2 or len(stems) < 2 or not words or not is_leaf or not any(map(media_type_of, usual)):
            return None
        shown = ", ".join(path_for_message(name) for name in usual[:2])
        score = _score_names([names.files for _, names in probed], usual)
        # left.jpg, left.json, right.jpg and right.json may be one sample or two.
        score = min(score, 0.2) if max(stems.values()) > 1 else score
        return FormatMatch(score, f"all folders have files named {shown}") if score else None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        folder = _SceneFolder(path)
        samples = ListedSamples(folder.files, folder.scenes, folder.make_sample)
        return SampleSource(samples, folder.split_names, folder.describe)


IMPORTER = ScenesImporter()


class _Scene(NamedTuple):
    """A folder with files. `prefix`: its path with a trailing slash."""

    prefix: str
    names: tuple[str, ...]
    split: str


class _SceneFolder:
    def __init__(self, root: str) -> None:
        self.files = FolderFiles(root)
        by_folder: dict[str, list[str]] = {}
        for path in self.files.paths:
            folder, slash, name = path.rpartition("/")
            if slash and extension_of_name(name):
                by_folder.setdefault(f"{folder}/", []).append(name)
        splits = {prefix: next(filter(None, map(split_of_folder, prefix.split("/")[:-2])), "") for prefix in by_folder}
        named = normalize_split_names(splits.values())
        self.scenes = [
            _Scene(prefix, tuple(names), named[splits[prefix]])
            for prefix, names in by_folder.items()
            if any(map(media_type_of, names))
        ]
        if not self.scenes:
            raise InputError(
                "no folder has media files",
                hint="check the path: each sample needs its own folder",
                where=path_for_message(root),
                code="WDS003",
            )

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(scene.split for scene in self.scenes if scene.split))

    def make_sample(self, scene: _Scene) -> SourceSample:
        parts = tuple(self.files.part(name, f"{scene.prefix}{name}") for name in scene.names)
        return SourceSample(safe_key(scene.prefix.rstrip("/")), parts, split=scene.split)

    def describe(self) -> SourceDescription:
        unused = self._unused_files()
        return SourceDescription(tuple(self._field_uses()), tuple(self._findings(unused)), unused=unused)

    def _unused_files(self) -> tuple[str, ...]:
        used = {f"{scene.prefix}{name}" for scene in self.scenes for name in scene.names}
        return tuple(path for path in self.files.paths if path not in used)

    def _field_uses(self) -> Iterator[FieldUse]:
        yield FieldUse("folders", "keys", pluralize(len(self.scenes), "sample"))
        for name, count in sorted(Counter(name for scene in self.scenes for name in scene.names).items()):
            yield FieldUse(name, name, pluralize(count, "file"))
        by_split = Counter(scene.split for scene in self.scenes)
        for split in self.split_names:
            yield FieldUse("folders", f"split {split}", pluralize(by_split[split], "sample"))

    def _findings(self, unused: Iterable[str]) -> Iterator[Finding]:
        usual = _usual_names(FolderNames([], list(scene.names), 0) for scene in self.scenes)
        lacking = [(scene, name) for scene in self.scenes for name in usual if name not in scene.names]
        if lacking:
            scene, name = lacking[0]
            count = len({each.prefix for each, _ in lacking})
            yield Finding(
                code="WDS201",
                severity="error",
                message=f"{pluralize(count, 'folder')} without a file that most folders have, such as "
                f"{path_for_message(scene.prefix)} without {path_for_message(name)}: the samples lack these files",
                count=count,
            )
        yield from unused_files_findings(unused, "it is not in the folder of any sample", self.files.hidden)


def _score_names(folders: list[list[str]], usual: list[str]) -> float:
    """How clearly the files of each folder are one sample; 0 if they are not. `usual`: names that most folders have.

    Names without digits tell media apart; one alone, such as `cover.jpg`, may be beside photos. If all media are
    numbered, the folders must have the same numbers: few of them, or there must be many such folders.
    """
    named = [name for name in usual if media_type_of(name) and not _is_numbered(name)]
    numbered = [tuple(name for name in files if media_type_of(name) and _is_numbered(name)) for files in folders]
    if named:
        like_it = [sum(extension_of_name(name) == extension_of_name(named[0]) for name in names) for names in numbered]
        is_few = median(like_it) <= _FEW_NUMBERED and median(map(len, numbered)) <= _SOME_NUMBERED
        return SCENES_SCORE if len(named) > 1 or is_few else _UNSURE_SCORE
    names, count = Counter(numbered).most_common(1)[0]
    if count < _USUAL_SHARE * len(folders):
        return 0.0
    if len(names) <= _FEW_NUMBERED:
        return SCENES_SCORE
    return _UNSURE_SCORE if len(names) <= _SOME_NUMBERED or len(folders) == _PROBED_FOLDERS else 0.0


def _is_numbered(name: str) -> bool:
    return bool(re.search("[0-9]", strip_extension(name)))


def _usual_names(folders: Iterator[FolderNames]) -> list[str]:
    """The names of files that at least 80 % of the folders have."""
    counts: Counter[str] = Counter()
    number = 0
    for number, names in enumerate(folders, 1):  # noqa: B007 - the last number counts
        counts.update(names.files)
    return sorted(name for name, count in counts.items() if count >= _USUAL_SHARE * number and extension_of_name(name))
