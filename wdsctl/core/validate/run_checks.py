"""Check shards in parallel, and reuse the ledger's findings of unchanged shards.

The ledger stores a check of all samples of a shard with a digest of everything that its findings depend on
(`_input_digest`). A run over some samples uses stored checks, but stores none.

Data corruption can leave size and time of a file unchanged, so stored results of the level `hashes` only serve to
resume: a complete run expires them, and those of an interrupted run are valid for a day.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import (
    MAX_NAMED_FINDINGS,
    MAX_NAMED_SAMPLES,
    LocatedFinding,
    StoredCheck,
    StoredChecks,
    expire_checks,
    located_findings_from_json,
    located_findings_to_json,
    name_samples,
    read_checks,
    store_checks,
)
from wdsctl.core.errors import Finding
from wdsctl.core.jobs import BatchLimits, UnitSize, make_executor, run_units
from wdsctl.core.progress import Progress
from wdsctl.core.storage.open import workers_for
from wdsctl.core.validate.load import MAX_RUN_KINDS_BYTES, ShardKinds, unpack_kinds
from wdsctl.core.validate.ref_stores import EntryIds, open_ref_store
from wdsctl.core.validate.request import ValidationLevel
from wdsctl.core.validate.unit import (
    CHECK_PRELOAD_MODULES,
    SAMPLE_LEVELS,
    CheckContext,
    CheckResult,
    CheckUnit,
    check_shard,
)

CHECKS_FORMAT_VERSION = 17  # raise it when the findings of a level change, so that stored ones are not reused

_CHECK_BATCH = BatchLimits(64, 16 << 20)
_DAY_S = 86_400
_INPUT_DIGEST_BYTES = 16
_SAVE_INTERVAL_S = 2.0  # findings older than this survive a killed run


@dataclass(slots=True)
class CheckOutcome:
    """The findings in all shards of a run.

    `unread`: number of shards with reused findings on every level. `is_complete`: whether every shard could be read.
    `used_entry_ids` and `ref_name_counts`: as in `CheckResult`. `refs_digest`: a digest of everything that the
    findings of `refs` depend on; empty if they cannot be reused. `dataset_ref_findings`: the stored findings over all
    references, if nothing has changed. `kinds` and `not_loaded`: as in `CheckResult`.
    """

    located_findings: dict[str, list[LocatedFinding]] = field(default_factory=dict)  # by shard
    unread: int = 0
    used_entry_ids: dict[str, list[EntryIds]] = field(default_factory=dict)
    ref_name_counts: dict[str, int] = field(default_factory=dict)
    is_complete: bool = True
    refs_digest: bytes = b""
    dataset_ref_findings: tuple[LocatedFinding, ...] | None = None
    kinds: dict[str, ShardKinds] = field(default_factory=dict)  # by shard
    not_loaded: str = ""
    _unbounded_faults: int = 0  # added since `bound_faults`

    def add_findings(self, shard: str, by_level: Mapping[ValidationLevel, tuple[LocatedFinding, ...]]) -> None:
        for findings in by_level.values():
            if findings:
                self.located_findings.setdefault(shard, []).extend(findings)
                self._unbounded_faults += sum(len(each.faults) for each in findings)
        if self._unbounded_faults > 2 * MAX_NAMED_FINDINGS:
            self.bound_faults()

    def bound_faults(self) -> None:
        """Drop the faults of a code after `MAX_NAMED_FINDINGS` samples, by shard: in whatever order shards finish."""
        named: Counter[str] = Counter()
        for shard in sorted(self.located_findings):
            before = dict(named)
            for i, located in enumerate(self.located_findings[shard]):
                code = located.finding.code
                if located.faults and before.get(code, 0) >= MAX_NAMED_FINDINGS:
                    self.located_findings[shard][i] = located._replace(faults=())
                named[code] += min(located.finding.count, MAX_NAMED_SAMPLES)
        self._unbounded_faults = 0

    def named_findings(self) -> Iterator[Finding]:
        """The findings of all shards, with one finding per named sample."""
        self.bound_faults()
        for found in self.located_findings.values():
            for located in found:
                yield from name_samples(located)

    def add_result(self, shard: str, result: CheckResult) -> None:
        self.add_findings(shard, result.findings)
        self.is_complete &= result.is_read
        self.kinds[shard] = result.kinds
        self.not_loaded = self.not_loaded or result.not_loaded
        for store, ids in result.used_entry_ids.items():
            self.used_entry_ids.setdefault(store, []).append(ids)
        for field_name, count in result.ref_name_counts.items():
            self.ref_name_counts[field_name] = self.ref_name_counts.get(field_name, 0) + count


def check_shards(
    context: CheckContext, units: Sequence[CheckUnit], ledger: Ledger | None, *, workers: int, progress: Progress
) -> CheckOutcome:
    """Check shards on the levels of the request, or reuse the findings of their last check.

    Stores findings in the ledger every two seconds, so that a killed run can continue. Checks of some samples are not
    stored.
    """
    request = context.request
    outcome = CheckOutcome(refs_digest=_refs_digest(context, units))
    known: StoredChecks = {} if ledger is None else read_checks(ledger)
    # Unused entries depend on all shards: if the references of one shard are read, those of all must be.
    dataset_refs = None if request.again else known.get(("", "refs", "all"))
    if dataset_refs is not None and outcome.refs_digest and dataset_refs.mark == outcome.refs_digest:
        outcome.dataset_ref_findings = located_findings_from_json(dataset_refs.findings)
    remaining: list[CheckUnit] = []
    kinds_bytes = 0
    for unit in units:
        reused: dict[ValidationLevel, tuple[LocatedFinding, ...]] = {}
        for level in () if request.again else unit.levels:
            findings = _reusable_findings(context, unit, level, known)
            if findings is not None and not (level == "refs" and outcome.dataset_ref_findings is None):
                reused[level] = findings
        if "load" in reused:
            stored = _stored_kinds(unit, known)
            kinds_bytes += sum(map(len, stored.kinds)) if stored is not None else 0
            if stored is None or kinds_bytes > MAX_RUN_KINDS_BYTES:
                del reused["load"]
            else:
                outcome.kinds[unit.shard.path] = stored
        if "load" in unit.levels and "load" not in reused and request.share == 1:
            # The level omits what these levels report of the same samples.
            reused = {level: findings for level, findings in reused.items() if level not in SAMPLE_LEVELS}
        outcome.add_findings(unit.shard.path, reused)
        if len(reused) < len(unit.levels):
            remaining.append(replace(unit, levels=tuple(level for level in unit.levels if level not in reused)))
    outcome.unread = len(units) - len(remaining)
    for unit, result in _check_and_store(context, remaining, ledger, workers, progress):
        outcome.add_result(unit.shard.path, result)
    if ledger is not None and "hashes" in request.levels:
        expire_checks(ledger, "hashes", [unit.shard.path for unit in units])
    return outcome


def store_dataset_ref_findings(ledger: Ledger, outcome: CheckOutcome, findings: Iterable[LocatedFinding]) -> None:
    """Store the findings over all references, which are valid until a shard or a store changes."""
    if outcome.refs_digest and outcome.dataset_ref_findings is None:
        check = StoredCheck("", "refs", "all", "", outcome.refs_digest, located_findings_to_json(findings))
        store_checks(ledger, [check])


def _check_and_store(
    context: CheckContext,
    units: Sequence[CheckUnit],
    ledger: Ledger | None,
    workers: int,
    progress: Progress,
) -> Iterator[tuple[CheckUnit, CheckResult]]:
    finished = run_units(
        partial(check_shard, context),
        units,
        make_executor(workers_for(context.root, workers), _preload_modules(context)),
        batch=_CHECK_BATCH,
        phase="check",
        progress=progress,
        size=lambda unit: UnitSize(1, unit.shard.size),
        reads=(context.root, *([context.offsets_path] if context.offsets_path else [])),
    )
    unsaved: list[StoredCheck] = []
    saved_s = time.monotonic()
    try:
        with closing(finished):
            for each in finished:
                unit, result = each.unit, each.result()
                unsaved += _checks_to_store(context, unit, result)
                if ledger is not None and time.monotonic() - saved_s > _SAVE_INTERVAL_S:
                    store_checks(ledger, unsaved)
                    unsaved, saved_s = [], time.monotonic()
                yield unit, result
    finally:
        if ledger is not None:
            store_checks(ledger, unsaved)


def _reusable_findings(
    context: CheckContext, unit: CheckUnit, level: ValidationLevel, known: StoredChecks
) -> tuple[LocatedFinding, ...] | None:
    """Return the findings of the last check of all samples; None if the shard must be checked."""
    path = unit.shard.path
    check = known.get((path, level, "all"))
    is_read = (path, level, "none") not in known
    if check is None or not is_read or not _is_current(context, unit, level, check):
        return None
    return _findings_of_check(path, check)


def _stored_kinds(unit: CheckUnit, known: StoredChecks) -> ShardKinds | None:
    """The kinds of samples that the last check found; None if they are malformed."""
    packed = known[unit.shard.path, "load", "all"].mark[_INPUT_DIGEST_BYTES:]
    try:
        return unpack_kinds(packed, 0 if unit.row is None else unit.row.samples)
    except ValueError:
        return None


def _findings_of_check(path: str, check: StoredCheck) -> tuple[LocatedFinding, ...]:
    """Return the findings of a check, under the shard's current path."""
    found = located_findings_from_json(check.findings)
    return tuple(each._replace(finding=replace(each.finding, shard=path)) for each in found)


