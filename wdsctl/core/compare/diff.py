"""`diff`: compare two datasets or views, or two generations of one dataset.

Shards are compared first, by path and layout. Shards of the same layout have the same samples; the samples of all other
shards are matched by key.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.catalog.splits import SampleFlags
from wdsctl.core.compare.samples import (
    ByteComparer,
    DiffRow,
    DiffRowTable,
    SampleMatch,
    SplitDriftCounter,
    flags_at,
    open_diff_rows,
)
from wdsctl.core.compare.sides import DiffSide, can_have_same_bytes, find_renamed_shards, has_same_layout, open_side
from wdsctl.core.dataset.polylithic import check_not_polylithic, follow_to_primary
from wdsctl.core.errors import Finding, OptionConflict, PermissionDenied, StorageError, UsageError
from wdsctl.core.progress import SILENT_PROGRESS, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One side of the comparison.

    For a view, `samples` counts its samples; `shards` and `size_bytes` cover the shards that contain them.
    """

    root: str
    view: str
    generation: int
    shards: int
    samples: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedShard:
    path: str
    first_samples: int
    second_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedShard:
    first: str
    second: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsDiff:
    """Counts of shards, and the first paths of each kind. `rewritten`: same layout, but another SHA-256."""

    same: int
    added: int
    removed: int
    changed: int
    rewritten: int
    renamed: int
    first_added: tuple[str, ...]
    first_removed: tuple[str, ...]
    first_changed: tuple[ChangedShard, ...]
    first_rewritten: tuple[str, ...]
    first_renamed: tuple[RenamedShard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDifference:
    """A sample that differs. `kind`: added, removed, moved or changed.

    The shard is empty on a side without the sample.
    """

    kind: str
    key: str
    first_shard: str
    second_shard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesDiff:
    """Counts of samples. `moved`: same key and parts (by name and size), but another shard.

    `changed`: same key, but other parts. `first_differences`: examples of each kind, by key.
    """

    same: int
    added: int
    removed: int
    moved: int
    changed: int
    first_differences: tuple[SampleDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDrift:
    """The change of one split. The sample counts are None if a side has no such split.

    `entered`, `left`: samples on both sides that are in the split only on the second side, or only on the first.
    """

    name: str
    first_samples: int | None
    second_samples: int | None
    entered: int
    left: int

    @property
    def is_same(self) -> bool:
        return self.first_samples == self.second_samples and not (self.entered or self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDiffReport:
    """The report of `diff`. `splits`: None if one side is an older generation.

    `content`: whether bytes were compared. `unreadable`: shards whose bytes could not be compared.
    """

    first: ComparedSide
    second: ComparedSide
    content: bool
    shards: ShardsDiff
    samples: SamplesDiff
    splits: tuple[SplitDrift, ...] | None
    unreadable: tuple[Finding, ...]
    seconds: float

    @property
    def is_same(self) -> bool:
        shards, samples = self.shards, self.samples
        return not (
            (shards.added or shards.removed or shards.changed or shards.rewritten or shards.renamed)
            or (samples.added or samples.removed or samples.moved or samples.changed)
            or not all(split.is_same for split in self.splits or ())
        )


_PROGRESS_STEP_SAMPLES = 20_000  # samples between two progress updates


def diff_datasets(
    first: str,
    second: str | None = None,
    *,
    since: int | None = None,
    until: int | None = None,
    content: bool = False,
    limit: int = 10,
    catalogs: tuple[str | None, str | None] = (None, None),
    progress: Progress = SILENT_PROGRESS,
) -> DatasetDiffReport:
    """Compare two datasets or views; without `second`, compare generations `since` and `until` of `first`.

    Without `until`, the current generation is the second side. `content`: also compare the bytes of samples with the
    same parts. `limit`: number of examples of each kind. The report lists shards that cannot be read. Raises
    UsageError for options that contradict each other, and what `open_side` raises. Takes milliseconds per thousand
    shards of the same layout and 5 µs per sample of other shards; with `content`, also reads both datasets. Memory:
    the samples of one shard.
    """
    started = time.monotonic()
    is_history = since is not None or until is not None
    hint = "pass two datasets, or one dataset and an older generation: `--since N`"
    if second is not None and is_history:
        raise OptionConflict(
            "a second dataset and --since exclude each other",
            options=("B", "--since", "--until"),
            are_exclusive=True,
            hint=hint,
        )
    if second is None and not is_history:
        raise UsageError("nothing to compare the dataset with", hint=hint)
    if since is None and until is not None:
        raise OptionConflict(
            "--until needs --since: it is the later one of two generations",
            options=("--until",),
            hint="pass --since N, the earlier generation",
        )
    if second is None and catalogs[1] is not None:
        raise UsageError("--catalog-b needs a second dataset", hint="omit --catalog-b; --catalog is the catalog of A")
    if content and is_history:
        raise OptionConflict(
            "cannot compare bytes with an older generation, whose bytes are not stored",
            options=("--content",),
            hint="remove --content",
        )
    with ExitStack() as stack:
        compared_with = ("--since", str(since)) if second is None else ("OTHER",)
        one = stack.enter_context(_open_checked_side(first, catalogs[0], since, compared_with))
        other = stack.enter_context(
            _open_checked_side(first if second is None else second, catalogs[second is not None], until, compared_with)
        )
        rows = stack.enter_context(open_diff_rows())
        contents = stack.enter_context(closing(ByteComparer(one, other))) if content else None
        return _Comparison(one, other, rows, contents, limit, progress).compare(started)


def _open_checked_side(
    root: str, catalog: str | None, generation: int | None, compared_with: Sequence[str]
) -> AbstractContextManager[DiffSide]:
    """Open a side, and write its catalog on first use. The views of a polylithic dataset are those of its primary.

    Raises UsageError for a polylithic dataset as a whole. `compared_with`: the other arguments of the command.
    """
    if catalog is None:
        check_not_polylithic(root, "diff", *compared_with)
    return open_side(follow_to_primary(root, catalog), catalog, generation)


@dataclass(slots=True)
class _Comparison:
    first: DiffSide
    second: DiffSide
    rows: DiffRowTable
    byte_comparer: ByteComparer | None
    limit: int
    progress: Progress
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[SampleDifference]] = field(default_factory=dict)
    unreadable: dict[str, Finding] = field(default_factory=dict)

    def compare(self, started: float) -> DatasetDiffReport:
        paths = sorted(
            {side.shards[i].path for side in self._sides for i in range(len(side.shards)) if side.has_shard(i)}
        )
        names: list[str] | None = None
        if self.first.splits is not None and self.second.splits is not None:
            names = list(dict.fromkeys([*self.first.splits.names, *self.second.splits.names]))
        drift = SplitDriftCounter(names or [])
        self.progress.phase("shards", items=len(paths))
        shards = self._compare_shards(paths, names or [], drift)
        self.progress.phase("samples")
        for i, match in enumerate(self.rows.matches(), 1):
            self._count_match(match, paths, drift)
            if i % _PROGRESS_STEP_SAMPLES == 0:
                self.progress.advance(items=_PROGRESS_STEP_SAMPLES)
        drift.finish()
        return DatasetDiffReport(
            first=_side(self.first),
            second=_side(self.second),
            content=self.byte_comparer is not None,
            shards=shards,
            samples=self._samples(),
            splits=None
            if names is None
            else tuple(
                SplitDrift(
                    name=name,
                    first_samples=self.first.split_size(name),
                    second_samples=self.second.split_size(name),
                    entered=drift.entered[name],
                    left=drift.left[name],
                )
                for name in names
            ),
            unreadable=tuple(self.unreadable.values()),
            seconds=time.monotonic() - started,
        )

    @property
    def _sides(self) -> tuple[DiffSide, DiffSide]:
        return self.first, self.second

    def _compare_shards(self, paths: list[str], names: list[str], drift: SplitDriftCounter) -> ShardsDiff:
        """Compare shards. Adds the samples of shards that differ in layout to `rows`, to match by key."""
        one, other = (
            {side.shards[i].path: i for i in range(len(side.shards)) if side.has_shard(i)} for side in self._sides
        )
        renamed = find_renamed_shards(*self._sides, one, other)
        old_paths = {new: old for old, new in renamed.items()}
        kinds: dict[str, list[str]] = {name: [] for name in ("same", "added", "removed", "changed", "rewritten")}
        for number, path in enumerate(paths):
            i, j = one.get(path), other.get(path)
            if path in old_paths:
                self._compare_same_layout(one[old_paths[path]], other[path], number, names, drift, "moved")
            elif i is not None and j is not None and has_same_layout(*self._sides, i, j):
                kinds["same" if can_have_same_bytes(*self._sides, i, j) else "rewritten"].append(path)
                self._compare_same_layout(i, j, number, names, drift, "same")
            elif path not in renamed:
                kinds["added" if i is None else "removed" if j is None else "changed"].append(path)
                for which, at in enumerate((i, j)):
                    if at is not None:
                        self.rows.add(
                            which, self._sides[which], at, number, names, self._sides[which].selection_flags(at)
                        )
            self.progress.advance(items=1)
        return self._shards_diff(kinds, renamed, one, other)

    def _shards_diff(
        self, kinds: dict[str, list[str]], renamed: dict[str, str], one: dict[str, int], other: dict[str, int]
    ) -> ShardsDiff:
        first, second, some = self.first.shards, self.second.shards, slice(self.limit)
        changed = (
            ChangedShard(path=p, first_samples=first[one[p]].samples, second_samples=second[other[p]].samples)
            for p in kinds["changed"][some]
        )
        first_renamed = (
            RenamedShard(first=old, second=new, samples=first[one[old]].samples)
            for old, new in list(renamed.items())[some]
        )
        return ShardsDiff(
            same=len(kinds["same"]),
            added=len(kinds["added"]),
            removed=len(kinds["removed"]),
            changed=len(kinds["changed"]),
            rewritten=len(kinds["rewritten"]),
            renamed=len(renamed),
            first_added=tuple(kinds["added"][some]),
            first_removed=tuple(kinds["removed"][some]),
            first_changed=tuple(changed),
            first_rewritten=tuple(kinds["rewritten"][some]),
            first_renamed=tuple(first_renamed),
        )

    def _compare_same_layout(
        self, i: int, j: int, number: int, names: list[str], drift: SplitDriftCounter, kind: str
    ) -> None:
        """Compare two shards of the same layout, whose samples match by position."""
        one, other = self.first.selection_flags(i), self.second.selection_flags(j)
        both = one & other
        changed = self._changed_samples(i, j, both)
        self.counts[kind] += int(np.count_nonzero(both & ~changed))
        self.counts["changed"] += int(np.count_nonzero(changed))
        for location in np.flatnonzero(changed)[: self.limit].tolist():
            key = self.first.offsets.key(int(self.first.offsets.shard_row[i]) + location)
            self._example("changed", key, self.first.shards[i].path, self.second.shards[j].path)
        for which, at, flags in ((0, i, one & ~other), (1, j, other & ~one)):
            if flags.any():
                self.rows.add(which, self._sides[which], at, number, names, flags)
        for name in names:
            was, is_now = self.first.split_flags(name, i), self.second.split_flags(name, j)
            drift.entered[name] += int(np.count_nonzero(both & is_now & ~was))
            drift.left[name] += int(np.count_nonzero(both & was & ~is_now))

    def _changed_samples(self, i: int, j: int, both: SampleFlags) -> SampleFlags:
        """Return (samples,): which samples of `both` differ in their bytes; none without `content`."""
        one, other = self.first.shards[i], self.second.shards[j]
        one_hash, other_hash = self.first.hashes.get(one.id), self.second.hashes.get(other.id)
        if self.byte_comparer is None or not both.any():
            return np.zeros(len(both), np.bool_)
        if one_hash is not None and one_hash == other_hash and self.byte_comparer.are_as_hashed(i, j):
            return np.zeros(len(both), np.bool_)
        try:
            return both & flags_at(self.byte_comparer.find_differing(i, j), one.samples)
        except (StorageError, PermissionDenied) as error:
            self._add_unreadable(error, other.path)
            return np.zeros(len(both), np.bool_)

    def _count_match(self, match: SampleMatch, paths: list[str], drift: SplitDriftCounter) -> None:
        one, other = match
        if one is None or other is None:
            kind = "added" if one is None else "removed"
        else:
            drift.add(one.split_bits, other.split_bits)
            is_changed = not match.has_same_parts or self._has_other_bytes(one, other, paths)
            kind = "changed" if is_changed else "moved" if match.is_moved else "same"
        self.counts[kind] += 1
        if kind != "same":
            key = str((one or other).key, "utf-8")  # type: ignore[union-attr]
            self._example(kind, key, paths[one.shard_number] if one else "", paths[other.shard_number] if other else "")

    def _has_other_bytes(self, one: DiffRow, other: DiffRow, paths: list[str]) -> bool:
        if self.byte_comparer is None:
            return False
        try:
            return not self.byte_comparer.has_same_bytes(one.offsets_row, other.offsets_row)
        except (StorageError, PermissionDenied) as error:
            self._add_unreadable(error, paths[other.shard_number])
            return False

    def _add_unreadable(self, error: StorageError | PermissionDenied, shard: str) -> None:
        where = error.where or shard
        finding = Finding(code=error.code, severity="error", message=error.message, shard=where)
        self.unreadable.setdefault(where.partition(" (byte")[0], finding)

    def _example(self, kind: str, key: str, first: str, second: str) -> None:
        examples = self.examples.setdefault(kind, [])
        if len(examples) < self.limit:
            examples.append(SampleDifference(kind=kind, key=key, first_shard=first, second_shard=second))

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


def _side(side: DiffSide) -> ComparedSide:
    indices = [i for i in range(len(side.shards)) if side.has_shard(i)]
    return ComparedSide(
        root=side.location.display_path,
        view=side.view,
        generation=side.generation,
        shards=len(indices),
        samples=sum(
            side.shards[i].samples if side.selection is None else int(side.selection_flags(i).sum()) for i in indices
        ),
        size_bytes=sum(side.shards[i].size for i in indices),
    )
