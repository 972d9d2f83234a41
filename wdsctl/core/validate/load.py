"""Level `load`: would the loader decode these samples with dataset.yaml as it is, and batch sixteen of them?

The loader answers. This room must not import it, so the caller of `validate` names the function that opens the check,
and this module defines what that function takes and returns.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np

from wdsctl.core.catalog.consistency import absent_field_finding
from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.catalog.splits import SplitShard, sample_flags
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import PolylithicFolder
from wdsctl.core.errors import Finding
from wdsctl.core.extras import require_packages
from wdsctl.core.json_text import read_json
from wdsctl.core.validate.headers import ReadShard
from wdsctl.plugins import BLEND_CHECK, LoadCheckName

BATCH_SIZE = 16  # of the batches that the level judges
UNSHUFFLED_SPLITS = ("val", "test")  # usually read in the order of the dataset

MAX_KINDS = 200  # of one shard; samples of further kinds are not compared with others
#: Of errors of `open_load_check` that are not the dataset's: torch is not installed, or code that dataset.yaml names
#: does not run here.
NOT_LOADABLE_CODES = ("WDS236", "WDS220", "WDS222", "WDS270", "WDS271", "WDS312")

NOT_LOADED = 255  # in place of the number of a kind

#: Of the kinds of a shard as text, and of those of all shards of a run. Others are loaded again.
_MAX_KINDS_BYTES = 4 << 20
MAX_RUN_KINDS_BYTES = 64 << 20
_MAX_KIND_DEPTH = 32  # structures in structures
_MAX_DIMENSIONS = 64  # of a tensor in torch
_MAX_TENSOR_VALUES = 1 << 40  # of a sparse one: a batch of them has a size that torch can count
_TENSOR_LAYOUTS = ("strided", "jagged", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTarget:
    """What the loader opens: plain values, as they are sent to workers.

    `opener`: takes this target and returns a LoadCheck. `config_text`: of the file
    `config_path`; empty if there is none. `has_user_code`: whether its sample type is a class of the user's. `folder`:
    the polylithic folder, if the dataset is its primary.
    """

    opener: LoadCheckName
    location: DatasetLocation
    offsets_path: str
    config_path: str
    config_text: str
    has_user_code: bool = False
    folder: PolylithicFolder | None = None


class LoadedSample(NamedTuple):
    """How a sample was loaded. `kind`: equal for samples that make the same batches; empty if it was not loaded.

    `decoded`: the parts that were decoded to their end without complaint. `error`: why the sample was not loaded, in
    the loader's words; `part`: which one, if the error tells.
    """

    kind: str
    decoded: frozenset[str] = frozenset()
    error: str = ""
    part: str = ""


class KindCount(NamedTuple):
    """The samples of one kind. `first`: (shard, key) of the first one."""

    samples: int
    first: tuple[str, str]


class LoadCheck(Protocol):
    """The loader's judgement of one dataset, opened in one process."""

    def load(self, shard: str, positions: Sequence[int], read: ReadShard) -> Iterator[LoadedSample | None]:
        """Load samples of a shard of the catalog, one by one; of frames of videos, the first and the last, and None for
        the others. `read` reads its bytes. Cost: one decoding each."""

    def split_findings(
        self, split: str, selection: Sequence[SplitShard] | None, kinds: Mapping[str, KindCount]
    ) -> list[Finding]:
        """What keeps the samples of a split from being batched. `selection`: of the split; None if the run covers only
        some of them."""

    def missing_fields(self, kind: str) -> tuple[str, ...]:
        """The mapped fields that are None in samples of a kind."""


def open_load_check(target: LoadTarget) -> LoadCheck:
    """Open the check that the target names.

    Raises UsageError if this process cannot load the dataset: WDS236 without torch, and the codes of code that
    dataset.yaml names. Raises the errors of the loader for a dataset that it refuses.
    """
    check: LoadCheck = _find_function(target.opener)(target)
    return check


def find_blend_conflicts(path: str, split: str) -> list[Finding]:
    """What keeps the loader, without hooks, from batching samples of the entries of a blend's split together, and
    joined samples with each other; or why it refuses the blend. Cost: loads up to 256 samples of each entry."""
    found: list[Finding] = _find_function(BLEND_CHECK)(path, split)
    return found


def _find_function(name: str) -> Callable[..., Any]:
    with require_packages("the loader"):
        module, _, function = name.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), function)
    return found


@lru_cache(maxsize=1)
def kept_load_check(target: LoadTarget) -> LoadCheck:
    """`open_load_check`, once for the shards that a process checks one after the other."""
    return open_load_check(target)


class LastRange:
    """Reads of a shard that keep the last range, so that the parts of a sample are read once."""

    def __init__(self, read: ReadShard) -> None:
        self._read, self._start, self._data = read, 0, b""

    def __call__(self, offset: int, size: int) -> bytes:
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._data):
            self._start, self._data, begin = offset, self._read(offset, size), 0
        return self._data[begin : begin + size]


