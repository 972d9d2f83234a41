"""The report of `convert`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wdsctl.core.errors import Finding
from wdsctl.core.importers.protocol import FieldUse


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFormat:
    form: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSource:
    """A source, its format, and the reason for this format.

    `rejected`: other formats that the source looks like. `fields`: what becomes of each field; empty for formats that
    carry every part over unchanged.
    """

    path: str
    form: str
    reason: str
    rejected: tuple[RejectedFormat, ...] = ()
    fields: tuple[FieldUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDataset:
    """One dataset of the destination. `splits`: name -> samples. `sample_type`: empty without a catalog.

    `columns`: the columns copied from the sources. `media`: the number of media with facts in its catalog.
    """

    path: str
    files: int
    samples: int
    size_bytes: int
    sample_type: str = ""
    splits: Mapping[str, int] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    media: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertReport:
    """What `convert` wrote or, in a dry run, would write.

    Selected samples: `samples` counts all; `failed` those that are not in the destination, because they or their group
    could not be read or transcoded; `kept` those that are unchanged since a part could not be transcoded. Samples that
    the plan leaves out: `repeated` had a key that occurred before; `bare` had no part to write; `apart` belong to no
    output dataset. `kept_files`: files of an earlier run. `layout`: for a polylithic layout of samples that share
    files, what sharing saves; text for the user. `left_out_list`: the path of a table of all samples that failed, and
    of all files of the sources that no sample has; empty if there are none, and in a dry run.
    """

    sources: tuple[ConvertSource, ...]
    dest: str
    form: str
    samples: int
    files: int
    size_bytes: int  # of all files; in a dry run, estimated from the sizes in the sources
    written_files: int
    kept_files: int
    failed: int
    kept: int
    repeated: int
    bare: int
    apart: int
    datasets: tuple[ConvertedDataset, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float
    layout: str = ""
    left_out_list: str = ""
