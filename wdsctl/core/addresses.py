"""Addresses of items that wait, as text: what a state has of them, some three characters a sample.

An address is JSON that makes an item again. Of a sample it is the lane's pick it comes from, or a list that begins with
the pick; of a pack {"of": addresses of samples, "step": step}; None where nothing leads to the item.

    text    item item ...
    item    sample | pack
    pack    samples * 4 + 3, step, sample sample ...
    sample  d * 4 + 0: a pick | d * 4 + 1, n, n numbers: what follows the pick in a list | 2: None

d is how far the pick is from the one before it in the pack, at first and outside packs from 0; as it may be negative,
0, -1, 1, -2, ... are 0, 1, 2, 3, ... A number is what source maps have as base64 VLQ, without their sign: digits of
five bits, the lowest first, all but the last with 32 added, as base64's characters. So picks of a lane up to 2^37 take
eight characters and their neighbours in a pack one or two, and items can be written one by one and laid end to end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

Address = Any

_SEVERAL, _NONE, _PACK = 1, 2, 3  # kinds; 0 is a pick alone
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NUMBER = re.compile(r"[g-z0-9+/]{0,11}[A-Za-f]")  # 60 bits at most
_ONE = {digit: number for number, digit in enumerate(_DIGITS[:32])}
_VALUES = _ONE | {_DIGITS[low + 32] + digit: high << 5 | low for digit, high in _ONE.items() for low in range(32)}
_TEXTS = {number: text for text, number in reversed(_VALUES.items())}  # where two texts mean the same, the shorter


def written(address: Address) -> str:
    """The address of one item. Some 0.5 µs a sample in it."""
    if not isinstance(address, dict):
        return _sample(address, 0)
    texts, before = [_number(len(address["of"]) << 2 | _PACK), _number(address["step"])], 0
    for each in address["of"]:
        texts.append(_sample(each, before))
        before = _pick(each, before)
    return "".join(texts)


def read(text: str) -> list[Address]:
    """The addresses that were written so, one after the other. Raises ValueError for any other text."""
    numbers = iter(_numbers(text))
    try:
        return [_item(number, numbers) for number in numbers]
    except StopIteration:
        raise ValueError(f"{text[-20:]!r} ends in the middle of an address") from None


def written_together(addresses: Sequence[Address]) -> str:
    """Addresses of samples that wait in this order, written at once: shorter than one by one. Of none: nothing."""
    return written({"of": addresses, "step": 0}) if addresses else ""


def read_together(text: str) -> list[Address]:
    """The addresses that were written together. Raises ValueError for any other text."""
    found = read(text)
    if found and not (len(found) == 1 and isinstance(found[0], dict)):
        raise ValueError(f"{text[:20]!r} was not written together")
    together: list[Address] = found[0]["of"] if found else []
    return together


def waiting_in(stream: Any) -> list[Address]:
    """The addresses of all samples that wait in the stages of a lane, whose states lead on by `of` to the stage before.

    Raises ValueError where what should be addresses is not.
    """
    found: list[Address] = []
    while isinstance(stream, dict):
        for text in stream.values():
            if isinstance(text, str):
                for item in read(text):
                    found += item["of"] if isinstance(item, dict) else [item]
        stream = stream.get("of")
    return found


def _sample(address: Address, before: int) -> str:
    if address is None:
        return _number(_NONE)
    distance = _pick(address, before) - before
    folded = 2 * distance if distance >= 0 else -2 * distance - 1
    if not isinstance(address, list):
        return _number(folded << 2)
    rest = address[1:]
    return "".join(map(_number, (folded << 2 | _SEVERAL, len(rest), *rest)))


def _pick(address: Address, before: int) -> int:
    """The pick that the next one is written as a distance from."""
    pick: int = before if address is None else address[0] if isinstance(address, list) else address
    return pick


def _number(number: int) -> str:
    text = _TEXTS.get(number)
    return _DIGITS[number & 31 | 32] + _number(number >> 5) if text is None else text


def _numbers(text: str) -> list[int]:
    found = _NUMBER.findall(text)
    if len("".join(found)) != len(text):
        raise ValueError(f"{text[:20]!r} is no text of addresses")
    return [_VALUES[each] if each in _VALUES else _value(each) for each in found]


def _value(text: str) -> int:
    value = 0
    for digit in reversed(text):
        value = value << 5 | _DIGITS.index(digit) & 31
    return value


def _item(number: int, numbers: Iterator[int]) -> Address:
    if number & 3 != _PACK:
        return _read_sample(number, 0, numbers)
    step, before = next(numbers), 0
    addresses: list[Address] = []
    for _ in range(number >> 2):
        addresses.append(_read_sample(next(numbers), before, numbers))
        before = _pick(addresses[-1], before)
    return {"of": addresses, "step": step}


def _read_sample(number: int, before: int, numbers: Iterator[int]) -> Address:
    kind, folded = number & 3, number >> 2
    if kind == _NONE:
        return None
    pick = before + (-(folded + 1 >> 1) if folded & 1 else folded >> 1)
    if kind == _PACK or pick < 0:
        raise ValueError(f"{number} is no address of a sample after pick {before}")
    return [pick, *[next(numbers) for _ in range(next(numbers))]] if kind == _SEVERAL else pick
