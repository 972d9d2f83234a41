"""Samples become packs by the encoder's own hooks: a buffer is filled, selected from, and packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import length_hint
from typing import Any

from wdsctl.core.errors import LoaderError
from wdsctl.loader.failure_rates import PACKS
from wdsctl.loader.failures import Failures, names, set_value
from wdsctl.loader.stages.cursor import Cursor
from wdsctl.loader.stages.hook import NOTHING, Hook
from wdsctl.loader.stages.item import GONE, PACK, Address, Item, key_of_all
from wdsctl.loader.stages.patience import give_up_if_barren
from wdsctl.loader.stats import Stats

Plan = list[list[Item]]

ALL = 1 << 62  # bans: whatever is banned


@dataclass(frozen=True, slots=True)
class PackStage:
    """`select` makes lists of samples of a buffer of `size` of them, `pack` one sample or several of each list.

    `post`: run on the samples of a pack just before it is packed. What `select` leaves out is dropped and counted.
    `patience`: samples in a row of which no pack comes, after which a lane gives up.
    """

    size: int
    select: Hook
    pack: Hook
    post: Hook | None
    patience: int = 1 << 62

    @property
    def options(self) -> str:
        """What a position in a buffer depends on."""
        return str(self.size)

    def open(self, upstream: Cursor, refs: Any, failures: Failures, stats: Stats) -> PackCursor:  # noqa: ARG002
        return PackCursor(self, upstream, failures, stats)


class PackCursor:
    """State: where the buffer under way began to be filled, how much of what became of it has left, and how many bans
    were in force when the pack was begun that is half out: it is finished of the samples that it was begun with.

    `bans`: how many are in force now.
    """

    def __init__(self, stage: PackStage, upstream: Cursor, failures: Failures, stats: Stats) -> None:
        self._stage = stage
        self._upstream = upstream
        self._packer = Packer(stage.pack, stage.post, failures)
        self._failures = failures
        self._stats = stats
        self._from: Any = None  # where the buffer begins; None: there is none
        self._plan: Plan = []
        self._begun = 0  # packs of the plan that were begun
        self._left = 0  # outputs of the last one of them that have left
        self._begun_with = 0  # bans
        self._outputs: Iterator[Item] | None = None
        self.bans = 0
        self._held: dict[tuple[int, ...], Item] = {}  # the buffer of a state, by address, until the next pack
        self._barren = 0  # samples since the last pack

    def next(self) -> Item | None:
        self._held = {}
        while True:
            if self._outputs is not None:
                item = next(self._outputs, None)
                if item is not None:
                    self._left += 1
                    self._barren = 0
                    # A pack that is over need not be made again after a restore.
                    if not length_hint(self._outputs, 1):
                        self._outputs = None
                    return item
                self._outputs = None
            if self._begun < len(self._plan):
                self._begin_pack(self.bans)
                continue
            give_up_if_barren(self._barren, self._stage.patience)
            if not self._fill():
                return None

    def rebuild(self, address: Address) -> Item:
        """A pack once more, from the samples it was made of. Those of a buffer that was filled again are there."""
        items = [self._held.get(_name(each)) or self._upstream.rebuild(each) for each in address["of"]]
        return self._packer.rebuild(items, address["step"])

    def state(self) -> dict[str, Any]:
        if self._outputs is None and self._begun >= len(self._plan):
            return {"of": self._upstream.state(), "packs": 0, "left": 0, "bans": 0}
        if self._outputs is None:
            return {"of": self._from, "packs": self._begun, "left": 0, "bans": 0}
        return {"of": self._from, "packs": self._begun - 1, "left": self._left, "bans": self._begun_with}

    def load(self, state: dict[str, Any]) -> None:
        self._upstream.load(state["of"])
        self._plan, self._begun, self._left, self._outputs, self._held = [], 0, 0, None, {}
        if state["packs"] or state["left"]:
            self._held = {_name(item.address): item for item in self._fill()}
            self._begun = state["packs"]
            if state["left"] and self._begun < len(self._plan):
                self._begin_pack(state.get("bans", self.bans))
                self._skip(state["left"])

    def _skip(self, left: int) -> None:
        """Let so many outputs of the pack under way go, as far as there are so many."""
        outputs = self._outputs or iter(())
        while self._left < left and next(outputs, None) is not None:
            self._left += 1

    def _begin_pack(self, bans: int) -> None:
        self._outputs = self._packer.outputs(self._plan[self._begun], bans)
        self._begun_with = bans
        self._begun += 1
        self._left = 0

    def _fill(self) -> list[Item]:
        """Fill a buffer and select from it: what is in the buffer, nothing where a finite lane has ended."""
        self._from = self._upstream.state()
        items: list[Item] = []
        while len(items) < self._stage.size and (item := self._upstream.next()) is not None:
            items.append(item)
        self._barren += len(items)
        self._plan = self._selected(items) if items else []
        self._begun = 0
        return items

    def _selected(self, items: list[Item]) -> Plan:
        values = [item.value for item in items]
        select = self._stage.select
        self._failures.tally.begin(PACKS)
        chosen = select.run(values, key_of_all(items, PACK), self._failures, places)
        if chosen is NOTHING:
            return []
        try:
            chosen = [list(pack) for pack in chosen]
        except TypeError as error:
            self._failures.failed(select.name, error, values, places(values), select.tolerance)
            return []
        mine = {id(item.value): item for item in items}
        plan = [[mine.get(id(value)) or _new(value, items) for value in pack] for pack in chosen if len(pack)]
        taken = {id(item.value) for item in chain(*plan)}
        if all(id(item.value) in mine for item in chain(*plan)):
            self._stats.left_out += len(items) - len(taken)
        return plan


class Packer:
    """Makes packs of items, and makes them again."""

    def __init__(self, pack: Hook, post: Hook | None, failures: Failures) -> None:
        self._pack = pack
        self._post = post
        self._failures = failures

    def outputs(self, items: Sequence[Item], bans: int = ALL) -> Iterator[Item]:
        """What the hooks make of the items of one pack, without those that the first so many bans took: all that were
        in force when it was begun. Nothing where all are banned by now. Where the hook is no generator, the iterator
        knows its length (`operator.length_hint`)."""
        there = [item for item in items if not 0 < item.banned <= bans]
        there = there if any(not item.banned for item in there) else []
        self._failures.stats.banned += len(items) - len(there)
        return self._made(there)

    def _made(self, items: Sequence[Item]) -> Iterator[Item]:
        values = [value for item in items for value in posted(item, self._post, self._failures)]
        if not values:
            return iter(())
        addresses = [item.address for item in items]
        key = key_of_all(items, PACK)
        origins = tuple(chain.from_iterable(item.origins for item in items))
        self._failures.tally.begin(PACKS)
        made = self._pack.outputs(values, key, self._failures, places)
        return with_length(made, (pack_item(value, addresses, step, key, origins) for step, value in enumerate(made)))

    def rebuild(self, items: Sequence[Item], step: int) -> Item:
        """Output `step` of the pack of these items, which it was begun with; GONE where there is none now that some are
        banned. Where the hook makes several of a pack, it is that of the pack as it was begun."""
        banned = self._failures.stats.banned
        outputs = self.outputs(items)
        if any(item.banned for item in items) and is_several(outputs):
            self._failures.stats.banned = banned
            outputs = self.outputs(items, 0)
        for item in outputs:
            if item.address["step"] == step:
                return item
        if any(item.banned for item in items):
            return GONE
        raise LoaderError(
            "a pack that waits gives no output any more",
            where=places([item.value for item in items]),
            hint="resume with the hooks and the data of the run that saved the state",
            code="WDS502",
        )


def is_several(outputs: Iterator[Item]) -> bool:
    """Whether a hook makes these of a pack, by and by, and not the one output."""
    return length_hint(outputs, 2) > 1


def with_length(made: Iterator[Any], packs: Iterator[Item]) -> Iterator[Item]:
    """The packs out of what `made` gives; where that is one output, the iterator knows its length."""
    return packs if length_hint(made, 2) > 1 else iter(list(packs))


def pack_item(value: Any, addresses: list[Address], step: int, key: int, origins: tuple[Any, ...]) -> Item:
    set_value(value, "__restore_key__", ("pack", step, *origins))
    return Item(value, {"of": addresses, "step": step}, key + step, origins)


def _name(address: Address) -> tuple[int, ...]:
    """The address of a sample, as one that can be looked up."""
    return tuple(address) if isinstance(address, list) else (address,)


def posted(item: Item, post: Hook | None, failures: Failures) -> list[Any]:
    """What `postencode_sample` makes of a sample that is packed: nothing where it leaves it out."""
    if post is None:
        return [item.value]
    made = post.run(item.value, item.key, failures, _place)
    return [] if made is NOTHING else [made]


def places(values: Sequence[Any]) -> str:
    return f"samples {names(values)}"


def _place(value: Any) -> str:
    return f"sample {names([value])}"


def _new(value: Any, items: Sequence[Item]) -> Item:
    """For a sample that `select` made itself: no address leads to it, so that it cannot wait in a group."""
    return Item(value, None, key_of_all(items, PACK))
