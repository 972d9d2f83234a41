"""`view create`, `refresh` and `delete`: selections of samples, frozen under a name in the ledger of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from wdsctl.core.catalog.ledger import Ledger, StoredView, drop_view, store_view
from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.dataset.lock import publish_changes
from wdsctl.core.dataset.view_root import check_view_name
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, UsageError
from wdsctl.core.index.first_use import ensure_catalog_exists, open_indexed
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.writing import recording
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.views.definition import STDIN, ViewDefinition, parse_definition
from wdsctl.core.views.select import STORED_TIMEOUT_SECONDS, EvaluatedView, evaluate_definition, evaluate_stored
from wdsctl.core.views.selections import (
    SampleSelection,
    count_selected,
    intersect_selections,
    missing_view_error,
    open_view,
    select_split,
)


@dataclass(frozen=True, slots=True)
class SplitOverlap:
    """How many samples of a view a split has."""

    name: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewReport:
    """A view after the command. `share`: of all samples of the dataset. `added` and `removed`: against the view that
    had the name before, if that is known. `state`: created, replaced, unchanged or deleted.
    """

    root: str
    name: str
    definition: ViewDefinition
    samples: int
    share: float
    shards: int
    splits: tuple[SplitOverlap, ...]
    hash: str
    generation: int
    unknown_keys: int = 0
    added: int | None = None
    removed: int | None = None
    state: str
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRefreshReport:
    root: str
    views: tuple[ViewReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDeleteReport:
    root: str
    name: str
    definition: ViewDefinition
    samples: int
    hash: str
    dry_run: bool


def create_view(
    root: str,
    name: str,
    definition: ViewDefinition,
    *,
    replace: bool = False,
    skip_unknown: bool = False,
    timeout_seconds: float = 0,
    catalog: str | None = None,
    dry_run: bool = False,
    progress: Progress = SILENT_PROGRESS,
) -> ViewReport:
    """Freeze the samples that fit `definition` under `name`.

    An existing view with the same samples stays, unless `replace` gives it another definition.

    `timeout_seconds`: of its expression and of its query, 0 for none. Raises UsageError WDS333 if there is another view
    of this name and not `replace`, InputError if no sample fits, and what `evaluate_definition` raises. Writes one
    transaction into the ledger; shards and catalog stay unchanged.
    """
    check_view_name(name)
    definition.check()
    with open_indexed(root, catalog, writing=not dry_run) as dataset:
        dataset.catalog.check_not_media_folder()
        before = dataset.ledger.view(name)
        chosen = evaluate_definition(
            dataset, definition, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds
        )
        if not chosen.samples:
            raise _no_samples_error(
                definition, f"run {shell_command_at(dataset.location, 'inspect')} to see the samples of the dataset"
            )
        # A view that is replaced gets the new definition, by which `view refresh` will select samples.
        is_other = before is not None and replace and before[0].definition != definition.as_text()
        if before is not None and before[0].hash == chosen.hash and not is_other:
            return _report(dataset, before[0], stored_definition(before[0]), chosen, state="unchanged", dry_run=dry_run)
        if before is not None and not replace:
            raise _name_taken_error(dataset, before[0])
        stored = _to_stored(name, definition, chosen)
        old = None if before is None else open_view(dataset, name).selection
        if not dry_run:
            _store_view(dataset, "view create", stored, chosen, progress, replace=replace)
        state = "created" if before is None else "replaced"
        return _report(dataset, stored, definition, chosen, state=state, dry_run=dry_run, before=old)


def refresh_views(
    root: str,
    names: Sequence[str] = (),
    *,
    skip_unknown: bool = False,
    timeout_seconds: float = STORED_TIMEOUT_SECONDS,
    catalog: str | None = None,
    dry_run: bool = False,
    progress: Progress = SILENT_PROGRESS,
) -> ViewRefreshReport:
    """Make views again from the current catalog, all of them if none is named. Those with the same samples stay.

    Raises InputError WDS330, or if no sample fits any more (the view stays), UsageError for a view of keys from stdin,
    and what `evaluate_definition` raises. Views before the one that fails have been made again.
    """
    with open_indexed(root, catalog, writing=not dry_run) as dataset:
        dataset.catalog.check_not_media_folder()
        view_names = list(dict.fromkeys(names)) or [view.name for view in dataset.ledger.views()]
        return ViewRefreshReport(
            root=dataset.location.display_path,
            views=tuple(
                _refresh_view(
                    dataset, name, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds, dry_run=dry_run
                )
                for name in view_names
            ),
        )


def delete_view(
    root: str, name: str, *, catalog: str | None = None, dry_run: bool = False, progress: Progress = SILENT_PROGRESS
) -> ViewDeleteReport:
    """Delete a view. Raises InputError WDS330 if there is none of this name."""
    with open_dataset(root, catalog, writing=not dry_run) as dataset:
        location = dataset.location
        found = dataset.ledger.view(name)
        if found is None:
            ensure_catalog_exists(location)
            raise missing_view_error(dataset, name)
        if not dry_run:
            with _change_views(dataset, "view delete", [name], progress) as ledger:
                drop_view(ledger, name)
    return ViewDeleteReport(
        root=location.display_path,
        name=name,
        definition=stored_definition(found[0]),
        samples=found[0].samples,
        hash=found[0].hash,
        dry_run=dry_run,
    )


def stored_definition(stored: StoredView) -> ViewDefinition:
    """The definition of a view. Raises CatalogError WDS302 if it cannot be parsed."""
    try:
        return parse_definition(stored.definition)
    except (ValueError, TypeError) as error:
        raise CatalogError(
            f"cannot parse the stored definition of the view {stored.name!r}",
            where="ledger.sqlite",
            hint="delete the view, and create it again",
            code="WDS302",
        ) from error


def split_overlaps(dataset: OpenDataset, selection: SampleSelection) -> tuple[SplitOverlap, ...]:
    """How many of these samples each split has."""
    names = [split.name for split in dataset.catalog.splits() if split.samples]
    counts = ((name, intersect_selections(selection, select_split(dataset, name))) for name in names)
    return tuple(SplitOverlap(name, count_selected(both)) for name, both in counts)


def _refresh_view(
    dataset: OpenDataset,
    name: str,
    progress: Progress,
    *,
    skip_unknown: bool,
    timeout_seconds: float,
    dry_run: bool,
) -> ViewReport:
    found = dataset.ledger.view(name)
    if found is None:
        raise missing_view_error(dataset, name)
    old, definition = found[0], stored_definition(found[0])
    if definition.keys == STDIN:
        raise UsageError(
            f"cannot refresh the view {name!r}: its keys came from stdin and were not stored",
            where=dataset.location.display_path,
            hint="create the view again from a file: `wdsctl view create ... --keys FILE --replace`",
        )
    chosen = evaluate_stored(dataset, definition, progress, skip_unknown=skip_unknown, timeout_seconds=timeout_seconds)
    if not chosen.samples:
        deleted = shell_command_at(dataset.location, "view delete", name)
        raise _no_samples_error(definition, f"the view {name!r} is unchanged; to delete it, run {deleted}")
    before = open_view(dataset, name)
    if chosen.hash == old.hash and not before.changed_paths:
        return _report(dataset, old, definition, chosen, state="unchanged", dry_run=dry_run, before=before.selection)
    stored = _to_stored(name, definition, chosen)
    if not dry_run:
        _store_view(dataset, "view refresh", stored, chosen, progress, replace=True)
    comparable = None if before.changed_paths else before.selection
    return _report(dataset, stored, definition, chosen, state="replaced", dry_run=dry_run, before=comparable)


def _no_samples_error(definition: ViewDefinition, hint: str) -> InputError:
    return InputError("no sample matches the selection", where=definition.as_options(), hint=hint)


def _to_stored(name: str, definition: ViewDefinition, evaluated: EvaluatedView) -> StoredView:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return StoredView(name, definition.as_text(), now, evaluated.generation, evaluated.samples, evaluated.hash)


def _store_view(
    dataset: OpenDataset,
    command: str,
    stored: StoredView,
    evaluated: EvaluatedView,
    progress: Progress,
    *,
    replace: bool,
) -> None:
    with _change_views(dataset, command, [stored.name, stored.definition], progress) as ledger:
        if not store_view(ledger, stored, evaluated.view_shards, replace=replace):
            raise _name_taken_error(dataset, stored)


@contextmanager
def _change_views(dataset: OpenDataset, command: str, arguments: Sequence[str], progress: Progress) -> Iterator[Ledger]:
    """The ledger, in which the change is recorded. Raises why it cannot be written."""
    location = dataset.location
    with (
        publish_changes(location, progress.note),
        recording(dataset, command, [location.display_path, *arguments], progress) as entry,
    ):
        if entry.ledger is None:
            raise entry.ledger_error or PermissionDenied(
                "cannot store the view: the ledger of the dataset is not writable",
                where=location.ledger_path,
                hint="ask the owner for write permission, or pass `--catalog DIR` to use another catalog",
            )
        yield entry.ledger


def _report(
    dataset: OpenDataset,
    stored: StoredView,
    definition: ViewDefinition,
    evaluated: EvaluatedView,
    *,
    state: str,
    dry_run: bool,
    before: SampleSelection | None = None,
) -> ViewReport:
    total = sum(shard.samples for shard in evaluated.shards)
    both = None if before is None else count_selected(intersect_selections(before, evaluated.selection))
    return ViewReport(
        root=dataset.location.display_path,
        name=stored.name,
        definition=definition,
        samples=evaluated.samples,
        share=evaluated.samples / total if total else 0.0,
        shards=len(evaluated.selection),
        splits=split_overlaps(dataset, evaluated.selection),
        hash=stored.hash,
        generation=stored.generation,
        unknown_keys=evaluated.unknown_count,
        added=None if both is None else evaluated.samples - both,
        removed=None if both is None or before is None else count_selected(before) - both,
        state=state,
        dry_run=dry_run,
    )


def _name_taken_error(dataset: OpenDataset, stored: StoredView) -> UsageError:
    return UsageError(
        f"the view {stored.name!r} exists and selects other samples",
        where=dataset.location.display_path,
        hint="choose another name, or pass `--replace`; "
        f"{shell_command_at(dataset.location, 'view show', stored.name)} shows the existing view",
        code="WDS333",
    )
