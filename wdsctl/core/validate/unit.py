"""The unit of work of `validate`: one process checks one shard on some levels.

Each level that checks parts or samples has a row in `_PART_CHECKS` or `_SAMPLE_CHECKS`; `load` loads each sample first,
so that `content` need not decode what the loader has decoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from math import ceil

import numpy as np

from wdsctl.core.catalog.ledger_checks import LocatedFinding, LocatedFindingCollector, PartToCheck
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.polylithic import PolylithicFolder
from wdsctl.core.dataset.shard_names import is_jsonl_name, is_tar_name
from wdsctl.core.errors import DatasetError, Finding, PermissionDenied, StorageError, WdsctlError
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.shards.jsonl_keys import LINE_NUMBER_KEYS, JsonlKeyRule
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.readers import BlockReader
from wdsctl.core.shards.scan_unit import ScanOptions, scan_file
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.urls import is_url
from wdsctl.core.validate.catalog_rows import check_offsets, check_rows, scan_of_offsets
from wdsctl.core.validate.completed import SampleCompletion
from wdsctl.core.validate.content import check_content, has_decodable_content
from wdsctl.core.validate.hashes import ExpectedHash, check_hashes
from wdsctl.core.validate.headers import CatalogFacts, ReadShard, check_header, has_known_header
from wdsctl.core.validate.load import (
    KindCollector,
    LastRange,
    LoadCheck,
    LoadTarget,
    ShardKinds,
    add_load_finding,
    kept_load_check,
)
from wdsctl.core.validate.ref_stores import EntryIds
from wdsctl.core.validate.refs import RefRule, RefUsage, can_hold_refs, check_refs
from wdsctl.core.validate.request import ValidateRequest, ValidationLevel
from wdsctl.core.validate.schema import SchemaRules, check_sample_schema
from wdsctl.core.validate.structure import check_structure, is_as_indexed

CHECK_PRELOAD_MODULES = ("wdsctl.core.validate.unit",)  # the fork server imports these modules

#: The dataset whose shards this process checks (`sharing_catalog`). Contexts are plain values, which jobs store.
_DATASET: ContextVar[OpenDataset | None] = ContextVar("checked dataset", default=None)

_MAX_BATCH_SAMPLES = 4096  # samples whose keys are decoded at once


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """The inputs that the checks of all shards share. `request`: as the user made it, with all levels.

    `completion`: the polylithic folder whose complete samples the schema rules describe; None if shards have all parts.
    `load`: what the loader opens, for the level `load`. `reported_parts`: one part of each tuple must be in every
    sample, and the run reports samples without them.
    """

    root: str
    request: ValidateRequest
    line_keys: JsonlKeyRule = LINE_NUMBER_KEYS
    catalog_path: str = ""
    offsets_path: str = ""  # empty if the offsets file cannot be used
    schema_rules: SchemaRules | None = None
    completion: PolylithicFolder | None = None
    ref_rules: tuple[RefRule, ...] = ()
    load: LoadTarget | None = None
    reported_parts: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUnit:
    """One shard to check.

    `levels`: levels without reusable findings. `row`: the shard in the catalog; None if the catalog lacks the shard
    or has it with another size. `media_digest`: a digest of the media facts in the catalog; empty if there are none.
    """

    shard: ShardFile
    levels: tuple[ValidationLevel, ...]
    row: ShardRow | None = None
    expected_hashes: tuple[ExpectedHash, ...] = ()
    media_digest: bytes = b""

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return self.shard.path

    @property
    def indexed_layout_hash(self) -> str:
        """The layout hash of the shard in the catalog; empty if unknown."""
        return self.row.layout_hash if self.row is not None and self.row.status != "unreadable" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The findings in one shard, by level. `is_read`: False if the shard could not be read.

    `samples_checked`: the number of samples that the part and sample levels checked. `used_entry_ids`: the entries
    that samples refer to, by store; `ref_name_counts`: the number of references, by field. `layout_hash`: set if the
    shard was scanned. `kinds`: of the samples that the loader has loaded. `not_loaded`: why this process could not load
    any.
    """

    findings: dict[ValidationLevel, tuple[LocatedFinding, ...]]
    is_read: bool = True
    samples_checked: int = 0
    used_entry_ids: dict[str, EntryIds] = field(default_factory=dict)
    ref_name_counts: dict[str, int] = field(default_factory=dict)
    layout_hash: str = ""
    kinds: ShardKinds = ShardKinds()  # noqa: RUF009 - a tuple
    not_loaded: str = ""


