"""One sorting of samples into splits under way: who has a place, who has none, and what is said of those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.counted import counted
from wdsctl.core.errors import StorageError
from wdsctl.core.split_rules import NONE, SplitRule
from wdsctl.core.splitting import Given
from wdsctl.core.splitting_bits import NOWHERE, Flags, Labels, parts_of
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_problems import GAP, NO_VALUE, Problem, some

FEW_GROUPS = 1000  # of which a seed may be looked for that leaves no split empty
MOST_NAMED = 100_000  # shards with samples that have no place, of which the first few are named

#: Shards with the splits of their samples.
Labelled = Iterator[tuple[ShardRow, Labels]]


@dataclass(slots=True)
class Sorted:
    """`given`: what of strata was sorted now, and where all groups are. `groups`: their hashes, where they are few."""

    parts: Parts
    problems: list[Problem] = field(default_factory=list)
    given: Given = field(default_factory=Given)
    groups: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Work:
    """One sorting under way. `gaps`: how many samples have no place; `first_gap`: the first of some shards."""

    ground: Ground
    rule: SplitRule
    rows: Sequence[ShardRow]
    only: Mapping[int, Flags]
    before: Given
    parts: Parts = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    given: Given = field(default_factory=Given)
    groups: set[int] = field(default_factory=set)
    gaps: int = 0
    first_gap: list[tuple[ShardRow, int]] = field(default_factory=list)

    def place(self, row: ShardRow, labels: Labels) -> None:
        """Put the samples of a shard where they belong; without a place, into the rest, or nowhere."""
        names = self.rule.names
        mine = self.only.get(row.id)
        if self.rule.rest and self.rule.rest != NONE:
            labels = np.where(labels == NOWHERE, np.int16(names.index(self.rule.rest)), labels)
        lost = (labels == NOWHERE) if mine is None else (labels == NOWHERE) & mine
        if lost.any():
            self.gaps += int(lost.sum())
            if len(self.first_gap) < MOST_NAMED:
                self.first_gap.append((row, int(np.argmax(lost))))
        if mine is not None:
            labels = np.where(mine, labels, np.int16(NOWHERE))
        for name, part in parts_of(row.id, labels, names).items():
            self.parts.setdefault(name, {})[row.id] = part

    def _gap(self) -> Problem:
        """What is said of samples without a place."""
        elsewhere = "`--rest train`, or nowhere: `--rest none`"
        named = sorted(self.first_gap, key=lambda pair: pair[0].path)[:3]  # whichever worker was first
        is_whole = self.rule.kind == "pattern"
        first = some([row.path if is_whole else self.ground.key(row, place) for row, place in named], len(named))
        if self.rule.kind == "pattern":
            what = f"{do(self.gaps, 'match', 'matches')} no pattern"
        elif self.rule.kind == "keys":
            what = f"{do(self.gaps)} in no list"
        else:
            what = f"{do(self.gaps, 'have', 'has')} no {self.rule.group_by}"
            elsewhere = f"{elsewhere}; or check the name of the value"
        code = GAP if self.rule.kind in ("pattern", "keys") else NO_VALUE
        message = f"{counted(self.gaps, 'sample')} {what}: {first}"
        return Problem(code, message, f"say where they go: {elsewhere}", self.gaps)

    def done(self) -> Sorted:
        if self.gaps and self.rule.rest != NONE:
            self.problems.append(self._gap())
        ordered = {name: self.parts.get(name, {}) for name in self.rule.names}
        return Sorted(ordered, self.problems, self.given, self.groups if len(self.groups) < FEW_GROUPS else set())


def do(count: int, many: str = "are", one: str = "is") -> str:
    """The verb for so many."""
    return one if count == 1 else many


def check_read(row: ShardRow, broken: str) -> None:
    """Raises StorageError where a shard is `broken`, in these words."""
    if broken:
        raise StorageError(
            f"a shard cannot be read, so its samples have no place: {broken}",
            where=row.path,
            hint="mend it, or leave it out of all splits: `--exclude-shard`",
        )
