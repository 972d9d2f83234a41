"""`inspect` of a folder of media: what its files are, from its catalog alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.identity import damaged
from wdsctl.core.findings import Finding
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.selection import parse_selection
from wdsctl.core.place import Place, locate
from wdsctl.core.preview import preview_of
from wdsctl.core.shard_list import list_files
from wdsctl.core.units import ShardFile
from wdsctl.core.verbs.media_report import MediaReport, media_report


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    path: str
    size_bytes: int
    preview: str
    facts: Facts | Unreadable | None  # None: it is no medium


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFolderInspectReport:
    root: str
    catalog: str
    catalog_bytes: int
    generation: int
    files: int
    size_bytes: int  # of all files
    media: MediaReport
    first: tuple[FileLine, ...]
    stale: tuple[Finding, ...]  # how the folder differs from the catalog


def inspect_media_folder(root: str, *, catalog: str | None = None, samples: int = 3) -> MediaFolderInspectReport:
    """What the folder of media at `root` holds, and its first `samples` files. Cost: a listing of the folder."""
    place = locate(root, catalog)
    with Catalog(place.catalog) as published:
        files, size_bytes = published.media.file_totals()
        media = media_report(published, "current")
        if media is None:
            raise damaged(place.catalog, "it does not say which files of the folder are media")
        return MediaFolderInspectReport(
            root=place.shown,
            catalog=place.catalog,
            catalog_bytes=os.path.getsize(place.catalog),
            generation=published.generation,
            files=files,
            size_bytes=size_bytes,
            media=media,
            first=tuple(_line(*each) for each in published.media.first_files(samples)),
            stale=tuple(_stale(place, media.selection, published.exclude(), published.media.files())),
        )


def _line(file: ShardFile, facts: Facts | Unreadable | None) -> FileLine:
    words = "no medium" if facts is None else preview_of(facts).line
    return FileLine(path=file.path, size_bytes=file.size, preview=words, facts=facts)


def _stale(place: Place, selection: str, exclude: Sequence[str], held: Iterable[ShardFile]) -> list[Finding]:
    """Files that are new, have changed or are gone since the catalog was made: a finding each way, with the first."""
    wanted = parse_selection(selection)
    listing = list_files(place.root, exclude)
    there = {file.path: file for file in listing.shards if wanted.claim(os.path.basename(file.path)) != "no"}
    known = {file.path: file for file in held}
    ways = (
        ("new files: they are not in the catalog", sorted(there.keys() - known.keys())),
        (
            "files that have changed since they were looked at",
            [path for path in sorted(there.keys() & known.keys()) if _differs(there[path], known[path])],
        ),
        ("files that are gone, and still in the catalog", sorted(known.keys() - there.keys())),
    )
    found = [
        Finding(code="WDS305", severity="error", message=words, shard=paths[0], count=len(paths))
        for words, paths in ways
        if paths
    ]
    alike = [path for path in there.keys() & known.keys() if not _differs(there[path], known[path])]
    if retimed := sum(there[path].mtime_ns != known[path].mtime_ns for path in alike):
        words = "times of files are others than when they were looked at, as after a copy; their sizes are not"
        found += [Finding(code="WDS305", severity="note", message=words, count=retimed)]
    return [*found, *listing.findings]


def _differs(there: ShardFile, known: ShardFile) -> bool:
    return there.size != known.size
