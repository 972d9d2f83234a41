"""What `export` is asked for, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wdsctl.core.options import UNSET, option
from wdsctl.core.shared_options import CATALOG, ROOT

ExportTarget = Literal["energon", "wids", "hub", "croissant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The options of `export`. `out`: empty for the folder of the shards. `split_set`: empty for the default set."""

    root: str = option(UNSET, ROOT)
    out: str = option(
        "",
        "The folder to write to. [default: the folder of the shards]",
        is_argument=True,
        is_path=True,
        metavar="[OUT]",
    )
    target: ExportTarget = option(
        UNSET,
        "Metadata to write: see below.",
        name="to",
        metavar="energon|wids|hub|croissant",
        python_help="The tool whose metadata to write.",
    )
    split_set: str = option("", "Export the splits of this split set.", flag="--set", metavar="SET")
    sample_tables: bool = option(
        True, "energon: write index.sqlite, which joins, lookups by key and `energon mount` need."
    )
    hashed: bool = option(False, "wids: read all shards, and list their MD5 hashes.", flag="--hash")
    license_id: str = option("", "hub, croissant: the license, such as cc-by-4.0.", flag="--license", metavar="ID")
    overwrite: bool = option(False, "Replace existing metadata. Files of other names stay.")
    catalog: str | None = option(None, CATALOG)


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
