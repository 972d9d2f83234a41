"""The one reader of folders in whose samples several files belong together: `partfolders`, `partnames` and `scenes`.

A layout says which sample and which part each file is (`PairedSamples.add`). This module makes the samples, finds their
splits, and accounts for every file: it is a part of a sample, or reported as left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import Finding, InputError, WdsctlError
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    ListedSamples,
    normalize_split_names,
    split_of_path,
    unused_files_findings,
)
from wdsctl.core.importers.common.samples import SourceSample, row_number_key
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

RAW_FILES_SCORE = 0.2  # of a folder whose files are samples by their names up to the first dot

Side = TypeVar("Side")


class PairedSamples(Generic[Side]):
    """Name of a sample -> name of the part -> path.

    `parts`: (side, name of the part) -> number of files. A side is the folder, or the word, that says the part.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, str]] = {}
        self.parts: Counter[tuple[Side, str]] = Counter()

    def add(self, name: str, part: str, path: str, side: Side) -> bool:
        """Make a file a part of a sample. Returns False if the sample has this part already."""
        files = self.files.setdefault(name, {})
        if part in files:
            return False
        files[part] = path
        self.parts[side, part] += 1
        return True

    def config_of_sides(self, field_of: Callable[[Side], str]) -> DatasetConfig:
        """A CrudeSample with a field for each side that has a name. It is optional if some samples lack it."""
        fields: dict[str, set[str]] = {}
        for side, part in self.parts:
            if side:
                fields.setdefault(field_of(side), set()).add(part)
        lacking = {field for field, parts in fields.items() if any(map(parts.isdisjoint, self.files.values()))}
        field_map = {field: ",".join(sorted(parts)) for field, parts in sorted(fields.items())}
        return DatasetConfig("CrudeSample", field_map, optional=tuple(sorted(lacking)))


class PairedFolder(NamedTuple):
    """What a layout makes of a folder. `uses`, `findings`: about the parts, and those that samples lack.

    `reason`: why files are in no sample; `repeats`: those that `findings` has another reason for.
    `split_of`: the word for a split in the path of a sample, by its name and files; empty if none.
    """

    files: FolderFiles
    samples: PairedSamples[Any]
    uses: Iterable[FieldUse]
    findings: Iterable[Finding]
    reason: str
    config: DatasetConfig | None = None
    repeats: Collection[str] = ()
    split_of: Callable[[str, Mapping[str, str]], str] = lambda name, _: split_of_path(name)


class PairedLayout(NamedTuple):
    """An importer. `match` may raise OSError and WdsctlError; `read` raises the errors of `Importer.open`."""

    name: str
    about: str
    match: Callable[[str], FormatMatch | None]
    read: Callable[[str], PairedFolder]

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            return self.match(path) if source_files.is_folder(path) else None
        except (OSError, WdsctlError):
            return None

    def open(self, path: str, options: Options) -> Source:
        """There are no options."""
        check_format_options(self.name, options, ())
        found = self.read(path)
        words = [found.split_of(name, files) for name, files in found.samples.files.items()]
        splits = normalize_split_names(words)
        rows = [
            (i, name, files, splits[word])
            for i, ((name, files), word) in enumerate(zip(found.samples.files.items(), words, strict=True))
        ]

        def make_sample(row: tuple[int, str, dict[str, str], str]) -> SourceSample:
            i, name, files, split = row
            parts = tuple(found.files.part(part, path) for part, path in files.items())
            return SourceSample(safe_key(name) or row_number_key(i), parts, split=split)

        counts = Counter(splits[word] for word in words if word)
        return SampleSource(
            ListedSamples(found.files, rows, make_sample), tuple(counts), lambda: _describe(found, counts)
        )


def _describe(found: PairedFolder, splits: Mapping[str, int]) -> SourceDescription:
    used = {path for files in found.samples.files.values() for path in files.values()}
    unused = [path for path in found.files.paths if path not in used]
    uses = [FieldUse("folders", f"split {split}", pluralize(count, "sample")) for split, count in splits.items()]
    others = [path for path in unused if path not in found.repeats] if found.repeats else unused
    findings = [*found.findings, *unused_files_findings(others, found.reason, found.files.hidden)]
    return SourceDescription((*found.uses, *uses), tuple(findings), found.config, tuple(unused))


def no_samples_error(root: str, problem: str, hint: str) -> InputError:
    return InputError(problem, hint=hint, where=path_for_message(root), code="WDS003")


def lacking_finding(count: int, message: str) -> Finding:
    """The finding WDS201 about samples without a part. `message`: what they lack, after their number."""
    return Finding(code="WDS201", severity="error", message=message, count=count)
