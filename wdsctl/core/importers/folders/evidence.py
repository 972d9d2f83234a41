"""Judge whether sides, whose files have equal keys, are the parts of samples or classes.

A side is a folder, or a word in names of files. `blur/001.png` and `sharp/001.png` are parts of one sample;
`cat/001.png` and `dog/001.png` are not. What tells them apart: keys that are no counters (two pictures of different
classes hardly have the name `GOPR0372-000047`), kinds of files that differ by side, and sizes of pictures or lengths of
sounds that agree key by key. Names of sides only break ties: without any evidence, the user decides.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.common.files import REFERENCED_EXTENSIONS, extension_of_name
from wdsctl.core.importers.common.folder_files import media_type_of, split_of_folder
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
#: may be the names of parts, and the folders the samples. `texts`: parts or not, nothing tells texts apart.
Verdict = Literal["parts", "unsure", "texts", "words", "classes"]

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
TEXT_EXTENSIONS = frozenset({"txt", "json", "xml", "srt", "vtt", "lab", "textgrid", "csv", "caption"})

NEARLY_ALL = 0.95
PART_SHARE = 0.5  # of the keys of the smaller side that the other side must have
FEW_PARTS = 8  # more sides of counted files are classes, without other evidence
MIN_INFORMATIVE = 3  # compared keys whose size is not that of most files

_MAX_WORDS = 12
_FEW_SCENES = 4
_PROBED_NAMES = 2000
_COMPARED_STEMS = 12
_SIZE_TOLERANCE = 0.03

#: Words of which one class is named: `mask` and `no_mask`.
_NEGATIONS = frozenset({"no", "non", "not", "without", "neg", "negative"})


class Side(NamedTuple):
    """The files of one part: those in a folder, or those whose names begin or end with a word.

    `folder`: below the prefix of all sides; empty for none. `begin`, `end`: what paths below it have around their keys,
    without the extension. `word`: what the part is called before the extension, or empty.
    """

    folder: str
    word: str = ""
    begin: str = ""
    end: str = ""

    @property
    def name(self) -> str:
        return self.folder or self.word

    def key_of(self, stem: str) -> str | None:
        """The key of a file, by its path below the folder without extension; None for a file of another side."""
        has_both = len(stem) > len(self.begin) + len(self.end)
        if self.begin or self.end:
            has_both = has_both and stem.startswith(self.begin) and stem.endswith(self.end)
        return stem[len(self.begin) : len(stem) - len(self.end)] if has_both else None

    def stem_of(self, key: str) -> str:
        below = f"{self.begin}{key}{self.end}"
        return f"{self.folder}/{below}" if self.folder else below


class SideFiles(NamedTuple):
    """The files of a side. `stems`: key -> extension. `kind`: the media type or the extension of nearly all files;
    empty if they are of several kinds. `extension`: that of most files.
    """

    side: Side
    stems: dict[str, str]
    kind: str
    extension: str

    @classmethod
    def of(cls, side: Side, stems: dict[str, str]) -> SideFiles:
        counts, kinds = Counter(stems.values()), Counter[str]()
        for extension, count in counts.items():
            kinds[media_type_of(f"x.{extension}") or extension] += count
        (kind, count), (extension, _) = kinds.most_common(1)[0], counts.most_common(1)[0]
        return cls(side, stems, kind if count >= NEARLY_ALL * len(stems) else "", extension)

    def path_of(self, key: str) -> str:
        return f"{self.side.stem_of(key)}.{self.stems[key]}"


def split_file(path: str) -> tuple[str, str]:
    """The path without its extension, and the extension in lower case: `a.nii.gz` is `a` and `nii.gz`."""
    stem, extension = strip_extension(path), extension_of_name(path)
    if extension == "gz" and (inner := extension_of_name(stem)):
        return strip_extension(stem), f"{inner}.gz"
    return stem if extension else path, extension


def is_data(name: str) -> bool:
    """Whether a file is a medium, an array, a volume or the like by its extension."""
    return split_file(name)[1] in DATA_EXTENSIONS


def judge_sides(root: str, prefix: str, main: SideFiles, paired: Sequence[SideFiles]) -> Verdict:
    """The verdict from the evidence: kinds of files, names of files, then sizes of media, and at last counts."""
    if len({folder.kind for folder in paired}) > 1:
        return "parts"
    common = set(main.stems).intersection(*(folder.stems for folder in paired))
    counts = sorted(len(folder.stems) for folder in paired)
    are_few, are_even = len(paired) <= FEW_PARTS, counts[0] >= NEARLY_ALL * counts[-1]
    if len(common) <= _MAX_WORDS and not any(re.search("[0-9]", stem) for stem in common):
        extensions = {main.stems[stem] for stem in common}
        return "words" if len(extensions) == 1 and len(common) > 1 else "classes"
    has_own_names = not any(folder.side.begin or folder.side.end for folder in paired)
    if has_own_names and not all(_are_counters(folder.stems) for folder in paired) and (are_few or are_even):
        return "parts"
    sizes = _compare_sizes(root, prefix, [stem for stem in main.stems if stem in common], paired)
    if sizes is None and are_even and len({folder.extension for folder in paired}) > 1:
        sizes = True
    if sizes is not None:
        return "parts" if sizes else "classes"
    words = {word for folder in paired for word in re.split("[-_. ]+", folder.side.name.lower())}
    if not are_few or counts[0] < PART_SHARE * counts[-1] or not _NEGATIONS.isdisjoint(words):
        return "classes"
    roles = [split_folder_role(folder.side.name) for folder in paired]
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


def _compare_sizes(root: str, prefix: str, common: Sequence[str], folders: Sequence[SideFiles]) -> bool | None:
    """Whether sizes of pictures, or lengths of sounds and videos, agree by stem; None if they tell nothing.

    Sizes that most files of a folder have tell nothing: classes may come from several sources, too. Pictures of another
    resolution agree if the scale is the same for all. Cost: reads the headers of at most 12 files of each folder.
    """
    compared = [common[i * len(common) // _COMPARED_STEMS] for i in range(_COMPARED_STEMS)]
    sizes = [
        [_measure(root, f"{prefix}{folder.path_of(stem)}") for stem in dict.fromkeys(compared)]
        for folder in folders[:FEW_PARTS]
    ]
    rows = [row for row in zip(*sizes, strict=True) if all(row)]
    if len(rows) < MIN_INFORMATIVE:
        return None
    usual = [Counter(column).most_common(1)[0][0] for column in zip(*rows, strict=True)]
    informative = [row for row in rows if any(size != most for size, most in zip(row, usual, strict=True))]
    if len(informative) < MIN_INFORMATIVE:
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
