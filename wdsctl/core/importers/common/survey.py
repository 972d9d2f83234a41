"""What all rows of a source name, from one pass that also serves the digest: 16 bytes are kept per row."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.importers.common.conversations import begins_with_answer, has_media_places
from wdsctl.core.importers.common.samples import RowMapping, SourceRow, SourceSample, media_part_names
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.storage import source_files

Hashes = NDArray[np.uint64]

#: Names of parts kept per field.
MAX_PART_NAMES = 8


def hash_text(text: str) -> int:
    """64 bits of a hash. The chance that any two of 10 million texts share one is below 1 in 300,000."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hash_path(path: str) -> int:
    """The hash of a file's absolute path: rows may name files by absolute paths, and the user a relative folder."""
    return hash_text(source_files.absolute(path))


@dataclass(slots=True)
class RowSurvey:
    """What one pass over all rows found. `fields`: all fields, in the order in which they appear.

    `empty`: media field -> (rows in which it is empty, the first of them). `part_names`: media field -> the parts of
    the files that it names, at most MAX_PART_NAMES. `folders`: of the files that rows name.
    `answers_first`: (conversations that begin with the assistant, the first of them). `unplaced`: (conversations with
    media and no token for any, the first of them). `named`: sorted hashes of the paths that rows name.
    `repeated_keys`: sorted hashes of keys that several rows would have.
    """

    rows: int = 0
    fields: dict[str, None] = field(default_factory=dict)
    empty: dict[str, tuple[int, str]] = field(default_factory=dict)
    part_names: dict[str, dict[str, None]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    answers_first: tuple[int, str] = (0, "")
    unplaced: tuple[int, str] = (0, "")
    named: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    repeated_keys: array[int] = field(default_factory=lambda: array("Q"))


class SurveyBuilder:
    """Collects a `RowSurvey` row by row."""

    def __init__(self, mapping: RowMapping) -> None:
        self._mapping = mapping
        self._survey = RowSurvey()
        self._named = array("Q")
        self._keys = array("Q")

    def add(self, row: SourceRow, sample: SourceSample) -> None:
        survey = self._survey
        survey.rows += 1
        survey.fields.update(dict.fromkeys(row.values))
        if sample.fault is not None:
            return
        is_structured = self._mapping.is_conversation or self._mapping.is_document
        for name in () if is_structured else self._mapping.media:
            value = row.values.get(name)
            if not value:
                count, first = survey.empty.get(name, (0, row.where))
                survey.empty[name] = (count + 1, first)
            elif isinstance(value, str):
                names = survey.part_names.setdefault(name, {})
                if len(names) < MAX_PART_NAMES:
                    names.update(dict.fromkeys(media_part_names(self._mapping, name, value)))
        if self._mapping.is_conversation:
            self._add_conversation(row, sample)
        for part in sample.parts:
            if isinstance(part, FilePart):
                path = source_files.normalize(part.path)
                survey.folders.add(os.path.dirname(path))
                self._named.append(hash_path(path))
        self._keys.append(hash_text(sample.key))

    def _add_conversation(self, row: SourceRow, sample: SourceSample) -> None:
        survey = self._survey
        if begins_with_answer(row.values):
            count, first = survey.answers_first
            survey.answers_first = count + 1, first or row.where
        has_media = any(part.name not in ("json", "txt") for part in sample.parts)
        if has_media and not has_media_places(row.values):
            count, first = survey.unplaced
            survey.unplaced = count + 1, first or row.where

    def finish(self) -> RowSurvey:
        self._survey.named = _sorted(self._named)
        self._survey.repeated_keys = repeated_values(_sorted(self._keys))
        return self._survey


def contains(hashes: array[int], value: int) -> bool:
    """Whether sorted hashes contain a value."""
    at = bisect_left(hashes, value)
    return at < len(hashes) and hashes[at] == value


def repeated_values(hashes: Hashes) -> array[int]:
    """The values that sorted hashes contain several times, each once, sorted."""
    found = array("Q")
    found.frombytes(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]).tobytes())
    return found


def _sorted(hashes: array[int]) -> Hashes:
    """The hashes as a sorted array, in the memory that they are in."""
    found = np.frombuffer(hashes, np.uint64) if hashes else np.empty(0, np.uint64)
    found.sort()
    return found
