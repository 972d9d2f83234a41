"""Samples that are left out although they are in the order: masks over positions, so that nothing else moves.

A ban begins where a lane stands when it is first given, and states keep it from then on. What is read again from before
that place, for a window or a buffer that is held, is read as it was, so that the same is planned with it; but nothing
that is banned by now is handed on. Bans only ever grow: a job that was told of a bad sample goes on knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.source import Ref

Entry = list[Any]  # JSON: keys, and [source, id] of samples
History = list[list[int]]  # of a lane: (entry, the pick from which it is in force)


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

    def judge(self, history: History) -> Callable[[Ref, int | None], bool] | None:
        """Whether a pick of a lane with this history is passed over when it is read, or (None) whether what it gave is
        left out by now, whenever it was read. None where nothing ever is."""
        if not history:
            return None
        since: dict[Any, int] = {}
        for entry, picks in history:
            for each in self.entries[entry]:
                since.setdefault(each, picks)

        def is_banned(ref: Ref, pick: int | None) -> bool:
            source, block, i = ref
            names = (block.keys[i], (source.number, block.ids[i]))
            return any(name in since and (pick is None or pick >= since[name]) for name in names)

        return is_banned

    def to_state(self) -> list[Entry]:
        return [[each if isinstance(each, str) else list(each) for each in entry] for entry in self.entries]


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
