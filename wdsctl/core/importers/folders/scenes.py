"""A folder for each sample: `0001/rgb.jpg` and `0001/depth.png` are the parts `rgb.jpg` and `depth.png` of `0001`.

All folders have files of the same names, which say what the files are. Folders of many numbered files are classes of
photos or frames of videos, also with a text file in each. Folders named like splits, above them, are splits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from statistics import median

from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    is_document,
    media_type_of,
    split_of_folder,
    walk_folders,
)
from wdsctl.core.importers.folders.evidence import is_data
from wdsctl.core.importers.folders.paired import (
    PairedFolder,
    PairedLayout,
    PairedSamples,
    lacking_finding,
    no_samples_error,
)
from wdsctl.core.importers.protocol import FieldUse, FormatMatch
from wdsctl.core.samples.naming import split_name, strip_extension
from wdsctl.core.text import path_for_message, pluralize

_PROBED_FOLDERS = 20
_MAX_PARTS = 1000  # of a sample: folders with more files of the same names are no samples
_USUAL_SHARE = 0.8  # a name is usual if so many folders have it

#: Media of a sample whose names are numbered: so few are parts of it, and so many may also be the photos of a class.
_FEW_NUMBERED = 4
_SOME_NUMBERED = 12
SCENES_SCORE = 0.8  # of folders that are samples without doubt
_UNSURE_SCORE = 0.7  # that of class folders: the user decides


def _match(path: str) -> FormatMatch | None:
    # A split with files is no sample, even if another split has files of the same names.
    below = ((prefix, names) for prefix, names in walk_folders(path) if prefix and names.files)
    probed = list(islice((each for each in below if not _is_split(each[0])), _PROBED_FOLDERS))
    usual = _usual_names(names.files for _, names in probed)
    if len(usual) > _MAX_PARTS:
        return None
    usual = [name for name in usual if not is_document(name)]
    stems = Counter(key[0] for key in map(split_name, usual) if key)
    words = [stem for stem in stems if not re.search("[0-9]", stem)]
    is_leaf = all(not names.folders for _, names in probed)
    if len(probed) < 2 or len(stems) < 2 or not words or not is_leaf or not any(map(is_data, usual)):
        return None
    shown = ", ".join(path_for_message(name) for name in usual[:2])
    score = _score_names([names.files for _, names in probed], usual)
    # left.jpg, left.json, right.jpg and right.json may be one sample or two.
    score = min(score, 0.2) if max(stems.values()) > 1 else score
    return FormatMatch(score, f"all folders have files named {shown}") if score else None


def _is_split(prefix: str) -> bool:
    return bool(split_of_folder(prefix[:-1].rpartition("/")[2]))


def _read(root: str) -> PairedFolder:
    files, samples = FolderFiles(root), PairedSamples[str]()
    by_folder: dict[str, list[str]] = {}
    for path in files.paths:
        folder, _, name = path.rpartition("/")
        if folder and extension_of_name(name):
            by_folder.setdefault(folder, []).append(name)
    usual = set(filter(is_data, _usual_names(by_folder.values())))
    for folder, names in by_folder.items():
        if any(map(media_type_of, names)) or not usual.isdisjoint(names):
            for name in names:
                samples.add(folder, name, f"{folder}/{name}", name)
    if not samples.files:
        raise no_samples_error(
            root, "no folder has media or arrays", "check the path: each sample needs its own folder"
        )
    uses = [
        FieldUse("folders", "keys", pluralize(len(samples.files), "sample")),
        *(FieldUse(name, name, pluralize(count, "file")) for (_, name), count in sorted(samples.parts.items())),
    ]
    return PairedFolder(files, samples, uses, _findings(samples), "it is not in the folder of any sample")


def _findings(samples: PairedSamples[str]) -> Iterator[Finding]:
    usual = _usual_names(samples.files.values())
    lacking = [(folder, name) for folder, files in samples.files.items() for name in usual if name not in files]
    if lacking:
        (folder, name), count = lacking[0], len({folder for folder, _ in lacking})
        yield lacking_finding(
            count,
            f"{pluralize(count, 'folder')} without a file that most folders have, such as "
            f"{path_for_message(f'{folder}/')} without {path_for_message(name)}: the samples lack these files",
        )


IMPORTER = PairedLayout("scenes", "a folder for each sample, with files of the same names", _match, _read)


def _score_names(folders: list[list[str]], usual: list[str]) -> float:
    """How clearly the files of each folder are one sample; 0 if they are not. `usual`: names that most folders have.

    Names without digits tell media apart; one alone, such as `cover.jpg`, may be beside photos. If all media are
    numbered, the folders must have the same numbers: few of them, or there must be many such folders.
    """
    named = [name for name in usual if is_data(name) and not _is_numbered(name)]
    numbered = [tuple(name for name in files if is_data(name) and _is_numbered(name)) for files in folders]
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


def _usual_names(folders: Iterable[Collection[str]]) -> list[str]:
    """The names of files that at least 80 % of the folders have."""
    found = list(folders)
    counts = Counter(name for names in found for name in names)
    return sorted(
        name for name, count in counts.items() if count >= _USUAL_SHARE * len(found) and extension_of_name(name)
    )
