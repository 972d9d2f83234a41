"""The unit of work of columns: the samples of one shard, read once for all columns that need them.

Results are files per column and shard, named by a digest of their inputs, so that the next run after a kill finds them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.columns.spec import ColumnFunction, ColumnSpec, JsonNumberReader, SampleParts, load_column_function
from wdsctl.core.errors import Finding, PermissionDenied, Severity, StorageError
from wdsctl.core.job_results import EncodedResult, ResultFolder
from wdsctl.core.offsets.read import Offsets, open_cached_offsets
from wdsctl.core.shards.read_parts import IndexedShard, read_parts

MAX_NAMED_FAILURES = 5  # samples of a shard without a value that get a finding each; others are only counted


@dataclass(frozen=True, slots=True)
class ColumnTask:
    """One column of a unit. `results_folder` and `digest`: the folder of the results, and their name there."""

    name: str
    spec: ColumnSpec
    results_folder: str
    digest: str
    zero_if_failed: bool = False  # a sample without a value gets 0


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """`shard`: an index into the shards of the offsets file."""

    root: str
    offsets: str
    shard: int
    tasks: tuple[ColumnTask, ...]

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return open_cached_offsets(self.offsets).shards[self.shard].path


@dataclass(frozen=True, slots=True)
class ColumnResult:
    """The outcome of one task. Nothing is saved if samples failed without `zero`, or the shard cannot be read."""

    name: str
    is_saved: bool
    failed_count: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ComputedValues:
    values: Int64Array
    failed_count: int
    findings: tuple[Finding, ...]


def column_results(folder: str) -> ResultFolder[str, ComputedValues]:
    """The stored values of shards, by the digests of their inputs.

    Values with zeros for failed samples are kept under `failed_name(digest)`: the next run tries those shards again.
    """
    return ResultFolder(folder, str, encode_column_values, decode_column_values)


def failed_name(digest: str) -> str:
    return f"{digest}.failed"


def run_column_unit(unit: ColumnUnit) -> tuple[ColumnResult, ...]:
    """Compute the values of one shard for every task, and save them. Failures are reported, not raised."""
    return save_column_values(unit, compute_values(unit))


def save_column_values(unit: ColumnUnit, values: Sequence[ComputedValues]) -> tuple[ColumnResult, ...]:
    """Save the values of one shard, one entry per task."""
    outcomes = []
    for task, computed in zip(unit.tasks, values, strict=True):
        name = failed_name(task.digest) if computed.failed_count else task.digest
        [is_saved] = column_results(task.results_folder).save([name], [computed])
        outcomes.append(ColumnResult(task.name, is_saved, computed.failed_count, computed.findings))
    return tuple(outcomes)


def compute_values(unit: ColumnUnit) -> list[ComputedValues]:
    """The values of one shard for every task; none if samples failed without `zero`, or the shard cannot be read."""
    shard = IndexedShard(unit.root, open_cached_offsets(unit.offsets), unit.shard)
    samples = shard.end_row - shard.first_row
    work = [
        _RunningTask(task, load_column_function(task.spec), shard.relative_path, np.zeros(samples, np.int64))
        for task in unit.tasks
    ]
    try:
        # The output of a function that prints must not get into the report on stdout.
        with redirect_stdout(sys.stderr):
            _compute_all(shard, work)
    except (StorageError, PermissionDenied) as error:
        found = Finding(
            code=error.code, severity="error", message=error.message, shard=shard.relative_path, count=samples
        )
        return [ComputedValues(np.empty(0, np.int64), samples, (found,)) for _ in work]
    finally:
        shard.close()
    return [each.finish() for each in work]


def encode_column_values(_name: str, computed: ComputedValues) -> EncodedResult | None:
    if not len(computed.values):
        return None
    facts = {"failed": computed.failed_count, "findings": [asdict(finding) for finding in computed.findings]}
    return facts, [np.ascontiguousarray(computed.values, "<i8").tobytes()]


def decode_column_values(_name: str, facts: Mapping[str, Any], data: memoryview) -> ComputedValues:
    findings = tuple(Finding(**finding) for finding in facts["findings"])
    values = np.frombuffer(data, "<i8")
    if type(facts["failed"]) is not int or int(values.min(initial=0)) < 0:
        raise ValueError(facts["failed"])
    return ComputedValues(values, facts["failed"], findings)


@dataclass(slots=True)
class _RunningTask:
    """A task in progress."""

    task: ColumnTask
    function: ColumnFunction
    shard: str
    values: Int64Array
    failed_count: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    are_numbers_in_text: bool = True  # every value so far is the length of a string that is a whole number

    def add_sample(self, i: int, sample: SampleParts) -> None:
        """The value of the i-th sample of the shard."""
        parts = self.function.parts
        own = sample if parts is None else {name: sample[name] for name in sample if name in parts}
        try:
            self.values[i] = _parse_value(self.function.call({**own, "__key__": sample["__key__"]}))
            if self.are_numbers_in_text:
                reader = self.function.call
                self.are_numbers_in_text = isinstance(reader, JsonNumberReader) and reader.has_number_in_text(own)
        except _InvalidValue as error:
            self._fail(sample, str(error))
        except Exception as error:  # noqa: BLE001 - any error of a user's function is a failure of this sample
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._fail(sample, message if not self.task.spec.is_built_in else str(error))

    def finish(self) -> ComputedValues:
        severity: Severity = "warning" if self.task.zero_if_failed else "error"
        findings = [self._finding(severity, key, message) for key, message in self.failures[:MAX_NAMED_FAILURES]]
        if self.failed_count > MAX_NAMED_FAILURES:
            key, message = self.failures[MAX_NAMED_FAILURES]
            findings.append(self._finding(severity, key, message, self.failed_count - MAX_NAMED_FAILURES))
        if self.are_numbers_in_text and self.failed_count < len(self.values):
            findings.append(_numbers_in_text_finding(self.task, len(self.values) - self.failed_count))
        is_complete = self.task.zero_if_failed or not self.failed_count
        return ComputedValues(self.values if is_complete else np.empty(0, np.int64), self.failed_count, tuple(findings))

    def _fail(self, sample: SampleParts, message: str) -> None:
        self.failed_count += 1
        if len(self.failures) <= MAX_NAMED_FAILURES:
            self.failures.append((sample["__key__"], message))

    def _finding(self, severity: Severity, key: str, message: str, count: int = 1) -> Finding:
        message = f"column {self.task.name}: {message}"
        return Finding(code="WDS313", severity=severity, message=message, shard=self.shard, key=key, count=count)


def _numbers_in_text_finding(task: ColumnTask, count: int) -> Finding:
    """The note that a column has the lengths of strings that all are numbers, as the cells of a CSV are."""
    spec = task.spec
    command = f"--drop-column {task.name} --column {task.name}=int:{spec.part_or_module}:{'.'.join(spec.path)}"
    message = (
        f"column {task.name} has the lengths of strings that all are numbers; "
        f"to store the numbers themselves, run `wdsctl index` with `{command}`"
    )
    return Finding(code="WDS315", severity="note", message=message, count=count)


class _InvalidValue(ValueError):  # noqa: N818 - private
    """A function returned a value that no column can store."""


def _compute_all(shard: IndexedShard, tasks: list[_RunningTask]) -> None:
    """Pass every sample, with the parts that a task needs, to all tasks."""
    offsets = shard.offsets
    every = {name for layout in offsets.layouts for name in layout}
    # A function without declared parts needs all.
    needed = (every if each.function.parts is None else every & set(each.function.parts) for each in tasks)
    names = set[str]().union(*needed)
    rows = range(shard.first_row, shard.end_row)
    selected = ((row, [part for part in offsets.parts(row) if part[0] in names]) for row in rows)
    for (row, parts), data in read_parts(shard, (((row, parts), parts) for row, parts in selected)):
        sample: SampleParts = {"__key__": offsets.key(row)}
        sample.update((name, content) for (name, _, _), content in zip(parts, data, strict=True))
        for each in tasks:
            each.add_sample(row - shard.first_row, sample)


def _parse_value(value: Any) -> int:
    """The value as an integer that a column can store. Raises _InvalidValue."""
    if isinstance(value, bool | np.bool_):
        raise _InvalidValue(f"the function returned {value}, expected a whole number")
    try:
        number = operator.index(value)
    except TypeError:
        kind = type(value).__name__
        message = repr(value) if isinstance(value, float | str | bytes | np.generic) else kind
        message = "nothing (None)" if value is None else message if len(message) <= 60 else f"{message[:57]}..."
        raise _InvalidValue(f"the function returned {message}, expected a whole number") from None
    if not 0 <= number < 1 << 63:
        raise _InvalidValue(f"the function returned {number}, expected 0 to 2^63 - 1")
    return number


def part_sizes(offsets: Offsets, rows: slice, part: str) -> Int64Array:
    """(rows,): bytes of the part in each of these samples; 0 if it is missing; of a repeated part the last one."""
    columns = offsets.check_range(rows.start, rows.stop)
    last = [max((i for i, name in enumerate(layout) if name == part), default=-1) for layout in offsets.layouts]
    part_indices = np.array(last or [-1], np.int64)
    if columns.layout is None or columns.part_start is None:
        width = len(offsets.layouts[0]) if offsets.layouts else 0
        first = np.arange(rows.start, rows.stop, dtype=np.int64) * width
        part_rows = np.full(len(first), part_indices[0])
    else:
        first = columns.part_start[rows]
        part_rows = part_indices[columns.layout[rows]]
    has = part_rows >= 0
    found = np.zeros(len(first), np.int64)
    found[has] = columns.part_size[first[has] + part_rows[has]]
    return found
