"""Keys: one 64-bit number for each purpose, so that nothing random is ever counted up, added up or saved.

`derive("window", seed, 3, 7)` names what window 7 of lane 3 needs to be shuffled. Parts are hashed as canonical bytes:
seed 1 with epoch 2 never meets seed 2 with epoch 1, "12" and 12 differ, and ("a", "bc") is not ("ab", "c").
The values are part of every order that users have saved: to change them is to raise `ORDER_VERSION`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

PERSON = b"wdsctl.order"
WORD = (1 << 64) - 1

# The finaliser of splitmix64 (Stafford's mix 13): shift, multiply, shift, multiply, shift.
FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = 30, 27, 31
FIRST_FACTOR, SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def derive(*parts: int | str | bytes) -> int:
    """The 64-bit key of these parts, in this order. About 3 µs.

    Raises TypeError for anything but int, str and bytes; bool and numpy's integers are refused too, because what has
    two spellings would have two keys.
    """
    return _key_of(_hashed(parts))


def derive_each(parts: Sequence[int | str | bytes], lasts: Iterable[int]) -> list[int]:
    """`derive(*parts, last)` for each last part, in a third of the time: the first parts are hashed once."""
    begun = _hashed(parts)
    keys = []
    for last in lasts:
        hashed = begun.copy()
        hashed.update(_canonical(last))
        keys.append(_key_of(hashed))
    return keys


def mix(key: int | NDArray[np.uint64], values: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.uint64]:
    """A key for each value (modulo 2^64), all at once; distinct values get distinct keys. About 10 ns a value.

    Keys may be an array that broadcasts with the values.
    """
    word = array_word(key) if isinstance(key, int) else key
    state = np.bitwise_xor(values.astype(np.uint64, copy=False), word)
    spare = np.empty_like(state)
    _finalise(state, spare)
    np.add(state, word, state)
    _finalise(state, spare)
    return state


def mix_one(key: int, value: int) -> int:
    """What `mix` gives for one value, in plain integers."""
    return _finalise_one(_finalise_one((value ^ key) & WORD) + key & WORD)


def array_word(value: int) -> NDArray[np.uint64]:
    """An array without axes: small blocks are all overhead, and ufuncs take it up in half the time of a scalar."""
    return np.array(value & WORD, dtype=np.uint64)


def _hashed(parts: Sequence[int | str | bytes]) -> blake2b:
    return blake2b(b"".join(map(_canonical, parts)), digest_size=8, person=PERSON)


def _key_of(hashed: blake2b) -> int:
    return int.from_bytes(hashed.digest(), "little")


def _canonical(part: int | str | bytes) -> bytes:
    kind = type(part)
    if isinstance(part, int) and kind is int:
        tag, body = b"i", _integer_bytes(part)
    elif isinstance(part, str):
        tag, body = b"s", part.encode()
    elif isinstance(part, bytes):
        tag, body = b"b", part
    else:
        raise TypeError(f"a key is made of int, str and bytes, not of {kind.__name__}: {part!r}")
    return tag + len(body).to_bytes(8, "little") + body


def _integer_bytes(value: int) -> bytes:
    """The shortest signed little-endian form."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "little", signed=True)


_STEPS = (
    (array_word(FIRST_SHIFT), array_word(FIRST_FACTOR)),
    (array_word(SECOND_SHIFT), array_word(SECOND_FACTOR)),
)
_LAST = array_word(LAST_SHIFT)


def _finalise(state: NDArray[np.uint64], spare: NDArray[np.uint64]) -> None:
    """In place. Products of arrays wrap, as they should."""
    for shift, factor in _STEPS:
        np.right_shift(state, shift, spare)
        np.bitwise_xor(state, spare, state)
        np.multiply(state, factor, state)
    np.right_shift(state, _LAST, spare)
    np.bitwise_xor(state, spare, state)


def _finalise_one(state: int) -> int:
    state = (state ^ state >> FIRST_SHIFT) * FIRST_FACTOR & WORD
    state = (state ^ state >> SECOND_SHIFT) * SECOND_FACTOR & WORD
    return state ^ state >> LAST_SHIFT
