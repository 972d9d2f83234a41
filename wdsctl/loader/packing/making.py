"""The samples of a planned pack become what the hooks make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from wdsctl.core.errors import LoaderError, WdsctlError
from wdsctl.core.keys import mix_one
from wdsctl.loader.failure_rates import PACKS
from wdsctl.loader.failures import Failures, place_of, set_value
from wdsctl.loader.packing.candidates import Candidates, Entry
from wdsctl.loader.packing.cutting import cut
from wdsctl.loader.packing.merging import Measured
from wdsctl.loader.packing.too_long import piece_of, recalled
from wdsctl.loader.stages.hook import Hook
from wdsctl.loader.stages.item import GONE, PACK, Address, Item, key_of_all
from wdsctl.loader.stages.packing import ALL, is_several, pack_item, places, posted, with_length


@dataclass(frozen=True, slots=True)
class Content:
    """The samples of one pack, read and encoded.

    `length`: of those that are there, by the first budget. `lengths`: of each; None where one sample became several, of
    which it is not known how much each has.
    """

    addresses: list[Address]
    items: list[Item]
    length: int
    lengths: list[int] | None


class Maker:
    """Makes packs, and makes them again. `post` runs on each sample just before `pack`."""

    def __init__(self, pack: Hook, post: Hook | None, candidates: Candidates, failures: Failures) -> None:
        self._pack = pack
        self._post = post
        self._candidates = candidates
        self._failures = failures

    def content(self, entries: Sequence[Entry], bans: int = ALL) -> Content:
        """The samples of these entries, without those that are skipped or fail, or that the first so many bans took:
        all that were in force when the pack was begun. Nothing where all are banned by now."""
        found = [(entry, self._banned_by(entry)) for entry in entries]
        there = [(entry, banned) for entry, banned in found if not 0 < banned <= bans]
        there = there if any(not banned for _, banned in there) else []
        self._failures.stats.banned += len(entries) - len(there)
        return self._read([entry for entry, _ in there])

    def _read(self, entries: Sequence[Entry]) -> Content:
        made = [self._items(entry) for entry in entries]
        lengths = [entry.lengths[0] for entry, items in zip(entries, made, strict=True) if items]
        items = list(chain.from_iterable(made))
        known = lengths if len(lengths) == len(items) else None
        return Content([entry.address for entry in entries], items, sum(lengths), known)

    def outputs(self, content: Content) -> Iterator[Item]:
        """What the hooks make of one pack."""
        return packed(content, self._pack, self._post, self._failures)

    def rebuild(self, address: Address) -> Item:
        """A pack once more, from the samples it was begun with; GONE where there is none now that some are banned.
        Where the hook makes several of a pack, it is that of the pack as it was begun."""
        stats = self._failures.stats
        entries, banned = [recalled(each, self._candidates) for each in address["of"]], stats.banned
        content = self.content(entries)
        outputs, is_less = self.outputs(content), stats.banned > banned
        if is_less and is_several(outputs):
            stats.banned = banned
            outputs = self.outputs(self.content(entries, 0))
        for item in outputs:
            if item.address["step"] == address["step"]:
                return item
        if is_less:
            return GONE
        raise LoaderError(
            "a pack that waits gives no output any more",
            where=places([item.value for item in content.items]),
            hint="resume with the hooks and the data of the run that saved the state",
            code="WDS502",
        )

    def _items(self, entry: Entry) -> list[Item]:
        piece = piece_of(entry.address)
        if piece is None:
            return self._candidates.items(entry)
        _, length = entry.held
        items = self._candidates.items(_whole(entry))
        return [each for item in items for each in self._cut(item, (*piece, length))]

    def _banned_by(self, entry: Entry) -> int:
        return self._candidates.banned_by(entry if piece_of(entry.address) is None else _whole(entry))

    def _cut(self, item: Item, piece: tuple[int, int, int]) -> list[Item]:
        try:
            made = piece_item(item, piece)
        except WdsctlError as error:
            self._failures.failed("cut", error, item.value, place_of(item.value))
            return []
        self._failures.succeeded("cut")
        return [made]


def packed(content: Content, pack: Hook, post: Hook | None, failures: Failures) -> Iterator[Item]:
    """What these hooks make of the samples of one pack. Where the hook is no generator, the iterator knows its length
    (`operator.length_hint`)."""
    values = Measured(value for item in content.items for value in posted(item, post, failures))
    if not values:
        return iter(())
    values.lengths = content.lengths if post is None else None
    key = key_of_all(content.items, PACK)
    origins = tuple(chain.from_iterable(item.origins for item in content.items))
    failures.tally.begin(PACKS)
    made = pack.outputs(values, key, failures, places)
    return with_length(
        made, (pack_item(value, content.addresses, step, key, origins) for step, value in enumerate(made))
    )


def _whole(piece: Entry) -> Entry:
    """The sample that a piece is of."""
    return Entry(piece.address, piece.lengths, piece.held[0])


def piece_item(item: Item, piece: tuple[int, int, int]) -> Item:
    """A piece of a sample: (start, stop, length of the sample), with which its restore key ends.

    Raises SampleFailed where nothing can be cut.
    """
    value = cut(item.value, *piece)
    origins = tuple((*origin[:3], *(origin[3:] or (0,)), *piece) for origin in item.origins)
    if origins:
        set_value(value, "__restore_key__", origins[0])
    return Item(value, item.address, mix_one(item.key, piece[0]), origins)
