"""A folder for each part: `images/7.jpg` and `masks/7.png` are the parts `jpg` and `mask.png` of one sample.

The folders are below folders of splits, above them (`images/train/7.jpg`), or without any. One of them is named after
media (`MEDIA_FOLDERS`), or two form a pair (`_PAIRS`); the others have files of the same names. Folders may also share
the rest of their names: `train` and `train_masks`. Folders of any other names are parts if the evidence of
`equal_stems` says so. Names of files may have an addition for each part:
`7_leftImg8bit.png`, `7_gtFine_labelIds.png`, `mask_7.png` (see `common/roles.py`).

Folders that are named like parts, but have files of other names, are refused: they are hardly classes.

Sources: https://www.cityscapes-dataset.com/dataset-overview (additions to names);
https://groups.csail.mit.edu/vision/datasets/ADE20K (images/ and annotations/ above the splits).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import Finding, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    ListedSamples,
    PairedFiles,
    PairedFolder,
    fields_config,
    list_folder,
    media_type_of,
    normalize_split_names,
    split_of_folder,
    unused_files_findings,
    unused_finding,
    walk_folders,
)
from wdsctl.core.importers.common.roles import (
    MEDIA_FOLDERS,
    PAIRED_SHARE,
    TEXTS,
    Partners,
    find_openings,
    role_config,
    split_folder_role,
)
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.folders.class_folders import CLASSES_SCORE
from wdsctl.core.importers.folders.equal_stems import (
    Level,
    Verdict,
    find_part_sites,
    judge_sites,
    name_of_word,
    split_file,
    strip_affix,
    walk_levels,
)
from wdsctl.core.importers.folders.scenes import SCENES_SCORE
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

#: Two folders that are the sides of one task: the first has the inputs.
_PAIRS = {
    "input": ("output", "outputs", "target", "targets", "gt"),
    "inputs": ("outputs", "targets"),
    "source": ("target",),
    "low": ("high",),
    "lr": ("hr",),
    "before": ("after",),
}

_PROBED_NAMES = 200
_PROBED_FOLDERS = 8
_EQUAL_SHARE = 0.5  # of the probed files of a folder that have a file of the same name in the first one

_NESTED_FOLDERS = 16  # below a folder of annotations that may be one of parts


_SCORES: dict[Verdict, float] = {
    "classes": 0.15,  # less than that of raw files
    "words": SCENES_SCORE,
    "unsure": CLASSES_SCORE,
    "parts": 0.83,
}
_REASONS: dict[Verdict, str] = {
    "classes": ", but the files differ like those of classes; --from partfolders pairs them",
    "words": ", which make one sample of each name",
    "unsure": ", which make one sample of each name",
}


class PartFoldersImporter:
    """Keys are the paths of the first folder's files, without that folder and the extension. There are no options."""

    name = "partfolders"
    about = "a folder for each part, with files of matching names: images/7.jpg and masks/7.png"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            groups = _find_groups(path, probes=_PROBED_FOLDERS) if source_files.is_folder(path) else []
            unpaired = _find_unpaired(path) if not groups and source_files.is_folder(path) else None
        except (OSError, WdsctlError):
            return None
        if unpaired:
            return FormatMatch(0.75, unpaired.reason)
        if not groups:
            return None
        first = groups[0]
        shown = join_with_and([path_for_message(f"{first.prefix}{name}") for name in (first.main, *first.others)])
        verdict = next(each for each in _SCORES if any(group.verdict == each for group in groups))
        reason = f"{shown} have files of matching names"
        if first.left_over:
            what = join_with_and([path_for_message(f"{first.prefix}{name}") for name in first.left_over])
            reason += f" (those of {what} have other names, and stay out)"
        if verdict != "parts":
            return FormatMatch(_SCORES[verdict], f"{reason}{_REASONS[verdict]}")
        folders = tuple(f"{group.prefix}{name}" for group in groups for name in (group.main, *group.others))
        return FormatMatch(_SCORES[verdict], reason, media_folders=folders)

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        with translate_os_errors(path, "list"):
            groups = _find_groups(path)
            unpaired = None if groups else _find_unpaired(path)
        if unpaired:
            raise InputError(
                unpaired.reason,
                hint=f"give counterparts the same names, such as {path_for_message(unpaired.medium)} and "
                f"{path_for_message(unpaired.counterpart)}; if the folders are classes, pass --from imagefolder",
                where=path_for_message(path),
                code="WDS003",
            )
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
    of the same samples. `keys`: what their keys begin with. `verdict`: whether they are parts.

    `words`: if equal names have shown the group, folder -> what its part is called before the extension, or empty.
    `left_over`: folders beside them whose files have other names. `affixes`: see `PartSite`.
    """

    prefix: str
    main: str
    others: tuple[str, ...]
    keys: str
    verdict: Verdict = "parts"
    words: Mapping[str, str] = MappingProxyType({})
    left_over: tuple[str, ...] = ()
    affixes: Mapping[str, tuple[str, str]] = MappingProxyType({})


class _Unpaired(NamedTuple):
    """Folders that are named like parts of samples, without pairs of files. `counterpart`: a path that would pair with
    the path `medium`.
    """

    reason: str
    medium: str
    counterpart: str


def _find_groups(root: str, *, probes: int | None = None) -> list[_Group]:
    """The groups of folders of the first level that has any. `probes`: look at so many folders. Raises OSError."""
    for levels in walk_levels(root):
        groups = [group for level in levels for group in _find_groups_in(root, level)]
        if not all(group.verdict == "parts" for group in groups) or not groups:
            sites = [site for level in levels for site in find_part_sites(root, *level, probes=probes)]
            verdict = judge_sites(sites)
            groups = [
                _Group(
                    site.prefix,
                    *_main_and_others(site.words),
                    site.keys,
                    verdict,
                    site.words,
                    site.left_over,
                    site.affixes,
                )
                for site in sites
            ] or groups
        if groups:
            return groups
    return []


def _main_and_others(folders: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    main, *others = folders
    return main, tuple(others)


def _find_groups_in(root: str, level: Level) -> list[_Group]:
    prefix, folders = level
    by_word = {name.lower(): name for name in reversed(folders)}
    mains = [by_word[word] for word in sorted(MEDIA_FOLDERS & by_word.keys())]
    if not mains and len(folders) == 2:
        mains = [name for word, name in by_word.items() if any(each in by_word for each in _PAIRS.get(word, ()))]
    for main in mains:
        others = tuple(each for name in folders if name != main for each in _find_others(root, prefix, main, name))
        if others:
            return [_Group(prefix, main, others, prefix)]
    found = []
    for core, main, roles in _folders_by_core(folders):
        others = tuple(name for name in roles if _have_paired_names(root, prefix, main, name, share=PAIRED_SHARE))
        if others:
            # Classes such as face/ and face_mask/ may have numbered files.
            verdict: Verdict = "parts" if split_of_folder(core) else "unsure"
            found.append(_Group(prefix, main, others, f"{prefix}{core}/", verdict))
    return found


def _folders_by_core(folders: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (rest of the name, folder of media, other folders) for folders such as `train` and `train_masks`."""
    by_core: dict[str, dict[str, str]] = {}
    for name in folders:
        core, role = split = split_folder_role(name)
        if core:
            by_core.setdefault(core.lower(), {})[name] = split.kind if role else ""
    for core, kinds in by_core.items():
        mains = [name for name, kind in kinds.items() if kind in ("", "media")]
        others = [name for name, kind in kinds.items() if kind in ("mask", "map")]
        if len(mains) == 1 and others:
            yield core, mains[0], others


