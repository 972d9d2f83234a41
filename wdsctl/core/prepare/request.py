"""The options of `prepare`, and the request that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from wdsctl.core.index.request import IndexRequest
from wdsctl.core.invocation import parse_part_names
from wdsctl.core.options import UNSET, Option, group, option
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, OnMissing
from wdsctl.core.shared_options import (
    ALLOW_SPLIT_CHANGES,
    CATALOG,
    FORMAT_OPTION,
    FROM_FORMAT,
    OVERWRITE,
    SHARD_SAMPLES,
    SHARD_SIZE,
    TEMPLATE,
    WAIT,
)
from wdsctl.core.split_rules.rule import SPLIT_SEED, SplitBy

#: What `prepare` does only if the user consents: options, all of which `--yes` gives.
Consent = Literal["accept_type", "allow_split_changes", "source_moved"]


def parse_split(split: str | Mapping[str, float] | None) -> Mapping[str, float] | None:
    """Parse `8,1,1` or shares by name; None for empty text. Raises UsageError WDS210."""
    if not split:
        return None
    from wdsctl.core.split_rules.shares import parse_split_shares, shares_text

    return parse_split_shares(shares_text(split))


def parse_field_map(field_map: str | Mapping[str, str]) -> Mapping[str, str]:
    """Parse `image=jpg,caption=txt` or a JSON object; `image=jpg,png` takes a jpg, or else a png. Raises UsageError."""
    if not isinstance(field_map, str):
        return dict(field_map)
    from wdsctl.core.samples.field_map import parse_field_map_text

    return parse_field_map_text(field_map) if field_map.strip() else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """What `prepare` does with a source. Of the options of `index`, raw folders use some.

    `layout`: empty for polylithic if files that several rows name cost much space. `parts`: empty for those that most
    samples have. `split`: None keeps the splits of the catalog or dataset.yaml; a new dataset has those of its names or
    fields, if any.
    """

    from_format: str = option("", FROM_FORMAT)
    format_options: Mapping[str, str] = option({}, FORMAT_OPTION)
    shard_samples: int = option(10_000, SHARD_SAMPLES)
    shard_size: int = option(1 << 30, SHARD_SIZE)  # bytes of the tar; a shard ends at the limit that it reaches first
    template: str = option(DEFAULT_TEMPLATE, TEMPLATE)
    layout: Literal["", "monolithic", "polylithic"] = option(
        "",
        "Write one dataset, or DEST/primary and DEST/media with each file once. "
        "[default: polylithic if repeated files cost 64 MiB and 10 % of the data]",
        metavar="monolithic|polylithic",
    )
    parts: tuple[str, ...] = option(
        (),
        "The parts of a complete sample; 'jpg|png' for either. [default: those that at least half of the samples have]",
        metavar="jpg,txt",
        parse=parse_part_names,
    )
    on_missing: OnMissing = option(
        "error",
        "Incomplete samples, files without a key, and unreadable files: stop, skip these samples, "
        "or keep the parts that exist.",
        metavar="error|skip|keep",
    )
    source_moved: bool = option(
        False, "Raw files: SOURCE is the folder that DEST was written from, moved and changed since."
    )
    split: Mapping[str, float] | None = option(
        None,
        "8,1,1 or train=8,val=1,test=1. [default: as in the source or dataset.yaml; else all samples in train]",
        metavar="RATIOS",
        parse=parse_split,
    )
    split_by: SplitBy = option(
        "auto",
        "Assign whole shards, single samples, or samples by a hash of their key. auto: single samples if prepare "
        "writes the shards to DEST; in place, whole shards if they fit the ratios, else single samples.",
        name="by",
        metavar="|".join(get_args(SplitBy)),
    )
    seed: int = option(0, SPLIT_SEED)
    allow_split_changes: bool = option(False, ALLOW_SPLIT_CHANGES)
    sample_type: str = option("", "Sample type, such as CaptioningSample. [default: detected]", metavar="NAME")
    field_map: Mapping[str, str] = option(
        {},
        "Fields and their parts: image=jpg,caption=txt or a JSON object. [default: detected]",
        metavar="MAP",
        parse=parse_field_map,
        users_default="",
    )
    redetect: bool = option(False, "Detect the sample type again and rewrite dataset.yaml.")
    accept_type: bool = option(False, "Accept the detected sample type even if it is uncertain.")
    drawn_on: Literal["", "shown", "stored"] = option(
        "",
        "What boxes and masks are drawn on: images as viewers show them, turned by EXIF, or as files store them. "
        "[default: by the format, and by sizes]",
        metavar="shown|stored",
    )
    overwrite: bool = option(False, OVERWRITE)  # not for raw folders
    index: IndexRequest = group(
        IndexRequest, "key key_until media media_index exclude missing sample_rows hashed workers dry_run"
    )
    wait: float = option(0.0, WAIT)
    catalog: str | None = option(None, CATALOG)
    uses_split_field: bool = True  # a field of the samples that names splits is not ignored
    yes: bool = option(
        False,
        "All consents: accept_type, allow_split_changes, source_moved. Also start again although another conversion "
        "into `dest` is unfinished.",
        flag="",
    )

    def allows(self, consent: Consent) -> bool:
        """Whether the user gave this consent: by its option, or by `--yes`, which gives all."""
        return self.yes or bool(getattr(self, consent))


SOURCE = Option(
    "A folder or file in any format that wdsctl reads: raw files, class folders, tables (CSV, JSON, Parquet) "
    "whose rows name files, COCO, LLaVA, ...; tars or JSONL; any of these also at a URL; "
    "or some shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).",
    is_argument=True,
    is_path=True,
    metavar="SOURCE",
)
DEST = Option(
    "The folder for the shards, or a URL such as s3://bucket/shards. Omit it for tars, which stay in place.",
    is_argument=True,
    is_path=True,
    metavar="DEST",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareCommand:
    """The options of `prepare`, as Python users pass them: the command line asks for a missing source."""

    source: str = option(UNSET, SOURCE)
    dest: str | None = option(None, DEST)
    request: PrepareRequest = field(default_factory=PrepareRequest)
