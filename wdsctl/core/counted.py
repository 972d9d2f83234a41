"""Numbers with their nouns, and lists of names, for messages."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 shard`, `1,204 shards`; `plural` where it is not made by an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def enumerated(names: Sequence[str]) -> str:
    """`train`, `train and val`, `train, val and test`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
