"""The unit of work of a column: the samples of one shard read once, for all columns that want them.

What comes out is a file a column and shard, named after all that it was made of, which a run that goes on after a kill
finds again.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from wdsctl.core.checked_file import UNFIT, load_checked, save_checked
from wdsctl.core.column_function import Function, find_function
from wdsctl.core.column_spec import Sample, Spec
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.offsets import Offsets, offsets_of
from wdsctl.core.shard_index import Ints
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for

TOGETHER = 16 << 20  # bytes of samples that are read in one go; a larger sample is read alone
AT_ONCE = 1024  # samples that are read in one go
NAMED = 5  # samples of a shard without a value that are named, each; the rest is counted


@dataclass(frozen=True, slots=True)
class ColumnTask:
    """One column's part of a unit. `result` is where the values go. `zero`: a sample without one gets 0."""

    name: str
    spec: Spec
    result: str
    zero: bool = False


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """`shard` is an index into those of the offsets file."""

    root: str
    offsets: str
    shard: int
    tasks: tuple[ColumnTask, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task. Nothing is saved where samples failed without `zero`, or all for want of the shard."""

    name: str
    is_saved: bool
    failed: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ShardValues:
    values: Ints
    failed: int
    findings: tuple[Finding, ...]


def failed_path(result: str) -> str:
    """Where values go that have zeros in the place of some: not a finished unit, the next run tries again."""
    return f"{result}.failed"


def run_column_unit(unit: ColumnUnit) -> tuple[Outcome, ...]:
    """Work out the values of one shard for every task, and save them. What is wrong is told, not raised."""
    outcomes = []
    for task, made in zip(unit.tasks, values_of(unit), strict=True):
        is_saved = len(made.values) > 0
        if is_saved:
            save_values(made, failed_path(task.result) if made.failed else task.result)
        outcomes.append(Outcome(task.name, is_saved, made.failed, made.findings))
    return tuple(outcomes)


def values_of(unit: ColumnUnit) -> list[ShardValues]:
    """The values of one shard for every task; none where samples failed without `zero`, or the shard cannot be read."""
    offsets = offsets_of(unit.offsets)
    shard = offsets.shards[unit.shard]
    path = os.path.join(unit.root, shard.path)
    storage = storage_for(unit.root, {path: shard.size})
    work = [_Work(task, find_function(task.spec), shard.path, np.zeros(shard.samples, np.int64)) for task in unit.tasks]
    try:
        # A function that prints must not print into the answer.
        with redirect_stdout(sys.stderr):
            _read_all(storage, path, offsets, unit.shard, work)
    except (StorageError, PermissionDenied) as error:
        found = Finding(code=error.code, severity="error", message=error.message, shard=shard.path, count=shard.samples)
        return [ShardValues(np.empty(0, np.int64), shard.samples, (found,)) for _ in work]
    finally:
        storage.close()
    return [each.done() for each in work]


def save_values(made: ShardValues, path: str) -> None:
    facts = {"failed": made.failed, "findings": [asdict(finding) for finding in made.findings]}
    save_checked(path, facts, [np.ascontiguousarray(made.values, "<i8").tobytes()])


def load_values(path: str) -> ShardValues | None:
    """Saved values; None where the file was damaged."""
    loaded = load_checked(path)
    if loaded is None:
        return None
    facts, data = loaded
    try:
        findings = tuple(Finding(**finding) for finding in facts["findings"])
        values = np.frombuffer(data, "<i8")
        is_possible = type(facts["failed"]) is int and int(values.min(initial=0)) >= 0
        return ShardValues(values, facts["failed"], findings) if is_possible else None
    except UNFIT:
        return None


@dataclass(slots=True)
class _Work:
    """One task under way."""

    task: ColumnTask
    function: Function
    shard: str
    values: Ints
    failed: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)

    def wants(self, part: str) -> bool:
        return self.function.parts is None or part in self.function.parts

    def take(self, i: int, sample: Sample) -> None:
        """The value of the i-th sample of the shard."""
        parts = self.function.parts
        own = sample if parts is None else {name: sample[name] for name in sample if name in parts}
        try:
            self.values[i] = _whole(self.function.call({**own, "__key__": sample["__key__"]}))
        except _NotWhole as error:
            self._fail(sample, str(error))
        except Exception as error:  # noqa: BLE001 - somebody's function: whatever it raises belongs to this sample
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._fail(sample, said if not self.task.spec.is_built_in else str(error))

    def done(self) -> ShardValues:
        severity: Severity = "warning" if self.task.zero else "error"
        findings = [self._finding(severity, key, said) for key, said in self.named[:NAMED]]
        if self.failed > NAMED:
            key, said = self.named[NAMED]
            findings.append(self._finding(severity, key, said, self.failed - NAMED))
        whole = self.task.zero or not self.failed
        return ShardValues(self.values if whole else np.empty(0, np.int64), self.failed, tuple(findings))

    def _fail(self, sample: Sample, said: str) -> None:
        self.failed += 1
        if len(self.named) <= NAMED:
            self.named.append((sample["__key__"], said))

    def _finding(self, severity: Severity, key: str, said: str, count: int = 1) -> Finding:
        message = f"column {self.task.name}: {said}"
        return Finding(code="WDS313", severity=severity, message=message, shard=self.shard, key=key, count=count)


class _NotWhole(ValueError):  # noqa: N818 - what it says
    """A function gave something that no column can hold."""


def _read_all(storage: Storage, path: str, offsets: Offsets, shard: int, work: list[_Work]) -> None:
    first = int(offsets.shard_row[shard])
    for rows in _batches(offsets, shard, work):
        ranges = [Range(path, at, size) for _, parts in rows for _, at, size in parts]
        data = iter(storage.read_many(ranges))
        for row, parts in rows:
            sample: Sample = {"__key__": offsets.key(row)}
            sample.update((name, next(data)) for name, _, _ in parts)
            for each in work:
                each.take(row - first, sample)


def _batches(offsets: Offsets, shard: int, work: list[_Work]) -> Iterator[list[tuple[int, list[tuple[str, int, int]]]]]:
    """The samples of a shard with the parts that somebody wants, a few at a time."""
    wanted = {name for layout in offsets.layouts for name in layout if any(each.wants(name) for each in work)}
    rows: list[tuple[int, list[tuple[str, int, int]]]] = []
    total = 0
    for row in range(int(offsets.shard_row[shard]), int(offsets.shard_row[shard + 1])):
        parts = [part for part in offsets.parts(row) if part[0] in wanted]
        size = sum(size for _, _, size in parts)
        if rows and (total + size > TOGETHER or len(rows) == AT_ONCE):
            yield rows
            rows, total = [], 0
        rows.append((row, parts))
        total += size
    if rows:
        yield rows


def _whole(value: Any) -> int:
    """The value as a number that a column can hold. Raises _NotWhole."""
    if isinstance(value, bool | np.bool_):
        raise _NotWhole(f"the function gave {value}, not a whole number")
    try:
        number = operator.index(value)
    except TypeError:
        kind = type(value).__name__
        said = repr(value) if isinstance(value, float | str | bytes | np.generic) else kind
        said = "nothing (None)" if value is None else said if len(said) <= 60 else f"{said[:57]}..."
        raise _NotWhole(f"the function gave {said}, not a whole number") from None
    if not 0 <= number < 1 << 63:
        raise _NotWhole(f"the function gave {number}, and numbers go from 0 to 2^63 - 1")
    return number
