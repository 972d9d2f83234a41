"""Numbers with their nouns, for messages."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 shard`, `1,204 shards`; `plural` where it is not made by an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
