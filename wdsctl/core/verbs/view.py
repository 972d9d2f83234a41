"""`view create`, `refresh` and `delete`: selections of samples, frozen under a name in the ledger of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.identity import check
from wdsctl.core.catalog.ledger_views import drop_view, put_view
from wdsctl.core.catalog.view_reader import StoredView, stored_view, stored_views
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, UsageError
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.root_name import check_view_name
from wdsctl.core.selections import Selected, count_of, intersected, no_such_view, of_split, open_view
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_made
from wdsctl.core.verbs.view_select import STORED_SECONDS, Chosen, choose, choose_stored
from wdsctl.core.view_definition import STDIN, Definition, definition_from


@dataclass(frozen=True, slots=True)
class InSplit:
    """How many samples of a view a split has."""

    name: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewReport:
    """A view as it is after the command. `share` is of all samples of the dataset; `added` and `removed` are samples
    against the view that had the name before, where that can be told; `state`: created, replaced, unchanged or deleted.
    """

    root: str
    name: str
    definition: Definition
    samples: int
    share: float
    shards: int
    splits: tuple[InSplit, ...]
    hash: str
    generation: int
    unknown_keys: int = 0
    added: int | None = None
    removed: int | None = None
    state: str
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshReport:
    root: str
    views: tuple[ViewReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport:
    root: str
    name: str
    definition: Definition
    samples: int
    hash: str
    dry_run: bool


def create_view(
    root: str,
    name: str,
    definition: Definition,
    *,
    replace: bool = False,
    skip_unknown: bool = False,
    timeout_seconds: float = 0,
    catalog: str | None = None,
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> ViewReport:
    """Freeze the samples that fit `definition` under `name`. One of this name that has the same samples stays.

    `timeout_seconds`: of its expression and of its query, 0 for none. Raises UsageError WDS333 where there is another
    one and not `replace`, InputError where no sample fits, and what `choose` raises. Writes one transaction into the
    ledger; the shards and the catalog are not touched.
    """
    check_view_name(name)
    definition.check()
    place = locate(root, catalog, writing=not dry_run)
    check_made(place)
    check(place.catalog)
    before = stored_view(place.ledger, name)
    chosen = choose(place, definition, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds)
    if not chosen.samples:
        raise _none_fits(definition, f"{command_at(place, 'inspect')} shows what there is")
    if before is not None and before[0].hash == chosen.hash:
        return _report(place, before[0], definition_of(before[0]), chosen, state="unchanged", dry_run=dry_run)
    if before is not None and not replace:
        raise _taken(place, before[0])
    stored = _stored(name, definition, chosen)
    old = None if before is None else open_view(place, name, chosen.shards).selected
    if not dry_run:
        _keep(place, "view create", stored, chosen, progress, replace=replace)
    state = "created" if before is None else "replaced"
    return _report(place, stored, definition, chosen, state=state, dry_run=dry_run, before=old)


def refresh_views(
    root: str,
    names: Sequence[str] = (),
    *,
    skip_unknown: bool = False,
    timeout_seconds: float = STORED_SECONDS,
    catalog: str | None = None,
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> RefreshReport:
    """Make views again from what is there now, all of them where none is named. Those that come out alike stay.

    Raises InputError WDS330, or where no sample fits any more, and the view stays; UsageError where it was made of keys
    from stdin; and what `choose` raises. Views before the one that fails are made again.
    """
    place = locate(root, catalog, writing=not dry_run)
    check_made(place)
    check(place.catalog)
    wanted = list(dict.fromkeys(names)) or [view.name for view in stored_views(place.ledger)]
    return RefreshReport(
        root=place.shown,
        views=tuple(
            _refreshed(
                place, name, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds, dry_run=dry_run
            )
            for name in wanted
        ),
    )


def delete_view(
    root: str, name: str, *, catalog: str | None = None, dry_run: bool = False, progress: Progress = SILENT
) -> DeleteReport:
    """Forget a view; nothing else is touched. Raises InputError WDS330 where there is none of this name."""
    place = locate(root, catalog, writing=not dry_run)
    found = stored_view(place.ledger, name)
    if found is None:
        check_made(place)
        raise no_such_view(place, name)
    if not dry_run:
        with journal(place, "view delete", [place.shown, name], progress) as entry:
            if entry.ledger is None:
                raise entry.refused or _not_ours(place)
            drop_view(entry.ledger, name)
    return DeleteReport(
        root=place.shown,
        name=name,
        definition=definition_of(found[0]),
        samples=found[0].samples,
        hash=found[0].hash,
        dry_run=dry_run,
    )


def definition_of(stored: StoredView) -> Definition:
    """How a view was made. Raises CatalogError WDS302 where its ledger does not say."""
    try:
        return definition_from(stored.definition)
    except (ValueError, TypeError) as error:
        raise CatalogError(
            f"how the view {stored.name!r} was made does not parse",
            where="ledger.sqlite",
            hint="delete the view, and make it again",
            code="WDS302",
        ) from error


def in_splits(place: Place, chosen: Selected) -> tuple[InSplit, ...]:
    """How many of these samples each split has."""
    with Catalog(place.catalog) as catalog:
        names = [split.name for split in catalog.splits() if split.samples]
    counts = ((name, intersected(chosen, of_split(place, name))) for name in names)
    return tuple(InSplit(name, count_of(both)) for name, both in counts)


def _refreshed(
    place: Place, name: str, progress: Progress, *, skip_unknown: bool, timeout_seconds: float, dry_run: bool
) -> ViewReport:
    found = stored_view(place.ledger, name)
    if found is None:
        raise no_such_view(place, name)
    old, definition = found[0], definition_of(found[0])
    if definition.keys == STDIN:
        raise UsageError(
            f"the view {name!r} was made of keys from stdin, which are not kept",
            where=place.shown,
            hint="make it again: `wdsctl view create ... --keys FILE --replace`",
        )
    chosen = choose_stored(place, definition, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds)
    if not chosen.samples:
        deleted = command_at(place, "view delete", name)
        raise _none_fits(definition, f"the view {name!r} stays as it was; {deleted} forgets it")
    before = open_view(place, name, chosen.shards)
    if chosen.hash == old.hash and not before.changed:
        return _report(place, old, definition, chosen, state="unchanged", dry_run=dry_run, before=before.selected)
    stored = _stored(name, definition, chosen)
    if not dry_run:
        _keep(place, "view refresh", stored, chosen, progress, replace=True)
    comparable = None if before.changed else before.selected
    return _report(place, stored, definition, chosen, state="replaced", dry_run=dry_run, before=comparable)


def _none_fits(definition: Definition, hint: str) -> InputError:
    return InputError("no sample fits", where=definition.as_options(), hint=hint)


def _stored(name: str, definition: Definition, chosen: Chosen) -> StoredView:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return StoredView(name, definition.as_text(), now, chosen.generation, chosen.samples, chosen.hash)


def _keep(place: Place, command: str, stored: StoredView, chosen: Chosen, progress: Progress, *, replace: bool) -> None:
    said = [place.shown, stored.name, stored.definition]
    with journal(place, command, said, progress) as entry:
        if entry.ledger is None:
            raise entry.refused or _not_ours(place)
        if not put_view(entry.ledger, stored, chosen.parts, replace=replace):
            raise _taken(place, stored)


def _report(
    place: Place,
    stored: StoredView,
    definition: Definition,
    chosen: Chosen,
    *,
    state: str,
    dry_run: bool,
    before: Selected | None = None,
) -> ViewReport:
    total = sum(shard.samples for shard in chosen.shards)
    both = None if before is None else count_of(intersected(before, chosen.selected))
    return ViewReport(
        root=place.shown,
        name=stored.name,
        definition=definition,
        samples=chosen.samples,
        share=chosen.samples / total if total else 0.0,
        shards=len(chosen.selected),
        splits=in_splits(place, chosen.selected),
        hash=stored.hash,
        generation=stored.generation,
        unknown_keys=chosen.unknown,
        added=None if both is None else chosen.samples - both,
        removed=None if both is None or before is None else count_of(before) - both,
        state=state,
        dry_run=dry_run,
    )


def _taken(place: Place, stored: StoredView) -> UsageError:
    return UsageError(
        f"there is a view {stored.name!r} already, of other samples",
        where=place.shown,
        hint=f"take another name, or `--replace` it; {command_at(place, 'view show', stored.name)} tells what it is",
        code="WDS333",
    )


def _not_ours(place: Place) -> PermissionDenied:
    return PermissionDenied(
        "the view cannot be kept: the dataset's ledger cannot be written",
        where=place.ledger,
        hint="ask its owner, or keep a catalog of your own: `--catalog DIR`",
    )