class ShardKinds(NamedTuple):
    """The kinds of the samples of a shard. `numbers`: of the kind of each sample, or `NOT_LOADED`."""

    kinds: tuple[str, ...] = ()
    numbers: bytes = b""

    def pack(self) -> bytes:
        return zlib.compress(json.dumps(self.kinds).encode() + b"\0" + self.numbers, 6) if self.kinds else b""


def unpack_kinds(packed: bytes, samples: int) -> ShardKinds:
    """Read the kinds of a shard from the ledger, which may come from a store. `samples`: of the shard.

    Raises ValueError if they are malformed, or have more than 4 MiB of text.
    """
    if not packed:
        return ShardKinds()
    try:
        unpacker = zlib.decompressobj()
        text, _, numbers = unpacker.decompress(packed, _MAX_KINDS_BYTES + samples).partition(b"\0")
        kinds = read_json(text)
        if not unpacker.eof or len(numbers) != samples or not isinstance(kinds, list) or len(kinds) > MAX_KINDS:
            raise ValueError("not the kinds of this shard")
        for kind in kinds:
            _check_kind(read_json(kind))
        return ShardKinds(tuple(kinds), numbers)
    except (zlib.error, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"malformed kinds of samples: {error}") from error


def _check_kind(fields: Any, depth: int = 0) -> None:
    """Raise ValueError or TypeError unless these are pairs of a name and a kind, as `load_check` writes them."""
    if depth > _MAX_KIND_DEPTH:
        raise ValueError("nested too deeply")
    for name, kind in fields:
        is_name = isinstance(kind, str) and kind.isprintable()
        if not isinstance(name, str) or not (is_name or isinstance(kind, list)):
            raise TypeError(name)
        if is_name:
            continue
        what, *facts = kind
        if what == "fields" and len(facts) == 1:
            _check_kind(facts[0], depth + 1)
        elif what != "tensor" or not _is_tensor_kind(*facts):
            raise ValueError("not a kind")


def _is_tensor_kind(dimensions: Any, dtype: Any, layout: Any = "strided", shape: Any = ()) -> bool:
    is_plain = type(dimensions) is int and 0 <= dimensions <= _MAX_DIMENSIONS and isinstance(dtype, str)
    if not is_plain or not dtype.isidentifier() or layout not in _TENSOR_LAYOUTS or len(shape) > _MAX_DIMENSIONS:
        return False
    return all(type(size) is int and size >= 0 for size in shape) and math.prod(shape) < _MAX_TENSOR_VALUES


class KindCollector:
    """Collects the kinds of a shard's samples."""

    def __init__(self, samples: int) -> None:
        self._numbers = bytearray([NOT_LOADED]) * samples
        self._known: dict[str, int] = {}

    def add(self, position: int, kind: str) -> None:
        if kind in self._known or len(self._known) < MAX_KINDS:
            self._numbers[position] = self._known.setdefault(kind, len(self._known))

    def to_kinds(self) -> ShardKinds:
        return ShardKinds(tuple(self._known), bytes(self._numbers) if self._known else b"")


def add_load_finding(loaded: LoadedSample, parts: Mapping[str, PartToCheck], findings: LocatedFindingCollector) -> None:
    """Add why the loader leaves a sample out."""
    part = parts.get(loaded.part) or next(iter(parts.values()))
    findings.add("WDS171", loaded.error, part)


def count_kinds(
    kinds: Mapping[str, ShardKinds],
    selected: Mapping[str, SplitShard] | None,
    paths: Sequence[str],
) -> dict[str, tuple[int, str, int]]:
    """Kind -> (samples, shard and position of the first one), of the shards in `kinds` by path.

    `selected`: the samples of a split by path; None for all. `paths`: of the shards, in order.
    """
    counts: dict[str, tuple[int, str, int]] = {}
    for path in paths:
        if path not in kinds or (selected is not None and path not in selected):
            continue
        found = kinds[path]
        numbers = np.frombuffer(found.numbers, np.uint8)
        positions = np.arange(len(numbers))
        if selected is not None:
            positions = positions[np.asarray(sample_flags(selected[path], len(numbers)), bool)]
        for number, kind in enumerate(found.kinds):
            own = positions[numbers[positions] == number]
            if len(own):
                before, first_path, first = counts.get(kind, (0, path, int(own[0])))
                counts[kind] = (before + len(own), first_path, first)
    return counts


def missing_value_findings(
    check: LoadCheck, counts: Mapping[str, KindCount], known: frozenset[str]
) -> Iterator[Finding]:
    """A note for each mapped field that is None in some samples, except the fields that are `known` to be."""
    missing: dict[str, KindCount] = {}
    for kind, count in counts.items():
        for field in check.missing_fields(kind):
            before = missing.get(field, KindCount(0, count.first))
            missing[field] = KindCount(before.samples + count.samples, before.first)
    total = sum(count.samples for count in counts.values())
    for field, count in missing.items():
        if field not in known:
            yield absent_field_finding(field, count.samples, total, *count.first)
