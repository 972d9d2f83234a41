"""Numbers that look as if they were drawn on pictures, though no name says so: points, boxes, polygons by their values.

A single row such as [12, 30, 40, 45] may be anything. The rows of one key in several samples tell more: all of them are
within their pictures, not in a corner, and boxes of one format, or pairs of x and y. If only some samples look so, they
tell something as neighbours in their source: chance mixes them with the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_NUMBERS_ONLY = re.compile(rf"[\s\[(]*{_NUMBER}(?:[\s,;\])\[(]+{_NUMBER})+[\s\])]*")
#: Numbers in brackets, such as those of `click(x=40, y=30)`, `[40, 30, 100, 70]` and `POLYGON ((40 30, 100 30))`.
_IN_BRACKETS = re.compile(rf"[\[(]\s*(?:[a-z]=)?{_NUMBER}(?:[\s,;]+(?:[a-z]=)?{_NUMBER})+\s*[\])]")
#: A line of a table: four numbers or more, between two words at most, such as `dog 0.9 12 30 40 45`.
_NUMBERS_OF_LINE = re.compile(
    rf"(?:[^\s,;]+[\s,;]+){{0,2}}?({_NUMBER}(?:[\s,;]+{_NUMBER}){{3,}})(?:[\s,;]+[^\s,;]+){{0,2}}\s*"
)
#: The path of a shape in SVG.
_PATH = re.compile(r"\s*[Mm][\s,]*[-+\d][MLHVCSQTAZmlhvcsqtaze\d.,+\s-]*")
_EACH_NUMBER = re.compile(_NUMBER)
#: A word of a text that is a number, such as 140, 140px and 140x130, unlike dates and names of files.
_NUMBER_WORD = re.compile(rf"{_NUMBER}(?:x{_NUMBER})*(?:%|[a-z]{{1,2}})?\.?")
_BETWEEN_WORDS = dict.fromkeys(map(ord, ",;|()<>[]{}\"'=:"), " ")
_DIGITS = re.compile(r"\d+")
#: A number that fills a cell of a table.
_NUMBER_IN_CELL = re.compile(rf"(?:^|[,;\t|])[ ]*{_NUMBER}[ ]*(?=$|[,;\t|])", re.MULTILINE)
#: A number that fills an element or an attribute, or is in pixels.
_NUMBER_IN_MARKUP = re.compile(rf"""[>"'][ ]*{_NUMBER}[ ]*[<"']|\d[ ]?px\b""")
_MAX_TEXT = 100_000  # characters that are searched

#: Ends of keys in snake case whose numbers are something else.
_OTHER_KEY = re.compile(
    r"(?:^|_)(?:ids?|scores?|counts?|times?|timestamps?|dates?|spans?|ranges?|intervals?|sizes?|shapes?|colou?rs?|rgba?"
    r"|ratings?|sources?)$"
)
_SMALL = 8  # numbers up to this are classes, ratings and other small counts
#: Of the longer side: where small numbers of any meaning lie. In many samples, points and boxes reach further.
_CORNER, _CORNER_OF_MANY = 1 / 8, 1 / 3
MANY_SAMPLES = 16
_MARGIN = 0.1  # of the sides: boxes may reach outside of a picture
_ROWS_WITHIN = 0.9  # of the rows of a key
_TEXTS_WITH_ROWS = 0.25  # of the texts of a key
_CHANCE = 1e-9  # of neighbours that look drawn though they are not: sources have up to 10^9 samples
_NOTHING = frozenset((0, -1))  # numbers that stand for no box or point


class NumberRow(NamedTuple):
    """Numbers next to a picture of `size` (width, height). `sample`: its key. `place`: of the sample, (source, number
    in it).
    """

    numbers: tuple[float, ...]
    size: tuple[int, int]
    sample: str = ""
    place: tuple[int, int] = (0, 0)


class SampleCounts(NamedTuple):
    """Of `samples` with numbers of a key, how many look drawn if each is judged alone."""

    drawn: int = 0
    samples: int = 0


def is_other_key(key: str) -> bool:
    """Whether a key says that its numbers are something else, such as `time`, `image_size` and `colors`."""
    return _OTHER_KEY.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()) is not None


def rows_of_text(text: str) -> tuple[list[tuple[float, ...]], bool]:
    """The rows of numbers of a text, and whether it has nothing else: its lines or path, or what it has in brackets."""
    text = text[:_MAX_TEXT]
    if _PATH.fullmatch(text):
        return [tuple(map(float, _EACH_NUMBER.findall(text)))], True
    lines = [line for line in text.splitlines() if line.strip()]
    is_all = bool(lines) and all(map(_NUMBERS_ONLY.fullmatch, lines))
    found = lines if is_all else _IN_BRACKETS.findall(text)
    has_header = len(lines) > 1 and not re.search(r"\d", lines[0])
    table = [] if found else [_NUMBERS_OF_LINE.fullmatch(line) for line in lines[has_header:]]
    if table and all(table):
        found, is_all = [line[1] for line in table if line], True
    return [tuple(map(float, _EACH_NUMBER.findall(each))) for each in found], is_all


