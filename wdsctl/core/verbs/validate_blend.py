"""`validate` of a blend file: every dataset that it names, and the references of each into its stores."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wdsctl.core.blend_file import Leaf
from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.checks.refs import fields_with_names, wants_refs
from wdsctl.core.checks.stores import open_ref_store
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.findings import SEVERITIES, Finding
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.stores import storage_for
from wdsctl.core.verbs.blend_split_files import leaves_of, split_file_findings
from wdsctl.core.verbs.validate import validate
from wdsctl.core.verbs.validate_request import QuarantineReport, ValidateReport, ValidateRequest

_SAMPLES = 200  # of each dataset that are looked into, to find the fields that refer to its stores


def validate_blend(
    path: str, request: ValidateRequest, *, workers: int = 1, wait: float = 0.0, progress: Progress = SILENT
) -> ValidateReport:
    """Validate every dataset of a blend file, once each, and tell of all in one report; shards by way of their dataset.

    References are followed into the stores that `aux` names: a field whose names are mostly entries of a store refers
    to that one. `wait`: for a quarantine, seconds to wait for another writer of each dataset. Raises as `validate`, and
    what reading a blend file raises.
    """
    started = time.monotonic()
    if request.refs:
        raise UsageError("--refs is of one dataset", hint="in a blend file `aux` names the stores; leave --refs out")
    findings = [*split_file_findings(path)]
    for finding in findings:  # now: all the rest may take hours
        progress.note(f"{finding.code}: {finding.message}")
    reports = []
    for root, stores in datasets_of(path).items():
        progress.note(f"validating {root}")
        refs = fields_of(root, stores) if stores and "refs" in request.levels else ()
        report = validate(
            root, replace(request, refs=()), workers=workers, wait=wait, progress=progress, found_refs=refs
        )
        reports.append((root, report))
    findings += [finding for root, report in reports for finding in _named(root, path, report.findings)]
    findings.sort(key=lambda found: (-SEVERITIES.index(found.severity), found.shard, found.code, found.key))
    parts = [report for _, report in reports]
    return ValidateReport(
        root=path,
        shards=sum(part.shards for part in parts),
        samples=sum(part.samples for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        findings=tuple(findings),
        seconds=time.monotonic() - started,
        levels=request.levels,
        unread=sum(part.unread for part in parts),
        share=request.share,
        seed=request.seed,
        quarantine=_together(reports) if request.quarantine else None,
        not_checked=next((part.not_checked for part in parts if part.not_checked), ""),
    )


def fields_of(root: str, stores: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(field, store) of the fields of JSON that hold names of media, by what the first samples say.

    A field belongs to the store that has most of its names. One whose names are in no store at all belongs to the
    first, which is where they will be missed.
    """
    names: dict[str, list[str]] = {}
    for value in _first_values(locate(root)):
        for field, name in fields_with_names(value):
            names.setdefault(field, []).append(name)
    found = []
    for field, held in names.items():
        hits = Counter({store: sum(_has(store, name) for name in held) for store in stores})
        store = max(stores, key=lambda each: hits[each])
        found.append((field, store))
    return tuple(found)


def _has(store: str, name: str) -> bool:
    try:
        return open_ref_store(store).look(name).how == "there"
    except WdsctlError:
        return False  # what cannot be opened is told of when it is asked for


def _first_values(place: Place) -> Iterator[object]:
    """The JSON of the first samples."""
    if not os.path.exists(place.catalog):
        return
    offsets = Offsets(place.offsets(current_generation(place.catalog)))
    storage = storage_for(place.root)
    try:
        for row in range(min(_SAMPLES, offsets.samples)):
            shard = os.path.join(place.root, offsets.shards[offsets.shard_of(row)].path)
            for part, at, size in offsets.parts(row):
                if wants_refs(part) and storage.exists(shard):
                    try:
                        yield json.loads(storage.read(shard, at, size))
                    except (ValueError, RecursionError):
                        continue
    finally:
        storage.close()


def datasets_of(path: str) -> dict[str, list[str]]:
    """Every dataset that any split of the file names, each with the stores it is used with."""
    found: dict[str, list[str]] = {}
    for _, leaf in leaves_of(path):
        _add(found, leaf)
    return found


def _add(found: dict[str, list[str]], leaf: Leaf) -> None:
    stores = found.setdefault(leaf.path, [])
    stores += [store for store in leaf.aux.values() if store not in stores]
    for store in leaf.aux.values():
        if "://" not in store and os.path.exists(store) and os.path.exists(locate(store).catalog):
            found.setdefault(store, [])


def _named(root: str, path: str, findings: Sequence[Finding]) -> Iterator[Finding]:
    """With the dataset before the shard: several may have shards of one name."""
    folder = os.path.dirname(os.path.abspath(path))
    name = root if "://" in root else os.path.relpath(root, folder)
    for finding in findings:
        is_file = (bool(finding.shard) and name.endswith(f"/{finding.shard}")) or name == finding.shard
        shard = f"{name}/{finding.shard}" if finding.shard and not is_file else name
        yield replace(finding, shard=shard)


def _together(reports: Sequence[tuple[str, ValidateReport]]) -> QuarantineReport:
    kept = [(root, report.quarantine) for root, report in reports if report.quarantine is not None]
    return QuarantineReport(
        samples=sum(each.samples for _, each in kept),
        shards=sum(each.shards for _, each in kept),
        all_samples=sum(each.all_samples for _, each in kept),
        all_shards=sum(each.all_shards for _, each in kept),
        splits={f"{root}: {name}": count for root, each in kept for name, count in each.splits.items()},
    )