@contextmanager
def sharing_catalog(dataset: OpenDataset) -> Iterator[None]:
    """Let `check_shard` read the catalog of `dataset` within the block. Other processes open it for each shard."""
    token = _DATASET.set(dataset)
    try:
        yield
    finally:
        _DATASET.reset(token)


def _open_catalog(context: CheckContext) -> AbstractContextManager[Catalog]:
    dataset = _DATASET.get()
    return Catalog.open(context.catalog_path) if dataset is None else nullcontext(dataset.catalog)


def check_shard(context: CheckContext, unit: CheckUnit) -> CheckResult:
    """Check one shard. If it cannot be read or was truncated since it was listed, that is a finding."""
    path = unit.shard.path
    findings: dict[ValidationLevel, tuple[LocatedFinding, ...]] = {}
    try:
        if "hashes" in unit.levels:
            with _open_shard(context, unit) as read:
                findings["hashes"] = check_hashes(path, read, unit.shard.size, unit.expected_hashes)
        if unit.levels == ("hashes",):
            return CheckResult(findings=findings)
        if unit.row is not None and _is_as_indexed(context, unit):
            known = scan_of_offsets(context.offsets_path, unit.row)
            with _open_catalog(context) as catalog:
                wrong = tuple(map(LocatedFinding, check_rows(catalog, unit.row, known)))
            return CheckResult(findings=findings | {"structure": wrong})
        scan = scan_file(context.root, unit.shard, ScanOptions(context.line_keys))
        if scan.status == "unreadable":
            return CheckResult(findings={unit.levels[0]: tuple(map(LocatedFinding, scan.findings))}, is_read=False)
        if "structure" in unit.levels:
            found = check_structure(context.root, unit.shard, scan, unit.indexed_layout_hash)
            findings["structure"] = (*found, *map(LocatedFinding, _check_catalog(context, unit, scan)))
        if any(level in SAMPLE_LEVELS for level in unit.levels):
            return _check_samples(context, unit, scan, findings)
        return CheckResult(findings=findings, layout_hash=scan.layout_hash())
    except (StorageError, PermissionDenied) as error:
        unread = Finding(code=error.code, severity="error", message=error.message, shard=path)
        return CheckResult(findings={unit.levels[0]: (LocatedFinding(unread),)}, is_read=False)


def _is_as_indexed(context: CheckContext, unit: CheckUnit) -> bool:
    """Whether the headers at the indexed positions are unchanged. Much faster than a scan."""
    is_intact = unit.row is not None and unit.row.status == "ok" and unit.row.code is None
    if not is_intact or not context.offsets_path or set(unit.levels) - {"structure", "hashes"}:
        return False
    if unit.row is None or is_url(context.root) or not is_tar_name(unit.shard.path):
        return False
    path = os.path.join(context.root, unit.shard.path)
    with closing(LocalStorage(context.root, {path: unit.shard.size})) as storage:
        return is_as_indexed(storage, path, unit.shard.size, context.offsets_path, unit.row)


def _check_catalog(context: CheckContext, unit: CheckUnit, scan: ShardScan) -> Iterator[Finding]:
    """Compare the offsets and rows of an indexed shard, if it is unchanged, with its scan."""
    row = unit.row
    if row is None or scan.layout_hash() != row.layout_hash:
        return
    if row.status == "ok" and row.code is None and context.offsets_path:
        yield from check_offsets(context.offsets_path, row, scan)
    with _open_catalog(context) as catalog:
        yield from check_rows(catalog, row, scan)


@contextmanager
def _open_shard(context: CheckContext, unit: CheckUnit) -> Iterator[ReadShard]:
    path = os.path.join(context.root, unit.shard.path)
    with closing(storage_for(context.root, {path: unit.shard.size})) as storage:
        if is_url(context.root):
            yield BlockReader(storage, path, unit.shard.size).read
        else:
            yield partial(storage.read, path)


