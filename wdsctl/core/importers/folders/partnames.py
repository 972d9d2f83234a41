"""Parts in one folder, named by a word: `7.jpg` and `7_mask.png` are the parts `jpg` and `mask.png` of the sample `7`.

The word is a prefix or a suffix of the name (`records/roles.py`), and media may have one too: `7_sat.jpg`. Folders
below are part of the keys; those named like splits are splits.

Sources: http://deepglobe.org (`_sat`, `_mask`); https://challenge.isic-archive.com/data (`_segmentation`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wdsctl.core.errors import Finding, InputError, WdsctlError
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import extension_of_name
from wdsctl.core.importers.records.folder_files import (
    ListedSamples,
    PairedFiles,
    PairedFolder,
    media_type_of,
    split_of_folder,
    unused_files_findings,
    walk_folders,
)
from wdsctl.core.importers.records.roles import PAIRED_SHARE, TEXTS, RoleName, role_config, split_role
from wdsctl.core.importers.records.samples import strip_extension
from wdsctl.core.importers.records.source import SampleSource
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_PROBED_FOLDERS = 32
_PROBED_NAMES = 200  # of a folder

_NUMBERED = re.compile(r"(.+_)([0-9]{1,2})")  # the second mask of 7: 7_mask_1


class PartNamesImporter:
    """Keys are the paths of the media without the words and the extension. There are no options."""

    name = "partnames"
    about = "parts in one folder, named by a prefix or suffix: 7.jpg and 7_mask.png"

    def recognise(self, path: str) -> FormatMatch | None:
        """Cost: lists at most 32 folders, and looks at 200 names of each."""
        if not source_files.is_folder(path):
            return None
        pair: tuple[str, str] | None = None
        try:
            for prefix, names in islice(walk_folders(path), _PROBED_FOLDERS):
                probe = _probe(names.files)
                if not probe.media:
                    continue
                if probe.pair is None or probe.share < PAIRED_SHARE:
                    # The images of a split for tests may have no masks.
                    if probe.pair or not any(map(split_of_folder, prefix.split("/"))):
                        return None
                elif pair is None:
                    pair = (f"{prefix}{probe.pair[0]}", f"{prefix}{probe.pair[1]}")
        except (OSError, WdsctlError):
            return None
        if pair is None:
            return None
        shown = " and ".join(map(path_for_message, pair))
        return FormatMatch(0.75, f"nearly all media are pairs such as {shown}")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ())
        folder = _NamedParts(path)
        if not folder.has_pairs:
            raise InputError(
                "no two files of a folder have names that differ in a word only, such as 7.jpg and 7_mask.png",
                hint="check the path",
                where=path_for_message(path),
                code="WDS003",
            )
        samples = ListedSamples(folder.files, folder.samples, folder.make_sample)
        return SampleSource(samples, folder.split_names, folder.describe)


IMPORTER = PartNamesImporter()


class _Probe(NamedTuple):
    """`media`: the number of probed media and parts. `share`: of them that have counterparts. `pair`: an example; None
    if there are no two pairs.
    """

    media: int
    share: float = 0.0
    pair: tuple[str, str] | None = None


def _probe(names: Sequence[str]) -> _Probe:
    """Look at the first and last of the sorted names of a folder, and for the counterparts of these among all names."""
    half = _PROBED_NAMES // 2
    probed = names if len(names) <= _PROBED_NAMES else [*names[:half], *names[-half:]]
    roles = {name: split_role(strip_extension(name)) for name in probed if extension_of_name(name)}
    roles = {name: role for name, role in roles.items() if media_type_of(name) or _is_part(role)}
    if not any(_is_part(role) for role in roles.values()):
        return _Probe(len(roles))
    affixes = {(*_affixes(name, role), _is_part(role)) for name, role in roles.items()}
    pairs: dict[str, tuple[str, str]] = {}
    paired = 0
    for name, role in roles.items():
        opposite = [(begin, end) for begin, end, is_part in sorted(affixes) if is_part != _is_part(role)]
        candidates = (f"{begin}{role.core}{end}" for begin, end in opposite)
        other = next((each for each in candidates if _has_name(names, each)), "")
        if other:
            paired += 1
            pairs[role.core] = (other, name) if _is_part(role) else (name, other)
    return _Probe(len(roles), paired / len(roles), next(iter(pairs.values())) if len(pairs) > 1 else None)


def _is_part(name: RoleName) -> bool:
    """Whether a file is a part of another one's sample by its name; the others are the media."""
    return name.kind in ("mask", "map")


