"""A prepared dataset as a store: tars, or lines of JSON. Its generation is fixed when it is opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from wdsctl.core.errors import SampleFailed
from wdsctl.core.keyframe_file import KeyframeFile, open_keyframes
from wdsctl.core.media.facts import Facts
from wdsctl.core.name_index import NameIndex, offsets_digest, open_name_index
from wdsctl.core.naming import shard_key, spellings
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.loader.asking import heard
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.known_facts import KnownFacts
from wdsctl.loader.stores.missing import missing, twice
from wdsctl.loader.stores.store import FileStore

_LINES = ".jsonl", ".ndjson"
_NEAR = 5  # names that a hint has


class PreparedStore(FileStore):
    """Names are `<key>.<part>`, and a key alone is its whole sample: a dict of parts; of lines of JSON, the object.

    A key that several samples have is ambiguous where more than one of them has the part. Of a part that a sample has
    twice, the last one counts, as everywhere. Files whose keys have dots are found by the names they had, too, though
    shards have `_` there (`shard_key`).
    """

    def __init__(self, place: Place, offsets: Offsets, decoder: SampleDecoder | None) -> None:
        super().__init__(place.shown, offsets_digest(offsets), decoder)
        self.place = place
        self.offsets = offsets
        self._paths = [os.path.join(place.root, shard.path) for shard in offsets.shards]
        self._sizes = dict(zip(self._paths, (shard.size for shard in offsets.shards), strict=True))
        self._facts = KnownFacts(place.catalog)

    @cached_property
    def names(self) -> NameIndex:
        """Opened at the first lookup, unless whoever forks has asked for it before."""
        return open_name_index(self.place, self.offsets)

    def find(self, name: str) -> Entry:
        if not isinstance(name, str):
            raise missing(self.path, str(name), hint="names are texts, such as 'a/0001.jpg'")
        near: list[int] = []
        found: list[Entry] = []
        for key, part in spellings(name):
            parted = self.names.find(key)
            found = [entry for row in parted.rows if (entry := self._part(row, key, part)) is not None]
            if found:
                break
            near += (*parted.rows, *parted.near)
        if not found:
            whole = self.names.find(name)
            found = [self._sample(row) for row in whole.rows or self.names.find(shard_key(name)).rows]
            if not found:
                raise self._missing(name, near, whole.near)
        if len(found) > 1:
            raise twice(self.path, name, [f"shard {each.shard}, index {each.row}" for each in found])
        return found[0]

    def part_of(self, sample: int, part: str) -> Entry:
        """A part of the sample that has this id. Raises SampleFailed WDS550."""
        row = self._first_rows[sample >> INDEX_BITS] + (sample & ((1 << INDEX_BITS) - 1))
        key = self.offsets.key(row)
        entry = self._part(row, key, part)
        if entry is None:
            raise self._missing(f"{key}.{part}", (row,), ())
        return entry

    def get_media_metadata(self, name: str) -> Facts:
        return self.facts_of(self.find(name))

    def facts_of(self, entry: Entry) -> Facts:
        return self._facts.of(self.path, entry)

    @cached_property
    def films(self) -> KeyframeFile | None:
        """Where the films of the store can be entered. To be asked for by whoever forks, as `names` is."""
        return open_keyframes(self.place, self.offsets.generation)

    def _keyframes(self, entry: Entry) -> bytes:
        if self.films is None:
            return b""
        i = self.offsets.shard_of(entry.row)
        sample = self.offsets.shards[i].id << INDEX_BITS | entry.row - int(self.offsets.shard_row[i])
        return self.films.find(sample, entry.part)

    def _part(self, row: int, key: str, part: str) -> Entry | None:
        i = self.offsets.shard_of(row)
        places = [(at, size) for name, at, size in self.offsets.parts(row) if name == part]
        if not places:
            return None
        shard = self.offsets.shards[i]
        return Entry(f"{key}.{part}", part, self._paths[i], shard.path, *places[-1], row, shard.size)

    def _sample(self, row: int) -> Entry:
        """All parts of a sample; of a line of JSON, the object itself."""
        key, shard = self.offsets.key(row), self.offsets.shards[self.offsets.shard_of(row)]
        parts = [self._part(row, key, part) for part in dict.fromkeys(name for name, _, _ in self.offsets.parts(row))]
        each = tuple(part for part in parts if part is not None)
        if len(each) == 1 and shard.path.endswith(_LINES):
            return each[0]
        begin = min((part.offset for part in each), default=0)
        end = max((part.offset + part.size for part in each), default=0)
        path = os.path.join(self.place.root, shard.path)
        return Entry(key, "", path, shard.path, begin, end - begin, row, shard.size, parts=each)

    @cached_property
    def _first_rows(self) -> dict[int, int]:
        """By the id of each shard."""
        starts = self.offsets.shard_row.tolist()
        return {shard.id: start for shard, start in zip(self.offsets.shards, starts[:-1], strict=True)}

    def _missing(self, name: str, rows: Sequence[int], near: Sequence[int]) -> SampleFailed:
        """`rows`: those that have the key of a part, in these letters or others; `near`: samples of the same name."""
        names = [self.offsets.key(row) for row in near]
        has: list[str] = []
        for row in rows[:_NEAR]:
            key = self.offsets.key(row)
            parts = [part for part, _, _ in self.offsets.parts(row)]
            has += [f"{key}.{part}" for part in parts]
            names += [f"{key}.{part}" for part in parts if f"{key}.{part}".lower() == name.lower()]
        hint = f"the key is there, with {', '.join(map(repr, has[:_NEAR]))}" if has else ""
        return missing(self.path, name, names, hint)

    def _new_storage(self) -> Storage:
        return storage_for(self.place.root, self._sizes, hear=heard)

    def _is_gone(self) -> bool:
        some = {self._paths[0], self._paths[len(self._paths) // 2], self._paths[-1]} if self._paths else set()
        return not any(self.storage.exists(path) for path in some)

    def __reduce__(self) -> tuple[Any, ...]:
        from wdsctl.loader.stores.opening import prepared_again

        return prepared_again, (self.place, self.offsets.generation, self.digest, self.decoder)
