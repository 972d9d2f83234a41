"""What `export` is asked for, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

ExportTarget = Literal["energon", "wids", "hub", "croissant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """`out`: the folder to write to; empty for the dataset's root. `split_set`: the splits to export; "" is the default
    set. `overwrite`: replace existing metadata. `sample_tables`: with Energon's tables of samples. `hashed`: with
    hashes for wids, which reads the shards. `license_id`: for documents that name a license, such as `cc-by-4.0`.
    """

    target: ExportTarget
    out: str = ""
    split_set: str = ""
    overwrite: bool = False
    sample_tables: bool = True
    hashed: bool = False
    license_id: str = ""


class Written(NamedTuple):
    """`path`: the file or folder that readers open. `files`: how many files were written."""

    path: str
    files: int
    splits: dict[str, int]  # samples of each
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """`path`: the file or folder that readers of the target open. `notes`: what the target cannot express."""

    root: str
    target: ExportTarget
    path: str
    files: int
    generation: int
    shards: int
    samples: int
    splits: dict[str, int] = field(default_factory=dict)  # samples of each
    notes: tuple[str, ...] = ()
    seconds: float
