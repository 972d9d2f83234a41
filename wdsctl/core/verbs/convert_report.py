"""What may be asked of `convert`, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from wdsctl.core.convert.collisions import OnCollision
from wdsctl.core.convert.plan import Order
from wdsctl.core.convert.recipe import Layout, OnError, PartRules
from wdsctl.core.findings import Finding
from wdsctl.core.transcode.options import AudioOptions, ImageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """See `convert`. `from_form`, `to_form`: empty for what is recognised, and for shards."""

    from_form: str = ""
    to_form: str = ""
    form_options: Mapping[str, str] = field(default_factory=dict)
    shard_samples: int = 10_000
    shard_size: int = 1 << 30  # bytes
    template: str = "shard-{index:06d}.tar"
    order: Order = "none"
    seed: int = 0
    split: str = ""
    where: str = ""
    on_collision: OnCollision = "error"
    apart: str = ""
    layout: Layout = ""
    media: tuple[str, ...] = ()
    primary: Literal["tar", "jsonl"] = "tar"
    parts: PartRules = field(default_factory=PartRules)
    image: ImageOptions | None = None
    audio: AudioOptions | None = None
    on_error: OnError = "skip"
    compress: Literal["none", "gz"] = "none"
    workers: int = 1
    wait: float = 0.0  # seconds, for another wdsctl that writes there
    restart: bool = False  # begin anew where another conversion was not finished
    dry_run: bool = False

    @property
    def is_prepared(self) -> bool:
        """Whether what comes of it is datasets with catalogs."""
        return self.to_form in ("", "shards") and self.compress == "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    form: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSource:
    """A source, and why it was taken for what it is. `rejected`: what it looked like as well."""

    path: str
    form: str
    reason: str
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDataset:
    """One dataset of the destination. `splits`: name -> samples; `sample_type` empty where it was not prepared.

    `columns`: those that the sources had, and it has now; `media`: of how many media the facts went along.
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
    """What was converted; of a dry run, what would be.

    `samples` are those that are planned, `failed` those of them that are not in the destination, `kept` those with
    parts that could not be written anew and are as they were. `repeated` were left out for their keys, `bare` for want
    of parts, `apart` since nothing says which dataset they belong to. `kept_files` were there from an earlier run.
    """

    sources: tuple[ConvertSource, ...]
    dest: str
    form: str
    samples: int
    files: int
    size_bytes: int  # of the files; of a dry run, by the sizes of the source
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
