"""Media with annotation files: what all these formats have in common.

A format lists its samples: the file of each medium, and where its annotations are. This module makes the source of
them, and has the parts of its description: each sample and each file is in a sample or named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, Finding, InputError, Severity, WdsctlError
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import FolderFiles, ListedSamples, normalize_split_names
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key, strip_extension
from wdsctl.core.text import path_for_message, pluralize


class AnnotationFormat(NamedTuple):
    """An importer without options. `match` may raise OSError and WdsctlError: then a path does not have the format."""

    name: str
    about: str
    match: Callable[[str], FormatMatch | None]
    read: Callable[[str], Source]

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            return self.match(path)
        except (OSError, WdsctlError):
            return None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        return self.read(path)


class AnnotatedSample(NamedTuple):
    """A sample. `path`: of its medium; empty if it was not found, `reference` is then what its annotations name.

    `label`: what `read_parts` takes; None without annotations. `where`: the annotations, in messages. `extras`: further
    parts, as (name of the part, path). `key`: if None, the path without its extension.
    """

    path: str
    label: Any
    where: str = ""
    reference: str = ""
    split: str = ""
    extras: tuple[tuple[str, str], ...] = ()
    key: str | int | None = None


def missing_error(problem: str, hint: str, where: str) -> DatasetError:
    """Return the error for a sample whose medium was not found."""
    return DatasetError(problem, hint=hint, where=where, code="WDS231")


def missing_picture_error(sample: AnnotatedSample) -> DatasetError:
    problem = f"{path_for_message(sample.reference)!r}: no picture of this name is in the folder"
    return missing_error(problem, "copy the picture into the folder of the labels", sample.where)


def make_annotated_source(
    files: FolderFiles,
    samples: Sequence[AnnotatedSample],
    read_parts: Callable[[Any], Sequence[Part]],
    describe: Callable[[], SourceDescription],
    *,
    make_missing_error: Callable[[AnnotatedSample], DatasetError] = missing_picture_error,
    splits: Iterable[str] | None = None,
    close: Callable[[], None] = lambda: None,
) -> Source:
    """Make a source. `read_parts`: the parts of a label; it raises DatasetError. `make_missing_error`: for a sample
    without a medium. `splits`: if the source has others than those of the samples.
    """

    def make_sample(sample: AnnotatedSample) -> SourceSample:
        if not sample.path:
            raise make_missing_error(sample)
        parts = read_parts(sample.label)
        own = ((extension_of_name(sample.path), sample.path), *sample.extras)
        key = strip_extension(sample.path) if sample.key is None else str(sample.key)
        return SourceSample(safe_key(key), (*(files.part(*each) for each in own), *parts), split=sample.split)

    listed = ListedSamples(files, samples, make_sample, close=close)
    return SampleSource(listed, split_names(samples) if splits is None else splits, describe)


def not_found_error(problem: str, path: str, hint: str = "check the path") -> InputError:
    """Return the error for a source that the user named, and that does not have the format."""
    return InputError(problem, hint=hint, where=path_for_message(path), code="WDS003")


def name_splits(samples: Iterable[AnnotatedSample]) -> list[AnnotatedSample]:
    """The samples with names of splits in the place of words from folders: `val` for `dev` and `valid`."""
    listed = list(samples)
    names = normalize_split_names(dict.fromkeys(each.split for each in listed))
    return [each._replace(split=names[each.split]) for each in listed]


def split_names(samples: Iterable[AnnotatedSample]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.split for each in samples if each.split))


def split_uses(name: str, samples: Sequence[AnnotatedSample]) -> Iterator[FieldUse]:
    """The splits of samples, and how many each has. `name`: what tells them."""
    counts = Counter(each.split for each in samples)
    for split in split_names(samples):
        yield FieldUse(name, f"split {split}", pluralize(counts[split], "sample"))


def endings_of(samples: Iterable[AnnotatedSample]) -> str:
    """The parts that the media of samples become, such as `jpg,png`."""
    return ",".join(sorted({extension_of_name(each.path) for each in samples if each.path}))


def unused_files(files: FolderFiles, samples: Iterable[AnnotatedSample], read: Iterable[str]) -> tuple[str, ...]:
    """The files that are in no sample. `read`: files whose content is in samples, or says what they are."""
    used = {*read}
    for sample in samples:
        used.update((sample.path, *(path for _, path in sample.extras)))
    return tuple(path for path in files.paths if path not in used)


def findings_about(
    code: str,
    found: Sequence[Any],
    noun: str,
    what: str,
    consequence: str = "",
    *,
    severity: Severity = "warning",
    show: Callable[[Any], str] = path_for_message,
) -> list[Finding]:
    """A finding about what was found, with its number and the first as an example; none if nothing was found."""
    if not found:
        return []
    message = f"{pluralize(len(found), noun)} {what}, such as {show(found[0])}{consequence}"
    return [Finding(code=code, severity=severity, message=message, count=len(found))]