def _checks_to_store(context: CheckContext, unit: CheckUnit, result: CheckResult) -> Iterator[StoredCheck]:
    path, layout_hash = unit.shard.path, result.layout_hash or unit.indexed_layout_hash
    for level, findings in result.findings.items():
        text = located_findings_to_json(findings)
        if not result.is_read:
            yield StoredCheck(path, level, "none", layout_hash, b"", text)
        elif not _is_sampled(context, level):
            # Rebuilding the catalog mends a finding about it, and does not change the inputs of a check of a shard.
            is_of_catalog = any(located.finding.code == "WDS302" for located in findings)
            mark = _input_digest(context, unit, level) if _is_reusable(context, level) and not is_of_catalog else b""
            if level == "load" and mark:
                mark += result.kinds.pack()
            yield StoredCheck(path, level, "all", layout_hash, mark, text)


def _preload_modules(context: CheckContext) -> tuple[str, ...]:
    if context.load is None:
        return CHECK_PRELOAD_MODULES
    return (*CHECK_PRELOAD_MODULES, context.load.opener.partition(":")[0])  # with torch, which takes a second


def _is_sampled(context: CheckContext, level: ValidationLevel) -> bool:
    return level in SAMPLE_LEVELS and context.request.share < 1


def _is_reusable(context: CheckContext, level: ValidationLevel) -> bool:
    """Whether findings are valid until the shard changes. Files of a plain folder can change at any time, and so can
    the code of a sample type."""
    if level == "load" and context.load is not None and context.load.has_user_code:
        return False
    return all(_store_digests(context, level))


