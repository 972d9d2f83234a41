"""Completes samples of a polylithic dataset for the level `schema`: parts of the primary, and the media they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wdsctl.core.catalog.ledger_checks import PartToCheck
from wdsctl.core.dataset.polylithic import REFERENCES_PART, PolylithicFolder
from wdsctl.core.errors import DatasetError, StorageError
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.importers.references import (
    MediaStore,
    missing_object_error,
    open_media_store,
    parse_json_part,
    parts_of_line,
    reference_items,
)
from wdsctl.core.validate.schema import ReadPart


class SampleCompletion:
    """Adds to a sample of the primary the media that it refers to. Reads media on request, by ranges."""

    def __init__(self, folder: PolylithicFolder) -> None:
        self._store: MediaStore = open_media_store(folder.media)
        self._is_jsonl = folder.form == "jsonl"

    def references_part(self, parts: Mapping[str, PartToCheck]) -> PartToCheck:
        """The part that names the media. Raises DatasetError WDS343 if the sample lacks it."""
        name = "json" if self._is_jsonl else REFERENCES_PART
        if name not in parts:
            raise missing_object_error(name)
        return parts[name]

    def complete(self, read: ReadPart, parts: Mapping[str, PartToCheck]) -> tuple[ReadPart, dict[str, PartToCheck]]:
        """Return the complete parts, and how to read them.

        The offset of parts that are not members of the primary is that of the part which names the media. Raises
        DatasetError WDS343 for broken references; the returned function raises DatasetError if media cannot be read.
        """
        holder = self.references_part(parts)
        content = parse_json_part(read(holder, 0, holder.size), holder.part)
        references = reference_items(content.get("media") if self._is_jsonl else content)
        media = {name: self._store.find_entry(entry) for name, entry in references}
        in_line = {part.name: part.data for part in parts_of_line(content)} if self._is_jsonl else {}

        def read_complete(part: PartToCheck, start: int, size: int) -> bytes:
            if part.part in media:
                return _read_media(media[part.part], start, size)
            if part.part in in_line:
                return in_line[part.part][start : start + size]
            return read(part, start, size)

        own = {} if self._is_jsonl else {name: part for name, part in parts.items() if part is not holder}
        sizes = {name: len(data) for name, data in in_line.items()} | {name: file.size for name, file in media.items()}
        return read_complete, own | {name: holder._replace(part=name, size=size) for name, size in sizes.items()}


def _read_media(file: FilePart, start: int, size: int) -> bytes:
    try:
        return replace(file, offset=file.offset + start, size=size).data
    except StorageError as error:  # the media's fault; the shard of the primary is intact
        raise DatasetError(error.message, where=error.where, hint=error.hint, code=error.code) from error
