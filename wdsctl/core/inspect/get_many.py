"""`get --keys`: find the samples of a list of keys, in its order, through one open catalog and one storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import InputError, UsageError, join_indented
from wdsctl.core.inspect.get import GetReport, GetTarget, RetrievedPart, TargetFinder, open_finder
from wdsctl.core.offsets.key_list import read_sample_list
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.text import pluralize

MAX_NAMED_FAILURES = 20
_FAILURES_OF_KEYS = ("WDS004", "WDS005")  # no such sample or part, and several of them


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedSample:
    """A `GetReport` as an entry of a list."""

    key: str
    id: int
    shard: str
    position: int
    file: str
    parts: tuple[RetrievedPart, ...]


def as_entry(report: GetReport) -> RetrievedSample:
    return RetrievedSample(**{each.name: getattr(report, each.name) for each in fields(RetrievedSample)})


@dataclass(frozen=True, slots=True)
class KeyedTargets:
    """The samples of a list of keys. `targets`: in the order of the list; raises, at its end, what it could not find.

    `storage`: reads the shards; None for a folder of media, whose files are opened one by one.
    """

    location: DatasetLocation
    targets: Iterator[GetTarget]
    storage: Storage | None


@contextmanager
def open_targets(
    root: str,
    keys: str,
    *,
    part: str | None = None,
    shard: str | None = None,
    all_parts: bool = False,
    catalog: str | None = None,
) -> Iterator[KeyedTargets]:
    """Open the dataset, to find the samples that the file `keys` names (`read_sample_list`).

    `part`, `shard`, `all_parts`: as for `find_target`. After the last sample, `targets` raises InputError WDS004 or
    UsageError WDS005, which names the keys without a sample or without one part. Memory: one sample, and the shards.
    """
    with open_finder(root, catalog) as finder, _open_shards(finder) as storage:
        yield KeyedTargets(finder.dataset.location, _find_all(finder, keys, part, shard, all_parts=all_parts), storage)


@contextmanager
def _open_shards(finder: TargetFinder) -> Iterator[Storage | None]:
    if finder.dataset.browser.is_media_folder:
        yield None
        return
    root = finder.dataset.location.root
    sizes = {os.path.join(root, shard.path): shard.size for shard in finder.dataset.browser.shards()}
    with closing(storage_for(root, sizes)) as storage:
        yield storage


def _find_all(
    finder: TargetFinder, keys: str, part: str | None, shard: str | None, *, all_parts: bool
) -> Iterator[GetTarget]:
    count = failed = 0
    failures: list[InputError | UsageError] = []
    for requested in read_sample_list(keys):
        count += 1
        try:
            target = finder.find(
                requested.key,
                part=part,
                shard=requested.shard or shard,
                position=requested.position,
                all_parts=all_parts,
                suggests=False,
            )
        except (InputError, UsageError) as error:
            if error.code not in _FAILURES_OF_KEYS:
                raise
            failed += 1
            if failed <= MAX_NAMED_FAILURES:
                failures.append(error)
            continue
        yield target
    if not count:
        raise InputError("the list has no keys", where=keys, hint="write one key per line, for example 000123")
    if failed:
        raise _combine(failures, failed, count, finder.dataset.location.display_path)


def _combine(failures: list[InputError | UsageError], failed: int, count: int, root: str) -> InputError | UsageError:
    """One error for all keys that failed: the only one, or one with a line for each of the first."""
    first = failures[0]
    if failed == 1:
        return first
    lines = [error.message if root == error.where else f"{error.where}: {error.message}" for error in failures]
    more = [f"... and {failed - len(failures):,} more"] if failed > len(failures) else []
    message = join_indented(f"{failed:,} of {pluralize(count, 'key')} failed", *lines, *more)
    return type(first)(message, where=root, hint=first.hint, code=first.code)
