"""Makes packs with the encoder's hooks: fills a buffer, selects from it, and packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import length_hint
from typing import Any

from wdsctl.core.checkpoint.addresses import encode_sample_list
from wdsctl.core.checkpoint.state import SAVE_HINT
from wdsctl.core.errors import LoaderError, StateMismatch
from wdsctl.core.hashing import derive_seed
from wdsctl.loader.runtime.failure_rates import BUFFER_COUNTER, PACK_COUNTER
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.sample_fields import describe_samples, set_field
from wdsctl.loader.runtime.stage import (
    BANNED_ITEM,
    NO_OUTPUT,
    PACK_HASH_SALT,
    Address,
    Cursor,
    Hook,
    PipelineItem,
    check_empty_draws,
    hash_items,
)
from wdsctl.loader.runtime.stats import Stats

PackSelection = list[list[PipelineItem]]

ALL_BANS = 1 << 62  # all bans


@dataclass(frozen=True, slots=True)
class HookPackStage:
    """`select` divides a buffer of `buffer_size` samples into lists; `pack` makes one or several samples of each list.

    `post`: runs on the samples of a pack just before they are packed. Samples that `select` does not choose are dropped
    and counted. `max_empty_draws`: consecutive samples without a pack after which a lane gives up.
    """

    buffer_size: int
    select: Hook
    pack: Hook
    post: Hook | None
    max_empty_draws: int = 1 << 62

    @property
    def options(self) -> str:
        """The options that a position in a buffer depends on."""
        return str(self.buffer_size)

    def open(self, upstream: Cursor, refs: Any, failures: FailureTracker, stats: Stats) -> HookPackCursor:  # noqa: ARG002
        return HookPackCursor(self, upstream, failures, stats)


class HookPackCursor:
    """State: the position at which the current buffer began, a hash of the selected packs, the numbers of emitted packs
    and outputs, and the number of bans that applied when the current pack began, so that the pack is finished with the
    samples it began with. Raises StateMismatch if hooks select other packs from the buffer after a restore.

    `ban_count`: how many bans apply now.
    """

    def __init__(self, stage: HookPackStage, upstream: Cursor, failures: FailureTracker, stats: Stats) -> None:
        self._stage = stage
        self._upstream = upstream
        self._packer = Packer(stage.pack, stage.post, failures)
        self._failures = failures
        self._stats = stats
        self._buffer_start: Any = None  # None: no buffer
        self._selected_packs: PackSelection = []
        self._selection_hash = 0
        self._packs_begun = 0  # of the selected packs
        self._outputs_emitted = 0  # outputs of the last begun pack
        self._begun_ban_count = 0
        self._outputs: Iterator[PipelineItem] | None = None
        self.ban_count = 0
        self._restored_buffer: dict[
            tuple[int, ...], PipelineItem
        ] = {}  # the buffer of a state, by address, until the next pack
        self._empty_draws = 0  # samples since the last pack

    def next(self) -> PipelineItem | None:
        self._restored_buffer = {}
        while True:
            if self._outputs is not None:
                item = next(self._outputs, None)
                if item is not None:
                    self._outputs_emitted += 1
                    self._empty_draws = 0
                    # A finished pack is not made again after a restore.
                    if not length_hint(self._outputs, 1):
                        self._outputs = None
                    return item
                self._outputs = None
            if self._packs_begun < len(self._selected_packs):
                self._begin_pack(self.ban_count)
                continue
            check_empty_draws(self._empty_draws, self._stage.max_empty_draws)
            if not self._fill_buffer():
                return None

    def rebuild(self, address: Address) -> PipelineItem:
        """Make a pack again from its samples. If its buffer was refilled, they are in memory."""
        items = [
            self._restored_buffer.get(_hashable_address(each)) or self._upstream.rebuild(each)
            for each in address["samples"]
        ]
        return self._packer.rebuild(items, address["step"])

    def state(self) -> dict[str, Any]:
        if self._outputs is None and self._packs_begun >= len(self._selected_packs):
            return {"upstream": self._upstream.state(), "selected": 0, "packs": 0, "emitted": 0, "bans": 0}
        begun, left, bans = self._packs_begun, 0, 0
        if self._outputs is not None:
            begun, left, bans = begun - 1, self._outputs_emitted, self._begun_ban_count
        return {
            "upstream": self._buffer_start,
            "selected": self._selection_hash,
            "packs": begun,
            "emitted": left,
            "bans": bans,
        }

    def load(self, state: dict[str, Any]) -> None:
        self._upstream.load(state["upstream"])
        self._selected_packs, self._packs_begun, self._outputs_emitted, self._outputs, self._restored_buffer = (
            [],
            0,
            0,
            None,
            {},
        )
        if state["packs"] or state["emitted"]:
            self._restored_buffer = {_hashable_address(item.address): item for item in self._fill_buffer()}
            if self._selection_hash != state["selected"]:
                self._failures.report_changed_packs("the hooks select other packs from a buffer")
            check_begun_packs(state, len(self._selected_packs))
            self._packs_begun = state["packs"]
            if state["emitted"] and self._packs_begun < len(self._selected_packs):
                self._begin_pack(state["bans"])
                self._skip_outputs(state["emitted"])

    def _skip_outputs(self, count: int) -> None:
        """Skip up to `count` outputs of the current pack."""
        outputs = self._outputs or iter(())
        while self._outputs_emitted < count and next(outputs, None) is not None:
            self._outputs_emitted += 1

    def _begin_pack(self, ban_count: int) -> None:
        self._outputs = self._packer.outputs(self._selected_packs[self._packs_begun], ban_count)
        self._begun_ban_count = ban_count
        self._packs_begun += 1
        self._outputs_emitted = 0

    def _fill_buffer(self) -> list[PipelineItem]:
        """Fill a buffer and select from it; returns its items, none at the end of a finite lane."""
        self._buffer_start = self._upstream.state()
        items: list[PipelineItem] = []
        while len(items) < self._stage.buffer_size and (item := self._upstream.next()) is not None:
            items.append(item)
        self._empty_draws += len(items)
        self._selected_packs = self._select_packs(items) if items else []
        self._selection_hash = _hash_selection(self._selected_packs)
        self._packs_begun = 0
        return items

    def _select_packs(self, items: list[PipelineItem]) -> PackSelection:
        values = [item.value for item in items]
        select = self._stage.select
        self._failures.tally.begin_attempt(BUFFER_COUNTER)
        chosen = select.run(values, hash_items(items, PACK_HASH_SALT), self._failures, describe_samples)
        if chosen is NO_OUTPUT:
            return []
        try:
            chosen = [list(pack) for pack in chosen]
        except TypeError as error:
            self._failures.record_failure(select.name, error, values, describe_samples(values), select.tolerance)
            return []
        item_by_id = {id(item.value): item for item in items}
        plan = [
            [
                # A sample that `select` created has no address, so it cannot wait in a group.
                item_by_id.get(id(value)) or PipelineItem(value, None, hash_items(items, PACK_HASH_SALT))
                for value in pack
            ]
            for pack in chosen
            if len(pack)
        ]
        taken = {id(item.value) for item in chain(*plan)}
        if all(id(item.value) in item_by_id for item in chain(*plan)):
            self._stats.left_out += len(items) - len(taken)
        return plan


def check_begun_packs(state: Mapping[str, Any], packs: int) -> None:
    """Raise StateMismatch WDS502 if a state has begun more packs than its window or buffer has."""
    begun = state["packs"] + (state["emitted"] > 0)
    if begun > packs:
        raise StateMismatch(
            f"the state of a lane is damaged: it has begun {begun} packs of {packs}", hint=SAVE_HINT, code="WDS502"
        )


def _hash_selection(packs: PackSelection) -> int:
    """32 bits of the addresses of the samples in these packs. Cost: 0.5 µs per sample."""
    return derive_seed("selected", " ".join(encode_sample_list([i.address for i in pack]) for pack in packs)) >> 32


class Packer:
    """Makes packs of items, and makes them again."""

    def __init__(self, pack: Hook, post: Hook | None, failures: FailureTracker) -> None:
        self._pack = pack
        self._post = post
        self._failures = failures

    def outputs(self, items: Sequence[PipelineItem], ban_count: int = ALL_BANS) -> Iterator[PipelineItem]:
        """The outputs of the hooks for the items of one pack, without items of the first `ban_count` bans: those that
        applied when the pack began. Yields nothing if all items are banned by now. If the hook is not a generator, the
        iterator has a length hint (`operator.length_hint`)."""
        there = [item for item in items if not 0 < item.banned_by <= ban_count]
        there = there if any(not item.banned_by for item in there) else []
        self._failures.stats.banned += len(items) - len(there)
        return self._run_pack_hook(there)

    def _run_pack_hook(self, items: Sequence[PipelineItem]) -> Iterator[PipelineItem]:
        values = [value for item in items for value in run_post_hook(item, self._post, self._failures)]
        if not values:
            return iter(())
        addresses = [item.address for item in items]
        key = hash_items(items, PACK_HASH_SALT)
        origins = tuple(chain.from_iterable(item.restore_keys for item in items))
        self._failures.tally.begin_attempt(PACK_COUNTER)
        outputs = self._pack.outputs(values, key, self._failures, describe_samples)
        return with_length_hint(
            outputs, (make_pack_item(value, addresses, step, key, origins) for step, value in enumerate(outputs))
        )

    def rebuild(self, items: Sequence[PipelineItem], step: int) -> PipelineItem:
        """Make output `step` of the pack of these items again; BANNED_ITEM if bans have removed the output. If the hook
        makes several outputs of a pack, the output is that of the pack with its original samples."""
        banned = self._failures.stats.banned
        outputs = self.outputs(items)
        if any(item.banned_by for item in items) and has_several_outputs(outputs):
            self._failures.stats.banned = banned
            outputs = self.outputs(items, 0)
        for item in outputs:
            if item.address["step"] == step:
                return item
        if any(item.banned_by for item in items):
            return BANNED_ITEM
        raise LoaderError(
            "a pack that waits in the state has no output any more",
            where=describe_samples([item.value for item in items]),
            hint="resume with the hooks and the data of the run that saved the state",
            code="WDS502",
        )


def has_several_outputs(outputs: Iterator[PipelineItem]) -> bool:
    """Whether a generator makes these outputs, so that there may be several."""
    return length_hint(outputs, 2) > 1


def with_length_hint(outputs: Iterator[Any], packs: Iterator[PipelineItem]) -> Iterator[PipelineItem]:
    """The packs made of `outputs`, as an iterator with a length hint unless a generator makes `outputs`."""
    return packs if length_hint(outputs, 2) > 1 else iter(list(packs))


def make_pack_item(value: Any, addresses: list[Address], step: int, key: int, origins: tuple[Any, ...]) -> PipelineItem:
    set_field(value, "__restore_key__", ("pack", step, *origins))
    return PipelineItem(value, {"samples": addresses, "step": step}, key + step, origins)


def _hashable_address(address: Address) -> tuple[int, ...]:
    """The address of a sample, as a dictionary key."""
    return tuple(address) if isinstance(address, list) else (address,)


def run_post_hook(item: PipelineItem, post: Hook | None, failures: FailureTracker) -> list[Any]:
    """The output of `postencode_sample` for a sample of a pack; empty if the hook skips the sample."""
    if post is None:
        return [item.value]
    output = post.run(item.value, item.origin_hash, failures, lambda value: describe_samples([value]))
    return [] if output is NO_OUTPUT else [output]
