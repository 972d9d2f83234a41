"""From the definition of a view to its samples: each condition on its own, then what they have in common."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.beneath import check_beneath
from wdsctl.core.catalog.identity import check, without_rows
from wdsctl.core.catalog.line_rows import give_rows
from wdsctl.core.catalog.published import reading
from wdsctl.core.catalog.quick import current_generation, refuse_media_folder
from wdsctl.core.catalog.row_query import RowQuery
from wdsctl.core.catalog.row_view import MASK
from wdsctl.core.catalog.view_reader import KnownShard, ViewShard, known_shards
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.key_lists import Listed, listed
from wdsctl.core.keys import derive, mix
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.selections import (
    Selected,
    as_view_shards,
    count_of,
    everything,
    hash_of,
    intersected,
    of_split,
    part_of,
)
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import flags_of
from wdsctl.core.verbs.sql import first_column
from wdsctl.core.view_definition import Definition, parse_sample

Ids = NDArray[np.int64]

_AT_ONCE = 1 << 20  # hashes that are drawn from together: 8 bytes each
_NAMED = 3  # keys that a message names


@dataclass(frozen=True, slots=True)
class Chosen:
    """The samples of a view in the present catalog. `unknown`: keys of its file that the dataset does not have."""

    selected: Selected
    shards: tuple[KnownShard, ...]  # of the catalog
    generation: int
    unknown: int = 0
    unknown_keys: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        return count_of(self.selected)

    @property
    def parts(self) -> list[ViewShard]:
        return as_view_shards(self.selected, self.shards)

    @property
    def hash(self) -> str:
        return hash_of(self.parts)


#: What a definition may take that is kept in a ledger, which may be somebody else's: nobody reads it before it runs.
STORED_SECONDS = 600.0


def choose_stored(
    place: Place,
    definition: Definition,
    progress: Progress,
    *,
    skip_unknown: bool = False,
    timeout_seconds: float = STORED_SECONDS,
) -> Chosen:
    """`choose` by a definition that a ledger has: its list of keys is read from the dataset, or where the user allows.

    Raises PermissionDenied WDS409 besides.
    """
    if definition.keys:
        check_beneath(definition.keys, place.root)
    return choose(place, definition, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds)


def choose(
    place: Place, definition: Definition, progress: Progress, *, skip_unknown: bool = False, timeout_seconds: float = 0
) -> Chosen:
    """Which samples a definition means now.

    Raises UsageError WDS332 where it cannot be understood, InputError where keys of its file are unknown (unless
    `skip_unknown`) or its split is, UsageError WDS334 where an expression or a query takes longer than the timeout (0:
    none), CatalogError where the catalog cannot be used or has no rows of samples.
    """
    definition.check()
    check(place.catalog)
    refuse_media_folder(place.catalog)
    shards = known_shards(place.catalog)
    chosen = of_split(place, definition.split) if definition.split else everything(shards)
    unknown: list[str] = []
    count = 0
    if definition.where:
        chosen = intersected(chosen, _where(place, definition.where, shards, progress, timeout_seconds))
    if definition.sql:
        progress.phase("run the query")
        ids = first_column(place, definition.sql, where="--sql", timeout_seconds=timeout_seconds)
        chosen = intersected(chosen, _of_ids(np.frombuffer(ids, np.int64), shards, "--sql"))
    if definition.keys:
        progress.phase("look up keys")
        ids, count, unknown = _look_up(place, listed(definition.keys), shards)
        if count and not skip_unknown:
            raise _unknown(place, definition.keys, count, unknown)
        chosen = intersected(chosen, _of_ids(np.frombuffer(ids, np.int64), shards, "--keys"))
    if definition.sample:
        progress.phase("draw")
        chosen = drawn(chosen, shards, parse_sample(definition.sample), definition.seed)
    return Chosen(chosen, tuple(shards), current_generation(place.catalog), count, tuple(unknown))


def drawn(chosen: Mapping[int, SplitShard], shards: Iterable[KnownShard], share: Fraction | int, seed: int) -> Selected:
    """Exactly this share of the samples, to the nearest whole number, or so many of them; all, where there are fewer.
    At least one, if there are any, as `validate --sample` has it.

    Each sample has a number from the seed, its shard's path and its place, and the smallest are taken: so with one seed
    a small share lies within a larger one, and new shards move little. Memory: 8 bytes a sample that is taken.
    """
    total = count_of(chosen)
    count = min(total, share if isinstance(share, int) else max(1, round(total * share)))
    if count == total or not count:
        return dict(chosen) if count else {}
    mine = [shard for shard in shards if shard.id in chosen]
    lowest, waiting = np.empty(0, np.uint64), [np.empty(0, np.uint64)]
    for i, shard in enumerate(mine):
        waiting.append(_numbers(shard, seed)[flags_of(chosen[shard.id], shard.samples)])
        if sum(map(len, waiting)) >= max(_AT_ONCE, count) or i == len(mine) - 1:
            lowest = np.concatenate([lowest, *waiting])
            waiting = []
            if len(lowest) > count:
                lowest = np.partition(lowest, count - 1)[:count]
    last = lowest.max()
    taken = (
        part_of(shard.id, flags_of(chosen[shard.id], shard.samples) & (_numbers(shard, seed) <= last)) for shard in mine
    )
    return {part.shard: part for part in taken if part.samples}


def _numbers(shard: KnownShard, seed: int) -> NDArray[np.uint64]:
    return mix(derive("view", seed, shard.path), np.arange(shard.samples))


def _where(place: Place, text: str, shards: Sequence[KnownShard], progress: Progress, seconds: float) -> Selected:
    found: Selected = {}
    with RowQuery(place, shards) as rows:
        fitting = rows.where(text, timeout_seconds=seconds)
        progress.phase("look at samples", items=sum(shard.samples for shard in shards))
        for shard, flags in fitting:
            part = part_of(shard, flags)
            if part.samples:
                found[shard] = part
            progress.advance(items=len(flags))
    return found


def _of_ids(ids: Ids, shards: Sequence[KnownShard], said: str) -> Selected:
    """The samples of these ids. Raises UsageError WDS332 where one is of no sample."""
    ids = np.unique(ids)
    if not len(ids):  # of which np.split makes one piece, too
        return {}
    numbers, firsts = np.unique(ids >> INDEX_BITS, return_index=True)
    by_id = {shard.id: shard for shard in shards}
    found: Selected = {}
    for number, places in zip(numbers.tolist(), np.split(ids & MASK, firsts[1:]), strict=True):
        shard = by_id.get(number)
        if shard is None or places[-1] >= shard.samples:
            wrong = number << INDEX_BITS | int(places[-1])
            raise UsageError(
                f"{wrong} is the id of no sample",
                where=said,
                hint="select the column id of v_sample, v_part or v_media first",
                code="WDS332",
            )
        flags = np.zeros(shard.samples, np.bool_)
        flags[places] = True
        found[number] = part_of(number, flags)
    return found


def _look_up(place: Place, wanted: Iterable[Listed], shards: Sequence[KnownShard]) -> tuple[array[int], int, list[str]]:
    """The ids of listed samples, how many of them are unknown, and the first of those. 3 µs a key."""
    paths = {shard.id: shard.path for shard in shards}
    ids, count = array("q"), 0
    unknown: list[str] = []
    with reading(place.catalog) as connection:
        give_rows(connection, place.catalog, by_key=True)
        if shards and connection.execute("SELECT 1 FROM sample LIMIT 1").fetchone() is None:
            raise without_rows(place.catalog)
        for key, shard, position in wanted:
            found = [row[0] for row in connection.execute("SELECT id FROM sample WHERE key = ?", (key,))]
            if shard is not None:
                found = [each for each in found if paths.get(each >> INDEX_BITS) == shard]
            if position is not None:
                found = [each for each in found if each & MASK == position]
            ids.extend(found)
            if not found:
                count += 1
                unknown += [key] if len(unknown) < _NAMED else []
    return ids, count, unknown


def _unknown(place: Place, path: str, count: int, keys: Sequence[str]) -> InputError:
    named = ", ".join(keys) + (", ..." if count > len(keys) else "")
    return InputError(
        f"{counted(count, 'key')} of the list {'is' if count == 1 else 'are'} not in the dataset: {named}",
        where=path,
        hint=f"`--unknown skip` passes over such keys; {command_at(place, 'inspect')} shows some that there are",
    )