@dataclass(slots=True)
class _OpenShard:
    """A shard whose samples are being checked."""

    context: CheckContext
    unit: CheckUnit
    read: ReadShard
    catalog_facts: CatalogFacts
    ref_usage: RefUsage
    completion: SampleCompletion | None = None
    decoded: frozenset[str] = frozenset()  # parts of the current sample that the loader has decoded

    def read_part(self, part: PartToCheck, start: int, size: int) -> bytes:
        return self.read(part.offset + start, size)

    @property
    def is_jsonl(self) -> bool:
        """Whether the shard is JSONL, whose samples `structure` has parsed."""
        return is_jsonl_name(self.unit.shard.path)


def _check_part_header(shard: _OpenShard, part: PartToCheck, findings: LocatedFindingCollector) -> None:
    if has_known_header(part.part):
        check_header(shard.read, part, shard.catalog_facts, findings)


def _check_part_content(shard: _OpenShard, part: PartToCheck, findings: LocatedFindingCollector) -> None:
    if has_decodable_content(part.part) and not shard.is_jsonl:
        check_content(shard.read, part, findings, is_decoded=part.part in shard.decoded)


def _check_schema(shard: _OpenShard, parts: Mapping[str, PartToCheck], findings: LocatedFindingCollector) -> None:
    rules, completion = shard.context.schema_rules, shard.completion
    if rules is None or not parts:
        return
    is_reported_elsewhere = "content" in shard.context.request.levels or shard.is_jsonl
    if completion is None:
        check_sample_schema(shard.read_part, parts, rules, findings, reports_unparsable=not is_reported_elsewhere)
        return
    try:
        read, complete = completion.complete(shard.read_part, parts)
        check_sample_schema(
            read, complete, rules, findings, reports_unparsable=not is_reported_elsewhere, reports_missing=True
        )
    except DatasetError as error:
        where = f" ({error.where})" if error.where else ""
        findings.add(error.code, f"{error.message}{where}", next(iter(parts.values())))


def _check_refs(shard: _OpenShard, parts: Mapping[str, PartToCheck], findings: LocatedFindingCollector) -> None:
    if shard.context.ref_rules and any(map(can_hold_refs, parts)):
        check_refs(shard.read, parts, shard.context.ref_rules, findings, shard.ref_usage)


#: Levels that check each part, and levels that check the parts of a sample together.
_PART_CHECKS: dict[ValidationLevel, Callable[[_OpenShard, PartToCheck, LocatedFindingCollector], None]] = {
    "headers": _check_part_header,
    "content": _check_part_content,
}
_SAMPLE_CHECKS: dict[
    ValidationLevel, Callable[[_OpenShard, Mapping[str, PartToCheck], LocatedFindingCollector], None]
] = {
    "schema": _check_schema,
    "refs": _check_refs,
}
SAMPLE_LEVELS: tuple[ValidationLevel, ...] = (*_PART_CHECKS, *_SAMPLE_CHECKS, "load")  # `--sample` applies to these


