"""`view list`, `show`, `diff` and `export`: what views are, and which samples they have. No view is changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.catalog.view_reader import KnownShard, known_shards, stored_view, stored_views
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.files import replacing
from wdsctl.core.folders import resolved
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.printable import harmless_json
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.selections import (
    OpenView,
    Selected,
    count_of,
    intersected,
    matched,
    no_such_view,
    open_view,
    part_of,
    whole_view,
)
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import flags_of
from wdsctl.core.verbs.presence import check_made
from wdsctl.core.verbs.view import InSplit, definition_of, in_splits
from wdsctl.core.verbs.view_select import choose_stored
from wdsctl.core.view_definition import Definition

KeysFormat = Literal["txt", "jsonl"]

NOW = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLine:
    """A view in a list. `changed`: how many of its shards are not there as they were: it cannot be read then."""

    name: str
    samples: int
    share: float
    shards: int
    changed: int
    created_at: str
    hash: str
    definition: Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class ListReport:
    root: str
    samples: int
    views: tuple[ViewLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowReport:
    """`splits` and `first_keys` of what of the view is there as it was; `changed`: paths of the shards that are not."""

    root: str
    name: str
    definition: Definition
    created_at: str
    generation: int
    hash: str
    samples: int
    share: float
    shards: int
    splits: tuple[InSplit, ...]
    first_keys: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """`second` is a view, or `now`: what the first one would be if it were made again.

    `first_changed`, `second_changed`: shards of each that are not there as they were. Which samples of those it had can
    not be told any more: they are in no count.
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
class ExportReport:
    root: str
    name: str
    samples: int
    hash: str
    format: KeysFormat
    out: str


class Named(NamedTuple):
    """A sample by all its names."""

    key: str
    id: int
    shard: str
    position: int


def list_views(root: str, *, catalog: str | None = None) -> ListReport:
    """All views of a dataset, by name."""
    place = _made(root, catalog)
    shards = known_shards(place.catalog)
    total = sum(shard.samples for shard in shards)
    return ListReport(
        root=place.shown,
        samples=total,
        views=tuple(_line(place, view.name, shards, total) for view in stored_views(place.ledger)),
    )


def show_view(root: str, name: str, *, keys: int = 5, catalog: str | None = None) -> ShowReport:
    """One view: how it was made, its samples in each split, its first keys. Raises InputError WDS330."""
    place = _made(root, catalog)
    shards = known_shards(place.catalog)
    view = open_view(place, name, shards)
    total = sum(shard.samples for shard in shards)
    return ShowReport(
        root=place.shown,
        name=name,
        definition=definition_of(view.stored),
        created_at=view.stored.created_at,
        generation=view.stored.generation,
        hash=view.stored.hash,
        samples=view.stored.samples,
        share=view.stored.samples / total if total else 0.0,
        shards=len(view.selected) + len(view.changed),
        splits=in_splits(place, view.selected),
        first_keys=_first_keys(place, view.selected, keys),
        changed=view.changed,
    )


def diff_views(
    root: str,
    first: str,
    second: str = "",
    *,
    keys: int = 10,
    catalog: str | None = None,
    progress: Progress = SILENT,
) -> DiffReport:
    """What one view has and another has not; without a second one, what the first would be if it were made now.

    Raises InputError WDS330, and what `choose` raises.
    """
    place = _made(root, catalog)
    shards = known_shards(place.catalog)
    one = open_view(place, first, shards)
    other = open_view(place, second, shards) if second else _now(place, one, progress)
    both = count_of(intersected(one.selected, other.selected))
    only = (_without(one.selected, other.selected, shards), _without(other.selected, one.selected, shards))
    return DiffReport(
        root=place.shown,
        first=first,
        second=second or NOW,
        first_samples=one.stored.samples,
        second_samples=other.stored.samples,
        both=both,
        only_first=count_of(only[0]),
        only_second=count_of(only[1]),
        only_first_keys=_first_keys(place, only[0], keys),
        only_second_keys=_first_keys(place, only[1], keys),
        first_changed=one.changed,
        second_changed=other.changed,
    )


