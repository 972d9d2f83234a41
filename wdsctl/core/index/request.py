"""The requests of `index`: shards, columns, media."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsctl.core.dataset.root_spec import ShardSelection
from wdsctl.core.errors import UsageError, refuse_without_effect
from wdsctl.core.options import UNSET, as_tuple, option
from wdsctl.core.samples.naming import KeyRuleName
from wdsctl.core.shared_options import CATALOG, DRY_RUN, UNIT_WORKERS, WAIT

OnError = Literal["error", "zero"]
#: What to do about missing shards and samples.
MissingPolicy = Literal["error", "keep", "drop"]


def parse_column_options(column: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Parse `tokens=lengths:tokens`, or a mapping, into name -> function. Raises UsageError."""
    texts = [f"{name}={function}" for name, function in column.items()] if isinstance(column, Mapping) else column
    if not texts:
        return {}
    from wdsctl.core.columns.column_file import check_column_name

    functions: dict[str, str] = {}
    for text in as_tuple(texts):
        name, equals, function = text.partition("=")
        if not equals or not function:
            raise UsageError(
                f"{text!r}: expected NAME=MODULE:FUNCTION", hint="write --column NAME=MODULE:FUNCTION", code="WDS312"
            )
        if name in functions:
            raise UsageError(f"--column: the name {name!r} is repeated", hint="give each --column its own name")
        functions[check_column_name(name)] = function
    return functions


def parse_media(media: str | bool | None) -> str | None:
    """The selection of `MediaRequest`: True means all media, as `--media` without a value; False means None."""
    return ("auto" if media else None) if isinstance(media, bool) else media


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRequest:
    """Columns to add and drop. `functions`: column name -> function."""

    functions: Mapping[str, str] = option(
        {},
        "Compute a number for every sample (repeatable).",
        name="column",
        metavar="NAME=FUNCTION",
        is_repeatable=True,
        parse=parse_column_options,
        users_default=(),
        python_help="Name -> function that computes a number for every sample (docs/columns.md).",
    )
    drop: tuple[str, ...] = option(
        (), "Delete a column (repeatable).", name="drop_column", metavar="NAME", is_repeatable=True, parse=as_tuple
    )
    on_error: OnError = option(
        "error", "If FUNCTION fails for a sample: do not write the column, or store 0.", metavar="error|zero"
    )
    trust_code: bool = option(False, "Allow importing a column's FUNCTION from the folder of the dataset.")

    def __post_init__(self) -> None:
        """Raise OptionConflict for options about functions without any: a column keeps what it was computed with."""
        column = "--column NAME=MODULE:FUNCTION"
        refuse_without_effect(
            ("--on-error zero", self.on_error == "zero", column, self.functions),
            ("--trust-code", self.trust_code, column, self.functions),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRequest:
    """`selection`: which parts are media (`wdsctl/core/media/kinds.py`); None: the selection in the catalog, if any."""

    selection: str | None = option(
        None,
        "Read facts of images, audio and video from their headers. SELECTION: extensions or patterns such as "
        "'jpg,*.seg.png'; or 'content', to recognise media by content instead of names. [no value: all media]",
        name="media",
        metavar="[SELECTION]",
        parse=parse_media,
        python_help="Read facts of images, audio and video from their headers: of parts such as 'jpg,*.seg.png'; "
        "'content' recognises media by content instead of names; True: all media.",
    )
    keyframes: bool = option(
        False,
        "Also record the keyframes of videos, for fast seeking. Reads whole files without decoding them.",
        name="media_index",
    )
    drop: bool = option(False, "Delete the media facts.", name="drop_media")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """What `index` does to the shards of a dataset.

    The catalog stores `exclude`, `selection`, `sample_rows`, `hashed`, `key`, `key_until` and the media selection for
    later runs: None, and for `exclude` also (), mean as in the catalog. `rebuild` keeps splits and shard ids, unless
    the catalog is damaged. `missing`: a renamed shard is not missing; it keeps its id and its splits.
    """

    rebuild: bool = option(False, "Rebuild the catalog from all shards.")
    missing: MissingPolicy = option(
        "error",
        "If shards or raw files no longer exist: stop, keep their samples, or drop them.",
        metavar="error|keep|drop",
    )
    exclude: tuple[str, ...] | None = option(
        None,
        "Skip shards whose path matches, such as 'val/*' (repeatable).",
        metavar="PATTERN",
        is_repeatable=True,
        parse=as_tuple,
        python_help="Skip shards whose path matches one of these patterns. None: those of the last run.",
    )  # ("",): none
    key: str | None = option(None, "JSONL: the field with the key. [default: the line number]", metavar="FIELD")
    key_until: KeyRuleName | None = option(
        None,
        "Where the key ends in a file name with several dots. [default: detected; first-dot for tars]",
        metavar="first-dot|last-dot|known-extension",
    )
    columns: ColumnRequest = field(default_factory=ColumnRequest)
    media: MediaRequest = field(default_factory=MediaRequest)
    sample_rows: bool | None = option(
        None,
        "Store a catalog row for every sample, or only counts (for huge datasets). "
        "[default: as in the last run; in the first run rows for tars, counts for JSONL]",
    )
    hashed: bool | None = option(
        None,
        "Compute the SHA-256 of every shard, by reading all of it. [default: as in the last run; in the first run no]",
        flag="--hash",
    )
    workers: int = option(1, UNIT_WORKERS)
    dry_run: bool = option(False, DRY_RUN)
    selection: ShardSelection | None = None
    skip_key_checks: bool = False  # such as for shards that wdsctl has just written by the rule `key_until`


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCommand:
    """The options of `index`."""

    root: str = option(
        UNSET,
        "The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these. "
        "Or some shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).",
        is_argument=True,
        is_path=True,
        metavar="ROOT",
    )
    request: IndexRequest = field(default_factory=IndexRequest)
    wait: float = option(0.0, WAIT)
    catalog: str | None = option(None, CATALOG)
