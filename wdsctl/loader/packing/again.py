"""A pack made once more from the restore keys of its samples alone, without the window it was planned in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wdsctl.loader.failures import Failures
from wdsctl.loader.packing.candidates import Columns
from wdsctl.loader.packing.making import Content, packed, piece_item
from wdsctl.loader.packing.stage import PlannedPackStage
from wdsctl.loader.stages.item import Item

if TYPE_CHECKING:
    from wdsctl.loader.source import Ref

WHOLE = 4  # parts of a restore key without a piece, at most: source, pass, id, step
PIECE = 7  # parts of one with a piece: start, stop and the length of the sample, too


def packs_again(
    stage: PlannedPackStage, keys: Sequence[Sequence[Any]], whole: Sequence[tuple[Ref, Item]], failures: Failures
) -> Iterator[Item]:
    """What the hooks make of the pack of these samples. `whole`: each one's reference and item, before it is cut."""
    pieces = [tuple(key[WHOLE:]) for key in keys]
    items = [
        piece_item(item, (piece[0], piece[1], piece[2])) if piece else item
        for piece, (_, item) in zip(pieces, whole, strict=True)
    ]
    lengths = [
        piece[1] - piece[0] if piece else _length(stage, ref, item)
        for piece, (ref, item) in zip(pieces, whole, strict=True)
    ]
    known = None if stage.packing.columns is not None and _have_siblings(keys) else lengths
    return packed(Content([], items, sum(lengths), known), stage.pack, stage.post, failures)


def _length(stage: PlannedPackStage, ref: Ref, item: Item) -> int:
    """By the first budget."""
    length = next(iter(stage.packing.lengths.values()))
    return Columns().lengths([ref], length)[0] if isinstance(length, str) else length(item.value)


def _have_siblings(keys: Sequence[Sequence[Any]]) -> bool:
    """Whether hooks made several of one of the samples."""
    return any(any(key[3:WHOLE]) for key in keys)
