"""Addresses of buffered samples and packs as text, of about three characters per sample.

An address is a JSON value from which the loader rebuilds an item. The address of a sample is its draw index in the
lane, or a list that begins with the draw index; that of a pack is {"samples": addresses of samples, "step": step}; that
of an item without an address is None.

    text    item item ...
    item    sample | pack
    pack    samples * 4 + 3, step, sample sample ...
    sample  d * 4 + 0: a draw index | d * 4 + 1, n, n numbers: the rest of the list | 2: None

d is the difference to the previous draw index in the pack, or to 0 for the first one and outside of packs. Differences
0, -1, 1, -2, ... are written as 0, 1, 2, 3, ... Numbers are base64 VLQ as in source maps, without a sign: digits of
five bits, the lowest first, all but the last with 32 added. So a draw index up to 2^37 takes eight characters, the next
ones in a pack one or two, and texts of items can be concatenated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

ItemAddress = Any

_LIST, _NONE, _PACK = 1, 2, 3  # kinds; 0 is a draw index
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NUMBER = re.compile(r"[g-z0-9+/]{0,11}[A-Za-f]")  # 60 bits at most
_LAST_DIGITS = {digit: number for number, digit in enumerate(_DIGITS[:32])}
_VALUES = _LAST_DIGITS | {
    _DIGITS[low + 32] + digit: high << 5 | low for digit, high in _LAST_DIGITS.items() for low in range(32)
}
_TEXTS = {number: text for text, number in reversed(_VALUES.items())}  # of two texts, the shorter


def encode_address(address: ItemAddress) -> str:
    """The text of one address. Cost: 0.5 µs per sample."""
    if not isinstance(address, dict):
        return _encode_sample(address, 0)
    texts, before = [_encode_number(len(address["samples"]) << 2 | _PACK), _encode_number(address["step"])], 0
    for each in address["samples"]:
        texts.append(_encode_sample(each, before))
        before = _draw_index(each, before)
    return "".join(texts)


def decode_addresses(text: str) -> list[ItemAddress]:
    """The addresses in a concatenation of texts from `encode_address`. Raises ValueError for other texts."""
    numbers = iter(_decode_numbers(text))
    try:
        return [_decode_item(number, numbers) for number in numbers]
    except StopIteration:
        raise ValueError(f"{text[-20:]!r} ends within an address") from None


def encode_sample_list(addresses: Sequence[ItemAddress]) -> str:
    """The text of several samples' addresses: shorter than one by one. Empty for none."""
    return encode_address({"samples": addresses, "step": 0}) if addresses else ""


def decode_sample_list(text: str) -> list[ItemAddress]:
    """The addresses from `encode_sample_list`. Raises ValueError for other texts."""
    items = decode_addresses(text)
    if items and not (len(items) == 1 and isinstance(items[0], dict)):
        raise ValueError(f"{text[:20]!r} is not a list of samples")
    addresses: list[ItemAddress] = items[0]["samples"] if items else []
    return addresses


def pending_addresses(stream: Any) -> list[ItemAddress]:
    """The addresses of all samples buffered in the stages of a lane; `upstream` in a stage's state is the stage before.

    Raises ValueError for texts that are not addresses.
    """
    found: list[ItemAddress] = []
    while isinstance(stream, dict):
        for text in stream.values():
            if isinstance(text, str):
                for item in decode_addresses(text):
                    found += item["samples"] if isinstance(item, dict) else [item]
        stream = stream.get("upstream")
    return found


def _encode_sample(address: ItemAddress, before: int) -> str:
    if address is None:
        return _encode_number(_NONE)
    distance = _draw_index(address, before) - before
    folded = 2 * distance if distance >= 0 else -2 * distance - 1
    if not isinstance(address, list):
        return _encode_number(folded << 2)
    rest = address[1:]
    return "".join(map(_encode_number, (folded << 2 | _LIST, len(rest), *rest)))


def _draw_index(address: ItemAddress, before: int) -> int:
    """The draw index that the next one is encoded relative to."""
    draw: int = before if address is None else address[0] if isinstance(address, list) else address
    return draw


def _encode_number(number: int) -> str:
    text = _TEXTS.get(number)
    return _DIGITS[number & 31 | 32] + _encode_number(number >> 5) if text is None else text


def _decode_numbers(text: str) -> list[int]:
    found = _NUMBER.findall(text)
    if len("".join(found)) != len(text):
        raise ValueError(f"{text[:20]!r} is not a list of addresses")
    return [_VALUES[each] if each in _VALUES else _value(each) for each in found]


def _value(text: str) -> int:
    value = 0
    for digit in reversed(text):
        value = value << 5 | _DIGITS.index(digit) & 31
    return value


def _decode_item(number: int, numbers: Iterator[int]) -> ItemAddress:
    if number & 3 != _PACK:
        return _decode_sample(number, 0, numbers)
    step, before = next(numbers), 0
    addresses: list[ItemAddress] = []
    for _ in range(number >> 2):
        addresses.append(_decode_sample(next(numbers), before, numbers))
        before = _draw_index(addresses[-1], before)
    return {"samples": addresses, "step": step}


def _decode_sample(number: int, before: int, numbers: Iterator[int]) -> ItemAddress:
    kind, folded = number & 3, number >> 2
    if kind == _NONE:
        return None
    draw = before + (-(folded + 1 >> 1) if folded & 1 else folded >> 1)
    if kind == _PACK or draw < 0:
        raise ValueError(f"{number} is not an address of a sample after draw {before}")
    return [draw, *[next(numbers) for _ in range(next(numbers))]] if kind == _LIST else draw
