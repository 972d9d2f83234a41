"""Builders of the traces that the ranks of a job write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wdsctl.core.trace import SourceFacts, Trace, TraceWriter, read_trace

Origin = tuple[int, ...]


def a_source(number: int = 0, root: str = "/data/cats", **facts: object) -> SourceFacts:
    known: dict[str, object] = {"split": "", "generation": 1, "digest": "ab" * 16, "catalog": ""}
    return SourceFacts(number, root, **(known | facts))  # type: ignore[arg-type]


def a_writer(
    folder: Path, rank: int = 0, world: int = 1, sources: Sequence[SourceFacts] = (), **options: Any
) -> TraceWriter:
    return TraceWriter(str(folder), rank, world, sources or [a_source()], run={}, **options)


def origins_of(number: int, samples: int = 2, *, run: int = 0) -> list[Origin]:
    """The samples of batch `number` in these tests."""
    return [(0, run, 1 << 28 | (number * samples + i)) for i in range(samples)]


def a_run(folder: Path, world: int, first: int, stop: int, *, run: int = 0) -> list[str]:
    """Writes the batches from `first` up to `stop` as all ranks of a run; returns the paths of their files."""
    paths = []
    for rank in range(world):
        writer = a_writer(folder, rank, world)
        for number in range(first + rank, stop, world):
            writer.add(number, origins_of(number, run=run))
        writer.close()
        paths.append(writer.path)
    return paths


def restore_keys_by_batch(trace: Trace, **selection: int) -> dict[int, list[Origin]]:
    """Maps batch numbers to restore keys, for all selected batches of a trace."""
    return {batch.number: restore_keys(batch.origins.tolist()) for batch in trace.batches(**selection)}


def restore_keys(rows: Iterable[Sequence[int]]) -> list[Origin]:
    return [tuple(row[:3] if row[3] < 0 else row) for row in rows]


def read_folder(folder: Path) -> Trace:
    return read_trace(str(folder))
