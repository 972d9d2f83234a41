"""Numbers, sizes, times and names as people read them. JSON has the bare values instead."""

from __future__ import annotations

import os
import re
import shlex
import textwrap

from wdsctl.core.counted import counted
from wdsctl.core.printable import one_line

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(number: int, noun: str = "") -> str:
    """`1,204` or, with a noun in the singular, `1 shard`, `1,204 shards`."""
    return counted(number, noun) if noun else f"{number:,}"


def size(size_bytes: int) -> str:
    """`512 B`, `1.0 KiB`, `9.8 GiB`."""
    return f"{_in_unit(size_bytes, _unit(size_bytes))} {UNITS[_unit(size_bytes)]}"


def progress_of_size(done_bytes: int, total_bytes: int) -> str:
    """`9.8/40.0 GiB`: both in the unit of the total."""
    unit = _unit(total_bytes)
    return f"{_in_unit(done_bytes, unit)}/{_in_unit(total_bytes, unit)} {UNITS[unit]}"


def share(part: float) -> str:
    """`80 %`, `12.5 %`. Only the whole is `100 %` and only nothing is `0 %`."""
    if part in {0, 1}:
        return f"{part:.0%}".replace("%", " %")
    if part < 0.0005:
        return "< 0.1 %"
    percent = min(round(part * 100, 1), 99.9) if part < 1 else round(part * 100, 1)
    return f"{percent:g} %"


def duration(seconds: float) -> str:
    """`0.8 s`, `41 s`, `3 min 5 s`, `3 h 12 min`, `2 d 4 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size_s, unit, smaller_s, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size_s:
            rest = whole % size_s // smaller_s
            return f"{whole // size_s} {unit} {rest} {smaller}" if rest else f"{whole // size_s} {unit}"
    return f"{whole} s"


def field_map(fields: dict[str, str]) -> str:
    """`image=jpg, caption=txt`."""
    return ", ".join(f"{name}={path}" for name, path in fields.items())


def safe(text: str) -> str:
    """`text` on one line with nothing in it that moves a terminal's cursor: keys and paths come from anywhere."""
    return one_line(text)


def path(text: str) -> str:
    """A path as people would type it here: relative if it is below the working directory. One line, as `safe`."""
    here = os.path.join(os.getcwd(), "")
    if os.path.join(text, "") == here:
        return "."
    return safe(text.removeprefix(here))


def argument(text: str) -> str:
    """A path as an argument of a command that people copy."""
    shown = path(text)
    return shlex.quote(f"./{shown}" if shown.startswith("-") else shown)


def _typed(found: re.Match[str]) -> str:
    return "./" if found[1] else ""


def relative(text: str) -> str:
    """A sentence with the paths in it as people would type them here, with ./ before what is called like an option."""
    here = os.getcwd()
    below = re.sub(rf"(?<![^\s`'\"=(,]){re.escape(os.path.join(here, ''))}(?=(-?)[^\s`'\",;:)])", _typed, text)
    return re.sub(rf"(?<![^\s`'\"=(,]){re.escape(here)}(?=[\s`'\",;:)]|$)", ".", below)


def wrap(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _unit(size_bytes: int) -> int:
    unit = 0
    # 1023.95 and more would be shown as 1,024.0.
    while unit < len(UNITS) - 1 and size_bytes / 1024**unit >= (1024 if unit == 0 else 1023.95):
        unit += 1
    return unit


def _in_unit(size_bytes: int, unit: int) -> str:
    return f"{size_bytes:,}" if unit == 0 else f"{size_bytes / 1024**unit:,.1f}"