def _check_samples(
    context: CheckContext,
    unit: CheckUnit,
    scan: ShardScan,
    findings: dict[ValidationLevel, tuple[LocatedFinding, ...]],
) -> CheckResult:
    """Check the samples of a scanned shard. If a sample has a part twice, the last one counts."""
    collectors = {level: LocatedFindingCollector(unit.shard.path) for level in SAMPLE_LEVELS if level in unit.levels}
    layout_hash, ref_usage = scan.layout_hash(), RefUsage()
    rows = draw_positions(context.request, unit.shard.path, scan.samples)
    check, not_loaded = _open_load_check(context, unit, layout_hash)
    kinds = KindCollector(scan.samples)
    with _open_shard(context, unit) as read_shard:
        read = LastRange(read_shard) if check is not None else read_shard
        known_facts: CatalogFacts = {}
        has_facts = bool(unit.media_digest) and "headers" in unit.levels and layout_hash == unit.indexed_layout_hash
        if unit.row is not None and has_facts:
            with _open_catalog(context) as catalog:
                known_facts = catalog.media_reader.shard_facts(unit.row.id)
        completion = SampleCompletion(context.completion) if "schema" in collectors and context.completion else None
        shard = _OpenShard(context, unit, read, known_facts, ref_usage, completion)
        loaded_samples = repeat(None) if check is None else check.load(unit.shard.path, rows, read)
        for parts, loaded in zip(iterate_scanned_samples(scan, rows), loaded_samples, strict=False):
            shard.decoded = frozenset() if loaded is None else loaded.decoded
            _check_sample(shard, parts, collectors)
            if loaded is not None and parts:
                position = next(iter(parts.values())).position
                if loaded.kind:
                    kinds.add(position, loaded.kind)
                elif not _is_reported(context, collectors, parts, position):
                    add_load_finding(loaded, parts, collectors["load"])
    if check is None:
        collectors.pop("load", None)
    return CheckResult(
        findings=findings | {level: collector.to_findings() for level, collector in collectors.items()},
        samples_checked=len(rows),
        used_entry_ids=ref_usage.entry_id_arrays(),
        ref_name_counts=ref_usage.name_counts,
        layout_hash=layout_hash,
        kinds=kinds.to_kinds(),
        not_loaded=not_loaded,
    )


def _check_sample(
    shard: _OpenShard,
    parts: Mapping[str, PartToCheck],
    collectors: Mapping[ValidationLevel, LocatedFindingCollector],
) -> None:
    for part in parts.values():
        for level, check_part in _PART_CHECKS.items():
            if level in collectors:
                check_part(shard, part, collectors[level])
    for level, check_sample in _SAMPLE_CHECKS.items():
        if level in collectors:
            check_sample(shard, parts, collectors[level])


def _open_load_check(context: CheckContext, unit: CheckUnit, layout_hash: str) -> tuple[LoadCheck | None, str]:
    """(the loader's check, why this process cannot open it). None for a shard that is not as the catalog has it: the
    loader reads by the catalog, and `structure` reports the difference."""
    if context.load is None or "load" not in unit.levels or layout_hash != unit.indexed_layout_hash:
        return None, ""
    try:
        return kept_load_check(context.load), ""
    except WdsctlError as error:  # of a type that only the calling process knows
        return None, error.message


def _is_reported(
    context: CheckContext,
    collectors: Mapping[ValidationLevel, LocatedFindingCollector],
    parts: Mapping[str, PartToCheck],
    position: int,
) -> bool:
    """Whether another level reports why the loader leaves a sample out."""
    if any(parts.keys().isdisjoint(names) for names in context.reported_parts):
        return True
    return any(position in each.failed for level, each in collectors.items() if level != "load")


def draw_positions(request: ValidateRequest, shard: str, samples: int) -> list[int] | range:
    """Draw the positions of the samples to check, ascending: `request.share` of them, at least one if there are any.

    The choice depends on seed, shard and position only, not on the number of workers.
    """
    if request.share >= 1:
        return range(samples)
    count = min(samples, ceil(samples * request.share))
    hashes = hash_values(derive_seed("validate", request.seed, shard), np.arange(samples, dtype=np.uint64))
    rows: list[int] = np.sort(np.argsort(hashes, kind="stable")[:count]).tolist()
    return rows


def iterate_scanned_samples(scan: ShardScan, rows: range | list[int]) -> Iterator[dict[str, PartToCheck]]:
    """Yield the parts of these samples by name, in tar order. Skips samples without parts."""
    first_parts = scan.counts.cumsum(dtype="int64") - scan.counts
    remaining = iter(rows)
    while batch := list(islice(remaining, _MAX_BATCH_SAMPLES)):
        keys = scan.decode_keys(slice(batch[0], batch[-1] + 1)) if scan.samples else []
        for row in batch:
            span = slice(first := int(first_parts[row]), first + int(scan.counts[row]))
            names = [scan.extensions[i] for i in scan.part_names[span].tolist()]
            offsets, sizes = scan.part_offsets[span].tolist(), scan.part_sizes[span].tolist()
            yield {
                name: PartToCheck(row, keys[row - batch[0]], name, offset, size)
                for name, offset, size in zip(names, offsets, sizes, strict=True)
            }
