"""What may be asked of `index`, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from wdsctl.core.findings import Finding
from wdsctl.core.naming import KeyUntil
from wdsctl.core.replan import Missing
from wdsctl.core.selected_shards import Selection
from wdsctl.core.verbs.column_report import ColumnReport
from wdsctl.core.verbs.column_request import ColumnRequest
from wdsctl.core.verbs.media_report import MediaReport
from wdsctl.core.verbs.media_request import MediaRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """A shard that has another name and is otherwise what it was."""

    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What the catalog holds now, and what this run changed. Counts are of shards unless they say otherwise."""

    root: str
    catalog: str
    generation: int
    shards: int
    samples: int  # a dry run knows only those of shards that need not be read
    parts: int
    size_bytes: int  # of all shards
    added: int
    changed: int
    removed: int
    unchanged: int
    findings: tuple[Finding, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float
    columns: tuple[ColumnReport, ...] = ()
    media: MediaReport | None = None  # None: nobody has asked for facts of media
    renamed: tuple[Renamed, ...] = ()  # they are among the unchanged
    selection: str = ""  # the notations of the shards that are chosen; empty where they are all of the folder's
    hashed: int = 0  # shards whose SHA-256 is known
    sample_rows: bool = True
    catalog_bytes: int = 0  # of the catalog and the offsets file


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """What `index` was asked to do; see there."""

    workers: int = 1
    rebuild: bool = False
    missing: Missing = "error"
    exclude: tuple[str, ...] | None = None  # None or empty: the patterns that the catalog has
    selection: Selection | None = None  # None: the one that the catalog has
    sample_rows: bool | None = None  # None: as the catalog has it
    hashed: bool | None = None  # None: as the catalog has it
    dry_run: bool = False
    columns: ColumnRequest = field(default_factory=ColumnRequest)
    media: MediaRequest = field(default_factory=MediaRequest)
    key: str | None = None  # None: the field that the catalog has, if any; empty: numbers
    key_until: KeyUntil | None = None  # None: the rule that the dataset keeps, if any
    is_ours: bool = False  # wdsctl has just written the shards, by that rule
