"""Validate one dataset: its shards, its keys and parts across shards, and whether its catalog is current.

By default, `validate` reads only the headers of tars. JSONL has no headers, so it parses every line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from wdsctl.core.catalog.consistency import (
    absent_fields,
    colliding_name_findings,
    colliding_part_findings,
    find_incomplete_samples,
    open_offsets,
    part_findings,
    repeated_key_findings,
    required_parts,
)
from wdsctl.core.catalog.ledger_checks import LocatedFinding
from wdsctl.core.catalog.presence import no_samples_findings
from wdsctl.core.catalog.splits import SplitShard, sample_flags
from wdsctl.core.catalog.values import MISSING_STATUS, ShardRow
from wdsctl.core.dataset.config import DatasetConfig, load_config, read_config_text
from wdsctl.core.dataset.lock import lock_dataset, publish_changes
from wdsctl.core.dataset.polylithic import PolylithicFolder, find_folder_of_primary
from wdsctl.core.dataset.shard_names import is_jsonl_name, shard_format
from wdsctl.core.errors import SEVERITIES, DatasetError, Finding, UsageError, WdsctlError
from wdsctl.core.import_guard import missing_name_reason
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.index.freshness import freshness_findings
from wdsctl.core.index.key_until import key_findings
from wdsctl.core.index.picture_sizes import catalog_size_findings
from wdsctl.core.invocation import describe_request
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.writing import RunRecord, recording
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.types import is_custom_type
from wdsctl.core.shards.jsonl_keys import JsonlKeyRule
from wdsctl.core.shards.list import folder_indexes, list_shards
from wdsctl.core.storage.open import check_range_requests, storage_for
from wdsctl.core.urls import is_url, redact_secrets
from wdsctl.core.validate.hashes import ExpectedHash, find_unhashed, index_hashes, read_checksum_files
from wdsctl.core.validate.hub import hub_findings
from wdsctl.core.validate.load import (
    NOT_LOADABLE_CODES,
    KindCount,
    LoadCheck,
    LoadTarget,
    count_kinds,
    kept_load_check,
    missing_value_findings,
    open_load_check,
)
from wdsctl.core.validate.quarantine import quarantine_samples
from wdsctl.core.validate.ref_stores import clear_store_cache
from wdsctl.core.validate.refs import (
    RefRule,
    check_refs_dataset_wide,
    collect_ref_rules,
    filter_openable_rules,
    find_first_media_names,
    find_store,
    save_ref_rules,
    select_matching_rules,
)
from wdsctl.core.validate.request import (
    ValidateReport,
    ValidateRequest,
    ValidationLevel,
    describe_undecoded,
    match_shards,
)
from wdsctl.core.validate.robot_media import robot_media_findings
from wdsctl.core.validate.run_checks import CheckOutcome, check_shards, store_dataset_ref_findings
from wdsctl.core.validate.schema import SchemaRules, schema_rules_of
from wdsctl.core.validate.unit import CheckContext, CheckUnit, sharing_catalog
from wdsctl.core.views.selections import SampleSelection, intersect_selections, read_view_samples
from wdsctl.plugins import LoadCheckName

# What to do about a dataset of a blend without rules for the level `refs`, in place of the option `--refs`.
_HINT_WITH_STORES = "the first samples have no names of media; write `refs:` in dataset.yaml"
_HINT_WITHOUT_STORES = "list the stores under `aux` in the blend file, or write `refs:` in dataset.yaml"


def validate_dataset(
    root: str,
    request: ValidateRequest,
    *,
    catalog: str | None = None,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
    stores: Sequence[str] | None = None,
    load_check: LoadCheckName | None = None,
    judges_batches: bool = True,
) -> ValidateReport:
    """Check every shard on the levels of the request, and the dataset as a whole.

    Also checks keys and parts across shards, and whether the catalog is current. If `root` is `ROOT@VIEW`, checks the
    shards of the view and reports findings about its samples. `stores`: those of a blend file; None outside of one. The
    level `refs` maps the fields that name media to these stores, not to those that dataset.yaml names, since a training
    run reads from the former. It does not save these rules. `load_check`: as in `validate`; `judges_batches`: whether
    it says what cannot be batched. `wait`: seconds to wait for another writer before a quarantine. Findings
    are in the report and in the ledger.

    Raises only if there is nothing to check (no catalog, no matching shard, no such view), if a quarantine cannot be
    written, and UsageError for `refs` without the level.
    """
    if request.refs and "refs" not in request.levels:
        raise UsageError(
            "--refs needs the level refs", hint=f"add the level: --level {','.join((*request.levels, 'refs'))}"
        )
    opened = open_indexed(root, catalog, writing=request.quarantine, takes_view=True, wait=wait, progress=progress)
    with ExitStack() as stack:
        dataset = stack.enter_context(opened)
        location, view = dataset.location, dataset.view
        dataset.catalog.check_not_media_folder()
        if request.quarantine:
            stack.enter_context(lock_dataset(location, wait=wait, note=progress.note))
        else:
            stack.enter_context(publish_changes(location, progress.note, is_record=True))
        # While holding the lock: another writer may have changed the view before.
        view_samples = read_view_samples(dataset, view) if view else None
        clear_store_cache()
        arguments = [redact_secrets(root), *describe_request(request)]
        record = stack.enter_context(recording(dataset, "validate", arguments, progress))
        validation = _Validation(dataset, request, record, workers, progress, view_samples, load_check)
        validation.judges_batches = judges_batches
        report = validation.run(stores)
        record.findings += report.findings
        return report


class _Validation:
    """One run: the request, and the facts from the catalog and dataset.yaml."""

    def __init__(
        self,
        dataset: OpenDataset,
        request: ValidateRequest,
        record: RunRecord,
        workers: int,
        progress: Progress,
        view_samples: SampleSelection | None,
        load_check: LoadCheckName | None,
    ) -> None:
        self.started = time.monotonic()
        location = dataset.location
        self.dataset, self.location, self.request, self.record = dataset, location, request, record
        self.workers, self.progress = workers, progress
        self.view, self.view_samples = dataset.view, view_samples
        #: Whether the run checks only some shards. It then leaves out findings that need all shards.
        self.is_partial = bool(request.shards) or view_samples is not None
        progress.phase("catalog")
        catalog = dataset.catalog
        catalog.check_pages()
        self.rows, self.parts, self.generation = catalog.shards(), catalog.parts(), catalog.generation
        self.key_field, self.has_key_rule = catalog.key_field, bool(catalog.key_until)
        has_media = self._has_level("headers") and catalog.media_settings() is not None
        self.media_digests = catalog.media_reader.shard_digests() if has_media else {}
        exclude, selection = catalog.exclude_patterns(), catalog.selection()
        progress.phase("keys")
        paths = [row.path for row in self.rows]
        self.key_findings: list[Finding] = []
        if not self.is_partial:
            self.key_findings += repeated_key_findings(catalog, progress)
            self.key_findings += colliding_name_findings(catalog, paths)
        self.listing = list_shards(
            location.root, exclude, only=location.single_file, catalog_paths=paths, selection=selection
        )
        for first in self.listing.shards[:1]:
            check_range_requests(location.root, os.path.join(location.root, first.path), first.size)
        self.config, self.config_findings = DatasetConfig(), list[Finding]()
        if os.path.exists(location.config_path):
            self.config = self._load_config(location.config_path)
        self.offsets = open_offsets(location, self.generation)
        self.skipped: dict[ValidationLevel, str] = {}
        self.completion: PolylithicFolder | None = None
        self.schema_rules = self._find_schema_rules() if self._has_level("schema") else None
        self.load_findings: list[Finding] = []
        self.load: LoadTarget | None = None
        self.judges_batches = True
        self.load_check: LoadCheck | None = None
        if self._has_level("load"):
            self._open_load_check(load_check)
        # Without `load`, the level `content` decodes all parts itself.
        self.levels = tuple(each for each in request.levels if each != "load" or self.load_check is not None)

    def run(self, stores: Sequence[str] | None) -> ValidateReport:
        """Run all checks. `stores`: see `validate_dataset`."""
        request, findings = self.request, [*self.config_findings]
        units, hash_findings = self._list_units()
        paths = {unit.shard.path for unit in units}
        rows = [row for row in self.rows if not self.is_partial or row.path in paths]
        rules: list[RefRule] = []
        if self._has_level("refs"):
            rules, rule_findings = self._find_ref_rules(stores)
            findings += rule_findings
        findings += hash_findings
        with sharing_catalog(self.dataset):
            outcome = check_shards(
                self._build_context(rules), units, self.record.ledger, workers=self.workers, progress=self.progress
            )
        if self.view_samples is not None:
            _filter_to_view(outcome, rows, self.view_samples, self.offsets)
        findings += outcome.named_findings()
        findings += self._freshness_findings(outcome, paths)
        if self._has_level("hashes"):
            findings += find_unhashed({unit.shard.path: unit.expected_hashes for unit in units})
        if rules:
            findings += self._check_refs_dataset_wide(rules, outcome)
        if outcome.not_loaded:
            reason = f"worker processes cannot load the samples: {outcome.not_loaded}"
            self.skipped["load"] = f"{reason}; check with one process (--workers 1)"
        elif self.load_check is not None:
            self.load_findings += self._batch_findings(self.load_check, outcome)
        findings += self.load_findings
        findings += self._whole_dataset_findings()
        if request.target:
            findings += self._target_findings()
        if not self.is_partial:
            findings += no_samples_findings(self.location, self.rows, findings)
        if request.refs and not self.config_findings and self.record.ledger is not None:
            self._save_refs(rules, outcome)
        stale = {finding.shard for finding in findings if finding.code == "WDS305"}
        quarantine = None
        if request.quarantine:
            incomplete: dict[str, list[int]] = {}
            if isinstance(self.offsets, Offsets) and not self.is_partial:
                incomplete = find_incomplete_samples(self.offsets, required_parts(self.offsets, self.config))
            quarantine = quarantine_samples(
                self.dataset, self.record, self.rows, outcome, stale, incomplete, self.workers, self.progress
            )
        levels = tuple(level for level in request.levels if level not in self.skipped)
        has_media = not all(is_jsonl_name(row.path) for row in rows)
        return ValidateReport(
            root=self.location.display_path,
            shards=len(rows),
            samples=sum(
                row.samples if self.view_samples is None else self.view_samples[row.id].samples for row in rows
            ),
            size_bytes=sum(row.size for row in rows),
            findings=tuple(sort_findings(findings)),
            seconds=time.monotonic() - self.started,
            levels=levels,
            skipped=tuple(
                f"load: not checked: {reason}" if level == "load" else f"{level} skipped: {reason}"
                for level, reason in self.skipped.items()
            ),
            unread=outcome.unread,
            share=request.share,
            seed=request.seed,
            quarantine=quarantine,
            not_checked=describe_undecoded(levels) if has_media else "",
            view=self.view,
        )

    def _has_level(self, level: ValidationLevel) -> bool:
        return level in self.request.levels

    def _find_schema_rules(self) -> SchemaRules | None:
        """Find the rules in dataset.yaml; for the primary of a polylithic dataset, in that of its complete samples."""
        rules = schema_rules_of(self.config)
        folder = None if rules else find_folder_of_primary(self.location.path)
        if folder is not None and os.path.exists(folder.config):
            self.completion = folder
            rules = schema_rules_of(self._load_config(folder.config))
        if rules is None:
            self.skipped["schema"] = "dataset.yaml has no sample type with a field map"
        return rules

    def _load_config(self, path: str) -> DatasetConfig:
        """Read a dataset.yaml. If it is invalid, add a finding and return the default."""
        try:
            config = load_config(path)
        except DatasetError as error:
            message = f"{error.message} ({error.where})"
            self.config_findings.append(Finding(code=error.code, severity="error", message=message))
            return DatasetConfig()
        if is_custom_type(config.sample_type):
            module, _, name = config.sample_type.partition(":")
            reason = missing_name_reason(module, name)
            if reason:
                message = (
                    f"sample_type: {config.sample_type} cannot be loaded here: {reason}; add its folder to PYTHONPATH, "
                    f"or let the training program register it ({path})"
                )
                self.config_findings.append(Finding(code="WDS220", severity="warning", message=message))
        return config

    def _find_ref_rules(self, stores: Sequence[str] | None) -> tuple[list[RefRule], list[Finding]]:
        """Find the rules for the level `refs`, and findings about them. `stores`: see `validate_dataset`."""
        names: dict[str, list[str]] = {}
        if not self.request.refs and (stores is not None or not self.config.refs):
            names = find_first_media_names(self.location, self.offsets)
        requested = self.request.refs or tuple((field, find_store(stores, names[field])) for field in names if stores)
        rules, findings = filter_openable_rules(collect_ref_rules(self.location, requested, self.config))
        if rules or findings:
            if not rules:
                self.skipped["refs"] = "no store can be opened"
        elif names or stores:
            hint = "pass --refs FIELD=STORE, or write `refs:` in dataset.yaml"
            if stores is not None:
                hint = _HINT_WITH_STORES if stores else _HINT_WITHOUT_STORES
            findings.append(Finding(code="WDS156", severity="note", message=f"no rule maps fields to stores: {hint}"))
            self.skipped["refs"] = "no rule maps fields to stores"
        else:
            self.skipped["refs"] = "the first samples name no media in JSON"
        return rules, findings

    def _list_units(self) -> tuple[list[CheckUnit], list[Finding]]:
        """Return the shards of the request, and findings about checksum files."""
        shards = list(self.listing.shards)
        if self.request.shards:
            paths = [*(shard.path for shard in shards), *(row.path for row in self.rows)]
            selected = match_shards(paths, self.request.shards, f"of the {len(shards):,}")
            shards = [shard for shard in shards if shard.path in selected]
        if self.view_samples is not None:
            view_paths = {row.path for row in self.rows if row.id in self.view_samples}
            shards = [shard for shard in shards if shard.path in view_paths]
        expected: dict[str, list[ExpectedHash]] = {}
        findings: list[Finding] = []
        if self._has_level("hashes"):
            with closing(storage_for(self.location.root)) as storage:
                listed = {shard.path for shard in shards}
                expected, findings = read_checksum_files(storage, self.location.root, listed)
            mds = [shard for shard in shards if shard_format(shard.path) == "mds"]
            if mds:
                indexes = folder_indexes(self.location.root, "mds", self.listing.shards)
                for path, hashes in index_hashes(indexes.listed).items():
                    if path in listed:
                        expected.setdefault(path, []).extend(hashes)
            for row in self.rows:
                if row.sha256 and row.path in listed:
                    expected.setdefault(row.path, []).insert(0, ExpectedHash(row.sha256, "the catalog"))
        # By path and size, not by time: the checks compare the bytes.
        rows = {(row.path, row.size): row for row in self.rows}
        matches = [(shard, rows.get((shard.path, shard.size))) for shard in shards]
        units = [
            CheckUnit(
                shard=shard,
                levels=self.levels,
                row=row,
                expected_hashes=tuple(expected.get(shard.path, ())),
                media_digest=b"" if row is None else self.media_digests.get(row.id, b""),
            )
            for shard, row in matches
        ]
        return units, findings

    def _build_context(self, rules: Sequence[RefRule]) -> CheckContext:
        has_offsets = isinstance(self.offsets, Offsets)
        return CheckContext(
            root=self.location.root,
            request=replace(self.request, levels=self.levels),
            line_keys=JsonlKeyRule(self.key_field, is_single_file=bool(self.location.single_file)),
            catalog_path=self.location.catalog_path,
            offsets_path=self.location.offsets_path(self.generation) if has_offsets else "",
            schema_rules=self.schema_rules,
            completion=self.completion,
            ref_rules=tuple(rules),
            load=None if self.load_check is None else self.load,
            reported_parts=self._reported_parts(),
        )

    def _reported_parts(self) -> tuple[tuple[str, ...], ...]:
        """The required parts whose absence `part_findings` reports."""
        if self.load is None or self.is_partial or isinstance(self.offsets, Finding) or self.load.folder is not None:
            return ()
        return tuple(required_parts(self.offsets, self.config))

    def _open_load_check(self, opener: LoadCheckName | None) -> None:
        """Open the loader's check; or set why it does not run, or why the loader refuses the dataset."""
        folder = self.completion or find_folder_of_primary(self.location.path)
        config_path = self.location.config_path if folder is None else folder.config
        config = self.config if folder is None else self._load_config(config_path)
        reason = ""
        if opener is None:
            reason = "the caller of the function names no loader"
        elif any(each.severity == "error" for each in self.config_findings):
            reason = "dataset.yaml is invalid"
        elif isinstance(self.offsets, Finding):
            reason = "the offsets file cannot be used"
        elif not self.offsets.samples:
            reason = "the dataset has no samples"
        elif config.sequences is not None and is_url(self.location.root):
            reason = "the samples are frames of sequences at a URL; `content` decodes their videos"
        if reason or opener is None:
            self.skipped["load"] = reason
            return
        self.load = LoadTarget(
            opener=opener,
            location=self.location,
            offsets_path=self.location.offsets_path(self.generation),
            config_path=config_path,
            config_text=read_config_text(config_path) if os.path.exists(config_path) else "",
            has_user_code=is_custom_type(config.sample_type),
            folder=folder,
        )
        kept_load_check.cache_clear()  # of an earlier run of this process
        try:
            self.load_check = open_load_check(self.load)
        except UsageError as error:
            if error.code not in NOT_LOADABLE_CODES:
                raise
            self.skipped["load"] = f"{error.message}; {error.hint}" if error.code == "WDS236" else error.message
        except WdsctlError as error:
            message = f"the loader refuses the dataset: {error.message}; {error.hint}"
            self.load_findings.append(Finding(code=error.code, severity="error", message=message))
            self.skipped["load"] = "the loader refuses the dataset"

    def _batch_findings(self, check: LoadCheck, outcome: CheckOutcome) -> Iterator[Finding]:
        """What keeps the samples of each split from being batched, and the fields that samples lack."""
        rows = {row.id: row for row in self.rows}
        selections = self.dataset.catalog.split_reader.split_shards("")
        splits: dict[str, SampleSelection | None] = dict(selections)
        if self.view_samples is not None:
            within = self.view_samples
            splits = {name: intersect_selections(each, within) for name, each in selections.items()} or {"": within}
        is_whole = not self.request.shards
        for name, selection in (splits or {"": None}).items() if self.judges_batches else ():
            by_path = None if selection is None else {rows[shard].path: each for shard, each in selection.items()}
            shards = self._all_split_shards() if selection is None else list(selection.values())
            kinds = self._count_kinds(outcome, by_path)
            yield from check.split_findings(name, shards if is_whole else None, kinds)
        known = (
            frozenset(absent_fields(self.offsets, self.config)) if isinstance(self.offsets, Offsets) else frozenset()
        )
        selected = (
            None if self.view_samples is None else {rows[shard].path: each for shard, each in self.view_samples.items()}
        )
        yield from missing_value_findings(check, self._count_kinds(outcome, selected), known)

    def _all_split_shards(self) -> list[SplitShard]:
        return [SplitShard(row.id, row.samples) for row in self.rows if row.samples]

    def _count_kinds(self, outcome: CheckOutcome, selected: Mapping[str, SplitShard] | None) -> dict[str, KindCount]:
        counts = count_kinds(outcome.kinds, selected, [row.path for row in self.rows])
        return {
            kind: KindCount(samples, (path, self._key_at(path, at))) for kind, (samples, path, at) in counts.items()
        }

    def _key_at(self, path: str, position: int) -> str:
        if not isinstance(self.offsets, Offsets):
            return ""
        shard = next(i for i, each in enumerate(self.offsets.shards) if each.path == path)
        return self.offsets.key(int(self.offsets.shard_row[shard]) + position)

    def _freshness_findings(self, outcome: CheckOutcome, paths: set[str]) -> Iterator[Finding]:
        """Find repeated keys across shards, and shards that differ from the catalog."""
        # A shard of the indexed size with other contents is reported by the level `structure`.
        reported = {
            path
            for path, located in outcome.located_findings.items()
            if any(each.finding.code == "WDS305" for each in located)
        }
        new = freshness_findings(
            self.location,
            [shard for shard in self.listing.shards if shard.path not in reported],
            [row for row in self.rows if row.path not in reported],
            sum(row.status == MISSING_STATUS for row in self.rows),
            lambda rows: {row.path for row in rows},
        )
        yield from self.key_findings
        for finding in (*(each for each in self.listing.findings if each not in new), *new):
            if not self.is_partial or finding.shard in paths:
                yield finding

    def _check_refs_dataset_wide(self, rules: Sequence[RefRule], outcome: CheckOutcome) -> Sequence[Finding]:
        """Check references across shards, if this run or earlier ones checked all samples."""
        if outcome.dataset_ref_findings is not None:
            return [each.finding for each in outcome.dataset_ref_findings]
        if self.is_partial or self.request.share < 1 or not outcome.is_complete:
            return []
        findings = list(check_refs_dataset_wide(rules, outcome.used_entry_ids, outcome.ref_name_counts))
        if self.record.ledger is not None:
            store_dataset_ref_findings(self.record.ledger, outcome, map(LocatedFinding, findings))
        return findings

    def _save_refs(self, rules: Sequence[RefRule], outcome: CheckOutcome) -> None:
        requested = {field for field, _ in self.request.refs}
        stored = outcome.dataset_ref_findings
        matching = select_matching_rules(
            [rule for rule in rules if rule.field in requested],
            outcome.used_entry_ids,
            outcome.ref_name_counts,
            None if stored is None else [each.finding for each in stored],
        )
        if matching:
            save_ref_rules(self.location, matching)
        if unmatched := sorted(requested - {rule.field for rule in matching}):
            self.progress.note(
                f"--refs {', '.join(unmatched)} matches nothing in the checked samples, so the rule is not saved"
            )

    def _target_findings(self) -> list[Finding]:
        """What the reader of the request would refuse. Only the Hub has checks."""
        if self.is_partial:
            self.progress.note("not checked for the Hub: this needs the whole dataset, not a view or some shards")
        if self.is_partial or isinstance(self.offsets, Finding):
            return []
        return [*hub_findings(self.offsets, self.rows, self.dataset.catalog.split_reader.split_shards(""))]

    def _whole_dataset_findings(self) -> Iterable[Finding]:
        self.progress.phase("parts")
        if isinstance(self.offsets, Finding):
            return [self.offsets]
        if self.is_partial:
            return []
        has_key_rule = self.has_key_rule or self.config.key_until
        return [
            *([] if has_key_rule else key_findings(self.location, self.offsets)),
            *part_findings(self.offsets, self.parts, self.config),
            *colliding_part_findings(self.offsets),
            *self._size_findings(),
            *robot_media_findings(
                self.location.root,
                self.config.sequences,
                [row.path for row in self.rows],
                self.progress,
                decodes=self._has_level("content"),
            ),
        ]

    def _size_findings(self) -> list[Finding]:
        """Sizes that disagree by the media facts of the catalog; the level `schema` reads them from the files."""
        if self._has_level("schema") or self.config_findings:
            return []
        return list(catalog_size_findings(self.dataset.catalog, self.config))


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, the gravest first, then by shard, code and key. Those that only count samples come last."""
    return sorted(
        findings,
        key=lambda finding: (
            -SEVERITIES.index(finding.severity),
            finding.shard,
            finding.code,
            not finding.key and finding.offset is None,
            finding.key,
        ),
    )


def _filter_to_view(
    outcome: CheckOutcome, rows: Sequence[ShardRow], view_samples: SampleSelection, offsets: Offsets | Finding
) -> None:
    """Remove findings about samples outside the view. Findings about a whole shard stay.

    `rows`: the shards of the view. The run checks these shards completely, so that later runs can reuse the findings.
    """
    shard_starts: dict[str, int] = {}  # rows of the offsets file
    if isinstance(offsets, Offsets):
        shard_starts = {shard.path: int(offsets.shard_row[i]) for i, shard in enumerate(offsets.shards)}
    for row in rows:
        is_in_view = sample_flags(view_samples[row.id], row.samples)
        filtered: list[LocatedFinding] = []
        for located in outcome.located_findings.pop(row.path, []):
            positions = tuple(each for each in located.positions if each < row.samples and is_in_view[each])
            if not located.positions:  # also lines of JSONL with warnings
                filtered.append(located._replace(faults=()))
            elif positions == located.positions:
                filtered.append(located)
            elif positions:
                faults = tuple(
                    each for each in located.faults if each.position < row.samples and is_in_view[each.position]
                )
                unnamed = len(positions) - len(faults)
                finding = replace(located.finding, count=unnamed + sum(each.times for each in faults))
                if faults:  # the first samples: a finding has the place and message of its first sample
                    first = faults[0]
                    finding = replace(finding, key=first.key, offset=first.offset, message=first.message)
                elif positions[0] != located.positions[0]:
                    key = ""
                    if isinstance(offsets, Offsets) and row.path in shard_starts:
                        key = offsets.key(shard_starts[row.path] + positions[0])
                    finding = replace(finding, key=key, offset=None)
                filtered.append(located._replace(finding=finding, positions=positions, faults=faults))
        if filtered:
            outcome.located_findings[row.path] = filtered
