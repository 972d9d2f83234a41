"""Croissant 1.1: JSON-LD that describes shards, parts and splits, and how the dataset was made.

Source: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html.

Each shard is a FileObject. For each split and part, a FileSet has the members of the split's shards. A RecordSet has
their keys and contents, joined with those of the dataset's most frequent part. mlcroissant 1.1 joins two record sets at
most, so none has more than two parts.
"""

from __future__ import annotations

import glob
import json
import mimetypes
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.export.documents import write_documents
from wdsctl.core.export.request import ExportRequest, Written
from wdsctl.core.export.source import ExportSource, read_splits_if_whole
from wdsctl.core.media.kinds import PartKind, part_kind
from wdsctl.core.progress import Progress
from wdsctl.core.text import escape_json_controls, escape_unprintable, join_with_and, pluralize

DOCUMENT_NAME = "croissant.json"
VERSION_URL = "http://mlcommons.org/croissant/1.1"

#: The context of version 1.1, with the terms of PROV-O.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "prov": "http://www.w3.org/ns/prov#",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
} | {
    term: f"cr:{term}"
    for term in (
        "arrayShape",
        "citeAs",
        "column",
        "containedIn",
        "equivalentProperty",
        "excludes",
        "extract",
        "field",
        "fileObject",
        "fileProperty",
        "fileSet",
        "format",
        "includes",
        "isArray",
        "isLiveDataset",
        "jsonPath",
        "key",
        "md5",
        "parentField",
        "path",
        "recordSet",
        "references",
        "regex",
        "repeated",
        "replace",
        "samplingRate",
        "separator",
        "source",
        "subField",
        "transform",
    )
}
_DATA_TYPES: dict[PartKind, str] = {
    "image": "sc:ImageObject",
    "audio": "sc:AudioObject",
    "video": "sc:VideoObject",
    "text": "sc:Text",
    "integer": "sc:Text",
    "json": "sc:Text",
    "lines": "sc:Text",
}
_ABSOLUTE_FOLDERS = re.compile(r"(^|[=,])/(?:[^/,]*/)*")
_MEDIA_TYPES = mimetypes.MimeTypes()  # those of Python, whatever this machine lists
_ALL_SHARDS = "all"  # the name in place of a split


