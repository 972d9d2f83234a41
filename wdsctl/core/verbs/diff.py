"""`diff`: what one dataset has and another has not, or one dataset at two generations.

Shards are compared first, by path and layout: what lies in shards of the same layout is the same, without a look at its
samples. The samples of all other shards are matched by key.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.compare.content import Contents, flagged
from wdsctl.core.compare.rows import Drift, Match, Row, Rows, waiting_rows
from wdsctl.core.compare.shards import is_alike, may_have_same_bytes, renamed
from wdsctl.core.compare.side import Side, opened_side
from wdsctl.core.errors import PermissionDenied, StorageError, UsageError
from wdsctl.core.findings import Finding
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.root_name import located
from wdsctl.core.splitting_bits import Flags
from wdsctl.core.verbs.diff_report import (
    ChangedShard,
    ComparedSide,
    DiffReport,
    RenamedShard,
    SampleDifference,
    SamplesDiff,
    ShardsDiff,
    SplitDrift,
)
from wdsctl.core.verbs.presence import check_made

_STEP = 20_000  # samples between two signs of progress


def diff(
    first: str,
    second: str | None = None,
    *,
    since: int | None = None,
    until: int | None = None,
    content: bool = False,
    limit: int = 10,
    catalogs: tuple[str | None, str | None] = (None, None),
    progress: Progress = SILENT,
) -> DiffReport:
    """Compare two datasets or views; or, without a second one, the first at generation `since` with `until` or now.

    `content`: read the parts of samples that look alike, too. `limit`: so many examples of each kind.
    Raises UsageError for contradictions, and what `opened_side` raises. A shard that cannot be read is in the report.
    Cost: some milliseconds a thousand shards that are the same, 5 µs a sample of the others; memory is one shard's
    samples; with `content` all bytes of both.
    """
    started = time.monotonic()
    is_history = since is not None or until is not None
    if (second is None) != is_history:
        raise UsageError(
            "a second dataset and --since exclude each other" if second else "one dataset is nothing to compare",
            hint="name two datasets, or one and an older generation of it: `--since N`",
        )
    if content and is_history:
        raise UsageError("an older generation has no bytes to compare", hint="leave out --content")
    with ExitStack() as open_:
        one = open_.enter_context(_opened(first, catalogs[0], since))
        other = open_.enter_context(_opened(first if second is None else second, catalogs[second is not None], until))
        rows = open_.enter_context(waiting_rows())
        contents = open_.enter_context(closing(Contents(one, other))) if content else None
        return _Comparison(one, other, rows, contents, limit, progress).report(started)


def _opened(root: str, catalog: str | None, generation: int | None) -> AbstractContextManager[Side]:
    check_made(located(root, catalog)[0])
    return opened_side(root, catalog, generation)


@dataclass(slots=True)
class _Comparison:
    first: Side
    second: Side
    rows: Rows
    contents: Contents | None
    limit: int
    progress: Progress
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[SampleDifference]] = field(default_factory=dict)
    unreadable: dict[str, Finding] = field(default_factory=dict)

    def report(self, started: float) -> DiffReport:
        paths = self._paths()
        names = self._split_names()
        drift = Drift(names or [])
        self.progress.phase("shards", items=len(paths))
        shards = self._shards(paths, names or [], drift)
        self.progress.phase("samples")
        for i, match in enumerate(self.rows.matches(), 1):
            self._note(match, paths, drift)
            if i % _STEP == 0:
                self.progress.advance(items=_STEP)
        drift.close()
        return DiffReport(
            first=_side(self.first),
            second=_side(self.second),
            content=self.contents is not None,
            shards=shards,
            samples=self._samples(),
            splits=None if names is None else tuple(self._drift(name, drift) for name in names),
            unreadable=tuple(self.unreadable.values()),
            seconds=time.monotonic() - started,
        )

    def _paths(self) -> list[str]:
        """All shards of both, by path."""
        return sorted({side.shards[i].path for side in self._sides for i in range(len(side.shards)) if side.has(i)})

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.first, self.second

    def _split_names(self) -> list[str] | None:
        if self.first.splits is None or self.second.splits is None:
            return None
        return list(dict.fromkeys([*self.first.splits.names, *self.second.splits.names]))

    def _shards(self, paths: list[str], names: list[str], drift: Drift) -> ShardsDiff:
        """Compare shards, and let the samples wait that are not in two of one layout."""
        one, other = ({side.shards[i].path: i for i in range(len(side.shards)) if side.has(i)} for side in self._sides)
        moved = renamed(*self._sides, one, other)
        came_from = {new: old for old, new in moved.items()}
        kinds: dict[str, list[str]] = {name: [] for name in ("same", "added", "removed", "changed", "rewritten")}
        for number, path in enumerate(paths):
            i, j = one.get(path), other.get(path)
            if path in came_from:
                self._alike(one[came_from[path]], other[path], number, names, drift, "moved")
            elif i is not None and j is not None and is_alike(*self._sides, i, j):
                kinds["same" if may_have_same_bytes(*self._sides, i, j) else "rewritten"].append(path)
                self._alike(i, j, number, names, drift, "same")
            elif path not in moved:
                kinds["added" if i is None else "removed" if j is None else "changed"].append(path)
                for which, at in enumerate((i, j)):
                    if at is not None:
                        self.rows.add(which, self._sides[which], at, number, names, self._sides[which].flags(at))
            self.progress.advance(items=1)
        return self._shards_diff(kinds, moved, one, other)

    def _shards_diff(
        self, kinds: dict[str, list[str]], moved: dict[str, str], one: dict[str, int], other: dict[str, int]
    ) -> ShardsDiff:
        first, second, some = self.first.shards, self.second.shards, slice(self.limit)
        changed = (
            ChangedShard(path=p, first_samples=first[one[p]].samples, second_samples=second[other[p]].samples)
            for p in kinds["changed"][some]
        )
        first_moved = (
            RenamedShard(first=old, second=new, samples=first[one[old]].samples)
            for old, new in list(moved.items())[some]
        )
        return ShardsDiff(
            same=len(kinds["same"]),
            added=len(kinds["added"]),
            removed=len(kinds["removed"]),
            changed=len(kinds["changed"]),
            rewritten=len(kinds["rewritten"]),
            renamed=len(moved),
            first_added=tuple(kinds["added"][some]),
            first_removed=tuple(kinds["removed"][some]),
            first_changed=tuple(changed),
            first_rewritten=tuple(kinds["rewritten"][some]),
            first_renamed=tuple(first_moved),
        )

    def _alike(self, i: int, j: int, number: int, names: list[str], drift: Drift, kind: str) -> None:
        """Two shards of one layout: their samples belong together by their places."""
        one, other = self.first.flags(i), self.second.flags(j)
        both = one & other
        changed = self._changed(i, j, both)
        self.counts[kind] += int(np.count_nonzero(both & ~changed))
        self.counts["changed"] += int(np.count_nonzero(changed))
        for place in np.flatnonzero(changed)[: self.limit].tolist():
            key = self.first.offsets.key(int(self.first.offsets.shard_row[i]) + place)
            self._example("changed", key, self.first.shards[i].path, self.second.shards[j].path)
        for which, at, flags in ((0, i, one & ~other), (1, j, other & ~one)):
            if flags.any():
                self.rows.add(which, self._sides[which], at, number, names, flags)
        for name in names:
            was, is_now = self.first.in_split(name, i), self.second.in_split(name, j)
            drift.entered[name] += int(np.count_nonzero(both & is_now & ~was))
            drift.left[name] += int(np.count_nonzero(both & was & ~is_now))

    def _changed(self, i: int, j: int, both: Flags) -> Flags:
        """Which samples of both differ in their bytes, where these are to be compared."""
        one, other = self.first.shards[i], self.second.shards[j]
        mine, theirs = self.first.hashes.get(one.id), self.second.hashes.get(other.id)
        if self.contents is None or not both.any() or (mine is not None and mine == theirs):
            return np.zeros(len(both), np.bool_)
        try:
            return both & flagged(self.contents.differing(i, j), one.samples)
        except (StorageError, PermissionDenied) as error:
            self._failed(error, other.path)
            return np.zeros(len(both), np.bool_)

    def _note(self, match: Match, paths: list[str], drift: Drift) -> None:
        one, other = match
        if one is None or other is None:
            kind = "added" if one is None else "removed"
        else:
            drift.note(one.splits, other.splits)
            is_changed = not match.is_alike or self._differs(one, other, paths)
            kind = "changed" if is_changed else "moved" if match.is_moved else "same"
        self.counts[kind] += 1
        if kind != "same":
            key = str((one or other).key, "utf-8")  # type: ignore[union-attr]
            self._example(kind, key, paths[one.path] if one else "", paths[other.path] if other else "")

    def _differs(self, one: Row, other: Row, paths: list[str]) -> bool:
        if self.contents is None:
            return False
        try:
            return not self.contents.is_same(one.row, other.row)
        except (StorageError, PermissionDenied) as error:
            self._failed(error, paths[other.path])
            return False

    def _failed(self, error: StorageError | PermissionDenied, shard: str) -> None:
        where = error.where or shard
        finding = Finding(code=error.code, severity="error", message=error.message, shard=where)
        self.unreadable.setdefault(where.partition(" (byte")[0], finding)

    def _example(self, kind: str, key: str, first: str, second: str) -> None:
        some = self.examples.setdefault(kind, [])
        if len(some) < self.limit:
            some.append(SampleDifference(kind=kind, key=key, first_shard=first, second_shard=second))

    def _samples(self) -> SamplesDiff:
        counts = self.counts
        return SamplesDiff(
            same=counts["same"],
            added=counts["added"],
            removed=counts["removed"],
            moved=counts["moved"],
            changed=counts["changed"],
            first_differences=tuple(
                example for kind in ("added", "removed", "moved", "changed") for example in self.examples.get(kind, [])
            ),
        )

    def _drift(self, name: str, drift: Drift) -> SplitDrift:
        return SplitDrift(
            name=name,
            first_samples=self.first.split_size(name),
            second_samples=self.second.split_size(name),
            entered=drift.entered[name],
            left=drift.left[name],
        )


def _side(side: Side) -> ComparedSide:
    there = [i for i in range(len(side.shards)) if side.has(i)]
    return ComparedSide(
        root=side.place.shown,
        view=side.view,
        generation=side.generation,
        shards=len(there),
        samples=sum(side.shards[i].samples if side.chosen is None else int(side.flags(i).sum()) for i in there),
        size_bytes=sum(side.shards[i].size for i in there),
    )
