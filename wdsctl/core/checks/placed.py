"""Findings with the samples that they are about, so that those can be kept out of training."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from wdsctl.core.findings import Finding, Severity
from wdsctl.core.json_text import read_json


class Placed(NamedTuple):
    """A finding of one shard, and the places of its samples there, from 0, ascending; empty where it is of the shard.

    `is_whole`: no sample of the shard can be trusted.
    """

    finding: Finding
    places: tuple[int, ...] = ()
    is_whole: bool = False


class Sight(NamedTuple):
    """One part of one sample, as a level looks at it."""

    row: int  # the sample's place in the shard
    key: str
    part: str
    offset: int  # of the part's first byte in the shard
    size: int  # bytes


@dataclass(slots=True)
class Gathered:
    """What a level finds in one shard while it goes through it: one finding a code and part, with the first place."""

    shard: str
    _first: dict[tuple[str, str], Finding] = field(default_factory=dict)
    _places: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, code: str, message: str, sight: Sight, severity: Severity = "error") -> None:
        kind = (code, sight.part)
        if kind not in self._first:
            self._first[kind] = Finding(
                code=code,
                severity=severity,
                message=message,
                shard=self.shard,
                key=sight.key,
                part=sight.part,
                offset=sight.offset,
            )
        self._places.setdefault(kind, {})[sight.row] = None
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def all(self) -> tuple[Placed, ...]:
        return tuple(
            Placed(replace(first, count=self._counts[kind]), tuple(sorted(self._places[kind])))
            for kind, first in self._first.items()
        )


def merged(*sets: Iterable[Placed]) -> tuple[Placed, ...]:
    """What several looks at the same samples have found: what is of one code and part is one finding, as in one look.

    Where two looks have seen some of the same samples, a sample that counts twice may be counted once. Findings of the
    shard are one where they say the same: two sums may be wrong in two ways.
    """
    kinds: dict[tuple[str, str, str], Placed] = {}
    for each in (placed for found in sets for placed in found):
        kind = (each.finding.code, each.finding.part, "" if each.places else each.finding.message)
        kinds[kind] = _both(kinds[kind], each) if kind in kinds else each
    return tuple(kinds.values())


def _both(one: Placed, other: Placed) -> Placed:
    mine, others = set(one.places), set(other.places)
    if others <= mine:
        return one
    if mine <= others:
        return other
    first = min(one, other, key=lambda placed: placed.places[0]).finding
    count = one.finding.count + other.finding.count - len(mine & others)
    return Placed(replace(first, count=count), tuple(sorted(mine | others)), one.is_whole or other.is_whole)


def as_text(found: Iterable[Placed]) -> str:
    """For the ledger: `from_text` gives the same again."""
    rows = [[asdict(each.finding), list(each.places), each.is_whole] for each in found]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=True)


def from_text(text: str) -> tuple[Placed, ...]:
    return tuple(Placed(Finding(**finding), tuple(places), whole) for finding, places, whole in read_json(text))