def write(source: ExportSource, request: ExportRequest, folder: str, _progress: Progress) -> Written:
    """Write the document. Raises UsageError if another croissant.json exists."""
    notes: list[str] = []
    by_split, counts = _splits(source, request, notes)
    described = [part for part in source.parts if _data_type(part.name)]
    if len(described) < len(source.parts):
        left = [part.name for part in source.parts if part not in described]
        notes.append(f"Croissant has no data type for {join_with_and(left)}: they have file sets, but no records")
    unhashed = sum(shard.sha256 is None for shard in source.shards)
    if unhashed:
        hashing = shell_command_at(source.location, "index", "--hash")
        notes.append(f"{pluralize(unhashed, 'shard')} without SHA-256, which mlcroissant requires; {hashing} adds it")
    unknown = "url and citation" if request.license_id else "license, url and citation"
    notes.append(f"{unknown} are yours to add: the catalog does not know them")
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": VERSION_URL,
        "name": os.path.basename(source.location.path.rstrip("/")),
        "description": f"{source.samples:,} samples in {pluralize(len(source.shards), 'tar')}, in WebDataset format.",
        **({"license": request.license_id} if request.license_id else {}),
        "distribution": [*_file_objects(source), *_file_sets(source.parts, by_split)],
        "recordSet": [*_split_records(counts), *_record_sets(described, by_split)],
        **_provenance(source),
    }
    text = escape_json_controls(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"
    text = text.replace("<", "\\u003c")  # pages embed the document in a script element, which </script> would end
    write_documents(folder, {DOCUMENT_NAME: text}, overwrite=request.overwrite)
    return Written(os.path.join(folder, DOCUMENT_NAME), 1, counts, tuple(notes))


def _splits(
    source: ExportSource, request: ExportRequest, notes: list[str]
) -> tuple[dict[str, list[ShardRow]], dict[str, int]]:
    """The shards of each split, or all of them if splits have no shards of their own; and the samples of each."""
    found, problem = read_splits_if_whole(source, request.split_set, "Croissant")
    if found is None:
        notes.append(f"the document has no splits: {problem}")
        return {_ALL_SHARDS: list(source.shards)}, {}
    if found.excluded_samples:
        notes.append(f"the records include {pluralize(len(found.excluded_samples), 'excluded sample')}")
    by_path = {shard.path: shard for shard in source.shards}
    return {name: [by_path[path] for path in paths] for name, paths in found.splits.items() if paths}, found.samples


def _file_objects(source: ExportSource) -> Iterator[dict[str, Any]]:
    for shard in source.shards:
        yield {
            "@type": "cr:FileObject",
            "@id": shard.path,
            "name": escape_unprintable(shard.path),
            "contentUrl": shard.path,
            "contentSize": f"{shard.size} B",
            "encodingFormat": "application/x-tar",
            **({"sha256": shard.sha256} if shard.sha256 else {}),
        }


def _file_sets(parts: Sequence[PartCount], by_split: Mapping[str, Sequence[ShardRow]]) -> Iterator[dict[str, Any]]:
    for split, shards in by_split.items():
        for part in parts:
            longer = [f"*.{glob.escape(each.name)}" for each in parts if each.name.endswith(f".{part.name}")]
            yield {
                "@type": "cr:FileSet",
                "@id": _file_set_id(split, part.name),
                "name": escape_unprintable(f"{part.name} of {split}"),
                "containedIn": [{"@id": shard.path} for shard in shards],
                "includes": f"*.{glob.escape(part.name)}",
                **({"excludes": longer} if longer else {}),
                "encodingFormat": _media_type(part.name),
            }


def _record_sets(parts: Sequence[PartCount], by_split: Mapping[str, Sequence[ShardRow]]) -> Iterator[dict[str, Any]]:
    for split in by_split:
        for part in parts:
            name = _record_set_id(split, part.name)
            key: dict[str, Any] = {
                "@type": "cr:Field",
                "@id": f"{name}/key",
                "dataType": "sc:Text",
                "source": {
                    "fileSet": {"@id": _file_set_id(split, part.name)},
                    "extract": {"fileProperty": "fullpath"},
                    # The key alone matches, too: readers apply the expression again when they join.
                    "transform": {"regex": rf"^((?:.*/)?[^./]+)(?:\.{re.escape(part.name)})?$"},
                },
            }
            content = {
                "@type": "cr:Field",
                "@id": f"{name}/content",
                "dataType": _data_type(part.name),
                "source": {
                    "fileSet": {"@id": _file_set_id(split, part.name)},
                    "extract": {"fileProperty": "content"},
                },
            }
            fields = [key, content]
            if part is not parts[0]:
                first = _record_set_id(split, parts[0].name)
                key["references"] = {"field": {"@id": f"{first}/key"}}
                joined = {"source": {"field": {"@id": f"{first}/content"}}, "dataType": _data_type(parts[0].name)}
                fields.append({"@type": "cr:Field", "@id": f"{name}/{parts[0].name}", **joined})
            yield {
                "@type": "cr:RecordSet",
                "@id": name,
                "name": escape_unprintable(name),
                "description": escape_unprintable(f"The {part.name} of each sample in {split}, by key."),
                "key": {"@id": f"{name}/key"},
                "field": fields,
            }


def _split_records(counts: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The splits as an enumeration, with their numbers of samples."""
    if counts:
        yield {
            "@type": "cr:RecordSet",
            "@id": "splits",
            "name": "splits",
            "description": "The splits, whose names begin those of the other record sets.",
            "dataType": "cr:Split",
            "key": {"@id": "splits/name"},
            "field": [
                {"@type": "cr:Field", "@id": "splits/name", "dataType": "sc:Text"},
                {"@type": "cr:Field", "@id": "splits/samples", "dataType": "sc:Integer"},
            ],
            "data": [{"splits/name": name, "splits/samples": count} for name, count in counts.items()],
        }


def _provenance(source: ExportSource) -> dict[str, Any]:
    """The runs of the ledger as PROV-O activities. Absolute paths of this machine are shortened to their last name."""
    with source.dataset.checked_ledger() as ledger:
        runs, origin = ledger.runs(), ledger.plan_source()
    activities = [
        {
            "@type": "prov:Activity",
            "@id": f"urn:uuid:{run['uuid']}",
            "prov:label": escape_unprintable(
                " ".join(["wdsctl", str(run["command"]), *map(_without_folders, run["argv"])])
            ),
            "prov:startedAtTime": run["started_at"],
            "prov:endedAtTime": run["finished_at"],
            "prov:wasAssociatedWith": {"@type": "prov:SoftwareAgent", "prov:label": f"wdsctl {run['version']}"},
        }
        for run in runs
        if run["status"] in ("ok", "partial")
    ]
    found: dict[str, Any] = {"prov:wasGeneratedBy": activities} if activities else {}
    if origin:
        found["prov:wasDerivedFrom"] = {
            "@type": "prov:Entity",
            "prov:label": escape_unprintable(_without_folders(origin)),
        }
    return found


def _without_folders(word: object) -> str:
    return _ABSOLUTE_FOLDERS.sub(r"\1", str(word).rstrip("/"))


def _file_set_id(split: str, part: str) -> str:
    return f"files-{split}-{part}"


def _record_set_id(split: str, part: str) -> str:
    return f"{split}-{part}"


def _data_type(part: str) -> str:
    return _DATA_TYPES.get(part_kind(part), "")


def _media_type(part: str) -> str:
    """The media type of a part, by its last extension."""
    unknown = "text/plain" if part_kind(part) in ("text", "integer") else "application/octet-stream"
    return _MEDIA_TYPES.guess_type(f"x.{part.lower()}")[0] or unknown
