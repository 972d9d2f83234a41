"""`view list`, `show`, `diff` and `export`: read views and their samples."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from wdsctl.core.catalog.splits import SplitShard, sample_flags
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.directories import resolve_parent
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.files import replace_atomically
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.text import escape_json_controls
from wdsctl.core.urls import is_url, redact_secrets
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.select import evaluate_stored
from wdsctl.core.views.selections import (
    OpenView,
    SampleSelection,
    count_selected,
    intersect_selections,
    match_view_shards,
    missing_view_error,
    open_view,
    require_unchanged_view,
    shard_selection,
)
from wdsctl.core.views.views import SplitOverlap, split_overlaps, stored_definition

KeysFormat = Literal["txt", "jsonl"]

NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSummary:
    """A view in a list. `changed`: how many of its shards changed or are missing; if any, it cannot be used."""

    name: str
    samples: int
    share: float
    shards: int
    changed: int
    created_at: str
    hash: str
    definition: ViewDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewListReport:
    root: str
    samples: int
    views: tuple[ViewSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewShowReport:
    """`splits` and `first_keys` are of unchanged shards; `changed`: paths of the others."""

    root: str
    name: str
    definition: ViewDefinition
    created_at: str
    generation: int
    hash: str
    samples: int
    share: float
    shards: int
    splits: tuple[SplitOverlap, ...]
    first_keys: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDiffReport:
    """The differences of two views. `second`: a view, or "now" for the first view evaluated again.

    `first_changed`, `second_changed`: shards of each view that changed or are missing. No count includes their samples.
    """

    root: str
    first: str
    second: str
    first_samples: int
    second_samples: int
    both: int
    only_first: int
    only_second: int
    only_first_keys: tuple[str, ...]
    only_second_keys: tuple[str, ...]
    first_changed: tuple[str, ...]
    second_changed: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return not (self.only_first or self.only_second or self.first_changed or self.second_changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewExportReport:
    root: str
    name: str
    samples: int
    hash: str
    format: KeysFormat
    out: str


class SampleNames(NamedTuple):
    """The names of a sample."""

    key: str
    id: int
    shard: str
    position: int


def list_views(root: str, *, catalog: str | None = None) -> ViewListReport:
    """All views of a dataset, by name."""
    with open_indexed(root, catalog) as dataset:
        shards = dataset.catalog.shards()
        return ViewListReport(
            root=dataset.location.display_path,
            samples=sum(shard.samples for shard in shards),
            views=tuple(_summarize_view(dataset, view.name, shards) for view in dataset.ledger.views()),
        )


def show_view(root: str, name: str, *, keys: int = 5, catalog: str | None = None) -> ViewShowReport:
    """One view: its definition, its samples in each split, its first keys. Raises InputError WDS330."""
    with open_indexed(root, catalog) as dataset:
        return describe_view(dataset, name, keys=keys)


def describe_view(dataset: OpenDataset, name: str, *, keys: int = 5) -> ViewShowReport:
    """`show_view` of an open dataset."""
    view = open_view(dataset, name)
    total = sum(shard.samples for shard in dataset.catalog.shards())
    return ViewShowReport(
        root=dataset.location.display_path,
        name=name,
        definition=stored_definition(view.stored),
        created_at=view.stored.created_at,
        generation=view.stored.generation,
        hash=view.stored.hash,
        samples=view.stored.samples,
        share=view.stored.samples / total if total else 0.0,
        shards=len(view.selection) + len(view.changed_paths),
        splits=split_overlaps(dataset, view.selection),
        first_keys=_first_keys(dataset, view.selection, keys),
        changed=view.changed_paths,
    )


def diff_views(
    root: str,
    first: str,
    second: str = "",
    *,
    keys: int = 10,
    catalog: str | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> ViewDiffReport:
    """The samples that one view has and the other lacks. Without `second`, evaluates `first` again to compare.

    Raises InputError WDS330, and what `evaluate_definition` raises.
    """
    with open_indexed(root, catalog) as dataset:
        shards = dataset.catalog.shards()
        one = open_view(dataset, first)
        other = open_view(dataset, second) if second else _evaluate_now(dataset, one, progress)
        only_first = _difference(one.selection, other.selection, shards)
        only_second = _difference(other.selection, one.selection, shards)
        return ViewDiffReport(
            root=dataset.location.display_path,
            first=first,
            second=second or NOW,
            first_samples=one.stored.samples,
            second_samples=other.stored.samples,
            both=count_selected(intersect_selections(one.selection, other.selection)),
            only_first=count_selected(only_first),
            only_second=count_selected(only_second),
            only_first_keys=_first_keys(dataset, only_first, keys),
            only_second_keys=_first_keys(dataset, only_second, keys),
            first_changed=one.changed_paths,
            second_changed=other.changed_paths,
        )


def iter_exported_names(
    root: str, name: str, keys_format: KeysFormat = "txt", *, catalog: str | None = None
) -> Iterator[bytes]:
    """The samples of a view in tar order, a line each, some thousand per chunk: `txt` keys, or `jsonl` objects with
    key, id, shard and position. `view create --keys` reads both.

    Raises what `read_view_samples` raises, and InputError for a key that contains a line break. Cost: 1 us per sample.
    """
    with open_indexed(root, catalog) as dataset:
        yield from _iter_lines(dataset, require_unchanged_view(dataset, name), keys_format)


def export_view(
    root: str,
    name: str,
    out: str,
    keys_format: KeysFormat = "txt",
    *,
    catalog: str | None = None,
    overwrite: bool = False,
) -> ViewExportReport:
    """Write `iter_exported_names` into a file or an object, atomically. Raises UsageError if it exists."""
    store = None
    if is_url(out):
        from wdsctl.core.storage.objects import ObjectStore

        store = ObjectStore(os.path.dirname(out))
    exists = os.path.exists(out) if store is None else store.stat(out) is not None
    if exists and not overwrite:
        raise UsageError(
            "the output file exists",
            where=redact_secrets(out),
            hint="choose another path, or pass `--force` to overwrite it",
        )
    with open_indexed(root, catalog) as dataset:
        view = require_unchanged_view(dataset, name)
        lines = _iter_lines(dataset, view, keys_format)
        if store is None:
            with replace_atomically(resolve_parent(out)) as draft, open(draft, "xb") as file:
                file.writelines(lines)
        else:
            with store.open_upload(out) as upload:
                for piece in lines:
                    upload.write(piece)
                upload.finish()
    return ViewExportReport(
        root=dataset.location.display_path,
        name=name,
        samples=view.stored.samples,
        hash=view.stored.hash,
        format=keys_format,
        out=redact_secrets(out),
    )


def _iter_lines(dataset: OpenDataset, view: OpenView, keys_format: KeysFormat) -> Iterator[bytes]:
    samples = _iter_names(dataset, view.selection)
    while chunk := list(islice(samples, 4096)):
        yield _format_names(chunk, keys_format)


def _iter_names(dataset: OpenDataset, selection: Mapping[int, SplitShard]) -> Iterator[SampleNames]:
    """The names of samples, in tar order. Memory: the bits of one shard."""
    offsets = dataset.offsets()
    for i, shard in enumerate(offsets.shards):
        if shard.id not in selection:
            continue
        first = int(offsets.shard_row[i])
        for position in np.flatnonzero(sample_flags(selection[shard.id], shard.samples)).tolist():
            yield SampleNames(offsets.key(first + position), shard.id << INDEX_BITS | position, shard.path, position)


def _format_names(samples: list[SampleNames], keys_format: KeysFormat) -> bytes:
    if keys_format == "jsonl":
        text = "".join(
            f"{escape_json_controls(json.dumps(sample._asdict(), ensure_ascii=False))}\n" for sample in samples
        )
        return text.encode("utf-8", "backslashreplace")
    for sample in samples:
        if "\n" in sample.key or "\r" in sample.key or not sample.key.strip():
            raise InputError(
                f"the key {sample.key!r} is blank or contains a line break",
                where=sample.shard,
                hint="pass `--format jsonl`",
            )
    return "".join(f"{sample.key}\n" for sample in samples).encode("utf-8", "backslashreplace")


def _summarize_view(dataset: OpenDataset, name: str, shards: list[ShardRow]) -> ViewSummary:
    found = dataset.ledger.view(name)
    if found is None:  # deleted since it was listed
        raise missing_view_error(dataset, name)
    stored, parts = found
    there, changed = match_view_shards(parts, shards)
    total = sum(shard.samples for shard in shards)
    return ViewSummary(
        name=name,
        samples=stored.samples,
        share=stored.samples / total if total else 0.0,
        shards=len(there) + len(changed),
        changed=len(changed),
        created_at=stored.created_at,
        hash=stored.hash,
        definition=stored_definition(stored),
    )


def _evaluate_now(dataset: OpenDataset, view: OpenView, progress: Progress) -> OpenView:
    """Evaluate the definition of a view again."""
    definition = stored_definition(view.stored)
    chosen = evaluate_stored(dataset, definition, progress, skip_unknown=True)
    stored = view.stored._replace(samples=chosen.samples, hash=chosen.hash, generation=chosen.generation)
    return OpenView(stored, chosen.selection)


def _difference(one: SampleSelection, other: SampleSelection, shards: list[ShardRow]) -> SampleSelection:
    """The samples of the first selection that the second lacks."""
    parts = (
        shard_selection(
            shard.id, sample_flags(one[shard.id], shard.samples) & ~sample_flags(other.get(shard.id), shard.samples)
        )
        for shard in shards
        if shard.id in one
    )
    return {part.shard: part for part in parts if part.samples}


def _first_keys(dataset: OpenDataset, selection: SampleSelection, count: int) -> tuple[str, ...]:
    return tuple(sample.key for sample in islice(_iter_names(dataset, selection), count)) if count else ()
