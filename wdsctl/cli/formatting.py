"""Format numbers, sizes, times and names for people. JSON output has the raw values instead."""

from __future__ import annotations

import os
import re
import shlex
import textwrap

from wdsctl.core.text import escape_unprintable, pluralize

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_count(number: int, noun: str = "") -> str:
    """`1,204` or, with a noun in the singular, `1 shard`, `1,204 shards`."""
    return pluralize(number, noun) if noun else f"{number:,}"


def format_size(size_bytes: int) -> str:
    """`512 B`, `1.0 KiB`, `9.8 GiB`."""
    return f"{_format_in_unit(size_bytes, _size_unit(size_bytes))} {SIZE_UNITS[_size_unit(size_bytes)]}"


def format_size_progress(done_bytes: int, total_bytes: int) -> str:
    """`9.8/40.0 GiB`, both in the unit of the total."""
    unit = _size_unit(total_bytes)
    return f"{_format_in_unit(done_bytes, unit)}/{_format_in_unit(total_bytes, unit)} {SIZE_UNITS[unit]}"


def format_share(fraction: float) -> str:
    """`80 %`, `12.5 %`. Only exactly 1 is `100 %`, and only exactly 0 is `0 %`."""
    if fraction in {0, 1}:
        return f"{fraction:.0%}".replace("%", " %")
    if fraction < 0.0005:
        return "< 0.1 %"
    percent = min(round(fraction * 100, 1), 99.9) if fraction < 1 else round(fraction * 100, 1)
    return f"{percent:g} %"


def format_duration(seconds: float) -> str:
    """`0.8 s`, `41 s`, `3 min 5 s`, `3 h 12 min`, `2 d 4 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    rounded_s = round(seconds)
    for size_s, unit, smaller_s, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if rounded_s >= size_s:
            rest = rounded_s % size_s // smaller_s
            return f"{rounded_s // size_s} {unit} {rest} {smaller}" if rest else f"{rounded_s // size_s} {unit}"
    return f"{rounded_s} s"


def format_field_map(fields: dict[str, str]) -> str:
    """`image=jpg, caption=txt`."""
    return ", ".join(f"{name}={path}" for name, path in fields.items())


def escape_line(text: str) -> str:
    """`text` on one line, without characters that a terminal would obey: keys and paths may be hostile."""
    return escape_unprintable(text)


def _current_folder() -> str:
    """Empty if the folder has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def display_path(text: str) -> str:
    """A path for people: relative if it is below the working directory, escaped as by `escape_line`."""
    here = os.path.join(_current_folder(), "")
    if here and os.path.join(text, "") == here:
        return "."
    return escape_line(text.removeprefix(here))


def shell_argument(text: str) -> str:
    """A path quoted as an argument of a command that people copy."""
    shown = display_path(text)
    return shlex.quote(f"./{shown}" if shown.startswith("-") else shown)


def relative_paths(text: str) -> str:
    """A message whose paths are relative to the working directory; `./` precedes a name that begins with a dash."""
    here = _current_folder()
    if not here:
        return text
    prefix = rf"(?<![^\s`'\"=(,]){re.escape(os.path.join(here, ''))}(?=(-?)[^\s`'\",;:)])"
    relative = re.sub(prefix, lambda match: "./" if match[1] else "", text)
    return re.sub(rf"(?<![^\s`'\"=(,]){re.escape(here)}(?=[\s`'\",;:)]|$)", ".", relative)


def wrap(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _size_unit(size_bytes: int) -> int:
    unit = 0
    # 1023.95 and more would be shown as 1,024.0.
    while unit < len(SIZE_UNITS) - 1 and size_bytes / 1024**unit >= (1024 if unit == 0 else 1023.95):
        unit += 1
    return unit


def _format_in_unit(size_bytes: int, unit: int) -> str:
    return f"{size_bytes:,}" if unit == 0 else f"{size_bytes / 1024**unit:,.1f}"


def view_suffix(view: str) -> str:
    """`@NAME`, or empty."""
    return f"@{escape_line(view)}" if view else ""


_FULL_WIDTH = 80  # columns that epilogs are written for


def fit_epilog(epilog: str, columns: int) -> str:
    """The text after the options of a help page, for a terminal of so many columns.

    Below 80, paragraphs are wrapped, and the remark of an example moves below its command, which stays whole.
    """
    if columns >= _FULL_WIDTH:
        return epilog
    blocks = epilog.strip("\n").split("\n\n")
    return "\n\n".join(_fit_block(block, columns) for block in blocks)


def _fit_block(block: str, columns: int) -> str:
    lines = block.removeprefix("\b\n").split("\n")
    if not lines[0].endswith(":"):
        return " ".join(line.strip() for line in lines)
    fitted = ["\b"]
    for line in lines:
        command, gap, remark = line.rpartition("   ")
        if len(line) + 2 <= columns or not gap or not command.strip():
            fitted.append(line)
        else:
            indent = " " * 6
            below = textwrap.wrap(remark.strip(), columns - 2, initial_indent=indent, subsequent_indent=indent)
            fitted += [command.rstrip(), *below]
    return "\n".join(fitted)
