"""Words for roles in names of files and folders, such as `mask`, and the pairs of files whose names differ in them.

`0_mask.png`, `mask_0.png` and `mask0.png` belong to `0.jpg`, `0_sat.jpg` or `img_0.jpg`; `a_mask_0.png` belongs to
`a_0.jpg` or `a_img_0.jpg`.

Sources: https://www.robots.ox.ac.uk/~vgg/data/pets (annotations/trimaps); http://deepglobe.org (`_sat`, `_mask`);
https://kits-challenge.org/kits23 (`imaging`, `segmentation`);
https://www.kaggle.com/c/carvana-image-masking-challenge (train_masks/).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from typing import Literal, NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.importers.common.folder_files import SPLIT_NAMES, media_type_of
from wdsctl.core.samples.naming import MASK_WORDS

#: Names of folders, in lower case, whose files are samples. A class of pictures is hardly named like this.
MEDIA_FOLDERS = frozenset({
    "image", "images", "img", "imgs", "jpegimages", "leftimg8bit", "photos", "pictures", "rgb", "video", "videos",
    "audio", "audios", "wav", "wavs",
})  # fmt: skip
MASK_FOLDERS = MASK_WORDS | {
    "annot", "annotation", "annotations", "gt", "gts", "gtfine", "groundtruth", "segs", "segmentations",
    "segmentationclass", "trimap", "trimaps",
}  # fmt: skip
_MAP_WORDS = frozenset(["depth", "depths", "disparity", "normal", "normals", "edge", "edges", "flow", "pose"])
#: Words in the names of files for the media themselves: as a folder, `sat` may be a class.
_MEDIA_WORDS = MEDIA_FOLDERS | {"sat", "imaging"}
_WORDS = _MEDIA_WORDS | MASK_FOLDERS | _MAP_WORDS
_FILLERS = frozenset({"map", "maps"})  # of folders: depth_maps

SEPARATORS = "_-. "
#: The share of files whose names must pair if they are not equal.
PAIRED_SHARE = 0.95
TEXTS = ("txt", "json", "xml")  # extensions of parts that are no masks, whatever word they have

_ANY_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_ALL_WORDS = tuple(_WORDS)
#: At the beginning, these are more often classes: `normal (1).png` has the mask `normal (1)_mask.png`.
_FIRST_WORDS = _WORDS - {"normal", "normals", "edge", "edges", "flow", "pose"}
_WORD_LENGTHS = sorted({len(word) for word in _WORDS}, reverse=True)
_WORD_SEPARATORS = "_- "  # a dot is left to the rules of keys: 0.mask.png is a part of 0
_INFIX = re.compile(rf"(?<=[^_\-. ])[_\- ]({_ANY_WORD})(?=[_\-. ][^_\-. ])", re.IGNORECASE)
_JOINED_FOLDER = re.compile(rf"({'|'.join(sorted(SPLIT_NAMES, key=len, reverse=True))})({_ANY_WORD})")

Kind = Literal["", "media", "mask", "map"]


class RoleName(NamedTuple):
    """A name without its role words. `role`: these words, joined by `_`, in lower case; empty if there are none."""

    core: str
    role: str

    @property
    def kind(self) -> Kind:
        return _kind_of(self.role.split("_"))


class InfixName(NamedTuple):
    """A name with a role word in its middle: `a_mask_0` is ("a", "_mask", "_0")."""

    head: str
    infix: str
    tail: str

    @property
    def role(self) -> RoleName:
        return RoleName(f"{self.head}{self.tail}", self.infix[1:].lower())


def _kind_of(words: Iterable[str]) -> Kind:
    words = set(words)
    if words & MASK_FOLDERS:
        return "mask"
    return "map" if words & _MAP_WORDS else "media" if words & _MEDIA_WORDS else ""


def split_role(name: str) -> RoleName:
    """Split the name of a file, without folder and extension: `mask_0` and `0_mask` are ("0", "mask")."""
    words = list[str]()
    while word := _first_word(name):
        words.append(word)
        name = name[len(word) :].lstrip(_WORD_SEPARATORS)
    last = list[str]()
    while word := _last_word(name):
        last.append(word)
        name = name[: -len(word)].rstrip(_WORD_SEPARATORS)
    return RoleName(name, "_".join([*words, *reversed(last)]))


def _first_word(name: str) -> str:
    """The role word that a name begins with, in lower case; empty if there is none, or nothing else."""
    lower = name.lower()
    if not lower.startswith(_ALL_WORDS):
        return ""
    return next(
        (
            lower[:size]
            for size in _WORD_LENGTHS
            if lower[:size] in _FIRST_WORDS
            and _ends_word(lower[size : size + 1])
            and lower[size:].strip(_WORD_SEPARATORS)
        ),
        "",
    )


def _last_word(name: str) -> str:
    """As `_first_word`, for the end of a name."""
    lower = name.lower()
    if not lower.endswith(_ALL_WORDS):
        return ""
    return next(
        (
            lower[-size:]
            for size in _WORD_LENGTHS
            if lower[-size:] in _WORDS and _ends_word(lower[:-size][-1:]) and lower[:-size].strip(_WORD_SEPARATORS)
        ),
        "",
    )


def _ends_word(character: str) -> bool:
    return bool(character) and (character in _WORD_SEPARATORS or character.isdecimal())


def split_infix(name: str) -> InfixName | None:
    """Split a name at the role word in its middle, which has separators on both sides. None without exactly one."""
    found = list(_INFIX.finditer(name))
    return InfixName(name[: found[0].start()], found[0][0], name[found[0].end() :]) if len(found) == 1 else None


def split_folder_role(name: str) -> RoleName:
    """Split the name of a folder: `train_masks` is ("train", "masks"), `depth_maps` ("", "depth")."""
    joined = _JOINED_FOLDER.fullmatch(name.lower())
    words = list(joined.groups()) if joined else re.split("[-_. ]+", re.sub("ground[-_ ]truth", "gt", name.lower()))
    roles = [word for word in words if word in MEDIA_FOLDERS | MASK_FOLDERS | _MAP_WORDS]
    if not roles:
        return RoleName(name, "")
    return RoleName("_".join(word for word in words if word not in roles and word not in _FILLERS), "_".join(roles))


class Partner(NamedTuple):
    """`path`: that of the file that another one belongs to. `addition`: what the other name has beside the stem."""

    path: str
    addition: str


class Partners:
    """Finds the medium that a file of another folder belongs to. All paths are relative to their folders of parts, and
    have no extensions.

    Names are equal, or the other name begins with the stem of the medium, which is its name without the end that all
    media have. Else, names are equal without role words, or without the letters that all names of a folder begin with,
    or without a role word in the middle.
    """

    def __init__(self, media: Iterable[str]) -> None:
        media = list(media)
        addition = _common_addition(media)
        self._stems = {path[: len(path) - len(addition)]: path for path in media}

    @cached_property
    def _cores(self) -> dict[str, str]:
        """Path without role words, or without what all names of its folder begin with -> path; "" if it is ambiguous.

        Files of equal names need no cores, so that these are made on first use.
        """
        cores: dict[str, str] = {}
        openings = find_openings(self._stems)
        for stem, path in self._stems.items():
            folder, slash, name = stem.rpartition("/")
            core = split_role(name).core
            core = f"{folder}{slash}{name[len(openings[folder]) :] if core == name else core}"
            cores[core] = "" if core in cores else path
        return cores

    @cached_property
    def _infix_cores(self) -> dict[str, str]:
        """As `_cores`, for the media with a role word in the middle of their names."""
        cores: dict[str, str] = {}
        for stem, path in self._stems.items():
            folder, slash, name = stem.rpartition("/")
            if infix := split_infix(name):
                core = f"{folder}{slash}{infix.role.core}"
                cores[core] = "" if core in cores else path
        return cores

    def find_by_stem(self, path: str) -> Partner | None:
        """The medium of the same stem, or of the longest stem that this path begins with."""
        if path in self._stems:
            return Partner(self._stems[path], "")
        for end in range(len(path) - 1, path.rfind("/") + 1, -1):
            if path[end] in SEPARATORS and path[:end] in self._stems:
                return Partner(self._stems[path[:end]], path[end:].strip(SEPARATORS))
        return None

    def find(self, path: str, opening: str = "") -> Partner | None:
        """The medium by its stem or its core. `opening`: what all names in this folder begin with."""
        found = self.find_by_stem(path)
        if found:
            return found
        folder, slash, name = path.rpartition("/")
        core, role = split_role(name)
        candidates = [(core, role)] if role else []
        candidates.append((name, ""))
        if opening:
            candidates.append((name[len(opening) :], ""))
        for each, addition in candidates:
            partner = self._stems.get(f"{folder}{slash}{each}") or self._cores.get(f"{folder}{slash}{each}")
            if partner:
                return Partner(partner, addition)
        infix = split_infix(name)
        core, role = infix.role if infix else RoleName(name, "")
        partner = self._stems.get(f"{folder}{slash}{core}") or self._infix_cores.get(f"{folder}{slash}{core}")
        return Partner(partner, role) if partner else None


def find_openings(paths: Iterable[str]) -> dict[str, str]:
    """Folder -> the letters before a digit that all names in it begin with: `d` of `d0` and `d1`; "" if there are none.

    `paths` have no extensions.
    """
    bounds: dict[str, tuple[str, str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        low, high = bounds.get(folder, (name, name))
        bounds[folder] = (min(low, name), max(high, name))
    return {folder: _opening_of(low, high) for folder, (low, high) in bounds.items()}


def _opening_of(low: str, high: str) -> str:
    found = re.match(r"[^\d]+(?=\d)", low)
    return found[0] if found and low != high and re.match(rf"{re.escape(found[0])}\d", high) else ""


def _common_addition(paths: list[str]) -> str:
    """The end of all names, if it begins with a separator and has letters: `_leftImg8bit`."""
    names = sorted(path.rpartition("/")[2][::-1] for path in paths)
    if len(names) < 2:
        return ""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(names[0], names[-1], strict=False))
    end = "".join(one for one, _ in same)[::-1]
    found = re.search(r"[_.-](?=[^\W\d_])[\w-]*$", end)
    return found[0] if found else ""


def role_config(parts: Iterable[str]) -> DatasetConfig | None:
    """The sample type if the samples are images with one mask each; otherwise it is detected."""
    parts = list(parts)
    images = [part for part in parts if "." not in part and media_type_of(f"x.{part}") == "image"]
    masks = [part for part in parts if part.startswith("mask.") and media_type_of(f"x.{part}") == "image"]
    rest = set(parts) - {*images, *masks, "xml"}
    if not images or not masks or rest:
        return None
    field_map = {"image": ",".join(sorted(set(images))), "mask": ",".join(sorted(set(masks)))}
    return DatasetConfig("SegmentationSample", field_map)
