"""Which columns are to be made, and which of their values there are already."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from wdsctl.core.catalog.quick import media_marks
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.column_function import find_function, source_of
from wdsctl.core.column_spec import Spec, parse_spec
from wdsctl.core.columns import MARK, Column, ColumnFacts, column_path, digest_of, kept_columns
from wdsctl.core.files import remove_tree
from wdsctl.core.findings import Finding
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.verbs.column_report import ColumnReport, outdated, readable, report_of
from wdsctl.core.verbs.column_request import ColumnRequest

FORMAT = 1  # raise it when values come out otherwise than before: all are then worked out again


@dataclass(slots=True)
class Job:
    """A column to be made. `marks`: of every shard, what its values are to be made of."""

    name: str
    spec: Spec
    source: str
    parts: tuple[str, ...] | None  # that the function declares
    generation: int
    zero: bool
    is_asked: bool  # by the user, now
    marks: list[bytes]
    held: dict[bytes, tuple[Column, int, int]]  # values that there are: column, first row, index of the shard in it
    current: ColumnFacts | None = None  # the file is there as it should be
    shards_read: int = 0

    def result(self, place: Place, shard: int) -> str:
        return os.path.join(units_folder(place, self.name), self.marks[shard].hex())

    def has(self, shard: int) -> bool:
        """Whether the values of a shard are there. Asked for anew, those that could not be had are tried again."""
        found = self.held.get(self.marks[shard])
        return found is not None and not (self.is_asked and int(found[0].table[found[2], 2]))


def jobs_of(
    place: Place,
    generation: int,
    request: ColumnRequest,
    shards: Sequence[ShardRow],
    offsets: Offsets,
    *,
    anew: bool,
) -> tuple[list[Job], list[ColumnReport], list[Finding]]:
    """What is to be made; and of what is not, how it stands."""
    jobs, reports, findings = [], [], []
    kept = kept_columns(place)
    named = digest_of(offsets.shards)
    for name in sorted({*request.wanted, *kept}):
        files = [column_path(place, name, each) for each in reversed(kept.get(name, []))]
        read = [readable(path) for path in files]
        columns = [each for each in read if isinstance(each, Column)]
        text = request.wanted.get(name)
        if text is None and not columns:
            findings += [each for each in read if isinstance(each, Finding)]
            continue
        spec = parse_spec(columns[0].facts.function if text is None else text)
        source = source_of(spec) if text is not None else columns[0].facts.source
        if text is not None and anew:
            remove_tree(units_folder(place, name))
        is_new = anew and (text is not None or spec.is_built_in)
        of_media = media_marks(place.catalog) if spec.kind == "media" else {}
        marks = [mark_of(spec, source, row, (of_media or {}).get(row.id, b"")) for row in shards]
        job = Job(
            name=name,
            spec=spec,
            source=source,
            parts=_declared(spec) if text is not None else columns[0].facts.parts,
            generation=generation,
            zero=request.on_error == "zero" if text is not None else columns[0].facts.zero,
            is_asked=text is not None,
            marks=marks,
            held={} if is_new else _held(columns),
        )
        made = next((column for column in columns if column.facts.generation == generation), None)
        if made is not None and not is_new and made.facts.shards == named and made.marks.tobytes() == b"".join(marks):
            job.current = made.facts if all(map(job.has, range(len(marks)))) else None
        if text is not None or (spec.is_built_in and of_media is not None):
            jobs.append(job)
        elif job.current is not None:
            reports.append(report_of(job.current, "current"))
        else:
            reports.append(report_of(columns[0].facts, "outdated"))
            findings.append(outdated(place, columns[0].facts))
    return jobs, reports, findings


def _declared(spec: Spec) -> tuple[str, ...] | None:
    parts = None if spec.is_built_in else find_function(spec).parts
    return None if parts is None else tuple(sorted(parts))


def _held(columns: Sequence[Column]) -> dict[bytes, tuple[Column, int, int]]:
    """The values that there are, by mark; those of the newest file win."""
    held: dict[bytes, tuple[Column, int, int]] = {}
    for column in columns:
        text, row = column.marks.tobytes(), 0
        for i, (_, samples, _) in enumerate(column.table.tolist()):
            held.setdefault(text[MARK * i : MARK * (i + 1)], (column, row, i))
            row += samples
    return held


def mark_of(spec: Spec, source: str, row: ShardRow, of_media: bytes = b"") -> bytes:
    """Names all that the values of a shard are made of. Where nothing is read, that is where everything is in it.

    `of_media`: what names the shard's facts of media, where the values are made of these.
    """
    content = f"{row.path}\0{row.size}\0{row.mtime_ns}\0" if spec.reads else ""
    return blake2b(
        f"{FORMAT}\0{spec.text}\0{source}\0{content}{row.layout_hash}".encode("utf-8", "surrogatepass") + of_media,
        digest_size=MARK,
    ).digest()


def units_folder(place: Place, name: str) -> str:
    return os.path.join(place.columns, "units", name)
