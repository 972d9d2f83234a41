"""Find folders beside each other whose files have equal stems, and judge whether they are parts or classes.

`blur/001.png` and `sharp/001.png` are parts of one sample; `cat/001.png` and `dog/001.png` are not. What tells them
apart: stems that are no counters (two pictures of different classes hardly have the name `GOPR0372-000047`), kinds of
files that differ by folder, and sizes of pictures or lengths of sounds that agree stem by stem. Names of folders only
break ties: without any evidence, the user decides.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from types import MappingProxyType
from typing import Literal, NamedTuple

from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.common.files import REFERENCED_EXTENSIONS, extension_of_name
from wdsctl.core.importers.common.folder_files import (
    has_split_name,
    is_document,
    list_folder,
    media_type_of,
    split_of_folder,
    walk_folders,
)
from wdsctl.core.importers.common.roles import split_folder_role
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import ImageFacts, Unreadable
from wdsctl.core.media.probe import HEADER_READ_BYTES, probe_media
from wdsctl.core.media.sniff import sniff
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.urls import is_url

#: Whether folders of equal stems are parts. `unsure`: they may be classes. `words`: the stems are a few words, which
#: may be the names of parts, and the folders the samples.
Verdict = Literal["parts", "unsure", "words", "classes"]

#: Extensions of files that hold the data of a sample, beside media: arrays, volumes, point clouds.
DATA_EXTENSIONS = REFERENCED_EXTENSIONS | {
    *(
        "bin",
        "exr",
        "flo",
        "hdr",
        "las",
        "laz",
        "mat",
        "mha",
        "mhd",
        "mid",
        "midi",
        "nii.gz",
        "nrrd",
        "pcd",
        "pfm",
        "raw",
    )
}
_TEXT_EXTENSIONS = frozenset({"txt", "json", "xml", "srt", "vtt", "lab", "textgrid", "csv", "caption"})

_MAX_WRAPPERS = 3  # folders around the folders of parts
_PROBED_FOLDERS = 16  # below a folder of parts
_PROBED_SITES = 8
_MAX_PARTS = 32
_FEW_PARTS = 8  # more folders of counted files are classes, without other evidence
_MAX_WORDS = 12
_FEW_SCENES = 4
_PROBED_NAMES = 2000

_NEARLY_ALL = 0.95
_PART_SHARE = 0.5  # of the stems of the smaller folder that the other folder must have
_MIN_SIZE_SHARE = 0.1  # of the number of files in the largest folder

_MAX_STRAY_SHARE = 0.1  # media beside the folders, of the files in the main one
_REPEAT_FACTOR = 4  # stems for each that several files of a folder have

_COMPARED_STEMS = 12
_MIN_INFORMATIVE = 3  # compared stems whose size is not that of most files
_SIZE_TOLERANCE = 0.03

#: Words of which one class is named: `mask` and `no_mask`.
_NEGATIONS = frozenset({"no", "non", "not", "without", "neg", "negative"})

#: The name of a folder with a split and more in it: `trainA`, `clean_trainset_wav`, `DIV2K_valid_HR`.
_SPLIT_TOKEN = re.compile(
    r"(^|[-_. ])(train|training|val|valid|validation|dev|test|testing)(?:[-_]?(?:set|data))?(?=$|[-_. ]|[A-Z0-9])"
)


class PartSite(NamedTuple):
    """Folders below `prefix` with files of equal stems.

    `words`: folder -> what its part is called before the extension, or empty; the main folder first.

    `keys`: what the keys of the samples begin with. `verdict`: whether these are parts. `left_over`: folders beside
    them whose files have other stems. `affixes`: folder -> what the names in it begin and end with, beside their stems.
    """

    prefix: str
    words: Mapping[str, str]
    keys: str
    verdict: Verdict
    left_over: tuple[str, ...] = ()
    affixes: Mapping[str, tuple[str, str]] = MappingProxyType({})


class _Folder(NamedTuple):
    """The files of a folder. `stems`: path below it without its extension -> extension. `kind`: the media type or the
    extension of nearly all files; empty if they are of several kinds. `affix`: what all names begin and end with, if
    the stems are without it.
    """

    name: str
    stems: dict[str, str]
    kind: str
    extension: str
    affix: tuple[str, str] = ("", "")

    def path_of(self, stem: str) -> str:
        return f"{self.name}/{self.affix[0]}{stem}{self.affix[1]}.{self.stems[stem]}"


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
    candidates = []
    is_probe = probes is not None
    if by_split := _split_by_names(folders):
        sites = [
            _judge(root, prefix, words, f"{prefix}{split}/", is_probe=is_probe)
            for split, words in sorted(by_split.items())
        ]
        # Classes are hardly named after splits.
        candidates.append([site._replace(verdict="parts") if site and not site.left_over else site for site in sites])
    else:
        words = {name: name for name in folders}
        candidates.append([_judge(root, prefix, words, prefix, is_probe=is_probe)])
        candidates.append(_find_below(root, prefix, folders, probes))
    found = [[site for site in sites if site is not None] for sites in candidates]
    return min(filter(None, found), key=_rank, default=[])


def are_named_after_splits(folders: Iterable[str]) -> bool:
    """Whether all names have a split and more, such as `trainA` and `testA`: hardly classes."""
    return bool(_split_by_names(folders))


def judge_sites(sites: Iterable[PartSite]) -> Verdict:
    """One verdict for the sites of a source: one that is clear decides for those that have too few files."""
    verdicts = {site.verdict for site in sites}
    order: tuple[Verdict, ...] = ("classes", "words", "parts", "unsure")
    return next((each for each in order if each in verdicts), "unsure")


def _rank(sites: Sequence[PartSite]) -> tuple[int, int]:
    """Sure parts first, then few parts for many samples."""
    verdict = judge_sites(sites)
    return ("parts", "words", "unsure", "classes").index(verdict), max(len(site.words) for site in sites)


def _split_by_names(folders: Iterable[str]) -> dict[str, dict[str, str]]:
    """Split -> folder -> the rest of its name; empty unless all folders have a split and a rest, and none has one only.

    `trainA` and `trainB` are the folders `A` and `B` of `train`.
    """
    by_split: dict[str, dict[str, str]] = defaultdict(dict)
    for name in folders:
        found = _SPLIT_TOKEN.search(name)
        rest = f"{name[: found.start()]}{found[1]}{name[found.end() :]}".strip("-_. ") if found else ""
        if found is None or not rest or split_of_folder(name):
            return {}
        by_split[found[2]][name] = rest
    return by_split if any(len(names) > 1 for names in by_split.values()) else {}


def _find_below(root: str, prefix: str, folders: Sequence[str], probes: int | None) -> list[PartSite | None]:
    """The sites in each folder if all have the same few folders, and the stems differ from folder to folder."""
    inner: dict[str, list[str]] = {}
    for name in folders[:probes]:
        names = list_folder(os.path.join(root, f"{prefix}{name}"), root)
        if any(map(media_type_of, names.files)):
            return []
        inner[name] = names.folders
    usual = Counter(map(tuple, inner.values())).most_common(1)
    if len(inner) < 2 or not 2 <= len(usual[0][0]) <= _FEW_PARTS or any(map(split_of_folder, usual[0][0])):
        return []
    if usual[0][1] < _NEARLY_ALL * len(inner):
        return []
    words = {name: name for name in usual[0][0]}
    sites = [_judge_some(root, f"{prefix}{name}/", words, f"{prefix}{name}/") for name in inner]
    found = [site for site in sites if site is not None]
    # Frames are counted in each scene, but scenes differ in length, in which the parts agree.
    lengths = {
        len(_read_folder(root, site.prefix, next(iter(site.words))).stems) for site in islice(found, _PROBED_SITES)
    }
    if len(found) < _NEARLY_ALL * len(inner):
        return []
    if len(lengths) > 1 and all(site.verdict == "unsure" and not site.left_over for site in found):
        return [site._replace(verdict="parts") for site in found]
    return [*found]


def _judge(root: str, prefix: str, words: Mapping[str, str], keys: str, *, is_probe: bool) -> PartSite | None:
    """The folders with equal stems among some beside each other; None if there are no two.

    `is_probe`: look at the first eight folders only if these are no parts.
    """
    names = [name for name in words if not split_of_folder(name)]
    if not 2 <= len(names) <= _MAX_PARTS or all(re.fullmatch(r"[0-9]+|.*[0-9]{3,}", name) for name in names):
        return None
    site = _judge_some(root, prefix, {name: words[name] for name in names[:_FEW_PARTS]}, keys)
    if site is None or len(names) <= _FEW_PARTS:
        return site
    if is_probe and site.verdict != "parts":
        return site._replace(verdict="classes")
    return _judge_some(root, prefix, {name: words[name] for name in names}, keys)


def _judge_some(root: str, prefix: str, words: Mapping[str, str], keys: str) -> PartSite | None:
    folders = [folder for name in words if (folder := _read_folder(root, prefix, name)).stems]
    data = [folder for folder in folders if folder.kind not in _TEXT_EXTENSIONS]
    media = [folder for folder in data if folder.extension in DATA_EXTENSIONS]
    if len(folders) < 2 or not media or not all(folder.kind for folder in data):
        return None
    site = _judge_folders(root, prefix, words, keys, folders, media)
    if site is not None:
        return site
    # Names such as rain-1 and norain-1, or 1_GT and 1_hazy: class folders have such names, too.
    stripped = [_strip_affixes(folder) for folder in folders]
    if all(folder.affix == ("", "") for folder in stripped):
        return None
    site = _judge_folders(
        root, prefix, words, keys, stripped, [folder for folder in stripped if folder.extension in DATA_EXTENSIONS]
    )
    is_named = bool(_split_by_names(words))
    return site if site is not None and (site.verdict == "parts" or is_named) else None


def _judge_folders(
    root: str,
    prefix: str,
    words: Mapping[str, str],
    keys: str,
    folders: Sequence[_Folder],
    media: Sequence[_Folder],
) -> PartSite | None:
    main = max(media, key=lambda folder: (not _is_named_like_part(folder.name), len(folder.stems)))
    paired = [folder for folder in folders if folder is main or _are_paired(main, folder, _PART_SHARE)]
    strays = sum(1 for name in list_folder(os.path.join(root, prefix), root).files if media_type_of(name))
    if len(paired) < 2 or strays > _MAX_STRAY_SHARE * len(main.stems):
        return None
    left_over = tuple(
        folder.name
        for folder in folders
        if folder not in paired and len(folder.stems) >= _MIN_SIZE_SHARE * len(main.stems)
    )
    verdict = _judge_parts(root, prefix, main, paired)
    if verdict in ("parts", "words"):
        is_whole = not left_over and all(_are_paired(main, each, _NEARLY_ALL) for each in paired)
        verdict = verdict if is_whole else "unsure"
    paired.sort(key=lambda folder: folder is not main)
    affixes = {folder.name: folder.affix for folder in paired}
    return PartSite(prefix, _name_parts(paired, words), keys, verdict, left_over, affixes)


def _strip_affixes(folder: _Folder) -> _Folder:
    """The folder with stems without what all of them begin and end with, but for digits; few files stay as they are."""
    names = list(folder.stems)
    if len(names) < _MIN_INFORMATIVE:
        return folder
    turned = [name[::-1] for name in names]
    begin = re.sub("[0-9]+$", "", _common_start(min(names), max(names)))
    end = re.sub("^[0-9]+", "", _common_start(min(turned), max(turned))[::-1])
    stems = {strip_affix(name, (begin, end)): extension for name, extension in folder.stems.items()}
    return folder._replace(stems=stems, affix=(begin, end)) if len(stems) == len(names) and "" not in stems else folder


def _common_start(one: str, other: str) -> str:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(first for first, _ in same)


def strip_affix(name: str, affix: tuple[str, str]) -> str:
    begin, end = affix
    has_both = len(name) > len(begin) + len(end) and name.startswith(begin) and name.endswith(end)
    return name[len(begin) : len(name) - len(end)] if has_both else name


def _read_folder(root: str, prefix: str, name: str) -> _Folder:
    """The files of a folder and of the first ones below it. Cost: lists at most 16 folders."""
    top = f"{prefix}{name}/"
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
        return _Folder(name, {}, "", "")
    counts, kinds = Counter(stems.values()), Counter[str]()
    for extension, count in counts.items():
        kinds[media_type_of(f"x.{extension}") or extension] += count
    (kind, count), (extension, _) = kinds.most_common(1)[0], counts.most_common(1)[0]
    return _Folder(name, stems, kind if count >= _NEARLY_ALL * len(stems) else "", extension)


def split_file(path: str) -> tuple[str, str]:
    """The path without its extension, and the extension in lower case: `a.nii.gz` is `a` and `nii.gz`."""
    stem, extension = strip_extension(path), extension_of_name(path)
    if extension == "gz" and (inner := extension_of_name(stem)):
        return strip_extension(stem), f"{inner}.gz"
    return stem if extension else path, extension


def _are_paired(main: _Folder, other: _Folder, share: float) -> bool:
    """Whether so many stems of the smaller folder are those of the other one, too."""
    smaller, larger = sorted((len(main.stems), len(other.stems)))
    common = len(main.stems.keys() & other.stems.keys())
    is_large_enough = other.kind in _TEXT_EXTENSIONS or smaller >= _MIN_SIZE_SHARE * larger
    return common > 1 and common >= share * smaller and is_large_enough


def _judge_parts(root: str, prefix: str, main: _Folder, paired: Sequence[_Folder]) -> Verdict:
    """The verdict from the evidence: kinds of files, names of files, then sizes of media, and at last counts."""
    if len({folder.kind for folder in paired}) > 1:
        return "parts"
    common = set(main.stems).intersection(*(folder.stems for folder in paired))
    counts = sorted(len(folder.stems) for folder in paired)
    are_few, are_even = len(paired) <= _FEW_PARTS, counts[0] >= _NEARLY_ALL * counts[-1]
    if len(common) <= _MAX_WORDS and not any(re.search("[0-9]", stem) for stem in common):
        extensions = {main.stems[stem] for stem in common}
        return "words" if len(extensions) == 1 and len(common) > 1 else "classes"
    has_own_names = all(folder.affix == ("", "") for folder in paired)
    if has_own_names and not all(_are_counters(folder.stems) for folder in paired) and (are_few or are_even):
        return "parts"
    sizes = _compare_sizes(root, prefix, [stem for stem in main.stems if stem in common], paired)
    if sizes is None and are_even and len({folder.extension for folder in paired}) > 1:
        sizes = True
    if sizes is not None:
        return "parts" if sizes else "classes"
    words = {word for folder in paired for word in re.split("[-_. ]+", folder.name.lower())}
    if not are_few or counts[0] < _PART_SHARE * counts[-1] or not _NEGATIONS.isdisjoint(words):
        return "classes"
    roles = [split_folder_role(folder.name) for folder in paired]
    return "parts" if are_even and any(role.kind == "mask" and not role.core for role in roles) else "unsure"


def _are_counters(stems: Iterable[str]) -> bool:
    """Whether nearly all names are consecutive numbers, such as `img_0001`, which files of any folder may have."""
    names = list(stems)
    folders = {name.rpartition("/")[0] for name in names}
    if sum(1 for folder in folders if not split_of_folder(folder)) > _FEW_SCENES:
        return False  # equal names of many folders
    share = max(1.0, len(names) / (2 * _PROBED_NAMES))
    if share > 1:
        names = [*names[:_PROBED_NAMES], *names[-_PROBED_NAMES:]]
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        folder, _, last = name.rpartition("/")
        found = re.fullmatch(r"(.*?)([0-9]{1,18})([^0-9]*)", last)
        if found:
            numbers[f"{folder}/{found[1]}*{found[3]}"].add(int(found[2]))
    counted = sum(len(each) for each in numbers.values() if max(each) - min(each) < 1.2 * share * len(each) + 2)
    return counted >= len(names) - max(2, 0.1 * len(names))


def _compare_sizes(root: str, prefix: str, common: Sequence[str], folders: Sequence[_Folder]) -> bool | None:
    """Whether sizes of pictures, or lengths of sounds and videos, agree by stem; None if they tell nothing.

    Sizes that most files of a folder have tell nothing: classes may come from several sources, too. Pictures of another
    resolution agree if the scale is the same for all. Cost: reads the headers of at most 12 files of each folder.
    """
    compared = [common[i * len(common) // _COMPARED_STEMS] for i in range(_COMPARED_STEMS)]
    sizes = [
        [_measure(root, f"{prefix}{folder.path_of(stem)}") for stem in dict.fromkeys(compared)]
        for folder in folders[:_FEW_PARTS]
    ]
    rows = [row for row in zip(*sizes, strict=True) if all(row)]
    if len(rows) < _MIN_INFORMATIVE:
        return None
    usual = [Counter(column).most_common(1)[0][0] for column in zip(*rows, strict=True)]
    informative = [row for row in rows if any(size != most for size, most in zip(row, usual, strict=True))]
    if len(informative) < _MIN_INFORMATIVE:
        return None
    scales = [tuple(_scale(size, row[0]) for size in row[1:]) for row in informative]
    agreeing = max(sum(all(map(_is_near, scale, other)) for scale in scales) for other in scales)
    if agreeing >= 0.8 * len(scales):
        return True
    return False if agreeing <= 0.5 * len(scales) else None


_Size = tuple[float, ...]


def _scale(size: _Size, of: _Size) -> _Size:
    return tuple(a / b for a, b in zip(size, of, strict=False))


def _is_near(one: _Size, other: _Size) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(abs(a - b) <= _SIZE_TOLERANCE * max(a, b) for a, b in pairs)


def _measure(root: str, path: str) -> _Size:
    """Width and height of a picture in pixels, or the seconds of a sound or video; empty if the file tells none."""
    full_path = os.path.join(root, path)
    with suppress(OSError, WdsctlError):
        size = source_files.stat_file(full_path).size
        storage = source_files.open_storage_of(full_path) if is_url(full_path) else LocalStorage(root)
        try:
            head = storage.read(full_path, 0, min(size, HEADER_READ_BYTES))
            content = sniff(head, size, name=path)
            facts = probe_media(ByteRangeFile.from_storage(storage, full_path, 0, size, head=head), content)
        finally:
            storage.close()
        if isinstance(facts, ImageFacts):
            return facts.display_width, facts.display_height
        if not isinstance(facts, Unreadable) and facts.duration_s:
            return (facts.duration_s,)
    return ()


def _name_parts(folders: Sequence[_Folder], words: Mapping[str, str]) -> dict[str, str]:
    """Folder -> word of its part. One folder of media beside masks, maps or texts needs no word, and neither does one
    folder of texts about the others.
    """
    words = _shorten({folder.name: words[folder.name] for folder in folders})
    texts = {folder.name for folder in folders if folder.kind in _TEXT_EXTENSIONS}
    roles = {name: split_folder_role(name) for name in words}
    # The ground truth of a degraded picture is a picture.
    is_mixed = len({folder.extension for folder in folders}) > 1
    about = {name for name, role in roles.items() if role.kind in ("mask", "map") and (is_mixed or role.role != "gt")}
    media = words.keys() - texts - about
    named: dict[str, str] = {}
    for name, word in words.items():
        is_plain = media == {name} or (texts == {name} and name not in about)
        is_mask = len(media) == 1 and name in about and roles[name].kind == "mask" and not roles[name].core
        named[name] = "" if is_plain else "mask" if is_mask and name not in texts else name_of_word(word)
    return named


def name_of_word(word: str) -> str:
    return re.sub(r"\W", "_", word.lower())


def _shorten(words: Mapping[str, str]) -> dict[str, str]:
    """Leave out what all words have: `DIV2K_HR` and `DIV2K_LR` are `HR` and `LR`."""
    tokens = {name: re.split("[-_. ]+", word) for name, word in words.items()}
    shared = set.intersection(*map(set, tokens.values()))
    short = {name: "_".join(token for token in found if token not in shared) for name, found in tokens.items()}
    return short if all(short.values()) and len(set(short.values())) == len(short) else dict(words)


def _is_named_like_part(folder: str) -> bool:
    return split_folder_role(folder).kind in ("mask", "map")
