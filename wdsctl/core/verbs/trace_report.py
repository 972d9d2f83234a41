"""What `trace` answers: runs, sources, batches, when a sample was seen, and how often each came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wdsctl.core.findings import Finding
from wdsctl.core.verbs.trace_samples import BatchLine


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One rank of one run. `batches`: that it wrote, from number `first` to number `last`."""

    rank: int
    world: int
    started: int  # microseconds since 1970
    wdsctl: str
    batches: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    number: int
    dataset: str
    split: str
    generation: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLine:
    step: int
    batch: int
    rank: int
    pass_number: int
    position: int  # in the batch
    dataset: str
    restore_key: tuple[int, ...]
    started: int  # of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentLine:
    sample_id: int
    key: str | None  # None where the dataset is not there
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLine:
    """`samples`: that came from the dataset; `distinct`: different ones. `by_times`: how many came once, twice, ..."""

    dataset: str
    samples: int
    distinct: int
    by_times: Mapping[int, int]
    most: tuple[FrequentLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """`batches`, `seen` and `counts` are None where they were not asked for. `written`: files below `out`."""

    folder: str
    runs: tuple[RunLine, ...]
    sources: tuple[SourceLine, ...]
    batches: tuple[BatchLine, ...] | None = None
    seen: tuple[SeenLine, ...] | None = None
    counts: tuple[CountLine, ...] | None = None
    batches_counted: int | None = None
    out: str | None = None
    written: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