def _is_current(context: CheckContext, unit: CheckUnit, level: ValidationLevel, check: StoredCheck) -> bool:
    """Whether nothing has changed since a check. Checks of `hashes` are current for a day at most."""
    days = (0, 1) if level == "hashes" else (0,)
    mark = check.mark[:_INPUT_DIGEST_BYTES]  # that of `load` has the kinds of samples after it
    return mark in [_input_digest(context, unit, level, days_ago=ago) for ago in days]


def _store_digests(context: CheckContext, level: ValidationLevel) -> list[str]:
    """The digests of the stores on which the findings of a level depend; empty for stores that cannot tell changes."""
    stores = [rule.store for rule in context.ref_rules] if level == "refs" else []
    if level == "schema" and context.completion is not None:
        stores = [context.completion.media]
    if level == "load" and context.load is not None and context.load.folder is not None:
        stores = [context.load.folder.media]
    return [open_ref_store(store).digest for store in stores]


def _input_digest(context: CheckContext, unit: CheckUnit, level: ValidationLevel, *, days_ago: int = 0) -> bytes:
    """Hash everything that the findings of a level depend on."""
    shard = unit.shard
    inputs: list[object] = [CHECKS_FORMAT_VERSION, level, shard.size, shard.mtime_ns, unit.indexed_layout_hash]
    if level == "structure":
        inputs += [context.line_keys.field, context.line_keys.is_single_file]
    elif level == "hashes":
        inputs += [*unit.expected_hashes, int(time.time() // _DAY_S) - days_ago]
    elif level == "headers" and unit.media_digest:
        inputs.append(unit.media_digest)
    elif level == "schema":
        inputs += [repr(context.schema_rules), "content" in context.request.levels, *_store_digests(context, level)]
    elif level == "load" and context.load is not None:
        inputs += [context.load.opener, context.load.config_text, context.reported_parts]
        inputs += [[each for each in context.request.levels if each in SAMPLE_LEVELS], *_store_digests(context, level)]
    elif level == "refs":
        inputs += [*((rule.field, rule.store) for rule in context.ref_rules), *_store_digests(context, level)]
    return blake2b(repr(inputs).encode("utf-8", "backslashreplace"), digest_size=_INPUT_DIGEST_BYTES).digest()


def _refs_digest(context: CheckContext, units: Sequence[CheckUnit]) -> bytes:
    if "refs" not in context.request.levels or not _is_reusable(context, "refs"):
        return b""
    digest = blake2b(digest_size=16)
    for unit in units:
        digest.update(_input_digest(context, unit, "refs"))
    return digest.digest()
