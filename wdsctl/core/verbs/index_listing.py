"""What `index` says of shards that are not there: none at all, some that were named, some that were there before."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from wdsctl.core.beneath import check_beneath
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import is_lines
from wdsctl.core.place import Place
from wdsctl.core.printable import named
from wdsctl.core.shard_list import ShardListing
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.index_request import IndexRequest
from wdsctl.core.verbs.presence import no_shards, only_compressed


def check_any(place: Place, listing: ShardListing, known: Collection[object]) -> None:
    """Raise InputError WDS003, WDS008 or WDS113 where there is no shard, and none is `known`."""
    if listing.shards or known:
        return
    compressed = [finding.shard for finding in listing.findings if finding.code == "WDS113"]
    if compressed:
        raise only_compressed(place, compressed)
    if listing.unmatched:
        raise _unmatched(place, listing.unmatched, 0)
    raise no_shards(place)


def all_there(place: Place, listing: ShardListing, request: IndexRequest, known: Sequence[str]) -> ShardListing:
    """Shards that are named, not there, and not in the catalog either (those have vanished): an error, or a finding.

    Of those that were named in an earlier run somebody has said by then that they may be missing.
    """
    absent = sorted(set(listing.unmatched).difference(known))
    if not absent or (request.selection is None and all(name.startswith("glob:") for name in absent)):
        return listing
    error = _unmatched(place, absent, len(listing.shards))
    if request.missing == "error" and request.selection is not None:
        raise error
    finding = Finding(code=error.code, severity="warning", message=error.message, shard=absent[0], count=len(absent))
    return replace(listing, findings=(*listing.findings, finding))


def _unmatched(place: Place, absent: Sequence[str], there: int) -> InputError:
    globs = [name for name in absent if name.startswith("glob:")]
    names = [name for name in absent if not name.startswith("glob:")]
    said = [f"{len(names):,} of {counted(len(names) + there, 'shard')} that were named are not there"] if names else []
    said += [f"nothing matches {', '.join(globs[:3])}"] if globs else []
    such = f": {', '.join(map(named, names[:3]))}{' and more' if len(names) > 3 else ''}" if names else ""
    return InputError(
        f"{' and '.join(said)}{such}",
        where=place.shown,
        hint="check the range and the folder" + ("; `--missing drop` goes on with the others" if there else ""),
        code="WDS008",
    )


def vanished_error(place: Place, vanished: Sequence[ShardRow], shards: int) -> InputError:
    """The error of shards that were there: `shards` in all.

    Raises PermissionDenied WDS409 where one is a link that leads out, and was allowed before: nothing of it is lost.
    """
    check_inside(place, [row.path for row in vanished])
    names = ", ".join(named(row.path) for row in vanished[:3])
    more = f" and {len(vanished) - 3:,} more" if len(vanished) > 3 else ""
    have = "has" if len(vanished) == 1 else "have"
    return InputError(
        f"{len(vanished):,} of {counted(shards, 'shard')} {have} vanished: {names}{more}",
        where=place.shown,
        hint="bring them back, or say `--missing drop` to forget them or `--missing keep` to keep their rows",
        code="WDS306",
    )


def check_inside(place: Place, vanished: Iterable[str]) -> None:
    """Raise PermissionDenied WDS409 where one of these shards is a link that leads out: it is there, and not read."""
    if not is_url(place.root):
        for path in vanished:
            check_beneath(os.path.join(place.root, path), place.root)


def missing_finding(place: Place, rows: Sequence[ShardRow]) -> list[Finding]:
    """One finding of the shards that are gone and kept; none where all are there."""
    gone = [row.path for row in rows if row.status == MISSING]
    return [vanished_finding(place, gone[0], len(gone))] if gone else []


def vanished_finding(place: Place, first: str, count: int) -> Finding:
    """Of so many shards that are gone and kept. `first`: the path of one of them, where it is known."""
    words = f"{counted(count, 'shard')} {'has' if count == 1 else 'have'} vanished, and "
    words += f"{'its' if count == 1 else 'their'} rows are kept"
    words += f" ({command_at(place, 'index', '--missing', 'drop')} forgets them)"
    return Finding(code="WDS306", severity="warning", message=words, shard=first, count=count)


def keeps_rows(listing: ShardListing, request: IndexRequest, before: bool | None, known: Sequence[str]) -> bool:
    """Whether samples are to have rows: as asked, else as before. A new catalog of lines needs none.

    `known`: the shards that the catalog has. What lines got, nobody may have asked for: tars in their place do not go
    by it, nor the other way round, unless rows of shards that are gone are kept as they are.
    """
    if request.sample_rows is not None:
        return request.sample_rows
    are_lines = all(is_lines(shard.path) for shard in listing.shards)
    keeps_gone = request.missing != "drop" and not {shard.path for shard in listing.shards}.issuperset(known)
    are_alike = bool(known) and are_lines == any(map(is_lines, known))
    if before is not None and (are_alike or keeps_gone or not listing.shards):
        return before
    return not are_lines
