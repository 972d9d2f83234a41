"""What options hold, as values: sizes, field maps, lists. Raises typer.BadParameter, which names the option."""

from __future__ import annotations

import re
from fractions import Fraction

import typer

#: As GNU tools count: a lone letter and KiB are powers of 1024, kB of 1000.
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?b?)", re.IGNORECASE)
EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def size_bytes(text: str | int) -> int:
    """`1GiB`, `500MB`, `64k`, `1.5G`, `1073741824`: at least one byte, exact however large.

    Typer sends the default, a number, through here too.
    """
    if isinstance(text, int):
        return text
    match = SIZE.fullmatch(text.strip())
    if match is None or (match[3].lower() in {"i", "ib"} and not match[2]):
        raise typer.BadParameter(f"{text!r} is no size; write 1GiB, 500MB, 64k or a number of bytes")
    base = 1000 if match[2] and match[3].lower() == "b" else 1024
    size = int(Fraction(match[1]) * base ** EXPONENTS[match[2].lower()])
    if size < 1:
        raise typer.BadParameter(f"{text!r} is less than one byte")
    return size


def part_names(text: str) -> tuple[str, ...]:
    """`jpg,txt`, and `jpg|png` where either will do; a leading dot is forgiven."""
    words = [[word.strip().lstrip(".") for word in name.split("|")] for name in text.split(",")] if text.strip() else []
    names = tuple("|".join(each) for each in words)
    if any("" in each for each in words):
        raise typer.BadParameter(f"{text!r} has an empty name; write jpg,txt")
    return names


def field_map(text: str) -> dict[str, str]:
    """`image=jpg,caption=txt` or a JSON object; in `image=jpg,png,caption=txt` the image is a jpg or else a png."""
    from wdsctl.core.fields import parse_option

    return parse_option(text) if text.strip() else {}
