"""A raw folder: files with the same name, up to the end of the key, are the parts of one sample, as in `prepare`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import cast

from wdsctl.core.dataset.raw_folder import RawFolderError, RawListing, list_raw_folder
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options, parse_choice_option, parse_list_option
from wdsctl.core.importers.folders.paired import RAW_FILES_SCORE
from wdsctl.core.importers.lone_tables import check_lone_tables
from wdsctl.core.importers.protocol import FilePart, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.importers.splits.folders import split_folder_findings, splits_by_folder
from wdsctl.core.samples.naming import KEY_RULES, OnMissing, dotless_key, parse_key_rule, split_name
from wdsctl.core.storage import source_files
from wdsctl.core.text import pluralize

_PROBED_NAMES = 1000


class FolderImporter:
    """Options: `-O parts=jpg,txt` names the parts of a complete sample, `on-missing=skip|keep` decides what happens to
    incomplete samples, `key-until=RULE` says where keys end.
    """

    name = "folder"
    about = "a folder of files; files that share a name form one sample"

    def recognise(self, path: str) -> FormatMatch | None:
        if not source_files.is_folder(path):
            return None
        for name in islice(_walk_names(path), _PROBED_NAMES):
            if split_name(name) and not name.endswith((".tar", ".tgz", ".tar.gz")):
                return FormatMatch(RAW_FILES_SCORE, f"raw files, such as {name}")
        return None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ("parts", "on-missing", "key-until"))
        on_missing = cast("OnMissing", parse_choice_option(self.name, options, "on-missing", ("error", "skip", "keep")))
        try:
            rule = (
                parse_key_rule(parse_choice_option(self.name, options, "key-until", KEY_RULES))
                if "key-until" in options
                else None
            )
            listing = list_raw_folder(
                path, parts=parse_list_option(options, "parts"), on_missing=on_missing, key_until=rule
            )
        except WdsctlError as error:
            if isinstance(error, RawFolderError):
                check_lone_tables(path, error, "-O", "on-missing=skip")
            # The hint names the options of `prepare`; here they are options of the format.
            error.hint = error.hint.replace("--on-missing ", "-O on-missing=").replace("--parts", "-O parts=NAMES")
            error.hint = error.hint.replace("--key-until ", "-O key-until=")
            raise
        splits = splits_by_folder(sample.key for sample in listing.samples)
        unused = () if splits else split_folder_findings((sample.key for sample in listing.samples), "DEST")
        findings = (*_incomplete_findings(listing, on_missing), *unused)
        about = SourceDescription(findings=findings, unused=tuple(problem.name for problem in listing.left_out))
        return SampleSource(_FolderSamples(path, listing, splits), tuple(splits.values()), lambda: about)


IMPORTER = FolderImporter()


def _incomplete_findings(listing: RawListing, on_missing: OnMissing) -> Iterator[Finding]:
    """A warning WDS201 with the counts of incomplete samples, stray files and unreadable paths, if there are any."""
    counts = (
        (listing.incomplete, "incomplete sample", ""),
        (listing.strays, "stray file", ""),
        (listing.unreadable, "unreadable file or folder", "unreadable files or folders"),
    )
    count = sum(n for n, *_ in counts)
    if count:
        what = ", ".join(pluralize(n, noun, plural) for n, noun, plural in counts if n)
        example = f" (such as {listing.examples[0]})" if listing.examples else ""
        done = "left out" if on_missing == "skip" else "only existing parts were used"
        yield Finding(code="WDS201", severity="warning", message=f"{what}{example}: {done}", count=count)


class _FolderSamples:
    def __init__(self, root: str, listing: RawListing, splits: Mapping[str, str]) -> None:
        self._root = root
        self._listing = listing
        self._splits = splits

    def samples(self, start: int) -> Iterator[SourceSample]:
        for key, parts in islice(self._listing.samples, start, None):
            path = os.path.join(self._root, key)
            yield SourceSample(
                dotless_key(key),
                tuple(FilePart(name, f"{path}.{name}", 0, size, self._root) for name, size, _ in parts),
                split=next((split for folder, split in self._splits.items() if key.startswith(folder)), ""),
            )

    def digest(self) -> bytes:
        """A digest of the names, sizes and times of all files."""
        digest = blake2b(digest_size=16)
        for sample in self._listing.samples:
            digest.update(repr(sample).encode("utf-8", "surrogateescape"))
        return digest.digest()

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _walk_names(folder: str) -> Iterator[str]:
    """Yield the names of files in a folder and below. Skips folders that cannot be listed: opening reports them."""
    for _, folders, files in source_files.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from sorted(files)  # the first name is shown as an example
