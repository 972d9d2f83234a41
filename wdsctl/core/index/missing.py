"""Read the current catalog, and report missing shards: all, some that the user selected, or some in the catalog."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wdsctl.core.catalog.presence import no_shards_error, only_compressed_error
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import MISSING_STATUS, MediaSettings, ShardRow, SplitMembership
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import CatalogError, Finding, InputError
from wdsctl.core.index.freshness import vanished_finding
from wdsctl.core.index.merge import last_offsets_generation
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.safe_open import check_beneath
from wdsctl.core.shards.list import ShardListing
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url


def require_shards(location: DatasetLocation, listing: ShardListing, known: Collection[object]) -> None:
    """Raise InputError WDS003, WDS008 or WDS113 if the listing has no shards and the catalog has none (`known`)."""
    if listing.shards or known:
        return
    compressed = [finding.shard for finding in listing.findings if finding.code == "WDS113"]
    if compressed:
        raise only_compressed_error(location, compressed)
    if listing.unmatched_selection:
        raise _unmatched(location, listing.unmatched_selection, 0)
    raise no_shards_error(location)


def check_named_shards(
    location: DatasetLocation, listing: ShardListing, request: IndexRequest, known: Sequence[str]
) -> ShardListing:
    """Return the listing with a warning WDS008 about selected shards that are neither in the folder nor in the catalog.

    Raises InputError WDS008 instead if this run names the selection and `missing` is `error`. A stored selection gets a
    warning, since an earlier run has accepted that its shards are missing, and none if only its globs match nothing.
    Missing shards that the catalog has count as vanished, and are not reported here.
    """
    absent = sorted(set(listing.unmatched_selection).difference(known))
    if not absent or (request.selection is None and all(name.startswith("glob:") for name in absent)):
        return listing
    error = _unmatched(location, absent, len(listing.shards))
    if request.missing == "error" and request.selection is not None:
        raise error
    finding = Finding(code=error.code, severity="warning", message=error.message, shard=absent[0], count=len(absent))
    return replace(listing, findings=(*listing.findings, finding))


def _unmatched(location: DatasetLocation, absent: Sequence[str], present: int) -> InputError:
    globs = [name for name in absent if name.startswith("glob:")]
    names = [name for name in absent if not name.startswith("glob:")]
    problems = (
        [f"{len(names):,} of {pluralize(len(names) + present, 'shard')} that you named are missing"] if names else []
    )
    problems += [f"nothing matches {', '.join(globs[:3])}"] if globs else []
    examples = (
        f": {', '.join(map(path_for_message, names[:3]))}{' and more' if len(names) > 3 else ''}" if names else ""
    )
    return InputError(
        f"{' and '.join(problems)}{examples}",
        where=location.display_path,
        hint="check the range and the folder" + ("; `--missing drop` continues with the others" if present else ""),
        code="WDS008",
    )


def vanished_error(location: DatasetLocation, vanished: Sequence[ShardRow], shards: int) -> InputError:
    """The error InputError WDS306 for vanished shards. `shards`: the number of shards in the catalog.

    Raises PermissionDenied WDS409 if one is behind a link that leads out of the dataset: it is not lost, but no longer
    allowed.
    """
    check_links_inside(location, [row.path for row in vanished])
    names = ", ".join(path_for_message(row.path) for row in vanished[:3])
    more = f" and {len(vanished) - 3:,} more" if len(vanished) > 3 else ""
    have = "has" if len(vanished) == 1 else "have"
    return InputError(
        f"{len(vanished):,} of {pluralize(shards, 'shard')} {have} vanished: {names}{more}",
        where=location.display_path,
        hint="restore the shards; or pass `--missing keep` to keep their rows, or `--missing drop` to drop the rows",
        code="WDS306",
    )


def check_links_inside(location: DatasetLocation, vanished: Iterable[str]) -> None:
    """Raise PermissionDenied WDS409 if one of these paths is behind a link that leads out of the dataset."""
    if not is_url(location.root):
        for path in vanished:
            check_beneath(os.path.join(location.root, path), location.root)


def missing_findings(location: DatasetLocation, rows: Sequence[ShardRow]) -> list[Finding]:
    """One finding for all missing shards whose rows are kept; none if no shard is missing."""
    gone = [row.path for row in rows if row.status == MISSING_STATUS]
    return [vanished_finding(location, gone[0], len(gone))] if gone else []


def needs_sample_rows(listing: ShardListing, request: IndexRequest, before: bool | None, known: Sequence[str]) -> bool:
    """Whether the catalog should have a row per sample: as requested, else as before, else only for tars.

    `known`: the paths of the shards in the catalog. If tars replace JSONL files or the reverse, the former value does
    not apply, since it may have been the default for the other format. It still applies if rows of missing shards are
    kept.
    """
    if request.sample_rows is not None:
        return request.sample_rows
    are_jsonl = all(is_jsonl_name(shard.path) for shard in listing.shards)
    keeps_gone = (
        request.missing != "drop" and bool(known) and not {shard.path for shard in listing.shards}.issuperset(known)
    )
    is_same_kind = bool(known) and are_jsonl == any(map(is_jsonl_name, known))
    if before is not None and (is_same_kind or keeps_gone or not listing.shards):
        return before
    return not are_jsonl


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """The contents of the published catalog."""

    rows: list[ShardRow]
    rule: SplitRule | None = None
    generation: int = 0
    last_shard_id: int = 0
    exclude: tuple[str, ...] = ()
    media: MediaSettings | None = None
    is_damaged: bool = False
    #: Path -> split membership of all shards; only for a rebuild.
    held_by_path: Mapping[str, SplitMembership] = field(default_factory=dict)
    #: Path -> split memberships of removed shards.
    held_by_gone_path: Mapping[str, Sequence[SplitMembership]] = field(default_factory=dict)
    key: str = ""  # the JSONL field with the key; empty: line numbers
    key_until: str = ""  # the key rule of tars; empty: undecided
    selection: ShardSelection = ALL_SHARDS
    has_sample_rows: bool | None = None  # None: there is no catalog
    is_hashed: bool = False
    split_facts: Mapping[str, str] = field(default_factory=dict)  # split rules and excludes, as the catalog stores them


def read_snapshot(dataset: OpenDataset, *, rebuild: bool) -> CatalogSnapshot:
    """Read the published catalog. Raises CatalogError.

    Without a catalog, or for a rebuild of a damaged one, the snapshot has no rows, and its split rule is that of
    dataset.yaml, from which a rebuild restores the splits.
    """
    location = dataset.location
    try:
        return _read(dataset.catalog, rebuild=rebuild)
    except CatalogError as error:
        is_damaged = error.code == "WDS302"
        if error.code == "WDS301" or (rebuild and is_damaged):
            return CatalogSnapshot([], dataset.config.split, last_offsets_generation(location), is_damaged=is_damaged)
        raise


def _read(catalog: Catalog, *, rebuild: bool) -> CatalogSnapshot:
    rows = catalog.shards()
    return CatalogSnapshot(
        rows=rows,
        rule=catalog.default_split_rule(),
        split_facts=catalog.split_reader.facts(),
        generation=catalog.generation,
        last_shard_id=catalog.last_shard_id,
        exclude=catalog.exclude_patterns(),
        media=catalog.media_settings(),
        held_by_path=catalog.split_membership([row.id for row in rows]) if rebuild else {},
        held_by_gone_path=catalog.removed_shard_membership(),
        key=catalog.key_field,
        key_until=catalog.key_until,
        selection=catalog.selection(),
        has_sample_rows=catalog.has_sample_rows,
        is_hashed=catalog.is_hashed,
    )


def damaged_shard_findings(location: DatasetLocation, rows: Sequence[ShardRow]) -> list[Finding]:
    """Report unchanged shards in which an earlier run found an error.

    The catalog stores only the first code of each shard; `validate` reports all.
    """
    message = (
        f"index found errors in the shard, which is not repaired: {shell_command_at(location, 'validate')} lists them"
    )
    return [
        Finding(code=row.code, severity="error", message=message, shard=row.path)
        for row in rows
        if row.code is not None
    ]
