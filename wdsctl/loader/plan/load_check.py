"""The loader's part of `wdsctl validate --level load`: loads samples as a training does, and compares their values.

Samples are not batched for real, as sixteen large images may not fit into the memory of a check. What decides about a
batch is the kind of each value: of tensors the number of dimensions and the dtype, of others the type. So the default
batch function gets small stand-ins of these kinds.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch

from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.config import DatasetConfig, parse_config
from wdsctl.core.errors import Finding, Severity, WdsctlError
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.fields import find_parts
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.text import pluralize
from wdsctl.core.validate.load import BATCH_SIZE, UNSHUFFLED_SPLITS, KindCount, LoadedSample, LoadTarget
from wdsctl.loader.batching.collate import generic_batch
from wdsctl.loader.batching.columns import is_structure, structure_fields
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.images import ImageDecodeOptions
from wdsctl.loader.plan.components import SourceRange
from wdsctl.loader.plan.incompatible_sources import UNLIKE_SAMPLES_HINT, UnlikeSamplesError, check_like_range
from wdsctl.loader.reading.decode_functions import DecodeFunctions
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.reading.user_code import resolve_user_code
from wdsctl.loader.runtime.failure_rates import STRUCTURAL_FAILURE_RATE
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample, find_sample_factory, find_sample_type
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES
from wdsctl.loader.stores import open_store
from wdsctl.loader.stores.completed import CompletedSource
from wdsctl.loader.windows.source import FrameSource
from wdsctl.loader.windows.windows import TOLERANCE_S

ReadShard = Callable[[int, int], bytes]
SampleKind = tuple[type, Any]  # (class, `field_kinds`)
Kind = TypeVar("Kind")

_BLOCK_SAMPLES = 1024  # whose places are looked up at once
_PART_OF_ERROR = re.compile(r"part '([^']*)'")
_QUANTIZED = ("quint8", "qint8", "qint32", "quint4x2", "quint2x4")
_PLAIN_KIND_LENGTH = 3  # of the kind of a tensor: other tensors also have their layout, and their shape if it matters


def open_load_check(target: LoadTarget) -> DatasetLoadCheck:
    """Open the check of a dataset. Raises UsageError for code that dataset.yaml names and that may not run here, and
    the errors of `SplitSource` for a dataset that the loader refuses."""
    return DatasetLoadCheck(target)


@dataclass(frozen=True, slots=True)
class _WatchedDecoder(SampleDecoder):
    """The default decoder, which also says when libjpeg-turbo complains about an image that Pillow then decodes."""

    on_damage: Callable[[str], None] | None = None

    @property
    def _image_options(self) -> ImageDecodeOptions:
        return super(_WatchedDecoder, self)._image_options._replace(on_damage=self.on_damage)


class _UnitStorage:
    """The storage of the source: reads the shard that is being checked."""

    read_shard: ReadShard

    def read(self, _path: str, offset: int, size: int) -> bytes:
        return self.read_shard(offset, size)


class DatasetLoadCheck:
    """See `LoadCheck` of `wdsctl.core.validate.load`."""

    def __init__(self, target: LoadTarget) -> None:
        config = DatasetConfig(sample_type=CRUDE)
        if target.config_text:
            config = parse_config(target.config_text, target.config_path)
        self._config = resolve_user_code(config, target.location, target.config_path, trust_code=False)
        self._target = target
        self._offsets = Offsets(target.offsets_path)
        self._first_row = {shard.path: int(self._offsets.shard_row[i]) for i, shard in enumerate(self._offsets.shards)}
        self._storage = _UnitStorage()
        self._complaints: list[str] = []
        self._decoder = _WatchedDecoder(on_damage=self._complaints.append)
        self._functions = DecodeFunctions(self._decoder)
        self._kind_texts: dict[Any, str] = {}
        everything = [SplitShard(shard.id, shard.samples) for shard in self._offsets.shards if shard.samples]
        self._source = self._open_source(everything)

    def _open_source(self, split_shards: Sequence[SplitShard]) -> SplitSource:
        target, make = self._target, SplitSource
        sequences = self._config.sequences
        if sequences is not None:
            make = partial(FrameSource, sequences=sequences, windows=None, tolerance_s=TOLERANCE_S)  # type: ignore[assignment]
        if target.folder is not None:
            media = open_store(target.folder.media, self._decoder)
            make = partial(CompletedSource, media=media, is_jsonl=target.folder.form == "jsonl")  # type: ignore[assignment]
        return make(
            target.location.root,
            self._offsets,
            SampleSelection(self._offsets, split_shards),
            self._config,
            self._decoder,
            location=target.location,
            storage=self._storage,  # type: ignore[arg-type]  # only its `read` is used
            decode_functions=self._functions,
        )

    def load(self, shard: str, positions: Sequence[int], read: ReadShard) -> Iterator[LoadedSample | None]:
        self._storage.read_shard = read
        sequences = self._config.sequences
        if sequences is not None and sequences.features:
            # Each frame would be decoded from the keyframe before it, and `content` decodes whole videos.
            ends = {*positions[:1], *positions[-1:]}
            yield from (self._load_one(shard, each) if each in ends else None for each in positions)
            return
        for start in range(0, len(positions), _BLOCK_SAMPLES):
            rows = np.asarray(positions[start : start + _BLOCK_SAMPLES], np.int64) + self._first_row[shard]
            block = self._source.references.block_of_rows(rows, np.zeros_like(rows))
            for i in range(len(rows)):
                yield self._load(block, i)

    def _load_one(self, shard: str, position: int) -> LoadedSample:
        rows = np.array([self._first_row[shard] + position], np.int64)
        return self._load(self._source.references.block_of_rows(rows, np.zeros_like(rows)), 0)

    def _load(self, block: Any, i: int) -> LoadedSample:
        self._complaints.clear()
        for memory in self._source.memories:
            memory.begin(1)  # of the previous sample: new memory would cost page faults
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of decoders, about metadata
                sample = self._source.load(block, i)
        except WdsctlError as error:
            return self._failure(error)
        except Exception as error:  # noqa: BLE001 - what a training leaves out: a class of the user may raise anything
            return LoadedSample("", error=f"{type(error).__name__}: {error}")
        is_plain = self._target.folder is None and self._config.sequences is None
        is_read_here = is_plain and find_sample_factory(self._config.sample_type) is None
        is_decoded = is_read_here and not self._complaints and 0 <= block.spans[i] <= LAZY_PART_BYTES
        decoded = self._source.whole_parts(block.layouts[i]) if is_decoded else frozenset()
        return LoadedSample(self._kind_of(sample), decoded)

    def _failure(self, error: WdsctlError) -> LoadedSample:
        cause = error.__cause__
        where = cause.where if isinstance(cause, WdsctlError) else error.where
        found = _PART_OF_ERROR.search(where)
        part = found[1] if found else ""
        fields = [name for name, path in self._paths.items() if part and find_parts(path, {part: 0})]
        of_field = f"field {' and '.join(fields)}: " if fields else ""
        hint = f"; {error.hint}" if error.hint else ""
        return LoadedSample("", error=f"{of_field}{error.message}{hint}", part=part)

    @cached_property
    def _paths(self) -> dict[str, Any]:
        return parse_field_map(self._config.field_map)

    def _kind_of(self, sample: Any) -> str:
        kind = field_kinds(sample)
        text = self._kind_texts.get(kind)
        if text is None:
            text = self._kind_texts[kind] = json.dumps(kind)
        return text

    def missing_fields(self, kind: str) -> tuple[str, ...]:
        mapped = self._config.field_map
        return tuple(name for name, value in read_json(kind) if name in mapped and value == "NoneType")

    def split_findings(
        self, split: str, selection: Sequence[SplitShard] | None, kinds: Mapping[str, KindCount]
    ) -> list[Finding]:
        unlike = None if selection is None else self._unlike_finding(split, selection)
        if unlike is not None:
            fields = {kind: frozenset(name for name, _ in read_json(kind)) for kind in kinds}
            by_fields: dict[frozenset[str], dict[str, KindCount]] = {}
            for kind, count in kinds.items():
                by_fields.setdefault(fields[kind], {})[kind] = count
            return [unlike, *(each for group in by_fields.values() for each in self._conflicts(split, group))]
        return self._conflicts(split, kinds)

    def _unlike_finding(self, split: str, selection: Sequence[SplitShard]) -> Finding | None:
        """What the loader raises when it opens the split."""
        source = self._open_source(selection)
        if source.n == 0 or len({fields for fields in source.batch_fields if fields is not None}) < 2:
            return None
        try:
            whole = SourceRange(source, 0, source.n, source.n)
            check_like_range(whole, BATCH_SIZE, is_shuffled=split not in UNSHUFFLED_SPLITS)
        except UnlikeSamplesError as error:
            message = f"{_in_split(split)}{error.message}; {error.hint}"
            return Finding(code=error.code, severity="error", message=message)
        return None

    def _conflicts(self, split: str, kinds: Mapping[str, KindCount]) -> list[Finding]:
        return conflict_findings(split, kinds, self._batch_error)

    def _batch_error(self, one: str, other: str) -> str:
        sample_type = CrudeSample if self._config.sample_type == CRUDE else find_sample_type(self._config.sample_type)
        return batch_error((sample_type, read_json(one)), (sample_type, read_json(other)))


def field_kinds(sample: Any) -> tuple[tuple[str, Any], ...]:
    """(name, kind) of the fields of a sample: hashable, and JSON but for tuples."""
    return tuple(
        (name, _value_kind(each)) for name, each in structure_fields(sample).items() if name not in BASE_FIELDS
    )


def batch_error(one: SampleKind, other: SampleKind) -> str:
    """Why the default batch function cannot batch samples of these kinds; empty if it can."""
    if one == other and not _has_special_tensors(one[1]):
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about sparse tensors
            generic_batch([_stand_in(*one), _stand_in(*other)])
    except WdsctlError as error:
        return error.message
    return ""


def _has_special_tensors(kinds: Any) -> bool:
    """Whether a value is a nested or sparse tensor, some of which cannot be stacked even with their like."""
    structures = [kind for _, kind in kinds if not isinstance(kind, str)]
    return any(
        len(kind) > _PLAIN_KIND_LENGTH if kind[0] == "tensor" else _has_special_tensors(kind[1]) for kind in structures
    )


def conflict_findings(
    split: str, kinds: Mapping[Kind, KindCount], find_error: Callable[[Kind, Kind], str], *, loaded: str = ""
) -> list[Finding]:
    """A finding for each reason why samples of some kind cannot be batched with those of the most frequent one.

    `find_error` is like `batch_error`. `loaded`: follows the number of all samples in messages.
    """
    ordered = sorted(kinds.items(), key=lambda item: -item[1].samples)
    odd: dict[str, list[KindCount]] = {}
    for kind, count in ordered:  # also the first with itself: some tensors cannot be stacked at all
        if reason := find_error(ordered[0][0], kind):
            odd.setdefault(reason, []).append(count)
    total = sum(count.samples for count in kinds.values())
    findings = []
    for reason, counts in odd.items():
        samples = sum(count.samples for count in counts)
        mixed = 1 - (samples / total) ** BATCH_SIZE - (1 - samples / total) ** BATCH_SIZE
        usual = ordered[0][1]
        failing = 1.0 if usual in counts else mixed
        shard, key = counts[0].first
        like = f"; the others are like {', key '.join(usual.first)}" if usual not in counts else ""
        which = "some" if split in UNSHUFFLED_SPLITS else _percent(failing)
        message = (
            f"{_in_split(split)}{which} of the batches of {BATCH_SIZE} would fail: {reason}; "
            f"{pluralize(samples, 'sample')} of {total:,}{loaded}, such as {shard}, key {key}{like}; "
            f"{UNLIKE_SAMPLES_HINT}"
        )
        severity: Severity = "error" if failing > STRUCTURAL_FAILURE_RATE else "warning"
        findings.append(Finding(code="WDS506", severity=severity, message=message, shard=shard, key=key, count=samples))
    return findings


def _stand_in(sample_type: type, kinds: Any) -> Any:
    values = {**dict(zip(BASE_FIELDS, ("", (), None, ()), strict=True)), **{k: _stand_in_value(v) for k, v in kinds}}
    if issubclass(sample_type, dict):
        return sample_type(values)
    sample = object.__new__(sample_type)
    for name, value in values.items():
        object.__setattr__(sample, name, value)
    return sample


def _value_kind(value: Any) -> Any:
    """What decides about a batch: see the module. Hashable, and equal to what JSON returns but for tuples."""
    if isinstance(value, torch.Tensor):
        kind = "tensor", value.ndim, str(value.dtype).removeprefix("torch.")
        if value.layout == torch.strided and not value.is_nested:
            return kind
        shape = tuple(value.shape) if value.layout == torch.sparse_coo else ()
        return *kind, str(value.layout).removeprefix("torch."), shape
    if isinstance(value, dict) and any(isinstance(each, torch.Tensor) or is_structure(each) for each in value.values()):
        kinds = tuple((str(name), _value_kind(each)) for name, each in value.items())
        return ("fields", kinds) if any(not isinstance(each, str) for _, each in kinds) else "dict"
    return type(value).__name__


def _special_tensor(dtype: torch.dtype, form: str, shape: Sequence[int]) -> torch.Tensor:
    """A tensor that is nested or sparse."""
    if form == "sparse_coo":
        indices, values = torch.zeros((len(shape), 0), dtype=torch.int64), torch.zeros(0, dtype=dtype)
        return torch.sparse_coo_tensor(indices, values, tuple(shape), check_invariants=False)
    if form in ("strided", "jagged"):
        return torch.nested.nested_tensor([torch.zeros(1, dtype=dtype)], layout=getattr(torch, form))
    blocks = (1, 1) if form in ("sparse_bsr", "sparse_bsc") else None
    return torch.zeros((1, 1), dtype=dtype).to_sparse(layout=getattr(torch, form), blocksize=blocks)


def _stand_in_value(kind: Any) -> Any:
    if isinstance(kind, str):
        return None if kind == "NoneType" else type(kind, (), {})()
    if kind[0] == "tensor" and len(kind) > _PLAIN_KIND_LENGTH:
        return _special_tensor(_dtype(kind[2]), kind[3], kind[4])
    if kind[0] == "tensor":
        return torch.zeros((1,) * kind[1], dtype=_dtype(kind[2]))
    return {name: _stand_in_value(each) for name, each in kind[1]}


def _dtype(name: str) -> torch.dtype:
    """The dtype of that name; float32 for a quantized one, which no function fills, and for an unknown one of a ledger
    that may come from a store."""
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) and name not in _QUANTIZED else torch.float32


def _in_split(split: str) -> str:
    return f"split {split!r}: " if split else ""


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= STRUCTURAL_FAILURE_RATE else "less than 1%"
