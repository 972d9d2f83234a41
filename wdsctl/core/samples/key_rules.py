"""Choose the rule for where keys end in file names. Takes names; returns the rule, its reason and the rejected rules.

WebDataset's rule ends keys at the first dot. It applies unless names contradict it: it would make one sample of
`IMG_2024.01.07.jpg` and `IMG_2024.01.08.jpg`. `choose_key_rule` examines one sample of that rule at a time. It compares
the text between the first dot and the known extension of each file:

    01.07.jpg 01.07.txt 01.08.jpg 01.08.txt    the same parts under each number: separate samples
    jpg json seg.png                           no text, and `seg` is a known word for a part
    0.jpg 1.jpg json                           different parts under each number: pieces of one sample
    left.jpg right.jpg, in every sample        words that recur: names of parts
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from wdsctl.core.media.kinds import MEDIA_KINDS, part_kind
from wdsctl.core.samples.naming import FIRST_DOT, KEY_RULES, KNOWN_EXTENSION, KeyRuleName, split_part
from wdsctl.core.text import pluralize

#: A sample with at least this many parts of one kind, and no others, is more likely several samples.
MIN_PARTS_OF_MANY = 20
#: Names that contradict a rule count from this share of files on; fewer are exceptions.
MIN_DISSENTING_SHARE = 0.01
_RECURRING_SHARE = 0.5  # share of samples from which a word that they have is the name of a part

_DIGITS = re.compile(r"[0-9]+")
_Verdict = Literal["one", "several", "unclear", "odd"]


class SampleLayout(NamedTuple):
    """The parts of samples with the same part names.

    `parts`: the text after the first dot in the names of one sample's files. `samples`: how many samples have exactly
    these parts. `key`: the key of one of them, for messages.
    """

    parts: tuple[str, ...]
    samples: int
    key: str = ""


class RejectedRule(NamedTuple):
    rule: KeyRuleName
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRuleChoice:
    """The chosen rule and its reason.

    `made`: the samples that the rule makes of the files, in words. `is_open`: no name distinguishes the rules.
    `is_clear`: whether the evidence decides; if not, the user has to. `odd_share`: the share of files in samples that
    may be several by their names, or whose parts look like numbers.
    """

    rule: KeyRuleName
    reason: str
    outcome: str = ""
    rejected: tuple[RejectedRule, ...] = ()
    is_open: bool = False
    is_clear: bool = True
    odd_share: float = 0.0


UNDECIDED_KEY_RULE = KeyRuleChoice(rule=FIRST_DOT, reason="no name has two dots", is_open=True)


def choose_key_rule(layouts: Sequence[SampleLayout]) -> KeyRuleChoice:
    """Return the rule that fits the names. Cost: about 2 µs for each part of each layout."""
    dotted = [layout for layout in layouts if any("." in part for part in layout.parts)]
    if not dotted:
        return UNDECIDED_KEY_RULE
    samples = sum(layout.samples for layout in layouts)
    words = _count_words(dotted)
    files: Counter[_Verdict] = Counter()
    example: dict[_Verdict, SampleLayout] = {}
    for layout in dotted:
        verdict = _judge_layout(layout, samples, words)
        if verdict is not None:
            files[verdict] += layout.samples * len(layout.parts)
            example.setdefault(verdict, layout)
    doubtful = files["several"] + files["unclear"]
    against = doubtful + files["odd"]
    odd_share = doubtful / max(1, sum(layout.samples * len(layout.parts) for layout in layouts))
    rejected, outcome = _rejected_by_rule(layouts), partial(describe_rule_outcome, layouts)
    if not doubtful and files["one"] >= files["odd"]:
        reason = (
            f"the parts after the first dot belong together, such as {_example_names(example.get('one') or dotted[0])}"
        )
        return KeyRuleChoice(rule=FIRST_DOT, reason=reason, outcome=outcome(FIRST_DOT), rejected=rejected[FIRST_DOT])
    if files["unclear"] or files["one"] > MIN_DISSENTING_SHARE * against:
        shown = example.get("unclear") or example.get("several") or example["odd"]
        reason = f"the names allow several rules: {_example_names(shown)}"
        if files["one"] and not files["unclear"]:
            reason += f", and {_example_names(example['one'])}"
        return KeyRuleChoice(
            rule=FIRST_DOT,
            reason=reason,
            outcome=outcome(FIRST_DOT),
            rejected=rejected[FIRST_DOT],
            is_clear=False,
            odd_share=odd_share,
        )
    shown = example.get("several") or example["odd"]
    inner = {split_part(part, KNOWN_EXTENSION)[0] for part in shown.parts}
    reason = f"with keys up to the first dot, {_example_names(shown)} would be one sample"
    if len(inner) == 1:
        reason = f"in {_example_names(shown)}, {min(inner)!r} is not a known part name"
    return KeyRuleChoice(
        rule=KNOWN_EXTENSION,
        reason=reason,
        outcome=outcome(KNOWN_EXTENSION),
        rejected=rejected[KNOWN_EXTENSION],
        odd_share=odd_share,
    )


def use_given_key_rule(rule: KeyRuleName, layouts: Sequence[SampleLayout], reason: str) -> KeyRuleChoice:
    """Return the choice of a rule that the user has made, whatever the names say."""
    return KeyRuleChoice(
        rule=rule,
        reason=reason,
        outcome=describe_rule_outcome(layouts, rule),
        rejected=_rejected_by_rule(layouts)[rule],
    )


def describe_rule_outcome(layouts: Iterable[SampleLayout], rule: KeyRuleName) -> str:
    """Describe the samples that a rule makes of these files: `44 samples of up to 2 files`."""
    count = most = 0
    for layout in layouts:
        sizes = Counter(split_part(part, rule)[0] for part in layout.parts)
        count += layout.samples * len(sizes)
        most = max(most, *sizes.values())
    return (
        f"{pluralize(count, 'sample')} of up to {pluralize(most, 'file')}" if most > 1 else pluralize(count, "sample")
    )


def equivalent_part(part: str) -> tuple[str, str]:
    """Return a value that is equal for parts with the same role: `jpg` and `png`, or `seg.jpg` and `seg.png`."""
    words, _, ending = part.rpartition(".")
    kind = part_kind(ending)
    return words, kind if kind in MEDIA_KINDS else ending


def _rejected_by_rule(layouts: Sequence[SampleLayout]) -> dict[KeyRuleName, tuple[RejectedRule, ...]]:
    """Return, for every rule, the other rules and the samples that they would make."""
    outcomes = {rule: describe_rule_outcome(layouts, rule) for rule in KEY_RULES}
    parts = {part for layout in layouts for part in layout.parts if "." in part}
    ends = {rule: [split_part(part, rule) for part in sorted(parts)] for rule in KEY_RULES}
    return {
        rule: tuple(
            RejectedRule(other, "the same result for these names" if ends[other] == ends[rule] else outcomes[other])
            for other in KEY_RULES
            if other != rule
        )
        for rule in KEY_RULES
    }


def _count_words(layouts: Iterable[SampleLayout]) -> Counter[str]:
    """Count the samples that have each text between first dot and known extension.

    Counts each text as it is, and with `#` in place of numbers.
    """
    words: Counter[str] = Counter()
    for layout in layouts:
        inner = {split_part(part, KNOWN_EXTENSION)[0] for part in layout.parts} - {""}
        for word in inner | set(map(_mask_digits, inner)):
            words[word] += layout.samples
    return words


def _mask_digits(word: str) -> str:
    return _DIGITS.sub("#", word)


def _judge_layout(layout: SampleLayout, samples: int, words: Counter[str]) -> _Verdict | None:
    """Judge whether the files of one sample are one sample or several; None if no name has an unknown word.

    `odd`: the files are one sample by any rule, but an unknown word precedes the extensions of its parts.
    """
    groups: dict[str, set[tuple[str, str]]] = {}
    for part in layout.parts:
        inner, ending = split_part(part, KNOWN_EXTENSION)
        groups.setdefault(inner, set()).add(equivalent_part(ending))
    unknown = groups.keys() - {""}
    if not unknown:
        return None
    usual, count = Counter(map(frozenset, groups.values())).most_common(1)[0]
    if len(groups) > 1 and (2 * count <= len(groups) or not all(kinds <= usual for kinds in groups.values())):
        return "one"
    are_numbers = all(word[0].isdigit() for word in unknown)
    is_pairs, are_many = len(usual) > 1, len(groups) >= MIN_PARTS_OF_MANY
    if are_numbers or (are_many and samples == 1):
        return "several" if len(groups) == 1 or is_pairs or samples == 1 else "unclear"
    are_counted = len(groups) > 2 and len(set(map(_mask_digits, unknown))) < len(unknown)
    least = max(2, _RECURRING_SHARE * samples)
    if are_many or (is_pairs and are_counted):
        return "unclear"
    recurring = all(words[word] >= least or (are_counted and words[_mask_digits(word)] >= least) for word in unknown)
    return "one" if recurring else "several" if len(groups) > 1 else "odd"


def _example_names(layout: SampleLayout) -> str:
    names = [f"{layout.key or '*'}.{part}" for part in layout.parts]
    # The first and the last name are a better example than two neighbours, which may be one sample.
    shown = dict.fromkeys((names[0], names[-1]))
    return " and ".join(shown) + (f" ({len(names)} files)" if len(names) > 2 else "")
