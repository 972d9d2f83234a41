"""Parts in one folder, named by a word: `7.jpg` and `7_mask.png` are the parts `jpg` and `mask.png` of the sample `7`.

The word is a prefix or a suffix of the name, or in its middle (`common/roles.py`), and media may have one too:
`7_sat.jpg`. Any other words are parts if they end the names, and nearly all names occur with all of these words:
`7_left.jpg` and `7_right.jpg`. Words that begin names, such as `left_7.jpg`, may also be classes: `evidence` judges,
as it does for folders. Folders below are part of the keys; those named like splits are splits.

Sources: http://deepglobe.org (`_sat`, `_mask`); https://challenge.isic-archive.com/data (`_segmentation`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    is_document,
    media_type_of,
    split_of_folder,
    split_of_path,
    walk_folders,
)
from wdsctl.core.importers.common.roles import (
    PAIRED_SHARE,
    SEPARATORS,
    TEXTS,
    RoleName,
    role_config,
    split_infix,
    split_role,
)
from wdsctl.core.importers.folders.evidence import (
    DATA_EXTENSIONS,
    Side,
    SideFiles,
    Verdict,
    judge_sides,
    split_file,
)
from wdsctl.core.importers.folders.paired import (
    RAW_FILES_SCORE,
    PairedFolder,
    PairedLayout,
    PairedSamples,
    lacking_finding,
    no_samples_error,
)
from wdsctl.core.importers.protocol import FieldUse, FormatMatch
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.text import join_with_and, path_for_message, pluralize

_PROBED_FOLDERS = 32
_PROBED_NAMES = 200  # of a folder
_PROBED_PAIRS = 2000  # of each word that begins names
_SCORE = 0.75
_MAX_ENDINGS = 8
_FEW_PAIRS_SCORE = 0.15  # less than that of raw files: the user reads that there are pairs

_ENDING = re.compile(r"(.*[^/_ -])[_ -]([A-Za-z][A-Za-z0-9]*)")  # 7_left

_BEGINNING = re.compile(r"[A-Za-z][A-Za-z0-9]*[_ -](?=[^.])|[A-Za-z]+(?=[0-9])")  # left_7, left7

_MAY_END = re.compile(r"[_ -][A-Za-z][A-Za-z0-9]*\.")

_NUMBERED = re.compile(r"(.+_)([0-9]{1,2})")  # the second mask of 7: 7_mask_1


class _Words(NamedTuple):
    """Words that begin or end the names of files, where nearly all names occur with all of them."""

    words: frozenset[str]
    verdict: Verdict
    is_end: bool

    def split(self, stem: str) -> tuple[str, str]:
        return _split_ending(stem) if self.is_end else _split_beginning(stem)

    def show(self, word: str) -> str:
        return f"*_{word}" if self.is_end else f"{word}*"


_NO_WORDS = _Words(frozenset(), "classes", is_end=True)
_REASONS: dict[Verdict, str] = {
    "parts": "",
    "classes": ", but the files differ like those of classes; --from partnames pairs them",
}


def _match(path: str) -> FormatMatch | None:
    """Cost: lists at most 32 folders, and looks at 200 names of each, or at 2000 of each word that begins them."""
    match = _match_role_words(path)
    if match is not None and match.score > _FEW_PAIRS_SCORE:
        return match
    found = _find_words(path)
    if not found.words:
        return match
    shown = join_with_and([path_for_message(found.show(word)) for word in sorted(found.words)])
    reason = _REASONS.get(found.verdict, ", which make one sample of each name")
    score = {"parts": _SCORE, "classes": _FEW_PAIRS_SCORE}.get(found.verdict, RAW_FILES_SCORE)
    return FormatMatch(score, f"nearly all names occur as {shown}{reason}")


def _find_words(root: str) -> _Words:
    endings = _find_endings(root)
    return endings if endings.words else _find_beginnings(root)


def _match_role_words(path: str) -> FormatMatch | None:
    pair: tuple[str, str] | None = None
    for prefix, names in islice(walk_folders(path), _PROBED_FOLDERS):
        probe = _probe(names.files)
        if not probe.media:
            continue
        if probe.pair is None:
            # The images of a split for tests may have no masks.
            if not split_of_path(prefix):
                return None
            continue
        found = (f"{prefix}{probe.pair[0]}", f"{prefix}{probe.pair[1]}")
        if probe.paired < PAIRED_SHARE * probe.media:
            reason = f"only {probe.paired} of {pluralize(probe.media, 'medium', 'media')} are in pairs such as"
            return FormatMatch(_FEW_PAIRS_SCORE, f"{reason} {_show_pair(found)}; --from partnames pairs them")
        pair = pair or found
    if pair is None:
        return None
    return FormatMatch(_SCORE, f"nearly all media are pairs such as {_show_pair(pair)}")


def _find_endings(root: str) -> _Words:
    """Words are hardly those of classes: they come after the names."""
    by_core: dict[str, dict[str, bool]] = {}  # rest of the name -> word -> whether the file has data
    others, words = list[str](), frozenset[str]()
    for prefix, names in islice(walk_folders(root), _PROBED_FOLDERS):
        files = names.files[:_PROBED_NAMES]
        if not words and not any(map(_MAY_END.search, files)):  # most folders are none, and cost little
            if any(name.rpartition(".")[2].lower() in {"gz", *DATA_EXTENSIONS} for name in files):
                return _NO_WORDS
            continue
        has_others = False
        for stem, extension in map(split_file, files):
            core, word = _split_ending(f"{prefix}{stem}")
            is_data = extension in DATA_EXTENSIONS
            if word and extension:
                by_core.setdefault(core, {}).setdefault(word, is_data)
            elif extension and not is_document(stem):
                others.append(f"{prefix}{stem}")
                has_others = has_others or is_data
        words = frozenset(word for found in by_core.values() for word in found)
        if len(words) > _MAX_ENDINGS or (has_others and not words):
            return _NO_WORDS
    if not 2 <= len(words) <= _MAX_ENDINGS or len(by_core) < 2:
        return _NO_WORDS
    complete = sum(len(found) for found in by_core.values()) >= PAIRED_SHARE * len(words) * len(by_core)
    strays = sum(1 for stem in others if stem not in by_core)
    if not complete or strays > (1 - PAIRED_SHARE) * len(by_core):
        return _NO_WORDS
    has_data = any(map(any, map(dict.values, by_core.values())))
    return _Words(words, "parts" if has_data else "texts", is_end=True)


def _find_beginnings(root: str) -> _Words:
    """Words that begin names may be classes (`cat_7.jpg`) as well: the evidence decides."""
    found = _NO_WORDS
    for prefix, names in islice(walk_folders(root), _PROBED_FOLDERS):
        sides = _sides_by_beginning(names.files)
        words = frozenset(each.side.word for each in sides)
        if not sides and not any(map(media_type_of, names.files[:_PROBED_NAMES])):
            continue
        if not sides or (found.words and words != found.words):
            return _NO_WORDS
        if not found.words or found.verdict == "unsure":
            is_text = not any(each.extension in DATA_EXTENSIONS for each in sides)
            verdict = "texts" if is_text else judge_sides(root, prefix, sides[0], sides)
            found = _Words(words, "unsure" if verdict == "words" else verdict, is_end=False)
    return found


def _sides_by_beginning(names: Sequence[str]) -> list[SideFiles]:
    """The files of each word that begins the sorted names of a folder; empty unless they are few, for the same keys."""
    found: dict[str, Sequence[str]] = {}
    at = strays = 0
    while at < len(names):
        word = _BEGINNING.match(names[at])
        end = at + 1
        if word:
            begin = word[0]
            end = bisect_left(names, f"{begin[:-1]}{chr(ord(begin[-1]) + 1)}", at)
            found[begin] = names[at:end]
        else:
            strays += not is_document(names[at])
        at = end
        if len(found) > _MAX_ENDINGS or strays > _MAX_ENDINGS:
            return []
    words = {_word_of(begin) for begin in found}
    counts = sorted(map(len, found.values()))
    is_even = len(words) == len(found) > 1 and counts[0] >= max(2.0, PAIRED_SHARE * counts[-1])
    if not is_even or strays > (1 - PAIRED_SHARE) * counts[0] or any(map(split_of_folder, words)):
        return []
    probed = {begin: below[:_PROBED_PAIRS] for begin, below in found.items()}
    sides = [
        SideFiles.of(Side("", _word_of(begin), begin), dict(split_file(name[len(begin) :]) for name in below))
        for begin, below in probed.items()
    ]
    keys = set.union(*(set(each.stems) for each in sides))
    # 7.jpg and 7.txt with the same word are parts of one sample by their names.
    are_lone = all(len(each.stems) == len(below) for each, below in zip(sides, probed.values(), strict=True))
    return sides if are_lone and min(len(each.stems) for each in sides) >= PAIRED_SHARE * len(keys) else []


def _split_ending(stem: str) -> tuple[str, str]:
    """What comes before the last word of a name, and this word in lower case; the word is empty if it is a number."""
    found = _ENDING.fullmatch(stem)
    return (found[1], found[2].lower()) if found else (stem, "")


def _word_of(begin: str) -> str:
    return begin.rstrip("_ -").lower()


def _split_beginning(stem: str) -> tuple[str, str]:
    """As `_split_ending`, for the first word."""
    folder, slash, name = stem.rpartition("/")
    found = _BEGINNING.match(name)
    return (f"{folder}{slash}{name[found.end() :]}", _word_of(found[0])) if found else (stem, "")


def _show_pair(pair: tuple[str, str]) -> str:
    return " and ".join(map(path_for_message, pair))


class _Probe(NamedTuple):
    """`media`: the number of probed media and parts. `paired`: those that have counterparts. `pair`: an example; None
    if there are no two pairs.
    """

    media: int
    paired: int = 0
    pair: tuple[str, str] | None = None


def _probe(names: Sequence[str]) -> _Probe:
    """Look at the first and last of the sorted names of a folder, and for the counterparts of these among all names."""
    half = _PROBED_NAMES // 2
    probed = names if len(names) <= _PROBED_NAMES else [*names[:half], *names[-half:]]
    probed = [name for name in probed if extension_of_name(name)]
    forms = [_split_name(name, takes_infix=True) for name in probed]
    if not any(form.infix and _is_part(form.role) for form in forms):
        forms = [_split_name(name, takes_infix=False) for name in probed]  # my_image_0 is a name without a role
    forms = [form for form in forms if media_type_of(form.name) or _is_part(form.role)]
    if not any(_is_part(form.role) for form in forms):
        return _Probe(len(forms))
    affixes = {(form.begin, form.infix, form.end, _is_part(form.role)) for form in forms}
    pairs: dict[str, tuple[str, str]] = {}
    paired = 0
    for form in forms:
        is_part = _is_part(form.role)
        opposite = [each[:3] for each in sorted(affixes) if each[3] != is_part]
        candidates = (each for affix in opposite for each in _rename(form, *affix))
        other = next((each for each in candidates if _has_name(names, each)), "")
        if other:
            paired += 1
            pairs[form.role.core] = (other, form.name) if is_part else (form.name, other)
    return _Probe(len(forms), paired, next(iter(pairs.values())) if len(pairs) > 1 else None)


class _Form(NamedTuple):
    """A name and its role. `begin`, `end`: what it has around its core; `infix`: the word in the middle of the core."""

    name: str
    role: RoleName
    begin: str
    infix: str
    end: str
    head: str = ""  # of the core, before the infix


def _split_name(name: str, *, takes_infix: bool) -> _Form:
    stem = strip_extension(name)
    role = split_role(stem)
    if takes_infix and not role.role and (infix := split_infix(stem)):
        return _Form(name, infix.role, "", infix.infix, name[len(stem) :], infix.head)
    at = name.find(role.core)
    return _Form(name, role, name[:at], "", name[at + len(role.core) :])


def _rename(form: _Form, begin: str, infix: str, end: str) -> Iterator[str]:
    """Yield the names of a counterpart with these affixes. A core without an infix has several places for one."""
    core = form.role.core
    heads = [form.head] if form.infix else [core[:at] for at in range(1, len(core)) if core[at] in SEPARATORS]
    if not infix:
        yield f"{begin}{core}{end}"
    else:
        yield from (f"{begin}{head}{infix}{core[len(head) :]}{end}" for head in heads)


def _is_part(name: RoleName) -> bool:
    """Whether a file is a part of another one's sample by its name; the others are the media."""
    return name.kind in ("mask", "map")


