"""Makes the packs of a plan: concatenates samples (`merge`, the default `pack_selected_samples`) or calls the hooks.

Also cuts samples into pieces: slices every field that is as long as the sample, and keeps the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from wdsctl.core.errors import LoaderError, SampleFailed, WdsctlError
from wdsctl.core.hashing import hash_one_value
from wdsctl.loader.packing.candidates import CandidateSource, PackCandidate
from wdsctl.loader.packing.hook_stage import (
    ALL_BANS,
    has_several_outputs,
    make_pack_item,
    run_post_hook,
    with_length_hint,
)
from wdsctl.loader.packing.too_long import piece_bounds, rebuild_candidate
from wdsctl.loader.runtime.failure_rates import PACK_COUNTER
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.sample_fields import describe_sample_location, describe_samples, set_field
from wdsctl.loader.runtime.stage import BANNED_ITEM, PACK_HASH_SALT, Address, Hook, PipelineItem, hash_items
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample

SLICEABLE_TYPES = (torch.Tensor, np.ndarray, list, tuple)


def slice_rows(value: Any, start: int, stop: int, row_count: int) -> Any:
    """Rows [start, stop) of a value that has `row_count` rows: a new value of the same kind.

    In a sample, dict, other dataclass or named tuple, slices the fields that are tensors, arrays, lists or tuples with
    a first dimension of `row_count`; slices of tensors and arrays are views. Base fields, strings and bytes stay, as a
    length does not count their characters. Raises SampleFailed if no field has that length.
    """
    if isinstance(value, SLICEABLE_TYPES) and not hasattr(value, "_fields"):
        if not _has_rows(value, row_count):
            raise _no_matching_field_error(row_count)
        return value[start:stop]
    fields = field_values(value)
    sliced = {
        name: field[start:stop]
        for name, field in fields.items()
        if name not in BASE_FIELDS and _has_rows(field, row_count) and not hasattr(field, "_fields")
    }
    if not sliced:
        raise _no_matching_field_error(row_count)
    if isinstance(value, dict):
        return type(value)({**value, **sliced})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **sliced)
    return value._replace(**sliced)


def field_values(value: Any) -> dict[str, Any]:
    """The fields of a dict, dataclass or named tuple by name; none of anything else."""
    if isinstance(value, dict):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return value._asdict() if hasattr(value, "_asdict") else {}


def _has_rows(value: Any, row_count: int) -> bool:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.ndim > 0 and value.shape[0] == row_count
    return isinstance(value, (list, tuple)) and len(value) == row_count


def _no_matching_field_error(row_count: int) -> SampleFailed:
    return SampleFailed(
        "the sample is too long for a pack and cannot be cut: none of its fields has a first dimension of "
        f"{row_count:,}",
        hint=f"return tensors or lists of {row_count:,} rows from encode_sample, or choose another `too_long`",
    )


CU_LENGTHS_FIELD = "cu_lengths"
BARE_TENSOR_FIELD = "values"  # the field that bare tensors become


class MeasuredSamples(list[Any]):
    """The samples of a pack, with the lengths of the first budget that they were planned with."""

    lengths: Sequence[int] | None = None


def merge(values: Sequence[Any], lengths: Sequence[int] | None = None) -> CrudeSample:
    """Join samples into one: the default `pack_selected_samples`.

    Fields that are tensors with the sample's length as their first dimension are concatenated along it. All other
    fields become lists, an entry per sample. `cu_lengths`, int32 (samples + 1,), is where each sample begins and the
    last one ends, as attention over packed sequences needs it. `__key__` are the keys joined by ",", `__restore_key__`
    a tuple of the restore keys, `__sources__` all sources, and `__subflavors__` the labels on which all samples agree.
    Bare tensors become the field `values`. `lengths` default to those of `MeasuredSamples`, or else to the first
    dimensions of the first field that is a tensor.

    Raises LoaderError (WDS506) if the samples have other fields than the first, or no tensor of their length.
    """
    if not values:
        raise LoaderError("a pack has no samples", hint="pass at least one sample", code="WDS506")
    rows = [{BARE_TENSOR_FIELD: value} if isinstance(value, torch.Tensor) else field_values(value) for value in values]
    names = [name for name in rows[0] if name not in BASE_FIELDS]
    for value, row in zip(values, rows, strict=True):
        if row.keys() != rows[0].keys() or not names:
            raise _unlike_fields_error(type(value).__name__, rows[0].keys() ^ row.keys())
    known = lengths if lengths is not None else getattr(values, "lengths", None)
    sizes = list(known) if known is not None else _first_dimensions(rows, names)
    columns = {name: [row[name] for row in rows] for name in names}
    joined = {name: torch.cat(column) for name, column in columns.items() if _can_concatenate(column, sizes)}
    if not joined:
        raise LoaderError(
            f"no field of the packed samples is a tensor as long as its sample; the lengths are {_shorten_list(sizes)}",
            where=f"samples {_shorten_list([row.get('__key__', '?') for row in rows])}",
            hint="return tensors as long as the sample from encode_sample, or override pack_selected_samples",
            code="WDS506",
        )
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return CrudeSample(
        {**_base_fields(rows), **columns, **joined, CU_LENGTHS_FIELD: torch.from_numpy(ends.astype(np.int32))}
    )


def _first_dimensions(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[int]:
    for name in names:
        if all(isinstance(row[name], torch.Tensor) and row[name].ndim for row in rows):
            return [len(row[name]) for row in rows]
    return [-1] * len(rows)


def _can_concatenate(column: Sequence[Any], sizes: Sequence[int]) -> bool:
    """Whether the column has tensors of these sizes that can be concatenated."""
    if not all(isinstance(value, torch.Tensor) and value.ndim for value in column):
        return False
    first = column[0]
    return all(
        len(value) == size and value.shape[1:] == first.shape[1:] and value.dtype == first.dtype
        for value, size in zip(column, sizes, strict=True)
    )


def _base_fields(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The base fields of a pack, from the samples that have them."""
    if any("__key__" not in row for row in rows):
        return {}
    subflavors = [row.get("__subflavors__") or {} for row in rows]
    shared = {
        name: label
        for name, label in subflavors[0].items()
        if all(name in other and other[name] == label for other in subflavors[1:])
    }
    return {
        "__key__": ",".join(str(row["__key__"]) for row in rows),
        "__restore_key__": tuple(row.get("__restore_key__", ()) for row in rows),
        "__subflavors__": shared,
        "__sources__": tuple(chain.from_iterable(row.get("__sources__") or () for row in rows)) or None,
    }