def _affixes(name: str, role: RoleName) -> tuple[str, str]:
    """What a name has before and after its core."""
    at = name.find(role.core)
    return name[:at], name[at + len(role.core) :]


def _has_name(names: Sequence[str], name: str) -> bool:
    """Whether a sorted list has a name."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


class _Named(NamedTuple):
    path: str
    role: RoleName


class _NamedParts(PairedFolder):
    def __init__(self, root: str) -> None:
        super().__init__(root)
        by_core: dict[str, list[_Named]] = {}
        for path in self.files.paths:
            if extension_of_name(path):
                folder, slash, name = strip_extension(path).rpartition("/")
                role = split_role(name)
                by_core.setdefault(f"{folder}{slash}{role.core}", []).append(_Named(path, role))
        _move_numbered(by_core)
        # A single word for masks is not worth a name of its own.
        words = {each.role.role for found in by_core.values() for each in found if each.role.kind == "mask"}
        self._mask_words = words if len(words) == 1 else set[str]()
        used = set[str]()
        for core, found in by_core.items():
            files = self._files_of_sample(found)
            if files:
                split = next(filter(None, map(split_of_folder, core.split("/")[:-1])), "")
                self.samples.append(PairedFiles(core, files, split))
                used.update(files.values())
        self._unused = [path for path in self.files.paths if path not in used]
        self._parts = Counter(part for sample in self.samples for part in sample.files)
        self.has_pairs = any("." in part for part in self._parts)

    def _files_of_sample(self, named: Iterable[_Named]) -> dict[str, str]:
        """Name of the part -> path; empty without a medium."""
        media = [each for each in named if not _is_part(each.role)]
        first = min((each.role.role for each in media if media_type_of(each.path)), default=None)
        if first is None:
            return {}
        files: dict[str, str] = {}
        for path, role in named:
            extension = extension_of_name(path)
            word = "" if role.role in ("", first) else role.role
            if word in self._mask_words and extension not in TEXTS:
                word = "mask"
            files.setdefault(f"{word}.{extension}" if word else extension, path)
        return files

    def describe(self) -> SourceDescription:
        return SourceDescription(tuple(self._field_uses()), tuple(self._findings()), role_config(self._parts))

    def _field_uses(self) -> Iterator[FieldUse]:
        shown = {part: path for sample in reversed(self.samples) for part, path in sample.files.items()}
        for part, count in self._parts.items():
            yield FieldUse(f"files such as {path_for_message(shown[part])}", part, pluralize(count, "file"))
        by_split = Counter(sample.split for sample in self.samples)
        for split in self.split_names:
            yield FieldUse("folders", f"split {split}", pluralize(by_split[split], "sample"))

    def _findings(self) -> Iterator[Finding]:
        lacking = [sample for sample in self.samples if not any("." in part for part in sample.files)]
        if lacking:
            yield Finding(
                code="WDS201",
                severity="error",
                message=f"{pluralize(len(lacking), 'file')} without a counterpart, such as "
                f"{path_for_message(next(iter(lacking[0].files.values())))}: the samples lack this part",
                count=len(lacking),
            )
        yield from unused_files_findings(
            self._unused, "its name is that of a part, but of no sample", self.files.hidden
        )


def _move_numbered(by_core: dict[str, list[_Named]]) -> None:
    """Give `7_mask_1` to the sample `7`, if there is one: it is no medium."""
    for core in list(by_core):
        folder, slash, name = core.rpartition("/")
        numbered = _NUMBERED.fullmatch(name)
        role = split_role(numbered[1][:-1]) if numbered else None
        if numbered and role and _is_part(role) and f"{folder}{slash}{role.core}" in by_core:
            moved = RoleName(role.core, f"{role.role}_{numbered[2]}")
            by_core[f"{folder}{slash}{role.core}"] += [_Named(path, moved) for path, _ in by_core.pop(core)]