def _find_others(root: str, prefix: str, main: str, folder: str) -> Iterator[str]:
    """Yield `folder` if its files are parts; else the folders below that are, if it is named like a part: trimaps in
    annotations.
    """
    if _have_paired_names(root, prefix, main, folder):
        yield folder
        return
    if not _is_named_like_part(folder):
        return
    found: list[str] = []
    for path, _ in islice(walk_folders(root, f"{prefix}{folder}/"), 1, _NESTED_FOLDERS):
        name = path[len(prefix) : -1]
        if not any(name.startswith(f"{above}/") for above in found) and _have_paired_names(root, prefix, main, name):
            found.append(name)
    yield from found


def _is_named_like_part(folder: str) -> bool:
    core, role = name = split_folder_role(folder)
    return not core and bool(role) and name.kind != "media"


def _have_paired_names(root: str, prefix: str, main: str, other: str, *, share: float = _EQUAL_SHARE) -> bool:
    """Whether the first files of the folder `other` have partners in the folder `main`.

    `share`: of these files need a partner of the same stem. If names are equal without role words only, nearly all do.
    """
    for path, names in islice(walk_folders(root, f"{prefix}{other}/"), 16):
        files = [name for name in names.files if extension_of_name(name)]
        if not files:
            continue
        partner = os.path.join(root, f"{prefix}{main}/{path[len(prefix) + len(other) + 1 :]}")
        if not source_files.is_folder(partner):
            return False
        partners = Partners(strip_extension(name) for name in list_folder(partner, root).files if media_type_of(name))
        probed = [strip_extension(name) for name in files[:_PROBED_NAMES]]
        same = [found.path for name in probed if (found := partners.find_by_stem(name))]
        if len(set(same)) > 1 and len(same) >= share * len(probed):
            return True
        if split_folder_role(other.rpartition("/")[2]).kind not in ("mask", "map"):
            return False
        opening = find_openings(strip_extension(name) for name in files).get("", "")
        paired = [found.path for name in probed if (found := partners.find(name, opening))]
        return len(set(paired)) > 1 and len(paired) >= PAIRED_SHARE * len(probed)
    return False


