"""What stages hand on to one another: a value, and how to make it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from wdsctl.core.keys import mix_one

#: JSON. A sample: the lane's pick it comes from, or [pick, step] for what a generator made of it in that step. A pack:
#: {"of": addresses, "step": step}. `wdsctl.core.addresses` writes them for states.
Address = Any

PACK = 0x5041434B  # sets the keys of packs apart from those of the samples they are made of


class Item(NamedTuple):
    """`key`: 64 bits that name what the value was made of, whatever lane, rank or worker made it. `origins`: the
    restore keys of the samples it was made of. `banned`: since it was first read, by which ban, counted from 1; 0: not.
    Whoever holds it leaves it out of what he hands on; until then it keeps its place in what was planned with it."""

    value: Any
    address: Address
    key: int
    origins: tuple[Any, ...] = ()
    banned: int = 0


GONE = Item(None, None, 0, (), banned=1)  # of what waits, where a ban has taken all that it was made of


def key_of(restore_key: Iterable[int]) -> int:
    """The key of a sample, from its restore key: source, pass and sample id."""
    key = 0
    for part in restore_key:
        key = mix_one(key, part)
    return key


def key_of_all(items: Iterable[Item], start: int = 0) -> int:
    """The key of what is made of several items, in this order."""
    key = start
    for item in items:
        key = mix_one(key, item.key)
    return key
