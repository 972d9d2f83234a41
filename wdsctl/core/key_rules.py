"""Where the keys of files end, decided by evidence: names in, the rule, its reason and the rejected rules out. Pure.

Up to the first dot is WebDataset's rule, and it holds unless names speak against it: `IMG_2024.01.07.jpg` and
`IMG_2024.01.08.jpg` would be one sample. What speaks against it is looked for in one sample of that rule at a time, in
what stands between its first dot and the known ending of each file:

    01.07.jpg 01.07.txt 01.08.jpg 01.08.txt    the same parts under each number: samples of their own
    jpg json seg.png                           nothing, `seg` is known to describe a part
    0.jpg 1.jpg json                           not the same parts: pieces of one sample
    left.jpg right.jpg, in every sample        words that come again: names of parts
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from wdsctl.core.checks.kinds import MEDIA, kind_of
from wdsctl.core.counted import counted
from wdsctl.core.naming import FIRST_DOT, KEY_RULES, KNOWN_EXTENSION, KeyUntil, split_part

#: So many parts of one kind in one sample, and none beside them, are rather samples of their own.
MANY = 20
#: The share of files from which on names that speak against a rule count; below, they are a few odd names.
ENOUGH = 0.01
_RECURRING = 0.5  # of samples: a word in so many of them is the name of a part

_DIGITS = re.compile(r"[0-9]+")
_Verdict = Literal["one", "several", "unclear", "odd"]


class Layout(NamedTuple):
    """What follows the first dot in the names of one sample's files, how many samples have just these, and the key of
    one of them, for messages."""

    parts: tuple[str, ...]
    samples: int
    key: str = ""


class RejectedRule(NamedTuple):
    rule: KeyUntil
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """`made`: what the rule makes of the files. `is_open`: no name tells the rules apart.

    `is_clear`: whether the evidence decides; if not, somebody has to. `odd_share`: the share of files that are in
    samples which may be several by their names, or whose parts look like numbers.
    """

    rule: KeyUntil
    reason: str
    made: str = ""
    rejected: tuple[RejectedRule, ...] = ()
    is_open: bool = False
    is_clear: bool = True
    odd_share: float = 0.0


OPEN = KeyRule(rule=FIRST_DOT, reason="no name has two dots", is_open=True)


def choose_rule(layouts: Sequence[Layout]) -> KeyRule:
    """The rule that the names call for. Cost: some 2 us a part of every layout."""
    dotted = [layout for layout in layouts if any("." in part for part in layout.parts)]
    if not dotted:
        return OPEN
    samples = sum(layout.samples for layout in layouts)
    words = _words(dotted)
    files: Counter[_Verdict] = Counter()
    example: dict[_Verdict, Layout] = {}
    for layout in dotted:
        verdict = _verdict(layout, samples, words)
        if verdict is not None:
            files[verdict] += layout.samples * len(layout.parts)
            example.setdefault(verdict, layout)
    doubtful = files["several"] + files["unclear"]
    against = doubtful + files["odd"]
    odd_share = doubtful / max(1, sum(layout.samples * len(layout.parts) for layout in layouts))
    rejected, made = _rejected(layouts), partial(makes, layouts)
    if not doubtful and files["one"] >= files["odd"]:
        reason = f"the parts behind the first dot belong together, such as {_such(example.get('one') or dotted[0])}"
        return KeyRule(rule=FIRST_DOT, reason=reason, made=made(FIRST_DOT), rejected=rejected[FIRST_DOT])
    if files["unclear"] or files["one"] > ENOUGH * against:
        shown = example.get("unclear") or example.get("several") or example["odd"]
        reason = f"the names allow several rules: {_such(shown)}"
        if files["one"] and not files["unclear"]:
            reason += f", and {_such(example['one'])}"
        return KeyRule(
            rule=FIRST_DOT,
            reason=reason,
            made=made(FIRST_DOT),
            rejected=rejected[FIRST_DOT],
            is_clear=False,
            odd_share=odd_share,
        )
    shown = example.get("several") or example["odd"]
    inner = {split_part(part, KNOWN_EXTENSION)[0] for part in shown.parts}
    reason = f"up to the first dot, {_such(shown)} would be one sample"
    if len(inner) == 1:
        reason = f"in {_such(shown)}, {min(inner)!r} is no known name of a part"
    return KeyRule(
        rule=KNOWN_EXTENSION,
        reason=reason,
        made=made(KNOWN_EXTENSION),
        rejected=rejected[KNOWN_EXTENSION],
        odd_share=odd_share,
    )


def told_rule(rule: KeyUntil, layouts: Sequence[Layout], reason: str) -> KeyRule:
    """A rule that somebody has chosen, whatever the names say."""
    return KeyRule(rule=rule, reason=reason, made=makes(layouts, rule), rejected=_rejected(layouts)[rule])


def makes(layouts: Iterable[Layout], rule: KeyUntil) -> str:
    """What a rule makes of these files: `44 samples of up to 2 files`."""
    count = most = 0
    for layout in layouts:
        sizes = Counter(split_part(part, rule)[0] for part in layout.parts)
        count += layout.samples * len(sizes)
        most = max(most, *sizes.values())
    return f"{counted(count, 'sample')} of up to {counted(most, 'file')}" if most > 1 else counted(count, "sample")


def kind_of_part(part: str) -> tuple[str, str]:
    """What counts as the same part: `jpg` and `png` are both a picture, `seg.jpg` and `seg.png` both its mask."""
    words, _, ending = part.rpartition(".")
    kind = kind_of(ending)
    return words, kind if kind in MEDIA else ending


def _rejected(layouts: Sequence[Layout]) -> dict[KeyUntil, tuple[RejectedRule, ...]]:
    """For every rule, the others and what they would make."""
    made = {rule: makes(layouts, rule) for rule in KEY_RULES}
    parts = {part for layout in layouts for part in layout.parts if "." in part}
    ends = {rule: [split_part(part, rule) for part in sorted(parts)] for rule in KEY_RULES}
    return {
        rule: tuple(
            RejectedRule(other, "it makes the same of these names" if ends[other] == ends[rule] else made[other])
            for other in KEY_RULES
            if other != rule
        )
        for rule in KEY_RULES
    }


def _words(layouts: Iterable[Layout]) -> Counter[str]:
    """What stands between first dot and known ending, and how many samples have it: as it is, and with `#` in the place
    of numbers.
    """
    words: Counter[str] = Counter()
    for layout in layouts:
        inner = {split_part(part, KNOWN_EXTENSION)[0] for part in layout.parts} - {""}
        for word in inner | set(map(_numbered, inner)):
            words[word] += layout.samples
    return words


def _numbered(word: str) -> str:
    return _DIGITS.sub("#", word)


def _verdict(layout: Layout, samples: int, words: Counter[str]) -> _Verdict | None:
    """Whether the files of one sample are one or several; None where all endings are known, so that it is one.

    `odd`: it is one sample by any rule, with an unknown word before the endings of its parts.
    """
    groups: dict[str, set[tuple[str, str]]] = {}
    for part in layout.parts:
        inner, ending = split_part(part, KNOWN_EXTENSION)
        groups.setdefault(inner, set()).add(kind_of_part(ending))
    unknown = groups.keys() - {""}
    if not unknown:
        return None
    usual, count = Counter(map(frozenset, groups.values())).most_common(1)[0]
    if len(groups) > 1 and (2 * count <= len(groups) or not all(kinds <= usual for kinds in groups.values())):
        return "one"
    are_numbers = all(word[0].isdigit() for word in unknown)
    is_pairs, are_many = len(usual) > 1, len(groups) >= MANY
    if are_numbers or (are_many and samples == 1):
        return "several" if len(groups) == 1 or is_pairs or samples == 1 else "unclear"
    are_counted = len(groups) > 2 and len(set(map(_numbered, unknown))) < len(unknown)
    least = max(2, _RECURRING * samples)
    if are_many or (is_pairs and are_counted):
        return "unclear"
    recurring = all(words[word] >= least or (are_counted and words[_numbered(word)] >= least) for word in unknown)
    return "one" if recurring else "several" if len(groups) > 1 else "odd"


def _such(layout: Layout) -> str:
    names = [f"{layout.key or '*'}.{part}" for part in layout.parts]
    # Two that lie apart tell more than two neighbours, which may be a pair.
    shown = dict.fromkeys((names[0], names[-1]))
    return " and ".join(shown) + (f" ({len(names)} files)" if len(names) > 2 else "")
