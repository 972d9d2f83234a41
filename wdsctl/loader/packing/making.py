"""The samples of a planned pack become what the hooks make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from wdsctl.core.errors import LoaderError, WdsctlError
from wdsctl.core.keys import mix_one
from wdsctl.loader.failures import Failures, names, place_of, set_value
from wdsctl.loader.packing.candidates import Candidates, Entry
from wdsctl.loader.packing.cutting import cut
from wdsctl.loader.packing.merging import Measured
from wdsctl.loader.packing.too_long import piece_of, recalled
from wdsctl.loader.stages.hook import NOTHING, Hook
from wdsctl.loader.stages.item import GONE, PACK, Address, Item, key_of_all


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

    def content(self, entries: Sequence[Entry]) -> Content:
        """The samples of these entries, without those that are skipped or fail."""
        made = [self._items(entry) for entry in entries]
        lengths = [entry.lengths[0] for entry, items in zip(entries, made, strict=True) if items]
        items = list(chain.from_iterable(made))
        known = lengths if len(lengths) == len(items) else None
        return Content([entry.address for entry in entries], items, sum(lengths), known)

    def outputs(self, content: Content) -> Iterator[Item]:
        """What the hooks make of one pack."""
        return packed(content, self._pack, self._post, self._failures)

    def rebuild(self, address: Address) -> Item:
        """A pack once more, from the samples it was made of; GONE where there is none now that some are banned."""
        banned = self._failures.stats.banned
        content = self.content([recalled(each, self._candidates) for each in address["of"]])
        for item in self.outputs(content):
            if item.address["step"] == address["step"]:
                return item
        if self._failures.stats.banned > banned:
            return GONE
        raise LoaderError(
            "a pack that waits gives no output any more",
            where=_names([item.value for item in content.items]),
            hint="resume with the hooks and the data of the run that saved the state",
            code="WDS502",
        )

    def _items(self, entry: Entry) -> list[Item]:
        piece = piece_of(entry.address)
        if piece is None:
            return self._candidates.items(entry)
        held, length = entry.held
        items = self._candidates.items(Entry(entry.address, entry.lengths, held))
        return [each for item in items for each in self._cut(item, (*piece, length))]

    def _cut(self, item: Item, piece: tuple[int, int, int]) -> list[Item]:
        try:
            made = piece_item(item, piece)
        except WdsctlError as error:
            self._failures.failed("cut", error, item.value, place_of(item.value))
            return []
        self._failures.succeeded("cut")
        return [made]


def packed(content: Content, pack: Hook, post: Hook | None, failures: Failures) -> Iterator[Item]:
    """What these hooks make of the samples of one pack."""
    values = Measured(value for item in content.items for value in _posted(item, post, failures))
    if not values:
        return
    values.lengths = content.lengths if post is None else None
    key = key_of_all(content.items, PACK)
    origins = tuple(chain.from_iterable(item.origins for item in content.items))
    for step, value in enumerate(pack.outputs(values, key, failures, _names)):
        set_value(value, "__restore_key__", ("pack", step, *origins))
        yield Item(value, {"of": content.addresses, "step": step}, key + step, origins)


def piece_item(item: Item, piece: tuple[int, int, int]) -> Item:
    """A piece of a sample: (start, stop, length of the sample), with which its restore key ends.

    Raises SampleFailed where nothing can be cut.
    """
    value = cut(item.value, *piece)
    origins = tuple((*origin[:3], *(origin[3:] or (0,)), *piece) for origin in item.origins)
    if origins:
        set_value(value, "__restore_key__", origins[0])
    return Item(value, item.address, mix_one(item.key, piece[0]), origins)


def _posted(item: Item, post: Hook | None, failures: Failures) -> list[Any]:
    if post is None:
        return [item.value]
    made = post.run(item.value, item.key, failures, _place)
    return [] if made is NOTHING else [made]


def _names(values: Sequence[Any]) -> str:
    return f"samples {names(values)}"


def _place(value: Any) -> str:
    return f"sample {names([value])}"