def _find_unpaired(root: str) -> _Unpaired | None:
    """Folders of media and of another part, by their names, whose files do not match. Raises OSError."""
    for level in (level for levels in walk_levels(root) for level in levels):
        prefix, folders = level
        mains = [name for name in folders if name.lower() in MEDIA_FOLDERS]
        pairs = [(main, name) for main in mains[:1] for name in folders if _is_named_like_part(name)]
        pairs += [
            (main, name) for core, main, others in _folders_by_core(folders) for name in others if split_of_folder(core)
        ]
        for main, other in pairs:
            medium, example = _first_medium(root, f"{prefix}{main}/"), _first_medium(root, f"{prefix}{other}/")
            if medium and example:
                shown = join_with_and([path_for_message(f"{prefix}{name}/") for name in (main, other)])
                reason = (
                    f"{shown} are named like the parts of samples, but the names of their files do not match, such as "
                    f"{path_for_message(medium)} and {path_for_message(example)}"
                )
                counterpart = strip_extension(medium[len(prefix) + len(main) + 1 :])
                return _Unpaired(reason, medium, f"{prefix}{other}/{counterpart}.{extension_of_name(example)}")
    return None


def _first_medium(root: str, folder: str) -> str:
    """The first media file in a folder or below; empty if there is none in the first folders."""
    for path, names in islice(walk_folders(root, folder), _NESTED_FOLDERS):
        found = next(filter(media_type_of, names.files), "")
        if found:
            return f"{path}{found}"
    return ""


