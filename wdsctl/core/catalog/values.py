"""The values that readers of a catalog return: shards, samples, parts and splits; and the facts of its table `meta`.

`path` is the catalog that an error names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from wdsctl.core.catalog.open_catalog import damaged_catalog_error
from wdsctl.core.dataset.root_spec import ShardSelection, shard_selection_from_json
from wdsctl.core.files import MALFORMED_ERRORS
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import INDEX_BITS

MISSING_STATUS = "missing"  # the status of a missing shard whose rows are kept (`--missing keep`)

GENERATION_FACT = "generation"
LAST_SHARD_ID_FACT = "last_shard_id"  # the highest shard id that was ever assigned
EXCLUDE_FACT = "exclude"  # JSON list of the patterns of shards that `index` left out
SELECTION_FACT = "selection"  # which shards of the folder the dataset has
KEY_FIELD_FACT = "key_field"  # the JSON field that holds the keys of a JSONL dataset
KEY_UNTIL_FACT = "key_until"  # the rule by which a key ends in a name with several dots
SAMPLE_ROWS_FACT = "sample_rows"  # "0": the catalog has no rows of samples
HASHED_FACT = "hashed"  # "1": new shards are hashed
TOTALS_FACT = "totals"  # JSON of `Totals`
MEDIA_FACT = "media"  # JSON of `MediaSettings`
KIND_FACT = "kind"  # missing for a dataset of shards
MEDIA_FOLDER_KIND = "folder"

#: Rules of the split sets, what is excluded, the history of strata and groups, and the digest of all they depend on.
SPLIT_RULES_FACT = "split_rules"
SPLIT_EXCLUDES_FACT = "split_excludes"
SPLIT_STRATA_FACT = "split_strata"
SPLIT_GROUPS_FACT = "split_groups"
SPLIT_DIGEST_FACT = "split_mark"
SPLIT_FACTS = (SPLIT_RULES_FACT, SPLIT_EXCLUDES_FACT, SPLIT_STRATA_FACT, SPLIT_GROUPS_FACT, SPLIT_DIGEST_FACT)

_MAX_COUNT_DIGITS = 10  # a generation per second reaches 11 digits after three hundred years


class ShardRow(NamedTuple):
    id: int
    path: str
    size: int  # bytes
    mtime_ns: int
    samples: int
    parts: int
    status: str
    code: str | None
    layout_hash: str
    sha256: str | None = None  # of the file; None without `--hash`


class SplitMembership(NamedTuple):
    """The splits of the samples of one shard: split -> (samples, one bit per sample, or None for all).

    `former`: the splits to which samples go back once they are no longer excluded.
    """

    layout_hash: str
    splits: dict[str, tuple[int, bytes | None]]
    samples: int  # of the shard, in any split or none
    former: dict[str, tuple[int, bytes | None]]


class PartLocation(NamedTuple):
    name: str
    offset: int  # in the shard, or 0 in a file
    size: int


class SampleLocation(NamedTuple):
    """A sample and its bytes. A file of a media folder is a sample: its key is the path, its part the extension."""

    id: int
    key: str
    shard: str  # relative to the root
    shard_size: int  # bytes, as recorded
    offset: int  # of its first byte in the shard
    size: int  # bytes from `offset` to the end of the sample
    parts: tuple[PartLocation, ...]

    @property
    def position(self) -> int:
        """The index of the sample in the shard."""
        return self.id & ((1 << INDEX_BITS) - 1)

    def part(self, name: str) -> PartLocation | None:
        """A part by its name; of a repeated part the last one, as everywhere."""
        return next((part for part in reversed(self.parts) if part.name == name), None)


class ShardSummary(NamedTuple):
    path: str
    size: int  # bytes
    samples: int
    status: str


class SplitMembers(NamedTuple):
    """The samples of a split: of each shard all (None), or those whose bit is set, lowest first."""

    shards: dict[int, bytes | None]

    def count(self, samples: Mapping[int, int]) -> int:
        """How many samples these are. `samples`: shard id -> number of samples."""
        return sum(
            samples.get(shard, 0) if bits is None else int.from_bytes(bits, "little").bit_count()
            for shard, bits in self.shards.items()
        )

    def has(self, sample: int) -> bool:
        shard, position = sample >> INDEX_BITS, sample & ((1 << INDEX_BITS) - 1)
        if shard not in self.shards:
            return False
        bits = self.shards[shard]
        return bits is None or (position >> 3 < len(bits) and bool(bits[position >> 3] >> (position & 7) & 1))


class MediaSettings(NamedTuple):
    """Which media facts `index` reads. `selection`: as `Selection.text`. `keyframes`: index videos for seeking."""

    selection: str
    keyframes: bool = False

    def as_text(self) -> str:
        return json.dumps(self._asdict())


def parse_count(text: str) -> int:
    """A generation or a shard id. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_COUNT_DIGITS):
        raise ValueError(text[:60])
    return int(text)


def parse_media_settings(text: str | None) -> MediaSettings | None:
    """None if no media facts are kept. Raises ValueError or TypeError if the text is damaged."""
    return None if text is None else MediaSettings(**read_json(text))


def read_generation(path: str, facts: Mapping[str, str]) -> int:
    return parse_generation(path, facts.get(GENERATION_FACT))


def parse_generation(path: str, stored: object) -> int:
    try:
        if isinstance(stored, str):
            return parse_count(stored)
    except ValueError:
        pass
    raise damaged_catalog_error(path, "it states no generation")


def read_exclude_patterns(path: str, facts: Mapping[str, str]) -> tuple[str, ...]:
    """The patterns of the shards that `index` left out."""
    try:
        patterns = read_json(facts.get(EXCLUDE_FACT, "[]"))
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ValueError(patterns)
        return tuple(patterns)
    except MALFORMED_ERRORS as error:
        raise damaged_catalog_error(path, "its exclude patterns cannot be parsed") from error


def read_selection(path: str, facts: Mapping[str, str]) -> ShardSelection:
    """Which shards of the folder the dataset has."""
    try:
        return shard_selection_from_json(facts.get(SELECTION_FACT))
    except MALFORMED_ERRORS as error:
        raise damaged_catalog_error(path, "its selection of shards cannot be parsed") from error


def read_media_settings(path: str, facts: Mapping[str, str]) -> MediaSettings | None:
    """Which media facts are kept; None if there are none."""
    try:
        return parse_media_settings(facts.get(MEDIA_FACT))
    except MALFORMED_ERRORS as error:
        raise damaged_catalog_error(path, "its media settings cannot be parsed") from error