def export_lines(root: str, name: str, form: KeysFormat = "txt", *, catalog: str | None = None) -> Iterator[bytes]:
    r"""The samples of a view in tar order, a line each, in pieces of some thousand: `txt` keys, `jsonl` objects with
    key, id, shard and position. Both are what `view create --keys` reads.

    Raises what `selected` raises, and InputError for a key that is no line. Cost: 1 µs a sample, whatever their number.
    """
    place = _made(root, catalog)
    samples = named(place, whole_view(place, name).selected)
    while chunk := list(islice(samples, 4096)):
        yield _lines(chunk, form)


def export_view(
    root: str, name: str, out: str, form: KeysFormat = "txt", *, catalog: str | None = None, overwrite: bool = False
) -> ExportReport:
    """`export_lines` into a file, which is there whole or not at all. Raises UsageError where it is there already."""
    if os.path.exists(out) and not overwrite:
        raise UsageError("the file is there already", where=out, hint="take another name, or overwrite it: --force")
    place = _made(root, catalog)
    stored = whole_view(place, name).stored
    with replacing(resolved(out)) as draft, open(draft, "xb") as file:
        file.writelines(export_lines(root, name, form, catalog=catalog))
    return ExportReport(root=place.shown, name=name, samples=stored.samples, hash=stored.hash, format=form, out=out)


def named(place: Place, chosen: Mapping[int, SplitShard]) -> Iterator[Named]:
    """The names of samples, in tar order. A block of a shard at a time: memory is the bits of one."""
    offsets = Offsets(place.offsets(current_generation(place.catalog)))
    for i, shard in enumerate(offsets.shards):
        if shard.id not in chosen:
            continue
        first = int(offsets.shard_row[i])
        for position in np.flatnonzero(flags_of(chosen[shard.id], shard.samples)).tolist():
            yield Named(offsets.key(first + position), shard.id << INDEX_BITS | position, shard.path, position)


def _lines(samples: list[Named], form: KeysFormat) -> bytes:
    if form == "jsonl":
        text = "".join(f"{harmless_json(json.dumps(sample._asdict(), ensure_ascii=False))}\n" for sample in samples)
        return text.encode("utf-8", "backslashreplace")
    for sample in samples:
        if "\n" in sample.key or "\r" in sample.key or not sample.key.strip():
            raise InputError(
                f"the key {sample.key!r} is no line of text", where=sample.shard, hint="take `--format jsonl`"
            )
    return "".join(f"{sample.key}\n" for sample in samples).encode("utf-8", "backslashreplace")


def _made(root: str, catalog: str | None) -> Place:
    """The place of a dataset that has a catalog; what to do where it has none is raised."""
    place = locate(root, catalog)
    check_made(place)
    return place


def _line(place: Place, name: str, shards: list[KnownShard], total: int) -> ViewLine:
    found = stored_view(place.ledger, name)
    if found is None:  # deleted since it was listed
        raise no_such_view(place, name)
    stored, parts = found
    there, changed = matched(parts, shards)
    return ViewLine(
        name=name,
        samples=stored.samples,
        share=stored.samples / total if total else 0.0,
        shards=len(there) + len(changed),
        changed=len(changed),
        created_at=stored.created_at,
        hash=stored.hash,
        definition=definition_of(stored),
    )


def _now(place: Place, view: OpenView, progress: Progress) -> OpenView:
    """What a view would be if it were made again."""
    definition = definition_of(view.stored)
    chosen = choose_stored(place, definition, progress, skip_unknown=True)
    stored = view.stored._replace(samples=chosen.samples, hash=chosen.hash, generation=chosen.generation)
    return OpenView(stored, chosen.selected)


def _without(one: Selected, other: Selected, shards: list[KnownShard]) -> Selected:
    """What of the first is not in the second."""
    parts = (
        part_of(shard.id, flags_of(one[shard.id], shard.samples) & ~flags_of(other.get(shard.id), shard.samples))
        for shard in shards
        if shard.id in one
    )
    return {part.shard: part for part in parts if part.samples}


def _first_keys(place: Place, chosen: Selected, count: int) -> tuple[str, ...]:
    return tuple(sample.key for sample in islice(named(place, chosen), count)) if count else ()
