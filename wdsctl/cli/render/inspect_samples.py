"""Samples as a person wants to see them. What they hold comes from anywhere: nothing in it reaches the terminal raw."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, relative, safe, size
from wdsctl.cli.render.pictures import Manner, drawing
from wdsctl.core.command_line import command
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.words import in_words

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from wdsctl.core.array_facts import ArrayFacts
    from wdsctl.core.part_view import PartView
    from wdsctl.core.verbs.inspect_samples import Pictures, SamplesReport, SampleView

#: Of a text, and of JSON: lines and characters that are shown; `wdsctl get` has all of it.
LINES, LETTERS = 40, 3_000
_HEX_A_LINE = 16
_NUMBERS = re.compile(r"\[\n([^\[\]{}\"]*)\n *\]")


def renderer(pictures: Pictures, manner: Manner) -> Callable[[SamplesReport], Iterator[RenderableType]]:
    """How a report is shown where pictures are drawn in this manner."""

    def render(report: SamplesReport) -> Iterator[RenderableType]:
        yield f"{path(report.root)}{at_view(report.view)}: {_which(report)}"
        for number, sample in enumerate(report.shown):
            yield ""
            yield from _Shown(report.root, sample, number, pictures, manner).lines()

    return render


def at_view(view: str) -> str:
    """`@NAME`, or nothing."""
    return f"@{safe(view)}" if view else ""


def _which(report: SamplesReport) -> str:
    of = f" of the split {safe(report.split)}" if report.split is not None else ""
    shown = count(len(report.shown))
    if report.how == "key":
        return f"{count(len(report.shown), 'sample')} of this key"
    if report.how == "random":
        return f"{shown} of {count(report.samples, 'sample')}{of}, drawn by seed {report.seed}"
    return f"the first {shown} of {count(report.samples, 'sample')}{of}"


@dataclass(frozen=True, slots=True)
class _Shown:
    root: str
    sample: SampleView
    number: int
    pictures: Pictures
    manner: Manner

    def lines(self) -> Iterator[RenderableType]:
        yield self._head()
        for i, part in enumerate(self.sample.parts):
            yield self._label(part)
            picture = self.pictures.get((self.number, i))
            if isinstance(picture, Unreadable):
                yield f"    no picture: {picture.reason}"
            elif picture is not None:
                yield drawing(picture, self.manner)
            yield from self._content(part)

    def _head(self) -> Text:
        from rich.text import Text

        sample = self.sample
        splits = f", {', '.join(map(safe, sample.splits))}" if sample.splits else ""
        where = "" if sample.shard == sample.key else f"  in {safe(sample.shard)}, place {count(sample.position)}"
        return Text.assemble((safe(sample.key), "bold"), f"{where}{splits}, {size(sample.size_bytes)}", no_wrap=False)

    def _label(self, part: PartView) -> Text:
        from rich.text import Text

        told = "  ".join(filter(None, (size(part.size_bytes), safe(_in_a_line(part)))))
        return Text.assemble("  ", (safe(part.name), "bold"), f"  {told}")

    def _content(self, part: PartView) -> Iterator[RenderableType]:
        if part.has_value:
            yield from self._text(part, pretty(part.value), is_json=True)
        elif part.text is not None:
            yield from self._text(part, part.text)
        elif part.head_hex:
            yield from (f"    {line}" for line in hex_lines(bytes.fromhex(part.head_hex)))

    def _text(self, part: PartView, text: str, *, is_json: bool = False) -> Iterator[RenderableType]:
        from rich.highlighter import JSONHighlighter
        from rich.padding import Padding
        from rich.text import Text

        shown = shortened(text)
        drawn = Text(visible(shown), overflow="fold")
        if is_json:
            JSONHighlighter().highlight(drawn)
        if shown.strip():
            yield Padding(drawn, (0, 0, 0, 4), expand=False)
        if len(shown) < len(text) or part.is_cut:
            more = f"{count(len(text) - len(shown), 'more character')}" if not part.is_cut else "more"
            whole = command("get", self.root, self.sample.key, "--part", part.name)
            yield f"    ... {more} ({relative(safe(whole))})"


def _in_a_line(part: PartView) -> str:
    """What a part is, where a line says it."""
    if part.problem:
        return f"cannot be read: {part.problem}"
    if isinstance(part.facts, Unreadable):
        return f"{part.format or part.kind}: {part.facts.reason}"
    if part.facts is not None:
        return in_words(part.facts)
    if part.array is not None:
        return array_in_words(part.array)
    if part.kind in ("text", "integer", "number", "json"):
        return ""
    return f"{part.kind}, {part.format}" if part.format not in ("", part.kind) else part.kind


def array_in_words(array: ArrayFacts) -> str:
    """`float32 3 x 224 x 224, -1.5 to 2.25, mean 0.31`."""
    shape = " x ".join(map(count, array.shape)) or "one number"
    told = [f"{array.dtype} {shape}"]
    if array.min is not None and array.max is not None and array.mean is not None:
        told += [f"{array.min:.6g} to {array.max:.6g}", f"mean {array.mean:.6g}"]
    if array.odd:
        told.append(f"{count(array.odd)} not finite")
    return ", ".join(told)


def pretty(value: object) -> str:
    """JSON on several lines, lists of numbers on one: no string has a line end in it that the pattern could meet."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _NUMBERS.sub(lambda match: f"[{' '.join(match[1].split())}]", text)


def shortened(text: str) -> str:
    """The first lines of a text, at most so many letters."""
    kept = "\n".join(text[: LETTERS + 1].split("\n")[:LINES])
    return kept if len(kept) <= LETTERS else kept[:LETTERS]


def visible(text: str) -> str:
    r"""`text` with nothing in it that a terminal acts on, line ends apart: a tab is blanks, other controls `\x1b`."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return "\n".join(map(_clean, lines)).rstrip("\n")


def _clean(line: str) -> str:
    return "".join(letter if letter.isprintable() or letter in _BLANKS else safe(letter) for letter in line)


#: Not printable for Python, harmless in a terminal: other blanks, and what joins letters of some scripts and emojis.
_BLANKS = frozenset("\u00a0\u3000\u2009\u202f\u200c\u200d")


def hex_lines(data: bytes) -> Iterator[str]:
    """As `xxd` has it, without the addresses' zeros."""
    for at in range(0, len(data), _HEX_A_LINE):
        piece = data[at : at + _HEX_A_LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{at:02x}  {piece.hex(' '):<{3 * _HEX_A_LINE - 1}}  {letters}"
