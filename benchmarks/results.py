"""The results file, benchmarks/results/latest.json: a subject holds rows, a row holds its contenders' figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: Names of figures, with their units in the name. wall_seconds, cpu_seconds and peak_bytes are in every row.
Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One contender in one row."""

    name: str
    #: The command line, without paths of the machine it ran on.
    command: str
    median: Figures
    #: One set of figures a timed round, in the order they were taken.
    rounds: list[Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    title: str
    entries: list[Entry]

    def entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The rows of one benchmark, taken in one go on one machine."""

    name: str
    #: Day of the run, ISO 8601.
    date: str
    machine: dict[str, str]
    #: Package versions by environment: `ours` and `peers`.
    versions: dict[str, dict[str, str]]
    rows: list[Row]


def save_subject(path: Path, subject: Subject) -> None:
    """Puts the subject in the file; the other subjects in it stay as they are."""
    subjects = {**load_subjects(path), subject.name: subject}
    document = {name: asdict(each) for name, each in sorted(subjects.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def load_subjects(path: Path) -> dict[str, Subject]:
    """Every subject by name; empty if nothing was measured yet."""
    if not path.exists():
        return {}
    return {name: _subject(document) for name, document in json.loads(path.read_text()).items()}


def _subject(document: Mapping[str, Any]) -> Subject:
    rows = [Row(title=row["title"], entries=[Entry(**entry) for entry in row["entries"]]) for row in document["rows"]]
    return Subject(**{**document, "rows": rows})
