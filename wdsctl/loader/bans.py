"""Samples that are left out although they are in the order: masks over positions, so that nothing else moves.

A ban begins where a lane stands when it is first given, and states keep it from then on. What is read again from before
that place, for a window or a buffer that is held, is read as it was, so that the same is planned with it; but nothing
that is banned by now is handed on. Bans only ever grow: a job that was told of a bad sample goes on knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.loader.eras import is_whole
from wdsctl.loader.source import Ref

if TYPE_CHECKING:
    from wdsctl.loader.arms import Arm, Piece
    from wdsctl.loader.streams import Streams

Entry = list[Any]  # JSON: keys, and [source, id] of samples
History = list[list[int]]  # of a lane: (entry, the pick from which it is in force)

LOOK = 1024  # samples that are looked at together, at most


@dataclass(frozen=True, slots=True)
class Bans:
    """`entries`: what was banned at once, in the order it was given."""

    entries: tuple[tuple[Any, ...], ...] = ()

    def and_also(self, ban: Iterable[Any]) -> Bans:
        """With one more entry, of what is not banned yet. Raises UsageError for what names no samples."""
        known = {each for entry in self.entries for each in entry}
        new = tuple(dict.fromkeys(each for each in map(_named, ban) if each not in known))
        return Bans((*self.entries, new)) if new else self

    def history(self, saved: Sequence[Sequence[int]], picks: int) -> History:
        """Of a lane that stands at `picks`: what began before, and what begins here."""
        return [list(each) for each in saved] + [[i, picks] for i in range(len(saved), len(self.entries))]

    def judge(self, history: History) -> Callable[[Ref, int | None], int] | None:
        """Whether a pick of a lane with this history is passed over when it is read, or (None) whether what it gave is
        left out by now, whenever it was read: by which entry, counted from 1; 0: it is not. None where nothing ever
        is."""
        if not history:
            return None
        since: dict[Any, tuple[int, int]] = {}
        for entry, picks in history:
            for each in self.entries[entry]:
                since.setdefault(each, (entry + 1, picks))

        def banned_by(ref: Ref, pick: int | None) -> int:
            source, block, i = ref
            found = (since.get(block.keys[i]), since.get((source.number, block.ids[i])))
            return min((each[0] for each in found if each and (pick is None or pick >= each[1])), default=0)

        return banned_by

    def to_state(self) -> list[Entry]:
        return [[each if isinstance(each, str) else list(each) for each in entry] for entry in self.entries]


def check_what_is_left(bans: Bans, streams: Streams, drawn: int) -> None:
    """Raise UsageError WDS514 where an arm that is drawn from after so many batches of the job has nothing left.

    Looks at the samples of each arm in their order up to the first that is not banned: some 5 us each.
    """
    banned = {each for entry in bans.entries for each in entry}
    if not banned:
        return
    present = max(i for i, begin in enumerate(streams.begins) if begin <= drawn)
    for number, arm in enumerate(streams.arms):
        if any(blend.weights[number] for blend in streams.blends[present:]) and not _has_left(arm, banned):
            instead = ", or give it the weight 0 (at a resume with adopt_weights=True)" if len(streams.arms) > 1 else ""
            raise UsageError(
                f"ban leaves nothing of {streams.names[number]}: all of its samples are banned",
                hint=f"ban fewer{instead}; states keep bans: to take one back, go back to a state from before it",
                code="WDS514",
            )


def _has_left(arm: Arm, banned: set[Any]) -> bool:
    return not is_whole(arm) or any(_has_one_left(piece, banned) for piece in arm.pieces)


def _has_one_left(piece: Piece, banned: set[Any]) -> bool:
    source = piece.source
    index, end = source.offsets, piece.first + piece.n
    for start in range(piece.first, end, LOOK):
        for row in source.selection.rows(np.arange(start, min(start + LOOK, end))).tolist():
            shard = index.shard_of(row)
            number = index.shards[shard].id << INDEX_BITS | row - int(index.shard_row[shard])
            if index.key(row) not in banned and (source.number, number) not in banned:
                return True
    return False


def bans_of(state: Sequence[Entry]) -> Bans:
    return Bans(tuple(tuple(_named(each) for each in entry) for entry in state))


def _named(each: Any) -> Any:
    """A key, or (source, id) of a restore key, which also says the pass, and what was made of the sample."""
    if isinstance(each, str):
        return each
    if isinstance(each, Sequence) and len(each) in {2, 3, 4, 7} and all(isinstance(part, int) for part in each):
        return (each[0], each[1]) if len(each) == 2 else (each[0], each[2])
    raise UsageError(
        f"a ban names samples by key or by restore key, not by {each!r}",
        hint="give strings such as '000123', or `__restore_key__` of the samples",
    )