def holds_numbers(text: str) -> bool:
    """Whether a text has numbers that are no words of a sentence: in several cells of a table, in markup, in brackets,
    or in a line of which half the words are numbers.
    """
    text = text[:_MAX_TEXT]
    if not _DIGITS.search(text):
        return False
    if _NUMBER_IN_MARKUP.search(text) or _IN_BRACKETS.search(text) or _PATH.fullmatch(text):
        return True
    return len(_NUMBER_IN_CELL.findall(text)) > 1 or any(map(_is_line_of_numbers, text.splitlines()))


def _is_line_of_numbers(line: str) -> bool:
    if sum(map(str.isalpha, line.split())) > len(_DIGITS.findall(line)):
        return False  # most captions, in a fifth of the time
    words = line.translate(_BETWEEN_WORDS).split()
    return bool(words) and 2 * sum(map(bool, map(_NUMBER_WORD.fullmatch, words))) >= len(words)


def find_drawn_row(rows: Sequence[NumberRow], *, are_texts: bool = False) -> NumberRow | None:
    """A row if the rows, which are those of one key in some samples, look drawn on their pictures; else None.

    `are_texts`: rows of texts with other words, in which only some need rows; texts without any are empty rows.
    """
    rows = rows if are_texts else [row for row in rows if not _is_nothing(row)]
    filled = [row for row in rows if row.numbers and sorted(row.numbers) != sorted(row.size)]
    if not filled or len(filled) < _TEXTS_WITH_ROWS * len(rows):
        return None
    if not are_texts:
        return _largest(filled) if _are_drawn(filled) else None
    lengths = sorted({len(row.numbers) for row in filled})
    of_lengths = ([row for row in filled if len(row.numbers) == length] for length in lengths)
    return next((_largest(each) for each in of_lengths if _are_drawn(each)), None)


def find_drawn_samples(
    rows: Sequence[NumberRow], before: SampleCounts, *, are_texts: bool = False
) -> tuple[NumberRow | None, SampleCounts]:
    """(A row if some samples look drawn among others of the key, and not by chance; else None, the counts of all).

    `before`: of other samples. `are_texts`: as for `find_drawn_row`.
    """
    samples = list(_by_sample(row for row in rows if are_texts or not _is_nothing(row)))
    looks = [find_drawn_row(each, are_texts=are_texts) is not None for each in samples]
    counts = SampleCounts(before.drawn + sum(looks), before.samples + len(looks))
    at, longest = 0, range(0)
    for looks_drawn, each in groupby(looks):
        run = range(at, at := at + len(list(each)))
        if looks_drawn and len(run) > len(longest):
            longest = run
    neighbours = [row for number in longest for row in samples[number]]
    different = len({tuple(row.numbers for row in samples[number]) for number in longest})  # frames repeat values
    share = (counts.drawn - len(longest) + 3) / (counts.samples - len(longest) + 4)  # at most, by the others
    found = None
    if share**different < _CHANCE and not _are_counters(neighbours):
        found = find_drawn_row(neighbours, are_texts=are_texts)
    return found or _find_corners(rows), counts


def _find_corners(rows: Sequence[NumberRow]) -> NumberRow | None:
    """A row if all rows of one length that lie on their pictures are two corners of a box, in many samples."""
    for length in (4, 5, 6, 7):
        reach = [row for row in rows if len(row.numbers) == length and _is_within(row) and _is_beyond(row, _CORNER)]
        are_ordered = all(list(row.numbers) == sorted(row.numbers) for row in reach)
        different = {row.sample: row.numbers for row in reach}.values()
        if len(set(different)) >= MANY_SAMPLES and not are_ordered:
            corners = ([row.numbers[first : first + 4] for row in reach] for first in range(length - 3))
            if any(all(a < c and b < d for a, b, c, d in each) for each in corners):
                return _largest(reach)
    return None


def _by_sample(rows: Iterable[NumberRow]) -> Iterator[list[NumberRow]]:
    """The rows of each sample, in the order of the sources."""
    for _, each in groupby(sorted(rows, key=attrgetter("place", "sample")), attrgetter("place", "sample")):
        yield list(each)


def _is_nothing(row: NumberRow) -> bool:
    return len(row.numbers) > 1 and _NOTHING.issuperset(row.numbers)


