"""Packs samples by their lengths, window by window, and rebuilds packs from their restore keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.checkpoint.addresses import decode_sample_list, encode_sample_list
from wdsctl.core.errors import LoaderError
from wdsctl.core.hashing import derive_seed, hash_one_value, json_digest
from wdsctl.loader.packing.candidates import (
    CandidateSource,
    ColumnCandidates,
    ColumnReader,
    FunctionCandidates,
    PackCandidate,
    RefCursorLike,
    SampleCursorLike,
    draw_of,
)
from wdsctl.loader.packing.hook_stage import check_begun_packs
from wdsctl.loader.packing.merging import PackContent, PlannedPacker, cut_item, merge, pack_outputs
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.packing.plan import plan_window
from wdsctl.loader.packing.too_long import fit_candidates, rebuild_candidate
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.randomness import seed_all
from wdsctl.loader.runtime.stage import Address, Hook, PipelineItem
from wdsctl.loader.runtime.stats import Stats

if TYPE_CHECKING:
    from wdsctl.loader.reading.source import SampleRef

MAX_SAMPLE_KEY_LENGTH = 4  # parts of a restore key without a piece, at most: source, pass, id, step
PIECE_KEY_LENGTH = 7  # parts of the key of a piece, which also has start, stop and the length of the sample

DEFAULT_PACK_HOOK = Hook("pack_selected_samples", merge, 0)  # if the encoder does not override it


@dataclass(frozen=True, slots=True)
class PlannedPackStage:
    """`pack` makes one or several samples of each pack; `post` runs on the samples just before.

    `max_empty_draws`: consecutive candidates without a pack after which a lane gives up. `length_seed`: of the random
    numbers that a function draws for the length of a sample.
    """

    packing: Packing
    pack: Hook
    post: Hook | None
    max_empty_draws: int
    length_seed: int = 0

    @property
    def options(self) -> str:
        """The options that a position in a window depends on: 8 hex digits of method, lengths, capacities, window."""
        return json_digest(self.packing.config())[:8]

    def open(
        self, upstream: SampleCursorLike, refs: RefCursorLike, failures: FailureTracker, stats: Stats
    ) -> PlannedPackCursor:
        return PlannedPackCursor(self, upstream, refs, failures, stats)


_STATE_FIELDS = ("upstream", "until", "carried", "lengths", "packs", "emitted", "bans")


class PlannedPackCursor:
    """State: the positions at which the current window began (`upstream`) and ended (`until`), the samples carried into
    it, a hash of the lengths of all its samples, the numbers of emitted packs and of emitted outputs of the current
    pack, and the number of bans that applied when that pack began. After a restore, the window is planned again when
    the next pack is drawn. Raises StateMismatch if samples then have other lengths.

    `ban_count`: how many bans apply now.
    """

    def __init__(
        self,
        stage: PlannedPackStage,
        upstream: SampleCursorLike,
        refs: RefCursorLike,
        failures: FailureTracker,
        stats: Stats,
    ) -> None:
        columns = stage.packing.columns
        self._stage = stage
        self._upstream = upstream
        self._stats = stats
        self._failures = failures
        self._candidate_source: CandidateSource = (
            FunctionCandidates(list(stage.packing.lengths.values()), stage.length_seed, upstream, refs, failures)
            if columns is None
            else ColumnCandidates(columns, upstream, refs, failures)
        )
        self._packer = PlannedPacker(stage.pack, stage.post, self._candidate_source, failures)
        self._window_start: Any = None  # the position at which the current window began
        self._carried_in = ""  # the addresses of the samples carried into it
        self._candidates_of_window: list[PackCandidate | None] = []  # None for emitted ones
        self._packs: list[Int64Array] = []
        self._carried_out: list[PackCandidate] = []  # for the next window
        self._lengths_hash = 0  # of the current window
        self._carried_hash = 0  # of the lengths of the samples for the next window
        self._packs_begun = 0  # of the current window
        self._outputs_emitted = 0  # outputs of the last begun pack
        self._begun_ban_count = 0
        self.ban_count = 0
        self._outputs: Iterator[PipelineItem] | None = None
        self._pack_length = 0  # of the current pack
        self._empty_draws = 0
        self._unplanned_state: dict[str, Any] | None = None  # the state of a window that is not planned again yet

    def next(self) -> PipelineItem | None:
        """The next pack, or the next output of one; None at the end of a finite lane."""
        if self._unplanned_state is not None:
            with self._failures.repeating():
                self._replan_window(self._unplanned_state)
        while True:
            if self._outputs is not None:
                item = next(self._outputs, None)
                if item is not None:
                    if not self._outputs_emitted:  # a pack counts with its first output
                        self._stats.packed += self._pack_length
                        self._stats.pack_capacity += self._stage.packing.capacities[0]
                    self._outputs_emitted += 1
                    # A finished pack is not made again after a restore.
                    if not length_hint(self._outputs, 1):
                        self._outputs = None
                    return item
                self._outputs = None
            if self._packs_begun < len(self._packs):
                self._outputs = self._begin_pack(self.ban_count)
            elif not self._plan_next_window(is_replay=False):
                return None

    def rebuild(self, address: Address) -> PipelineItem:
        """Make a pack again from its samples."""
        return self._packer.rebuild(address)

    def state(self) -> dict[str, Any]:
        if self._unplanned_state is not None:
            return dict(self._unplanned_state)
        until = self._upstream.state()
        if self._outputs is None and self._packs_begun >= len(self._packs):
            return {
                "upstream": until,
                "until": until,
                "carried": self._carried_addresses(),
                "lengths": self._carried_hash,
                "packs": 0,
                "emitted": 0,
                "bans": 0,
            }
        begun, left, bans = self._packs_begun, 0, 0
        if self._outputs is not None:
            begun, left, bans = begun - 1, self._outputs_emitted, self._begun_ban_count
        return {
            "upstream": self._window_start,
            "until": until,
            "carried": self._carried_in,
            "lengths": self._lengths_hash,
            "packs": begun,
            "emitted": left,
            "bans": bans,
        }

    def load(self, state: dict[str, Any]) -> None:
        state = {name: state[name] for name in _STATE_FIELDS}  # of a damaged state, all are needed here
        self._upstream.load(state["until"])
        self._carried_out = [PackCandidate(address, (), None) for address in decode_sample_list(state["carried"])]
        self._carried_hash = state["lengths"]
        self._packs, self._packs_begun, self._outputs_emitted, self._outputs, self._empty_draws = [], 0, 0, None, 0
        self._unplanned_state = dict(state) if state["packs"] or state["emitted"] else None

    def _carried_addresses(self) -> str:
        """The addresses of the candidates that wait for the next window."""
        return encode_sample_list([entry.address for entry in self._carried_out])

    def _replan_window(self, state: dict[str, Any]) -> None:
        """Plan the window of a state again, and skip its emitted packs and outputs. Nothing counts a second time."""
        self._unplanned_state, counted = None, self._stats.copy()
        self._upstream.load(state["upstream"])
        self._plan_next_window(is_replay=True)
        self._check_lengths(self._lengths_hash, state["lengths"])
        check_begun_packs(state, len(self._packs))
        for pack in self._packs[: state["packs"]]:
            self._release_candidates(pack)
        self._packs_begun = state["packs"]
        if state["emitted"] and self._packs_begun < len(self._packs):
            self._outputs = outputs = self._begin_pack(state["bans"])
            while self._outputs_emitted < state["emitted"] and next(outputs, None) is not None:
                self._outputs_emitted += 1
        self._stats.forget_counts_since(counted)

    def _begin_pack(self, ban_count: int) -> Iterator[PipelineItem]:
        positions = self._packs[self._packs_begun]
        entries = [entry for position in positions if (entry := self._candidates_of_window[position]) is not None]
        content = self._packer.read_content(entries, ban_count)
        self._release_candidates(positions)
        self._pack_length = content.length
        self._begun_ban_count = ban_count
        self._packs_begun += 1
        self._outputs_emitted = 0
        return self._packer.outputs(content)

    def _release_candidates(self, positions: Int64Array) -> None:
        for position in positions:
            self._candidates_of_window[position] = None

    def _plan_next_window(self, *, is_replay: bool) -> bool:
        """Plan the next window; False if nothing is left."""
        packing = self._stage.packing
        self._window_start, self._carried_in = self._upstream.state(), self._carried_addresses()
        carried = self._carried_out
        if any(each.payload is None for each in carried):
            with self._failures.repeating():
                carried = [rebuild_candidate(each.address, self._candidate_source) for each in carried]
            if not is_replay:
                self._check_lengths(_hash_lengths(carried, _length_table(carried, packing)), self._carried_hash)
        taken, looked_at = self._candidate_source.take(packing.window, is_replay=is_replay)
        new, too_long = fit_candidates(taken, packing, self._candidate_source)
        self._stats.too_long += too_long
        self._count_empty_draws(0 if new else looked_at)
        entries = [*carried, *new]
        lengths = _length_table(entries, packing)
        window = plan_window(
            lengths[: len(carried)],
            lengths[len(carried) :],
            packing.capacities,
            packing.method,
            ids=_number_samples(entries),
            is_last=looked_at < packing.window,
        )
        self._candidates_of_window, self._packs, self._packs_begun = [*entries], window.packs, 0
        self._carried_out = [entries[position] for position in window.carry]
        self._lengths_hash = _hash_lengths(entries, lengths)
        self._carried_hash = _hash_lengths(self._carried_out, lengths[window.carry])
        return bool(entries or looked_at)

    def _check_lengths(self, lengths_hash: int, saved: int) -> None:
        if lengths_hash != saved:
            self._failures.report_changed_packs("a packing window has other samples or lengths")

    def _count_empty_draws(self, draws: int) -> None:
        self._empty_draws = self._empty_draws + draws if draws else 0
        if self._empty_draws > self._stage.max_empty_draws:
            raise LoaderError(
                f"no pack from {self._empty_draws:,} consecutive samples, at least a whole pass over the dataset",
                hint="check the lengths and the capacity, and the failures in the log",
                code="WDS505",
            )


def _length_table(candidates: Sequence[PackCandidate], packing: Packing) -> Int64Array:
    return np.array([entry.lengths for entry in candidates], np.int64).reshape(-1, len(packing.capacities))


def _hash_lengths(candidates: Sequence[PackCandidate], lengths: Int64Array) -> int:
    """32 bits of the draws and lengths of these candidates; 0 for none."""
    if not candidates:
        return 0
    draws = np.array([draw_of(entry.address) for entry in candidates], "<i8")
    return derive_seed("lengths", draws.tobytes(), lengths.astype("<i8").tobytes()) >> 32


def _number_samples(candidates: Sequence[PackCandidate]) -> Int64Array | None:
    """A number for each candidate, equal for the same sample in different passes; None if there is no such sample."""
    numbers: dict[tuple[Any, ...], int] = {}
    numbered = [numbers.setdefault(entry.sample, len(numbers)) for entry in candidates]
    return None if len(numbers) == len(numbered) else np.array(numbered, np.int64)


def rebuild_packs(
    stage: PlannedPackStage,
    restore_keys: Sequence[Sequence[Any]],
    samples: Sequence[tuple[SampleRef, PipelineItem]],
    failures: FailureTracker,
) -> Iterator[PipelineItem]:
    """The outputs of the hooks for the pack of these samples. `samples`: reference and uncut item of each."""
    pieces = [tuple(key[MAX_SAMPLE_KEY_LENGTH:]) for key in restore_keys]
    items = [
        cut_item(item, (piece[0], piece[1], piece[2])) if piece else item
        for piece, (_, item) in zip(pieces, samples, strict=True)
    ]
    lengths = [
        piece[1] - piece[0] if piece else _first_budget_length(stage, ref, item)
        for piece, (ref, item) in zip(pieces, samples, strict=True)
    ]
    has_siblings = any(any(key[3:MAX_SAMPLE_KEY_LENGTH]) for key in restore_keys)  # hooks made several of one sample
    known = None if stage.packing.columns is not None and has_siblings else lengths
    return pack_outputs(PackContent([], items, sum(lengths), known), stage.pack, stage.post, failures)


def _first_budget_length(stage: PlannedPackStage, ref: SampleRef, item: PipelineItem) -> int:
    """The length of a sample by the first budget."""
    length = next(iter(stage.packing.lengths.values()))
    if isinstance(length, str):
        return ColumnReader().lengths([ref], length)[0]
    seed_all(hash_one_value(stage.length_seed, item.origin_hash))
    return length(item.value)