def _unlike_fields_error(type_name: str, differing_fields: set[str]) -> LoaderError:
    what = (
        f"fields {_shorten_list(sorted(differing_fields))}, which other samples of the pack lack"
        if differing_fields
        else f"no fields: {type_name}"
    )
    return LoaderError(
        f"samples cannot be packed together: one has {what}",
        hint="return samples with the same fields from encode_sample, or override pack_selected_samples",
        code="WDS506",
    )


def _shorten_list(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:3])) + (f" and {len(values) - 3} more" if len(values) > 3 else "")


@dataclass(frozen=True, slots=True)
class PackContent:
    """The samples of one pack, read and encoded.

    `length`: the sum over the present samples, by the first budget. `lengths`: of each sample; None if hooks made
    several samples of one, whose shares of its length are unknown.
    """

    addresses: list[Address]
    items: list[PipelineItem]
    length: int
    lengths: list[int] | None


class PlannedPacker:
    """Makes packs, and rebuilds earlier ones. `post` runs on each sample just before `pack`."""

    def __init__(
        self, pack: Hook, post: Hook | None, candidate_source: CandidateSource, failures: FailureTracker
    ) -> None:
        self._pack = pack
        self._post = post
        self._candidate_source = candidate_source
        self._failures = failures

    def read_content(self, candidates: Sequence[PackCandidate], ban_count: int = ALL_BANS) -> PackContent:
        """The samples of these candidates, except those that are skipped or fail, and those of the first `ban_count`
        bans, which applied when the pack began. Empty if all are banned by now."""
        found = [(entry, self._banned_by(entry)) for entry in candidates]
        there = [(entry, banned) for entry, banned in found if not 0 < banned <= ban_count]
        there = there if any(not banned for _, banned in there) else []
        self._failures.stats.banned += len(candidates) - len(there)
        kept = [entry for entry, _ in there]
        items_of_candidates = [self._make_items(entry) for entry in kept]
        lengths = [entry.lengths[0] for entry, items in zip(kept, items_of_candidates, strict=True) if items]
        items = list(chain.from_iterable(items_of_candidates))
        known = lengths if len(lengths) == len(items) else None
        return PackContent([entry.address for entry in kept], items, sum(lengths), known)

    def outputs(self, content: PackContent) -> Iterator[PipelineItem]:
        """The outputs of the hooks for one pack."""
        return pack_outputs(content, self._pack, self._post, self._failures)

    def rebuild(self, address: Address) -> PipelineItem:
        """Make a pack again from the samples it began with; BANNED_ITEM if bans have removed the output. If the hook
        makes several outputs of a pack, the output is that of the pack with its original samples."""
        stats = self._failures.stats
        entries, banned = [rebuild_candidate(each, self._candidate_source) for each in address["samples"]], stats.banned
        content = self.read_content(entries)
        outputs, is_less = self.outputs(content), stats.banned > banned
        if is_less and has_several_outputs(outputs):
            stats.banned = banned
            outputs = self.outputs(self.read_content(entries, 0))
        for item in outputs:
            if item.address["step"] == address["step"]:
                return item
        if is_less:
            return BANNED_ITEM
        raise LoaderError(
            "a pack that waits in the state has no output any more",
            where=describe_samples([item.value for item in content.items]),
            hint="resume with the hooks and the data of the run that saved the state",
            code="WDS502",
        )

    def _make_items(self, candidate: PackCandidate) -> list[PipelineItem]:
        piece = piece_bounds(candidate.address)
        if piece is None:
            return self._candidate_source.make_items(candidate)
        _, length = candidate.payload
        items = self._candidate_source.make_items(_uncut_candidate(candidate))
        return [each for item in items for each in self._cut_item(item, (*piece, length))]

    def _banned_by(self, candidate: PackCandidate) -> int:
        return self._candidate_source.banned_by(
            candidate if piece_bounds(candidate.address) is None else _uncut_candidate(candidate)
        )

    def _cut_item(self, item: PipelineItem, piece: tuple[int, int, int]) -> list[PipelineItem]:
        try:
            piece_item = cut_item(item, piece)
        except WdsctlError as error:
            self._failures.record_failure("cut", error, item.value, describe_sample_location(item.value))
            return []
        self._failures.record_success("cut")
        return [piece_item]


