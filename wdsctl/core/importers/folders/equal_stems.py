"""Find folders beside each other whose files have equal stems: `{part}/{key}`; `evidence` judges what they are.

The stems may have something around them that all names of a folder have (`rain-1` and `norain-1`), or the number of a
channel (`imagesTr/case_0000` and `labelsTr/case`).

Source: https://github.com/MIC-DKFZ/nnUNet/blob/master/documentation/dataset_format.md (channels).
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    has_split_name,
    is_document,
    is_recording_folder,
    list_folder,
    media_type_of,
    split_of_folder,
    walk_folders,
)
from wdsctl.core.importers.common.roles import split_folder_role
from wdsctl.core.importers.folders.evidence import (
    DATA_EXTENSIONS,
    FEW_PARTS,
    MIN_INFORMATIVE,
    NEARLY_ALL,
    PART_SHARE,
    TEXT_EXTENSIONS,
    Side,
    SideFiles,
    Verdict,
    judge_sides,
    split_file,
)

_MAX_WRAPPERS = 3  # folders around the folders of parts
_PROBED_FOLDERS = 16  # below a folder of parts
_PROBED_SITES = 8
_MAX_PARTS = 32

_MIN_SIZE_SHARE = 0.1  # of the number of files in the largest folder

_MAX_STRAY_SHARE = 0.1  # media beside the folders, of the files in the main one
_REPEAT_FACTOR = 4  # stems for each that several files of a folder have

#: The name of a folder with a split and more in it: `trainA`, `clean_trainset_wav`, `DIV2K_valid_HR`.
_SPLIT_TOKEN = re.compile(
    r"(^|[-_. ])(train|training|val|valid|validation|dev|test|testing)(?:[-_]?(?:set|data))?(?=$|[-_. ]|[A-Z0-9])"
)

#: The ends of such names in nnU-Net and the Medical Segmentation Decathlon: `imagesTr` and `labelsTr`.
_SHORT_SPLITS = {"Tr": "_train", "Ts": "_test"}

_CHANNEL = re.compile("(.+)(_[0-9]{4})")


class PartSite(NamedTuple):
    """Folders below `prefix`, which ends in a slash unless it is the root, with files of equal stems.

    `sides`: the main one first. `keys`: what the keys of the samples begin with. `verdict`: whether these are parts.
    `left_over`: folders beside them whose files have other stems. `is_by_role`: the sides are known by the names of
    their folders, and their files are paired by `Partners`.
    """

    prefix: str
    sides: Sequence[Side]
    keys: str
    verdict: Verdict = "parts"
    left_over: tuple[str, ...] = ()
    is_by_role: bool = False

    @property
    def folders(self) -> list[str]:
        """The paths of the folders, the main one first."""
        return list(dict.fromkeys(f"{self.prefix}{side.folder}" for side in self.sides))


class Level(NamedTuple):
    """Folders beside each other, below `prefix`."""

    prefix: str
    folders: list[str]


def walk_levels(root: str) -> Iterator[list[Level]]:
    """Yield where folders of parts may be: in the root, in a lone folder below it, or in each split. Raises OSError."""
    prefix = ""
    for _ in range(_MAX_WRAPPERS + 1):
        names = list_folder(os.path.join(root, prefix), root)
        yield [Level(prefix, names.folders)]
        splits = [name for name in names.folders if has_split_name(name)]
        if splits:
            below = [f"{prefix}{name}/" for name in splits]
            yield [Level(each, list_folder(os.path.join(root, each), root).folders) for each in below]
            return
        if len(names.folders) != 1 or any(map(media_type_of, names.files)):
            return
        prefix = f"{prefix}{names.folders[0]}/"


def find_part_sites(root: str, prefix: str, folders: Sequence[str], *, probes: int | None = None) -> list[PartSite]:
    """The sites of the folders below `prefix`: these folders, those of each split in their names, or those below each.

    `probes`: look at so many sites only. Raises OSError.
    """
    if all(map(is_recording_folder, folders)):
        return []
    candidates = []
    is_probe = probes is not None
    by_split = _split_by_names(folders)
    if any(len(sides) > 1 for sides in by_split.values()):
        sites = [
            _judge(root, prefix, sides, f"{prefix}{split}/", is_probe=is_probe)
            for split, sides in sorted(by_split.items())
        ]
        # Classes are hardly named after splits.
        candidates.append(
            [
                site._replace(verdict="parts") if site and not site.left_over and site.verdict != "texts" else site
                for site in sites
            ]
        )
    else:
        # rain_train and rain_test are splits, not parts.
        here = None if by_split else _judge(root, prefix, _sides_of(folders), prefix, is_probe=is_probe)
        takes_lengths = here is None or here.verdict != "parts"
        candidates += [[here], _find_below(root, prefix, folders, probes, takes_lengths=takes_lengths)]
    found = [[site for site in sites if site is not None] for sites in candidates]
    return min(filter(None, found), key=_rank, default=[])


def _sides_of(folders: Iterable[str]) -> list[Side]:
    return [Side(name, name) for name in folders]


def are_named_after_splits(folders: Iterable[str]) -> bool:
    """Whether all names have a split and more, as `trainA` and `testA`, or `rain_train` and `rain_test`."""
    return bool(_split_by_names(folders))


def judge_sites(sites: Iterable[PartSite]) -> Verdict:
    """One verdict for the sites of a source: one that is clear decides for those that have too few files."""
    verdicts = {site.verdict for site in sites}
    order: tuple[Verdict, ...] = ("classes", "words", "parts", "unsure", "texts")
    return next((each for each in order if each in verdicts), "unsure")


def _rank(sites: Sequence[PartSite]) -> tuple[int, int]:
    """Sure parts first, then few parts for many samples."""
    verdict = judge_sites(sites)
    return ("parts", "words", "unsure", "texts", "classes").index(verdict), max(len(site.sides) for site in sites)


def _split_by_names(folders: Iterable[str]) -> dict[str, list[Side]]:
    """Split -> its folders, with the rest of their names; empty unless all folders have a split and a rest.

    `trainA` and `trainB` are the folders `A` and `B` of `train`.
    """
    by_split: dict[str, list[Side]] = defaultdict(list)
    for folder in folders:
        end = folder[-2:] if folder[:-2].islower() else ""
        name = f"{folder[:-2]}{_SHORT_SPLITS[end]}" if end in _SHORT_SPLITS else folder
        found = _SPLIT_TOKEN.search(name)
        rest = f"{name[: found.start()]}{found[1]}{name[found.end() :]}".strip("-_. ") if found else ""
        if found is None or not rest or split_of_folder(name):
            return {}
        by_split[found[2]].append(Side(folder, rest))
    return by_split


def _find_below(
    root: str, prefix: str, folders: Sequence[str], probes: int | None, *, takes_lengths: bool
) -> list[PartSite | None]:
    """The sites in each folder if all have the same few folders, and the stems differ from folder to folder.

    `takes_lengths`: as evidence; the scenes of `clean/` and `flow/` differ in length, too.
    """
    inner: dict[str, list[str]] = {}
    for name in folders[:probes]:
        names = list_folder(os.path.join(root, f"{prefix}{name}"), root)
        if any(map(media_type_of, names.files)):
            return []
        inner[name] = names.folders
    usual = Counter(map(tuple, inner.values())).most_common(1)
    if len(inner) < 2 or not 2 <= len(usual[0][0]) <= FEW_PARTS or any(map(split_of_folder, usual[0][0])):
        return []
    if usual[0][1] < NEARLY_ALL * len(inner) or _are_numbered(usual[0][0]):
        return []
    sides = _sides_of(usual[0][0])
    sites = [_judge_some(root, f"{prefix}{name}/", sides, f"{prefix}{name}/") for name in inner]
    found = [site for site in sites if site is not None]
    # Frames are counted in each scene, but scenes differ in length, in which the parts agree.
    lengths = {len(_read_folder(root, site.prefix, site.sides[0]).stems) for site in islice(found, _PROBED_SITES)}
    if len(found) < NEARLY_ALL * len(inner):
        return []
    if takes_lengths and len(lengths) > 1 and all(site.verdict == "unsure" and not site.left_over for site in found):
        return [site._replace(verdict="parts") for site in found]
    return [*found]


def _are_numbered(folders: Iterable[str]) -> bool:
    """Whether all names are those of sequences, such as `0001` and `GOPR0372`."""
    return all(re.fullmatch(r"[0-9]+|.*[0-9]{3,}", name) for name in folders)


def _judge(root: str, prefix: str, sides: Iterable[Side], keys: str, *, is_probe: bool) -> PartSite | None:
    """The folders with equal stems among some beside each other; None if there are no two.

    `is_probe`: look at the first eight folders only if these are no parts.
    """
    sides = [side for side in sides if not split_of_folder(side.folder)]
    if not 2 <= len(sides) <= _MAX_PARTS or _are_numbered(side.folder for side in sides):
        return None
    site = _judge_some(root, prefix, sides[:FEW_PARTS], keys)
    if site is None or len(sides) <= FEW_PARTS:
        return site
    if is_probe and site.verdict != "parts":
        return site._replace(verdict="classes")
    return _judge_some(root, prefix, sides, keys)


def _judge_some(root: str, prefix: str, sides: Sequence[Side], keys: str) -> PartSite | None:
    folders = [folder for side in sides if (folder := _read_folder(root, prefix, side)).stems]
    data = [folder for folder in folders if folder.kind not in TEXT_EXTENSIONS]
    has_media = any(folder.extension in DATA_EXTENSIONS for folder in data)
    if len(folders) < 2 or has_media != bool(data) or not all(folder.kind for folder in data):
        return None
    site = _judge_folders(root, prefix, keys, folders)
    if not data:
        return site if site and site.verdict == "texts" else None
    if site is not None:
        return site
    channels = [each for folder in folders for each in _split_channels(folder)]
    if channels != folders:
        site = _judge_folders(root, prefix, keys, channels)
        if site is not None and site.verdict != "classes":
            return site
    # Names such as rain-1 and norain-1, or 1_GT and 1_hazy: class folders have such names, too.
    stripped = [_strip_affixes(folder) for folder in folders]
    if not any(folder.side.begin or folder.side.end for folder in stripped):
        return None
    site = _judge_folders(root, prefix, keys, stripped)
    is_named = bool(_split_by_names(side.folder for side in sides))
    return site if site is not None and (site.verdict == "parts" or is_named) else None


def _judge_folders(root: str, prefix: str, keys: str, folders: Sequence[SideFiles]) -> PartSite | None:
    media = [folder for folder in folders if folder.extension in DATA_EXTENSIONS] or folders
    main = max(media, key=lambda folder: (not _is_named_like_part(folder.side.folder), len(folder.stems)))
    paired = [folder for folder in folders if folder is main or _are_paired(main, folder, PART_SHARE)]
    strays = sum(1 for name in list_folder(os.path.join(root, prefix), root).files if media_type_of(name))
    if len(paired) < 2 or strays > _MAX_STRAY_SHARE * len(main.stems):
        return None
    left_over = tuple(
        folder.side.folder
        for folder in folders
        if folder not in paired and len(folder.stems) >= _MIN_SIZE_SHARE * len(main.stems)
    )
    verdict = judge_sides(root, prefix, main, paired)
    if verdict != "classes":
        is_whole = not left_over and all(_are_paired(main, each, NEARLY_ALL) for each in paired)
        is_text = main.kind in TEXT_EXTENSIONS
        verdict = "texts" if is_text and is_whole else verdict if is_whole else "unsure"
    paired.sort(key=lambda folder: folder is not main)
    return PartSite(prefix, _name_parts(paired), keys, verdict, left_over)


def _split_channels(folder: SideFiles) -> list[SideFiles]:
    """The files of each channel of a folder; the folder if its names do not end in numbers, from `_0000` on, or if not
    nearly all cases have the same ones. Few files stay as they are.
    """
    found: dict[str, dict[str, str]] = {}
    for stem, extension in folder.stems.items():
        numbered = _CHANNEL.fullmatch(stem)
        if numbered is None:
            return [folder]
        found.setdefault(numbered[2], {})[numbered[1]] = extension
        if len(found) > FEW_PARTS:
            return [folder]
    cases = {case for stems in found.values() for case in stems}
    is_whole = len(folder.stems) >= NEARLY_ALL * len(found) * len(cases)
    if "_0000" not in found or len(cases) < MIN_INFORMATIVE or not is_whole:
        return [folder]
    return [
        folder._replace(side=folder.side._replace(word=f"{folder.side.word}{end}", end=end), stems=stems)
        for end, stems in sorted(found.items())
    ]


def _strip_affixes(folder: SideFiles) -> SideFiles:
    """The folder with stems without what all names begin and end with, but for digits; few files stay as they are."""
    names = list(folder.stems)
    if len(names) < MIN_INFORMATIVE:
        return folder
    turned = [name[::-1] for name in names]
    begin = re.sub("[0-9]+$", "", _common_start(min(names), max(names)))
    end = re.sub("^[0-9]+", "", _common_start(min(turned), max(turned))[::-1])
    side = folder.side._replace(begin=begin, end=end)
    stems = {side.key_of(name) or name: extension for name, extension in folder.stems.items()}
    return folder._replace(stems=stems, side=side) if len(stems) == len(names) else folder


def _common_start(one: str, other: str) -> str:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(first for first, _ in same)


def _read_folder(root: str, prefix: str, side: Side) -> SideFiles:
    """The files of a folder and of the first ones below it. Cost: lists at most 16 folders."""
    top = f"{prefix}{side.folder}/"
    stems: dict[str, str] = {}
    known: dict[str, str] = {}
    repeats = 0  # files that are parts of a sample of their folder
    for path, names in islice(walk_folders(root, top), _PROBED_FOLDERS):
        below = path[len(top) :]
        for file in names.files:
            stem, dot, ending = file.rpartition(".")
            extension = known.get(ending)
            if extension is None:
                extension = known[ending] = extension_of_name(f"x.{ending}") if dot else ""
            if extension == "gz":
                stem, extension = split_file(file)
            if not extension or not stem or (extension not in DATA_EXTENSIONS and is_document(file)):
                continue
            if below:
                stem = f"{below}{stem}"
            if stem in stems or ("." in stem and stem.rpartition(".")[0] in stems):
                repeats += 1
            stems.setdefault(stem, extension)
    if repeats * _REPEAT_FACTOR >= len(stems):
        return SideFiles(side, {}, "", "")
    return SideFiles.of(side, stems)


def _are_paired(main: SideFiles, other: SideFiles, share: float) -> bool:
    """Whether so many stems of the smaller folder are those of the other one, too."""
    smaller, larger = sorted((len(main.stems), len(other.stems)))
    common = len(main.stems.keys() & other.stems.keys())
    is_large_enough = other.kind in TEXT_EXTENSIONS or smaller >= _MIN_SIZE_SHARE * larger
    return common > 1 and common >= share * smaller and is_large_enough


def _name_parts(folders: Sequence[SideFiles]) -> list[Side]:
    """The sides with the words of their parts. One folder of media beside masks, maps or texts needs no word, and
    neither does one folder of texts about the others.
    """
    sides = [folder.side for folder in folders]
    texts = {folder.side for folder in folders if folder.kind in TEXT_EXTENSIONS}
    roles = {side: split_folder_role(side.folder) for side in sides}
    # The ground truth of a degraded picture is a picture.
    is_mixed = len({folder.extension for folder in folders}) > 1
    about = {side for side, role in roles.items() if role.kind in ("mask", "map") and (is_mixed or role.role != "gt")}
    media = set(sides) - texts - about
    named = []
    for side, word in zip(sides, _shorten([side.word for side in sides]), strict=True):
        is_plain = media == {side} or (texts == {side} and side not in about)
        is_mask = len(media) == 1 and side in about and roles[side].kind == "mask" and not roles[side].core
        named.append("" if is_plain else "mask" if is_mask and side not in texts else name_of_word(word))
    return [side._replace(word=word) for side, word in zip(sides, named, strict=True)]


def name_of_word(word: str) -> str:
    return re.sub(r"\W", "_", word.lower())


def _shorten(words: list[str]) -> list[str]:
    """Leave out what all words have: `DIV2K_HR` and `DIV2K_LR` are `HR` and `LR`."""
    tokens = [re.split("[-_. ]+", word) for word in words]
    shared = set.intersection(*map(set, tokens))
    short = ["_".join(token for token in found if token not in shared) for found in tokens]
    return short if all(short) and len(set(short)) == len(short) else words


def _is_named_like_part(folder: str) -> bool:
    return split_folder_role(folder).kind in ("mask", "map")
