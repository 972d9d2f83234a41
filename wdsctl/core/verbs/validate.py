"""`validate`: is the dataset what its catalog and dataset.yaml say, as deep as it is asked to look?

By default it reads every header, and no data of tars. Of files of lines every line is parsed: they have no headers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from wdsctl.core.called import said
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.checks.hashes import Expected, read_sums, unhashed
from wdsctl.core.checks.levels import not_checked
from wdsctl.core.checks.placed import Placed
from wdsctl.core.checks.refs import RefRule
from wdsctl.core.checks.sampling import Sampling
from wdsctl.core.checks.schema import rules_of
from wdsctl.core.checks.stores import forget_stores
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.findings import SEVERITIES, Finding
from wdsctl.core.line_files import is_lines
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.lock import locked
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.root_name import located
from wdsctl.core.selections import Selected, selected
from wdsctl.core.shard_list import ShardListing, list_shards
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import shown
from wdsctl.core.verbs.journal import Entry, journal
from wdsctl.core.verbs.key_until import key_findings
from wdsctl.core.verbs.presence import check_catalog, no_samples, wait_for_catalog
from wdsctl.core.verbs.stale import differences
from wdsctl.core.verbs.validate_chosen import chosen_shards
from wdsctl.core.verbs.validate_parts import (
    alike_names,
    alike_parts,
    incomplete,
    needed_parts,
    open_offsets,
    part_findings,
    repeated_keys,
)
from wdsctl.core.verbs.validate_quarantine import keep_out
from wdsctl.core.verbs.validate_refs import matching, openable, over_all, remember, rules_for
from wdsctl.core.verbs.validate_request import QuarantineReport, ValidateReport, ValidateRequest
from wdsctl.core.verbs.validate_shards import Outcome, Task, check_all, note_over_refs
from wdsctl.core.verbs.validate_view import keep_view

__all__ = ["ValidateReport", "ValidateRequest", "validate"]

STRUCTURE = ValidateRequest()


def validate(
    root: str,
    request: ValidateRequest = STRUCTURE,
    *,
    catalog: str | None = None,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT,
    found_refs: Sequence[tuple[str, str]] = (),
) -> ValidateReport:
    """Look at every shard on the levels asked for, at keys and parts over all of them, and at the catalog's age.

    `root` may be `ROOT@VIEW`: then of the shards that the view has samples in, and of samples those of the view.
    `found_refs`: references that a blend file tells of, where neither the request nor dataset.yaml does; they are not
    remembered. `wait`: for a quarantine, seconds to wait for another writer. What is found is in the report and in the
    ledger. Raises only where there is nothing to check (no catalog, no shard that matches, no such view), or, of a
    quarantine, nothing can be written; and where `refs` are named that no level looks up.
    """
    if request.refs and "refs" not in request.levels:
        raise UsageError("--refs is of the level refs", hint=f"add it: --level {','.join((*request.levels, 'refs'))}")
    place, view = located(root, catalog, writing=request.quarantine)
    wait_for_catalog(place, wait, progress.note)
    check_catalog(place)
    with ExitStack() as held:
        if request.quarantine:
            held.enter_context(locked(place.lock, wait=wait, note=progress.note))
        chosen = selected(place, view) if view else None  # whoever was waited for may have changed it
        forget_stores()
        arguments = [shown(root), *said(request)]
        entry = held.enter_context(journal(place, "validate", arguments, progress))
        report = _Run(place, request, entry, workers, progress, tuple(found_refs), view, chosen).report()
        entry.findings += report.findings
        return report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the catalog says."""

    rows: list[ShardRow]
    parts: list[PartCount]
    listing: ShardListing
    generation: int
    key: str
    is_decided: bool  # where keys end was decided, by somebody or by evidence
    media_marks: dict[int, bytes]
    repeated: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of `validate`: what was asked, and of what."""

    place: Place
    request: ValidateRequest
    entry: Entry
    workers: int
    progress: Progress
    found_refs: tuple[tuple[str, str], ...] = ()
    view: str = ""
    chosen: Selected | None = None  # the samples of the view

    @property
    def is_some(self) -> bool:
        """Whether only some shards are looked at: what follows from all of them together is left out then."""
        return bool(self.request.shards) or self.chosen is not None

    def report(self) -> ValidateReport:
        started = time.monotonic()
        known = self._known()
        shards = chosen_shards(known.listing.shards, known.rows, self.request.shards)
        if self.chosen is not None:
            of_view = {row.path for row in known.rows if row.id in self.chosen}
            shards = [shard for shard in shards if shard.path in of_view]
        paths = {shard.path for shard in shards}
        rows = [row for row in known.rows if not self.is_some or row.path in paths]
        config, findings = self._config()
        keeps_refs = bool(self.request.refs) and not findings and self.entry.ledger is not None
        asked = self.request.refs or (() if config.refs else self.found_refs)
        rules, said = openable(rules_for(self.place, asked, config)) if self._asks("refs") else ([], [])
        expected, odd = self._expected(known.rows, paths) if self._asks("hashes") else ({}, [])
        offsets = open_offsets(self.place, known.generation)
        outcome = check_all(
            self._task(known, config, rules, expected, offsets),
            shards,
            self.entry.ledger,
            again=self.request.again,
            workers=self.workers,
            progress=self.progress,
        )
        if self.chosen is not None:
            keep_view(outcome, rows, self.chosen, offsets)
        findings += [*said, *odd, *(each.finding for found in outcome.placed.values() for each in found)]
        findings += self._over_all(known, rules, outcome, expected, sorted(paths))
        findings += self._of_parts(known, offsets, config)
        findings += no_samples(self.place, known.rows, findings) if not self.is_some else []
        if keeps_refs:
            self._remember(rules, outcome)
        stale = {found.shard for found in findings if found.code == "WDS305"}
        quarantine = self._quarantined(known, config, offsets, outcome, stale) if self.request.quarantine else None
        findings.sort(key=lambda found: (-SEVERITIES.index(found.severity), found.shard, found.code, found.key))
        return ValidateReport(
            root=self.place.shown,
            shards=len(rows),
            samples=sum(row.samples if self.chosen is None else self.chosen[row.id].samples for row in rows),
            size_bytes=sum(row.size for row in rows),
            findings=tuple(findings),
            seconds=time.monotonic() - started,
            levels=self.request.levels,
            unread=outcome.unread,
            share=self.request.share,
            seed=self.request.seed,
            quarantine=quarantine,
            not_checked=not_checked(self.request.levels) if any(not is_lines(row.path) for row in rows) else "",
            view=self.view,
        )

    def _asks(self, level: str) -> bool:
        return level in self.request.levels

    def _known(self) -> _Known:
        self.progress.phase("catalog")
        with Catalog(self.place.catalog) as published:
            published.check_pages()
            rows, parts, generation = published.shards(), published.parts(), published.generation
            exclude, key, selection = published.exclude(), published.key_field, published.selection()
            is_decided = bool(published.key_until)
            has_media = self._asks("headers") and published.media_settings() is not None
            marks = published.media.marks() if has_media else {}
            self.progress.phase("keys")
            paths = [row.path for row in rows]
            repeated: list[Finding] = []
            if not self.is_some:
                repeated = [*repeated_keys(published, self.progress), *alike_names(published, paths)]
        listing = list_shards(
            self.place.root, exclude, only=self.place.only, known=[row.path for row in rows], selection=selection
        )
        return _Known(
            rows=rows,
            parts=parts,
            listing=listing,
            generation=generation,
            key=key,
            is_decided=is_decided,
            media_marks=marks,
            repeated=repeated,
        )

    def _config(self) -> tuple[DatasetConfig, list[Finding]]:
        """What dataset.yaml says, or what is wrong with it."""
        if not os.path.exists(self.place.dataset_yaml):
            return DatasetConfig(), []
        try:
            return load(self.place.dataset_yaml), []
        except DatasetError as error:
            said = Finding(code=error.code, severity="error", message=f"{error.message} ({error.where})")
            return DatasetConfig(), [said]

    def _expected(self, rows: Sequence[ShardRow], paths: set[str]) -> tuple[dict[str, list[Expected]], list[Finding]]:
        """The hashes that are known of these shards: the catalog's, and those in files of sums."""
        storage = storage_for(self.place.root)
        try:
            expected, findings = read_sums(storage, self.place.root, paths)
        finally:
            storage.close()
        for row in rows:
            if row.sha256 and row.path in paths:
                expected.setdefault(row.path, []).insert(0, Expected(row.sha256, "the catalog"))
        return expected, findings

    def _task(
        self,
        known: _Known,
        config: DatasetConfig,
        rules: list[RefRule],
        expected: dict[str, list[Expected]],
        offsets: Offsets | Finding,
    ) -> Task:
        fields = rules_of(config) if self._asks("schema") else None
        if self._asks("schema") and fields is None:
            self.progress.note("the schema is not checked: dataset.yaml has no sample type with a field map")
        return Task(
            place=self.place,
            levels=self.request.levels,
            rows={row.path: row for row in known.rows},
            keys=LineKeys(known.key, is_alone=bool(self.place.only)),
            sampling=Sampling(self.request.share, self.request.seed),
            offsets=self.place.offsets(known.generation) if isinstance(offsets, Offsets) else "",
            rules=fields,
            refs=tuple(rules),
            expected=expected,
            media_marks=known.media_marks,
        )

    def _over_all(
        self,
        known: _Known,
        rules: list[RefRule],
        outcome: Outcome,
        expected: dict[str, list[Expected]],
        paths: list[str],
    ) -> Iterable[Finding]:
        missing = sum(row.status == MISSING for row in known.rows)
        # What a shard of the size that was indexed holds, the level `structure` has read, and told where it differs.
        told = {path for path, found in outcome.placed.items() if any(each.finding.code == "WDS305" for each in found)}
        there = [shard for shard in known.listing.shards if shard.path not in told]
        rows = [row for row in known.rows if row.path not in told]
        told_now = differences(self.place, there, rows, missing, _paths)
        stale = [*(each for each in known.listing.findings if each not in told_now), *told_now]
        yield from known.repeated
        yield from (each for each in stale if not self.is_some or each.shard in paths)
        if self._asks("hashes"):
            yield from unhashed(paths, expected)
        if self._asks("refs") and not (rules or self.request.refs or self.found_refs):
            words = "nothing says which fields refer to which stores: --refs FIELD=STORE, or refs: in dataset.yaml"
            yield Finding(code="WDS156", severity="note", message=words)
        if self._asks("refs") and rules:
            yield from self._over_refs(rules, outcome)

    def _over_refs(self, rules: list[RefRule], outcome: Outcome) -> list[Finding]:
        """Only where every sample was looked at: now, or before, and nothing has changed since."""
        if outcome.over_refs is not None:
            return [placed.finding for placed in outcome.over_refs]
        is_whole = not self.is_some and self.request.share >= 1 and outcome.is_complete
        found = [*over_all(rules, outcome)] if is_whole else []
        if self.entry.ledger is not None and is_whole:
            note_over_refs(self.entry.ledger, outcome, [*map(Placed, found)])
        return found

    def _remember(self, rules: list[RefRule], outcome: Outcome) -> None:
        asked = {field for field, _ in self.request.refs}
        kept = matching([rule for rule in rules if rule.field in asked], outcome)
        if kept:
            remember(self.place, kept)
        if lost := sorted(asked - {rule.field for rule in kept}):
            self.progress.note(f"--refs {', '.join(lost)}: it matches nothing in what was looked at, and is not kept")

    def _of_parts(self, known: _Known, offsets: Offsets | Finding, config: DatasetConfig) -> Iterable[Finding]:
        self.progress.phase("parts")
        if isinstance(offsets, Finding):
            return [offsets]
        if self.is_some:
            return []
        odd_keys = [] if known.is_decided or config.key_until else key_findings(self.place, offsets)
        return [*odd_keys, *part_findings(offsets, known.parts, config), *alike_parts(offsets)]

    def _quarantined(
        self, known: _Known, config: DatasetConfig, offsets: Offsets | Finding, outcome: Outcome, stale: set[str]
    ) -> QuarantineReport:
        lacking: dict[str, list[int]] = {}
        if isinstance(offsets, Offsets) and not self.is_some:
            lacking = incomplete(offsets, needed_parts(config))
        return keep_out(self.place, self.entry, known.rows, outcome, stale, lacking, self.workers, self.progress)


def _paths(rows: Sequence[ShardRow]) -> set[str]:
    return {row.path for row in rows}
