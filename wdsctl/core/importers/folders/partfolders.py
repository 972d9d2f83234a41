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
    PartSite,
    find_part_sites,
    judge_sites,
    name_of_word,
    walk_levels,
)
from wdsctl.core.importers.folders.evidence import Side, Verdict, split_file
from wdsctl.core.importers.folders.paired import (
    RAW_FILES_SCORE,
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
    "texts": RAW_FILES_SCORE,
    "unsure": CLASSES_SCORE,
    "parts": 0.83,
}
_REASONS: dict[Verdict, str] = {
    "classes": ", but the files differ like those of classes; --from partfolders pairs them",
    "words": ", which make one sample of each name",
    "unsure": ", which make one sample of each name",
    "texts": ", which make one sample of each name",
}


def _match(path: str) -> FormatMatch | None:
    sites = _find_sites(path, probes=_PROBED_FOLDERS)
    if not sites:
        unpaired = _find_unpaired(path)
        return FormatMatch(0.75, unpaired.reason) if unpaired else None
    first = sites[0]
    verdict = next(each for each in _SCORES if any(site.verdict == each for site in sites))
    reason = f"{join_with_and(list(map(path_for_message, first.folders)))} have files of matching names"
    if first.left_over:
        what = join_with_and([path_for_message(f"{first.prefix}{name}") for name in first.left_over])
        reason += f" (those of {what} have other names, and stay out)"
    if verdict != "parts":
        return FormatMatch(_SCORES[verdict], f"{reason}{_REASONS[verdict]}")
    return FormatMatch(_SCORES[verdict], reason, media_folders=tuple(each for site in sites for each in site.folders))


def _read(root: str) -> PairedFolder:
    with translate_os_errors(root, "list"):
        sites = _find_sites(root)
        unpaired = None if sites else _find_unpaired(root)
    if unpaired:
        raise no_samples_error(
            root,
            unpaired.reason,
            f"give counterparts the same names, such as {path_for_message(unpaired.medium)} and "
            f"{path_for_message(unpaired.counterpart)}; if the folders are classes, pass --from imagefolder",
        )
    if not sites:
        raise no_samples_error(
            root,
            "no two folders have files with the same names",
            "check the path: images/ and masks/, for example, need files of the same names",
        )
    files, samples = FolderFiles(root), PairedSamples[Side]()
    findings, repeats = list[Finding](), list[str]()
    by_folder = _list_by_folder(files.paths, sites)
    for site in sites:
        if site.is_by_role:
            findings += _pair_roles(site, by_folder, samples)
        else:
            findings += _pair_equal_names(site, by_folder, samples, repeats)
    if repeats:
        findings.append(unused_finding(repeats, "its folder has another file of the same name for the sample"))
    return PairedFolder(
        files,
        samples,
        [
            FieldUse(f"{side.folder}/*.{extension_of_name(f'x.{part}')}", part, pluralize(count, "file"))
            for (side, part), count in samples.parts.items()
        ],
        findings,
        "outside the folders of parts, or without a file of the same name",
        _config(samples),
        frozenset(repeats),
        lambda name, files: split_of_path(name) or split_of_path(next(iter(files.values()))),
    )


class _Unpaired(NamedTuple):
    """Folders that are named like parts of samples, without pairs of files. `counterpart`: a path that would pair with
    the path `medium`.
    """

    reason: str
    medium: str
    counterpart: str


def _find_sites(root: str, *, probes: int | None = None) -> list[PartSite]:
    """The sites of the first level that has any. `probes`: look at so many folders. Raises OSError."""
    for levels in walk_levels(root):
        by_role = [site for level in levels for site in _find_roles(root, level)]
        if by_role and all(site.verdict == "parts" for site in by_role):
            return by_role
        sites = [site for level in levels for site in find_part_sites(root, *level, probes=probes)]
        verdict = judge_sites(sites)
        if found := [site._replace(verdict=verdict) for site in sites] or by_role:
            return found
    return []


def _find_roles(root: str, level: Level) -> list[PartSite]:
    """The folders of media by their names, and beside them those whose files pair."""
    prefix, folders = level
    by_word = {name.lower(): name for name in reversed(folders)}
    mains = [by_word[word] for word in sorted(MEDIA_FOLDERS & by_word.keys())]
    if not mains and len(folders) == 2:
        mains = [name for word, name in by_word.items() if any(each in by_word for each in _PAIRS.get(word, ()))]
    for main in mains:
        others = [each for name in folders if name != main for each in _find_others(root, prefix, main, name)]
        if others:
            return [PartSite(prefix, list(map(Side, (main, *others))), prefix, is_by_role=True)]
    found = []
    for core, main, roles in _folders_by_core(folders):
        others = [name for name in roles if _have_paired_names(root, prefix, main, name, share=PAIRED_SHARE)]
        if others:
            # Classes such as face/ and face_mask/ may have numbered files.
            verdict: Verdict = "parts" if split_of_folder(core) else "unsure"
            sides = list(map(Side, (main, *others)))
            found.append(PartSite(prefix, sides, f"{prefix}{core}/", verdict, is_by_role=True))
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
        by_kind = {split_folder_role(name).kind: name for name in folders}
        if len(folders) == 2 and by_kind.keys() == {"media", "mask"}:
            pairs.append((by_kind["media"], by_kind["mask"]))
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
    site: PartSite, by_folder: Mapping[str, Sequence[str]], samples: PairedSamples[Side], repeats: list[str]
) -> Iterator[Finding]:
    """Add the samples of folders with equal names of files. Yields findings about those that lack a part.

    `repeats` gets the files whose folder has another one for the sample.
    """
    have: dict[Side, dict[str, None]] = {side: {} for side in site.sides}
    for folder in site.folders:
        sides = [side for side in site.sides if f"{site.prefix}{side.folder}" == folder]
        for path in by_folder[folder]:
            stem, extension = split_file(path[len(folder) + 1 :])
            if not extension:
                continue
            keys = ((side, key) for side in sides if (key := side.key_of(stem)) is not None)
            side, key = next(keys, (sides[0], stem))
            name = f"{site.keys}{key}"
            part = f"{side.word}.{extension}" if side.word else extension
            if name in have[side] or not samples.add(name, part, path, side):
                repeats.append(path)
            else:
                have[side][name] = None
    names = dict.fromkeys(name for own in have.values() for name in own)
    for side, own in have.items():
        lacking = [next(iter(samples.files[name].values())) for name in names if name not in own]
        yield from _lacking_findings(f"{site.prefix}{side.folder}", lacking)


