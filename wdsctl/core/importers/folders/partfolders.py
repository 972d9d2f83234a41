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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import Finding, translate_os_errors
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    list_folder,
    media_type_of,
    split_of_folder,
    split_of_path,
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
from wdsctl.core.importers.folders.paired import (
    PairedFolder,
    PairedLayout,
    PairedSamples,
    lacking_finding,
    no_samples_error,
)
from wdsctl.core.importers.folders.scenes import SCENES_SCORE
from wdsctl.core.importers.protocol import FieldUse, FormatMatch
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


def _match(path: str) -> FormatMatch | None:
    groups = _find_groups(path, probes=_PROBED_FOLDERS)
    if not groups:
        unpaired = _find_unpaired(path)
        return FormatMatch(0.75, unpaired.reason) if unpaired else None
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


def _read(root: str) -> PairedFolder:
    with translate_os_errors(root, "list"):
        groups = _find_groups(root)
        unpaired = None if groups else _find_unpaired(root)
    if unpaired:
        raise no_samples_error(
            root,
            unpaired.reason,
            f"give counterparts the same names, such as {path_for_message(unpaired.medium)} and "
            f"{path_for_message(unpaired.counterpart)}; if the folders are classes, pass --from imagefolder",
        )
    if not groups:
        raise no_samples_error(
            root,
            "no two folders have files with the same names",
            "check the path: images/ and masks/, for example, need files of the same names",
        )
    files, samples = FolderFiles(root), PairedSamples()
    findings, repeats = list[Finding](), list[str]()
    by_folder = _list_by_folder(files.paths, groups)
    for group in groups:
        if group.words:
            findings += _pair_equal_names(group, by_folder, samples, repeats)
        else:
            findings += _pair_roles(group, by_folder, samples)
    if repeats:
        findings.append(unused_finding(repeats, "its folder has another file of the same name for the sample"))
    return PairedFolder(
        files,
        samples,
        [
            FieldUse(f"{folder}/*.{extension_of_name(f'x.{part}')}", part, pluralize(count, "file"))
            for (folder, part), count in samples.parts.items()
        ],
        findings,
        "outside the folders of parts, or without a file of the same name",
        _config(samples, groups),
        frozenset(repeats),
        lambda name, files: split_of_path(name) or split_of_path(next(iter(files.values()))),
    )


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


def _pair_equal_names(
    group: _Group, by_folder: Mapping[str, Sequence[str]], samples: PairedSamples, repeats: list[str]
) -> Iterator[Finding]:
    """Add the samples of folders with equal names of files. Yields findings about those that lack a part.

    `repeats` gets the files whose folder has another one for the sample.
    """
    have: dict[str, dict[str, None]] = {}
    for folder, word in group.words.items():
        top = f"{group.prefix}{folder}/"
        own = have[folder] = {}
        for path in by_folder.get(top, ()):
            stem, extension = split_file(path[len(top) :])
            if not extension:
                continue
            name = f"{group.keys}{strip_affix(stem, group.affixes[folder])}"
            if name in own or not samples.add(name, f"{word}.{extension}" if word else extension, path, folder):
                repeats.append(path)
            else:
                own[name] = None
    names = dict.fromkeys(name for own in have.values() for name in own)
    for folder, own in have.items():
        lacking = [next(iter(samples.files[name].values())) for name in names if name not in own]
        yield from _lacking_findings(f"{group.prefix}{folder}", lacking)


def _pair_roles(group: _Group, by_folder: Mapping[str, Sequence[str]], samples: PairedSamples) -> Iterator[Finding]:
    """Add the samples of a folder of media, with the files of the other folders. Yields findings, as above."""
    top = f"{group.prefix}{group.main}/"
    names = dict[str, str]()
    for path in filter(media_type_of, by_folder[top]):
        name = strip_extension(path[len(top) :])
        names[name] = f"{group.keys}{name}"
        samples.add(names[name], extension_of_name(path), path, group.main)
    partners = Partners(names)
    for other in group.others:
        have = _pair_role(group, other, by_folder[f"{group.prefix}{other}/"], samples, partners)
        yield from _lacking_findings(other, [f"{top}{name}" for name in names if name not in have])


def _pair_role(group: _Group, other: str, files: Sequence[str], samples: PairedSamples, partners: Partners) -> set[str]:
    """Add the files of another folder to the samples. Returns the names of the media that have one."""
    top = f"{group.prefix}{other}/"
    paths = list(filter(extension_of_name, files))
    names = [strip_extension(path[len(top) :]) for path in paths]
    openings = find_openings(names)
    found = [
        (path, partner)
        for path, name in zip(paths, names, strict=True)
        if (partner := partners.find(name, openings[name.rpartition("/")[0]])) is not None
    ]
    additions = {partner.addition for _, partner in found}
    role = _part_of_folder(group, other)
    for path, (medium, addition) in found:
        extension = extension_of_name(path)
        word = (re.sub(r"\W", "_", addition) if len(additions) > 1 else "") or role
        is_lone_text = media_type_of(path) is None and len(additions) == 1 and extension in TEXTS
        name = f"{group.keys}{medium}"
        part = extension if is_lone_text and extension not in samples.files[name] else f"{word}.{extension}"
        samples.add(name, part, path, other)
    return {partner.path for _, partner in found}


def _lacking_findings(folder: str, paths: Sequence[str]) -> Iterator[Finding]:
    """The finding about files, or media without their extension, that have no counterpart in a folder."""
    if paths:
        yield lacking_finding(
            len(paths),
            f"{pluralize(len(paths), 'file')} without a file of the same name in {path_for_message(folder)}/, such as "
            f"{path_for_message(paths[0])}: the samples lack this part",
        )


def _config(samples: PairedSamples, groups: Iterable[_Group]) -> DatasetConfig | None:
    config = role_config(part for _, part in samples.parts)
    words = {folder: word for group in groups for folder, word in group.words.items()}
    if config is not None or len(set(filter(None, words.values()))) < 2:
        return config
    return samples.config_of_sides(lambda folder: words[folder] or name_of_word(folder))


def _list_by_folder(paths: Iterable[str], groups: Iterable[_Group]) -> dict[str, list[str]]:
    """Folder of parts -> the paths of all files below it."""
    found: dict[str, list[str]] = {
        f"{group.prefix}{name}/": [] for group in groups for name in (group.main, *group.others)
    }
    for path in paths:
        at = path.find("/")
        while at >= 0 and path[: at + 1] not in found:
            at = path.find("/", at + 1)
        if at >= 0:
            found[path[: at + 1]].append(path)
    return found


def _part_of_folder(group: _Group, folder: str) -> str:
    """The part that the files of a folder are: `mask` for `masks`, `train_masks` and `annotations/trimaps`."""
    last = folder.rpartition("/")[2].lower()
    core, role = name = split_folder_role(last)
    has_core = group.keys != group.prefix
    if name.kind == "mask" and (has_core or not core):
        return "mask"
    return role if has_core else re.sub(r"\W", "_", last)


IMPORTER = PairedLayout(
    "partfolders",
    "a folder for each part, with files of matching names: images/7.jpg and masks/7.png",
    _match,
    _read,
)
