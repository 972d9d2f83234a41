"""What `export` is asked for, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from wdsctl.core.options import Option
from wdsctl.core.shared_options import Catalog, Root

ExportTarget = Literal["energon", "wids", "hub", "croissant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The options of `export`. `out`: empty for the folder of the shards. `split_set`: empty for the default set."""

    root: Root
    out: Annotated[
        str,
        Option(
            "The folder to write to. [default: the folder of the shards]",
            is_argument=True,
            is_path=True,
            metavar="[OUT]",
        ),
    ] = ""
    target: Annotated[
        ExportTarget,
        Option(
            "Metadata to write: see below.",
            name="to",
            metavar="energon|wids|hub|croissant",
            python_help="The tool whose metadata to write.",
        ),
    ]
    split_set: Annotated[str, Option("Export the splits of this split set.", flag="--set", metavar="SET")] = ""
    sample_tables: Annotated[
        bool, Option("energon: write index.sqlite, which joins, lookups by key and `energon mount` need.")
    ] = True
    hashed: Annotated[bool, Option("wids: read all shards, and list their MD5 hashes.", flag="--hash")] = False
    license_id: Annotated[
        str, Option("hub, croissant: the license, such as cc-by-4.0.", flag="--license", metavar="ID")
    ] = ""
    overwrite: Annotated[bool, Option("Replace existing metadata. Files of other names stay.")] = False
    catalog: Catalog = None


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
