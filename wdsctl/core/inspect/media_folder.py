"""`inspect` of a folder of media files, from its catalog."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wdsctl.core.catalog.open_catalog import damaged_catalog_error
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import Finding
from wdsctl.core.index.report import MediaReport, media_report
from wdsctl.core.media.facts import MediumFacts, Unreadable
from wdsctl.core.media.selection import parse_media_selection
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.preview import preview_facts
from wdsctl.core.shards.list import ShardFile, list_files


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    path: str
    size_bytes: int
    preview: str
    facts: MediumFacts | Unreadable | None  # None if the file is not a medium


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFolderInspectReport:
    root: str
    catalog: str
    catalog_bytes: int
    generation: int
    files: int
    size_bytes: int  # sum of all files
    media: MediaReport
    first: tuple[FileSummary, ...]
    stale: tuple[Finding, ...]  # differences between the folder and the catalog


def inspect_media_folder(dataset: OpenDataset, *, samples: int = 3) -> MediaFolderInspectReport:
    """Summarise a folder of media, and its first `samples` files. Lists the folder once."""
    location, published = dataset.location, dataset.catalog
    files, size_bytes = published.media_reader.file_totals()
    media = media_report(published, "current")
    if media is None:
        raise damaged_catalog_error(location.catalog_path, "it does not record which files of the folder are media")
    return MediaFolderInspectReport(
        root=location.display_path,
        catalog=location.catalog_path,
        catalog_bytes=os.path.getsize(location.catalog_path),
        generation=published.generation,
        files=files,
        size_bytes=size_bytes,
        media=media,
        first=tuple(
            FileSummary(
                path=file.path,
                size_bytes=file.size,
                preview="not a medium" if facts is None else preview_facts(facts).line,
                facts=facts,
            )
            for file, facts in published.media_reader.first_files(samples)
        ),
        stale=tuple(
            _find_differences(location, media.selection, published.exclude_patterns(), published.media_reader.files())
        ),
    )


def _find_differences(
    location: DatasetLocation, selection: str, exclude: Sequence[str], catalog_files: Iterable[ShardFile]
) -> list[Finding]:
    """Report new, changed and missing files: one finding per kind, with the first file."""
    media_selection = parse_media_selection(selection)
    listing = list_files(location.root, exclude)
    present = {
        file.path: file for file in listing.shards if media_selection.guess_by_name(os.path.basename(file.path)) != "no"
    }
    known = {file.path: file for file in catalog_files}
    common = sorted(present.keys() & known.keys())
    changed = [path for path in common if present[path].size != known[path].size]
    differences = (
        ("new files that are not in the catalog", sorted(present.keys() - known.keys())),
        ("files that have changed since they were indexed", changed),
        ("missing files that are in the catalog", sorted(known.keys() - present.keys())),
    )
    findings = [
        Finding(code="WDS305", severity="error", message=message, shard=paths[0], count=len(paths))
        for message, paths in differences
        if paths
    ]
    unchanged = set(common) - set(changed)
    if retimed := sum(present[path].mtime_ns != known[path].mtime_ns for path in unchanged):
        message = (
            "files have new modification times since they were indexed, for example after a copy, but the same sizes"
        )
        findings += [Finding(code="WDS305", severity="note", message=message, count=retimed)]
    return [*findings, *listing.findings]
