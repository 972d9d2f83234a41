"""The request of `prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from wdsctl.core.dataset.raw_folder import OnMissing
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.samples.types import DrawnOn
from wdsctl.core.split_rules.rule import SplitBy


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """The options of `prepare`. `index`: the options shared with `index`, of which raw folders use some."""

    # What the source is. `format_options`: options of its format, such as encoding=latin1
    from_format: str = ""  # empty: recognise it
    format_options: Mapping[str, str] = field(default_factory=dict)
    # The shards in DEST. A shard ends at the limit that is reached first.
    shard_samples: int = 10_000
    shard_size: int = 1 << 30  # bytes of the tar
    template: str = "shard-{index:06d}.tar"
    # Of a source whose rows name files. Empty: polylithic if files that several rows name cost much space.
    layout: Literal["", "monolithic", "polylithic"] = ""
    # Raw folders
    parts: tuple[str, ...] = ()  # those of a complete sample; empty: those that most samples have
    on_missing: OnMissing = "error"
    overwrite: bool = False  # replace what was written to DEST from another source that is no raw folder
    moved: bool = False  # the source is the folder that DEST was made from, at another path
    # Splits. None: keep those of the catalog or dataset.yaml; a new dataset has those of its names or fields, if any.
    split: Mapping[str, float] | None = None
    uses_split_field: bool = True  # a field of the samples that names splits is not ignored
    split_by: SplitBy = "auto"
    seed: int = 0
    may_move: bool = False  # another split may move samples from one split to another
    # dataset.yaml
    sample_type: str = ""  # empty: detect it
    field_map: Mapping[str, str] = field(default_factory=dict)
    redetect: bool = False  # detect the sample type again
    drawn_on: DrawnOn | Literal[""] = ""  # what labels are drawn on; empty: decide for a new dataset.yaml
    take_unsure: bool = False  # write a detected sample type that is not sure
    # The catalog
    catalog: str | None = None
    index: IndexRequest = field(default_factory=IndexRequest)
    wait: float = 0.0  # seconds, for another wdsctl that holds the lock