def pack_outputs(
    content: PackContent, pack: Hook, post: Hook | None, failures: FailureTracker
) -> Iterator[PipelineItem]:
    """The outputs of these hooks for the samples of one pack. If the hook is not a generator, the iterator has a length
    hint (`operator.length_hint`)."""
    values = MeasuredSamples(value for item in content.items for value in run_post_hook(item, post, failures))
    if not values:
        return iter(())
    values.lengths = content.lengths if post is None else None
    key = hash_items(content.items, PACK_HASH_SALT)
    origins = tuple(chain.from_iterable(item.restore_keys for item in content.items))
    failures.tally.begin_attempt(PACK_COUNTER)
    outputs = pack.outputs(values, key, failures, describe_samples)
    return with_length_hint(
        outputs, (make_pack_item(value, content.addresses, step, key, origins) for step, value in enumerate(outputs))
    )


def _uncut_candidate(candidate: PackCandidate) -> PackCandidate:
    """The sample of a piece; an uncut sample itself."""
    return PackCandidate(candidate.address, candidate.lengths, candidate.payload[0])


def cut_item(item: PipelineItem, piece: tuple[int, int, int]) -> PipelineItem:
    """Cut a piece of a sample. `piece`: (start, stop, length of the sample), which is appended to the restore key.

    Raises SampleFailed if no field can be cut.
    """
    value = slice_rows(item.value, *piece)
    origins = tuple((*origin[:3], *(origin[3:] or (0,)), *piece) for origin in item.restore_keys)
    if origins:
        set_field(value, "__restore_key__", origins[0])
    return PipelineItem(value, item.address, hash_one_value(item.origin_hash, piece[0]), origins)
