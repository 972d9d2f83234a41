"""From the sample ids of a trace to keys, shards and bytes, through the offsets files of the datasets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wdsctl.core.catalog.quick import current_generation, read_split
from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.offsets import Offsets
from wdsctl.core.offsets_bounds import ShardEntry
from wdsctl.core.place import Place, locate
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.split_digest import split_digest
from wdsctl.core.storage import Range
from wdsctl.core.trace.block import Ints
from wdsctl.core.trace.facts import SourceFacts

_ROWS = 1 << 20  # looked through at once for a key


@dataclass(frozen=True, slots=True)
class PartRange:
    name: str
    offset: int  # in the shard
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Located:
    """A sample: its key, its shard, and where in it the data of its parts is, in tar order.

    `shard.layout_hash`: equal for shards in which everything is in the same place, whatever the bytes.
    """

    key: str
    shard: ShardEntry
    parts: tuple[PartRange, ...]


class TracedDataset:
    """A dataset in the generation that was trained on; where its offsets are gone, in the present one.

    Shards keep their numbers and changed ones get new numbers, so what is still found under an id is what it was.
    `is_other`: the split has other samples than were traced, in the same generation: it was made anew, or the catalog
    was, with numbers of its own. Raises what `locate` and `Offsets` raise.
    """

    def __init__(self, place: Place, facts: SourceFacts) -> None:
        self.place = place
        self.offsets = _offsets(place, facts)
        self.is_other = _is_other(place, self.offsets, facts)
        self._at = {shard.id: i for i, shard in enumerate(self.offsets.shards)}

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes in bytes that the shards must have, by path."""
        return {os.path.join(self.place.root, shard.path): shard.size for shard in self.offsets.shards}

    def locate(self, sample_id: int) -> Located | None:
        """The sample of this id; None where its shard is no longer in the catalog."""
        i = self._at.get(sample_id >> INDEX_BITS)
        index = sample_id & ((1 << INDEX_BITS) - 1)
        if i is None or index >= self.offsets.shards[i].samples:
            return None
        row = int(self.offsets.shard_row[i]) + index
        parts = tuple(PartRange(*part) for part in self.offsets.parts(row))
        return Located(self.offsets.key(row), self.offsets.shards[i], parts)

    def ranges(self, located: Located) -> list[Range]:
        path = os.path.join(self.place.root, located.shard.path)
        return [Range(path, part.offset, part.size_bytes) for part in located.parts]

    def ids_of(self, key: str) -> list[int]:
        """The ids of all samples with this key. Cost: a pass over the keys, 10 ms a million samples."""
        wanted = key.encode("utf-8", "surrogateescape")
        found: list[int] = []
        for start in range(0, self.offsets.samples, _ROWS):
            found += self._rows_of(wanted, start, min(start + _ROWS, self.offsets.samples)).tolist()
        return [self._id_of(row) for row in found]

    def _rows_of(self, key: bytes, start: int, stop: int) -> Ints:
        columns = self.offsets.checked_range(start, stop)
        bounds = columns.key_start[start : stop + 1]
        rows = np.flatnonzero(np.diff(bounds) == len(key))
        # From the end: the last characters of keys tell most of them apart.
        for i in reversed(range(len(key))):
            rows = rows[columns.keys[bounds[rows] + i] == key[i]]
        return rows + start

    def _id_of(self, row: int) -> int:
        i = self.offsets.shard_of(row)
        return self.offsets.shards[i].id << INDEX_BITS | (row - int(self.offsets.shard_row[i]))


class TracedDatasets:
    """The datasets of a trace, opened when they are first asked for. `moved`: see `Moved`."""

    def __init__(self, moved: Moved) -> None:
        self._moved = moved
        self._opened: dict[SourceFacts, TracedDataset | WdsctlError] = {}

    def open(self, facts: SourceFacts) -> TracedDataset | WdsctlError:
        """The dataset, or why it cannot be used."""
        name = SourceFacts(0, facts.root, facts.split, facts.generation, facts.digest, facts.catalog)
        if name not in self._opened:
            try:
                self._opened[name] = TracedDataset(self._moved.place_of(facts), facts)
            except WdsctlError as error:
                self._opened[name] = _unavailable(facts, error)
        return self._opened[name]


@dataclass(frozen=True, slots=True)
class Moved:
    """Where datasets are now: folders, or URLs, that the trace names by what they were called when it was written."""

    folders: Mapping[str, str]

    def place_of(self, facts: SourceFacts) -> Place:
        root, catalog = self._now(facts.root), self._now(facts.catalog)
        return locate(root, catalog if facts.catalog and os.path.isdir(catalog) else None)

    def _now(self, path: str) -> str:
        for old, new in self.folders.items():
            if path == old or path.startswith(old.rstrip("/") + "/"):
                return new.rstrip("/") + path[len(old.rstrip("/")) :]
        return path


def parse_moved(words: list[str], known: list[str]) -> Moved:
    """`OLD=NEW` each, where OLD is a dataset of the trace, its catalog, or a folder above; a path may hold `=` itself.

    The trace has whole paths; one from the working directory is OLD, too, as messages show it. Raises UsageError where
    there is no such dataset in the trace.
    """
    folders: dict[str, str] = {}
    for word in words:
        cuts = [i for i, letter in enumerate(word) if letter == "="]
        named = [(i, old) for i in cuts if (old := _old(word[:i], known))]
        if not named or not word[named[-1][0] + 1 :]:
            raise UsageError(
                f"--root {word}: this does not begin with a dataset of the trace and `=`",
                hint=f"write OLD=NEW; the trace has {', '.join(known[:4])}{' and others' if len(known) > 4 else ''}",
            )
        cut, old = named[-1]
        folders[old] = word[cut + 1 :]
    return Moved(folders)


def _old(text: str, known: list[str]) -> str:
    """What the trace calls it; nothing where it has nothing of this name, or below it."""
    spelled = (text, os.path.abspath(text)) if text else ()
    return next((old for old in spelled if any(f"{path}/".startswith(old.rstrip("/") + "/") for path in known)), "")


def _offsets(place: Place, facts: SourceFacts) -> Offsets:
    path = place.offsets(facts.generation)
    return Offsets(path if os.path.exists(path) else place.offsets(current_generation(place.catalog)))


def _is_other(place: Place, offsets: Offsets, facts: SourceFacts) -> bool:
    if not (facts.split and facts.digest) or offsets.generation != facts.generation:
        return False
    return split_digest(offsets, read_split(place.catalog, facts.split)) != facts.digest


def _unavailable(facts: SourceFacts, error: WdsctlError) -> InputError:
    return InputError(
        f"a dataset of the trace cannot be used: {error.message}",
        where=error.where or facts.root,
        hint=f"if it was moved, say `--root {facts.root}=NEW`; otherwise: {error.hint}",
        code="WDS543",
    )