def _has_name(names: Sequence[str], name: str) -> bool:
    """Whether a sorted list has a name."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


class _Named(NamedTuple):
    path: str
    role: RoleName


def _read(root: str) -> PairedFolder:
    files = FolderFiles(root)
    match = _match_role_words(root)
    found = _NO_WORDS if match and match.score > _FEW_PAIRS_SCORE else _find_words(root)
    samples = _pair_words(files.paths, found) if found.words else _pair_role_words(files.paths)
    if not any("." in part for _, part in samples.parts):
        raise no_samples_error(
            root,
            "no two files of a folder have names that differ in a word only, such as 7.jpg and 7_mask.png",
            "check the path",
        )
    config = samples.config_of_sides(str) if found.words else role_config(part for _, part in samples.parts)
    return PairedFolder(
        files,
        samples,
        _field_uses(samples),
        [*_lacking_words(samples, found), *_lacking_counterparts(samples)],
        "its name is that of a part, but of no sample",
        config,
    )


def _pair_words(paths: Iterable[str], found: _Words) -> PairedSamples[str]:
    """The samples whose parts are named by these words. A file without a word is a part of the same name."""
    samples = PairedSamples[str]()
    plain: list[tuple[str, str, str]] = []
    for path in paths:
        stem, extension = split_file(path)
        core, word = found.split(stem)
        if word in found.words and extension:
            samples.add(core, f"{word}.{extension}", path, word)
        elif extension:
            plain.append((stem, extension, path))
    for stem, extension, path in plain:
        if stem in samples.files:
            samples.add(stem, extension, path, "")
    return samples


def _pair_role_words(paths: Iterable[str]) -> PairedSamples[str]:
    by_core: dict[str, list[_Named]] = {}
    for path in paths:
        if extension_of_name(path):
            folder, slash, name = strip_extension(path).rpartition("/")
            role = split_role(name)
            by_core.setdefault(f"{folder}{slash}{role.core}", []).append(_Named(path, role))
    _move_infixes(by_core)
    _move_numbered(by_core)
    # A single word for masks is not worth a name of its own.
    words = {each.role.role for found in by_core.values() for each in found if each.role.kind == "mask"}
    mask_words = words if len(words) == 1 else set[str]()
    samples = PairedSamples[str]()
    for core, found in by_core.items():
        media = (each.role.role for each in found if not _is_part(each.role) and media_type_of(each.path))
        first = min(media, default=None)
        for path, role in found if first is not None else ():
            extension = extension_of_name(path)
            word = "" if role.role in ("", first) else role.role
            if word in mask_words and extension not in TEXTS:
                word = "mask"
            samples.add(core, f"{word}.{extension}" if word else extension, path, word)
    return samples


def _field_uses(samples: PairedSamples[str]) -> Iterator[FieldUse]:
    shown = {part: path for files in reversed(samples.files.values()) for part, path in files.items()}
    for part, count in Counter(part for files in samples.files.values() for part in files).items():
        yield FieldUse(f"files such as {path_for_message(shown[part])}", part, pluralize(count, "file"))


def _lacking_words(samples: PairedSamples[str], found: _Words) -> Iterator[Finding]:
    for word in sorted(found.words):
        parts = {part for side, part in samples.parts if side == word}
        without = [name for name, files in samples.files.items() if parts.isdisjoint(files)]
        if without:
            yield lacking_finding(
                len(without),
                f"{pluralize(len(without), 'sample')} without a file named {found.show(word)}, such as "
                f"{path_for_message(without[0])}: the samples lack this part",
            )


def _lacking_counterparts(samples: PairedSamples[str]) -> Iterator[Finding]:
    lacking = [files for files in samples.files.values() if not any("." in part for part in files)]
    if lacking:
        yield lacking_finding(
            len(lacking),
            f"{pluralize(len(lacking), 'file')} without a counterpart, such as "
            f"{path_for_message(next(iter(lacking[0].values())))}: the samples lack this part",
        )


def _move_infixes(by_core: dict[str, list[_Named]]) -> None:
    """Give `a_mask_0` to the sample `a_0`, whose medium is either `a_0` or `a_img_0`. A name has no other role word."""
    media: dict[str, list[tuple[str, RoleName]]] = {}
    parts: dict[str, list[tuple[str, RoleName]]] = {}
    for core, found in by_core.items():
        folder, slash, name = core.rpartition("/")
        infix = split_infix(name)
        if infix and not any(each.role.role for each in found):
            moved = (parts if _is_part(infix.role) else media).setdefault(f"{folder}{slash}{infix.role.core}", [])
            moved.append((core, infix.role))
    for core, named in parts.items():
        if (core in by_core) != (core in media):
            for old, role in (*media.get(core, ()), *named):
                by_core.setdefault(core, []).extend(_Named(path, role) for path, _ in by_core.pop(old))


def _move_numbered(by_core: dict[str, list[_Named]]) -> None:
    """Give `7_mask_1` to the sample `7`, if there is one: it is no medium."""
    for core in list(by_core):
        folder, slash, name = core.rpartition("/")
        numbered = _NUMBERED.fullmatch(name)
        role = split_role(numbered[1][:-1]) if numbered else None
        if numbered and role and _is_part(role) and f"{folder}{slash}{role.core}" in by_core:
            moved = RoleName(role.core, f"{role.role}_{numbered[2]}")
            by_core[f"{folder}{slash}{role.core}"] += [_Named(path, moved) for path, _ in by_core.pop(core)]


IMPORTER = PairedLayout("partnames", "parts in one folder, named by a word: 7.jpg and 7_mask.png", _match, _read)