def _are_counters(rows: Sequence[NumberRow]) -> bool:
    """Whether all numbers ascend, or all descend, from row to row, as those of frames and of samples do."""
    columns = list(zip(*(row.numbers for row in rows), strict=False))
    return any(
        all(before < after for column in columns for before, after in pairwise(column[::step])) for step in (1, -1)
    )


def _largest(rows: Sequence[NumberRow]) -> NumberRow:
    return max(rows, key=lambda row: max(row.numbers) / max(row.size))


def _are_drawn(rows: Sequence[NumberRow]) -> bool:
    within = [row for row in rows if _is_within(row)]
    corner = _CORNER_OF_MANY if len({row.sample for row in rows}) >= MANY_SAMPLES else _CORNER
    if len(within) < _ROWS_WITHIN * len(rows) or not any(_is_beyond(row, corner) for row in within):
        return False
    rows = within
    lengths = {len(row.numbers) for row in rows}
    are_positions = min(lengths) > 4 and all(list(row.numbers) == sorted(row.numbers) for row in rows)
    if min(lengths) < 2 or are_positions:
        return False
    if lengths == {3}:
        return all(map(_is_keypoint, rows))
    if all(length % 3 == 0 for length in lengths) and all(map(_are_keypoints, rows)):
        return True
    are_even = all(length % 2 == 0 for length in lengths)
    are_pairs = are_even and all(map(_are_pairs, rows))
    if lengths == {2}:
        return are_pairs
    is_varied = len(lengths) > 1 or (lengths <= {6, 8} and all(_is_convex(row.numbers) for row in rows))
    return (are_pairs and is_varied and min(lengths) >= 6) or _have_boxes(rows, lengths)


def _have_boxes(rows: Sequence[NumberRow], lengths: set[int]) -> bool:
    """Whether rows are boxes, each with up to three more numbers such as a score, or several such boxes."""
    steps = [step for step in (4, 5, 6, 7) if all(length % step == 0 for length in lengths)]
    if len(lengths) == 1:
        steps = [step for step in steps if {step} == lengths]
    return any(_are_boxes(rows, step, first) for step in steps for first in range(step - 3))


def _is_within(row: NumberRow) -> bool:
    limit = max(row.size)
    return all(-_MARGIN * limit <= number <= (1 + _MARGIN) * limit for number in row.numbers)


def _is_beyond(row: NumberRow, corner: float) -> bool:
    return max(row.numbers) > max(_SMALL, corner * max(row.size))


def _are_pairs(row: NumberRow) -> bool:
    (width, height), (x, y) = row.size, (row.numbers[::2], row.numbers[1::2])
    return max(x) <= (1 + _MARGIN) * width and max(y) <= (1 + _MARGIN) * height


def _is_keypoint(row: NumberRow) -> bool:
    """x, y and a visibility or confidence; or three fractions, unlike the whole numbers of colors and dates."""
    x, y, third = row.numbers
    if min(row.numbers) < 0:
        return False
    is_labelled = 0 <= third <= 2 and ((x > 2 and y > 2) or x == y == third == 0)
    return _are_pairs(row._replace(numbers=(x, y))) and (is_labelled or not all(n == int(n) for n in row.numbers))


def _are_keypoints(row: NumberRow) -> bool:
    """Whether a row is x, y and a visibility or confidence, and the next x, y and so on."""
    triples = [row._replace(numbers=row.numbers[at : at + 3]) for at in range(0, len(row.numbers), 3)]
    return all(0 <= each.numbers[2] <= 2 and _is_keypoint(each) for each in triples)


def _is_convex(numbers: Sequence[float]) -> bool:
    """Whether pairs of x and y are the corners of a convex polygon, such as a triangle or a rotated box."""
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    sides = [(c - a, d - b) for (a, b), (c, d) in zip(points, points[1:] + points[:1], strict=True)]
    turns = [a * d - b * c for (a, b), (c, d) in zip(sides, sides[1:] + sides[:1], strict=True)]
    return any(turns) and (min(turns) >= 0 or max(turns) <= 0)


def _are_boxes(rows: Sequence[NumberRow], step: int, first: int) -> bool:
    """Whether four numbers from the number `first` of every `step` are boxes of one format in all rows."""
    boxes = [
        (*row.numbers[at + first : at + first + 4], *row.size)
        for row in rows
        for at in range(0, len(row.numbers), step)
    ]
    if all(a < c and b < d for a, b, c, d, _, _ in boxes):
        return True
    if not all(min(c, d) > 0 for _, _, c, d, _, _ in boxes):
        return False
    limit = 1 + _MARGIN
    have_corner = all(a + c <= limit * width and b + d <= limit * height for a, b, c, d, width, height in boxes)
    return have_corner or all(
        c / 2 - _MARGIN * width <= a <= limit * width - c / 2
        and d / 2 - _MARGIN * height <= b <= limit * height - d / 2
        for a, b, c, d, width, height in boxes
    )