def _pair_roles(
    site: PartSite, by_folder: Mapping[str, Sequence[str]], samples: PairedSamples[Side]
) -> Iterator[Finding]:
    """Add the samples of a folder of media, with the files of the other folders. Yields findings, as above."""
    main, *others = site.sides
    top = f"{site.prefix}{main.folder}"
    names = dict[str, None]()
    for path in filter(media_type_of, by_folder[top]):
        name = strip_extension(path[len(top) + 1 :])
        names[name] = None
        samples.add(f"{site.keys}{name}", extension_of_name(path), path, main)
    partners = Partners(names)
    for side in others:
        have = _pair_role(site, side, by_folder[f"{site.prefix}{side.folder}"], samples, partners)
        yield from _lacking_findings(side.folder, [f"{top}/{name}" for name in names if name not in have])


def _pair_role(
    site: PartSite, side: Side, files: Sequence[str], samples: PairedSamples[Side], partners: Partners
) -> set[str]:
    """Add the files of another folder to the samples. Returns the names of the media that have one."""
    paths = list(filter(extension_of_name, files))
    names = [strip_extension(path[len(site.prefix) + len(side.folder) + 1 :]) for path in paths]
    openings = find_openings(names)
    found = [
        (path, partner)
        for path, name in zip(paths, names, strict=True)
        if (partner := partners.find(name, openings[name.rpartition("/")[0]])) is not None
    ]
    additions = {partner.addition for _, partner in found}
    role = _part_of_folder(side.folder, has_core=site.keys != site.prefix)
    for path, (medium, addition) in found:
        extension = extension_of_name(path)
        word = (re.sub(r"\W", "_", addition) if len(additions) > 1 else "") or role
        is_lone_text = media_type_of(path) is None and len(additions) == 1 and extension in TEXTS
        name = f"{site.keys}{medium}"
        part = extension if is_lone_text and extension not in samples.files[name] else f"{word}.{extension}"
        samples.add(name, part, path, side)
    return {partner.path for _, partner in found}


def _lacking_findings(folder: str, paths: Sequence[str]) -> Iterator[Finding]:
    """The finding about files, or media without their extension, that have no counterpart in a folder."""
    if paths:
        yield lacking_finding(
            len(paths),
            f"{pluralize(len(paths), 'file')} without a file of the same name in {path_for_message(folder)}/, such as "
            f"{path_for_message(paths[0])}: the samples lack this part",
        )


def _config(samples: PairedSamples[Side]) -> DatasetConfig | None:
    config = role_config(part for _, part in samples.parts)
    if config is not None or len({side.word for side, _ in samples.parts if side.word}) < 2:
        return config
    # A folder may be called otherwise in another split, whose folders are of other kinds.
    words = {(side.folder, side.end): side.word or name_of_word(side.folder) for side, _ in samples.parts}
    return samples.config_of_sides(lambda side: words[side.folder, side.end])


def _list_by_folder(paths: Iterable[str], sites: Iterable[PartSite]) -> dict[str, list[str]]:
    """Folder of parts -> the paths of all files below it."""
    found: dict[str, list[str]] = {folder: [] for site in sites for folder in site.folders}
    for path in paths:
        at = path.find("/")
        while at >= 0 and path[:at] not in found:
            at = path.find("/", at + 1)
        if at >= 0:
            found[path[:at]].append(path)
    return found


def _part_of_folder(folder: str, *, has_core: bool) -> str:
    """The part that the files of a folder are: `mask` for `masks`, `train_masks` and `annotations/trimaps`.

    `has_core`: whether the names of all sides begin with the same, such as `train`.
    """
    last = folder.rpartition("/")[2].lower()
    core, role = name = split_folder_role(last)
    if name.kind == "mask" and (has_core or not core):
        return "mask"
    return role if has_core else re.sub(r"\W", "_", last)


IMPORTER = PairedLayout(
    "partfolders",
    "a folder for each part, with files of matching names: images/7.jpg and masks/7.png",
    _match,
    _read,
)