class _PartFolders(PairedFolder):
    def __init__(self, root: str, groups: list[_Group]) -> None:
        super().__init__(root)
        self._folders: Counter[str] = Counter()  # path of a folder of parts -> its files in samples
        self._parts: Counter[tuple[str, str]] = Counter()  # name of the folder, name of the part
        self._unused: list[str] = []
        self._lacking: Counter[tuple[str, str]] = Counter()  # name of the folder, an example
        self._repeats: list[str] = []  # files whose folder has another one with their stem
        self._words = {folder: word for group in groups for folder, word in group.words.items()}
        in_groups = set[str]()
        by_folder = _list_by_folder(self.files.paths, groups)
        for group in groups:
            in_groups |= self._add_equal_names(group, by_folder) if group.words else self._add_group(group)
        splits = normalize_split_names(sample.split for sample in self.samples)
        self.samples = [sample._replace(split=splits[sample.split]) for sample in self.samples]
        self._unused = [path for path in self.files.paths if path not in in_groups]

    def _add_equal_names(self, group: _Group, by_folder: Mapping[str, Sequence[str]]) -> set[str]:
        """Add the samples of folders with equal names of files. Returns the paths of their files."""
        by_name: dict[str, dict[str, str]] = {}
        used = set[str]()
        have: dict[str, set[str]] = {}
        for folder, word in group.words.items():
            top = f"{group.prefix}{folder}/"
            have[folder] = set()
            for path in by_folder.get(top, ()):
                name, extension = split_file(path[len(top) :])
                if not extension:
                    continue
                name = strip_affix(name, group.affixes[folder])
                part = f"{word}.{extension}" if word else extension
                files = by_name.setdefault(name, {})
                if name in have[folder] or part in files:
                    self._repeats.append(path)
                    continue
                files[part] = path
                used.add(path)
                have[folder].add(name)
                self._parts[folder, part] += 1
        for folder, names in have.items():
            lacking = [files for name, files in by_name.items() if files and name not in names]
            if lacking:
                self._lacking[f"{group.prefix}{folder}", next(iter(lacking[0].values()))] += len(lacking)
        self.samples += [
            PairedFiles(f"{group.keys}{name}", files, _split_of(group, files))
            for name, files in by_name.items()
            if files
        ]
        return used

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
        partners = Partners(by_name)
        for other in group.others:
            used |= self._add_folder(group, other, by_name, partners)
        for name, files in by_name.items():
            self.samples.append(PairedFiles(f"{group.keys}{name}", files, _split_of(group, files)))
        return used

    def _add_folder(
        self, group: _Group, other: str, by_name: dict[str, dict[str, str]], partners: Partners
    ) -> set[str]:
        """Add the files of another folder to the samples. Returns the paths of those that have a sample."""
        top = f"{group.prefix}{other}/"
        paths = [path for path in self.files.paths if path.startswith(top) and extension_of_name(path)]
        names = [strip_extension(path[len(top) :]) for path in paths]
        openings = find_openings(names)
        found = [
            (path, partner)
            for path, name in zip(paths, names, strict=True)
            if (partner := partners.find(name, openings[name.rpartition("/")[0]])) is not None
        ]
        additions = {partner.addition for _, partner in found}
        role = _part_of_folder(group, other)
        used = set[str]()
        have = set[str]()
        for path, (medium, addition) in found:
            extension = extension_of_name(path)
            word = (re.sub(r"\W", "_", addition) if len(additions) > 1 else "") or role
            is_lone_text = media_type_of(path) is None and len(additions) == 1 and extension in TEXTS
            part = extension if is_lone_text and extension not in by_name[medium] else f"{word}.{extension}"
            have.add(medium)
            if part not in by_name[medium]:
                by_name[medium][part] = path
                used.add(path)
                self._parts[other, part] += 1
        lacking = [name for name in by_name if name not in have]
        if lacking:
            self._lacking[other, f"{group.prefix}{group.main}/{lacking[0]}"] += len(lacking)
        return used

    def describe(self) -> SourceDescription:
        return SourceDescription(
            tuple(self._field_uses()), tuple(self._findings()), self._config(), tuple(self._unused)
        )

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
        if self._repeats:
            yield unused_finding(self._repeats, "its folder has another file of the same name for the sample")
        reason = "outside the folders of parts, or without a file of the same name"
        repeats = set(self._repeats)
        others = [path for path in self._unused if path not in repeats]
        yield from unused_files_findings(others, reason, self.files.hidden)

    def _config(self) -> DatasetConfig | None:
        config = role_config(part for _, part in self._parts)
        if config is not None or len(set(filter(None, self._words.values()))) < 2:
            return config
        fields: dict[str, set[str]] = {}
        for folder, part in self._parts:
            fields.setdefault(self._words[folder] or name_of_word(folder), set()).add(part)
        return fields_config(fields, self.samples)


def _list_by_folder(paths: Iterable[str], groups: Iterable[_Group]) -> dict[str, list[str]]:
    """Folder of parts -> the paths of all files below it."""
    found: dict[str, list[str]] = {f"{group.prefix}{name}/": [] for group in groups for name in group.words}
    for path in paths if found else ():
        at = path.find("/")
        while at >= 0 and path[: at + 1] not in found:
            at = path.find("/", at + 1)
        if at >= 0:
            found[path[: at + 1]].append(path)
    return found


def _split_of(group: _Group, files: Mapping[str, str]) -> str:
    segments = [*group.keys.split("/"), *next(iter(files.values())).split("/")[:-1]]
    return next(filter(None, map(split_of_folder, segments)), "")


def _part_of_folder(group: _Group, folder: str) -> str:
    """The part that the files of a folder are: `mask` for `masks`, `train_masks` and `annotations/trimaps`."""
    last = folder.rpartition("/")[2].lower()
    core, role = name = split_folder_role(last)
    has_core = group.keys != group.prefix
    if name.kind == "mask" and (has_core or not core):
        return "mask"
    return role if has_core else re.sub(r"\W", "_", last)
