"""`validate` and `validate --release` of a blend file.

Validates the entries of the file, every dataset that they name, and the references of each dataset into its stores.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from wdsctl.core.blend import Leaf, list_split_names, read_blend
from wdsctl.core.catalog.presence import wait_for_catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.polylithic import find_polylithic_folder, follow_to_primary, read_polylithic_folder
from wdsctl.core.dataset.view_root import split_root
from wdsctl.core.errors import Finding, OptionConflict, WdsctlError
from wdsctl.core.inspect.blend import inspect_blend
from wdsctl.core.opened.opening import open_dataset, parse_root
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.urls import redact_secrets
from wdsctl.core.validate.dataset import sort_findings, validate_dataset
from wdsctl.core.validate.load import find_blend_conflicts
from wdsctl.core.validate.quarantine import QUARANTINE_SCOPE, list_quarantined_shards, release_from_quarantine
from wdsctl.core.validate.ref_stores import clear_store_cache
from wdsctl.core.validate.request import (
    QuarantineReport,
    ReleaseReport,
    ValidateReport,
    ValidateRequest,
    describe_undecoded,
    match_pattern,
    match_shards,
)
from wdsctl.plugins import LoadCheckName


def check_entries(path: str) -> tuple[Finding, ...]:
    """Report each entry of the blend file at `path` that a training run would reject, by line and split.

    These are the problems that `inspect` lists: missing datasets, catalogs and splits, split files and subsets that do
    not match their dataset, and weights in tokens without the column `tokens`. Raises what `inspect_blend` raises.
    """
    findings = []
    for problem in inspect_blend(path).problems:
        file, _, line = problem.where.rpartition(":")
        message = f"line {line}, {problem.split}: {problem.message}"
        findings.append(Finding(code=problem.code, severity="error", message=message, shard=file))
    return tuple(dict.fromkeys(findings))


def iterate_leaves(path: str) -> Iterator[tuple[str, Leaf]]:
    """Yield (split, dataset) for the datasets of every split of the file, including members of joins.

    A file without `splits:` is the same for all splits, and is read as `train`. Raises what reading a blend file
    raises.
    """
    for split in list_split_names(path) or ["train"]:
        for leaf in read_blend(path, split_part=split).leaves:
            for each in (leaf, *(leaf.join.members if leaf.join else ())):
                yield split, each


def validate_blend(
    path: str,
    request: ValidateRequest,
    *,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
    load_check: LoadCheckName | None = None,
) -> ValidateReport:
    """Validate the entries of a blend file, and every dataset once, and combine the reports.

    Shard paths begin with the dataset. The level `refs` looks names up in the stores of `aux`: a field refers to the
    store that has most of its names. `wait`: seconds to wait for another writer of each dataset before a quarantine.
    Raises the errors of `validate_dataset`, and those of reading a blend file.
    """
    if request.refs:
        raise OptionConflict(
            "--refs applies to one dataset",
            options=("--refs",),
            hint="omit --refs: the blend file names the stores under `aux`",
        )
    datasets = datasets_with_stores(path)
    for root in datasets:
        wait_for_catalog(open_dataset(root, takes_view=True).location, wait, progress.note)
    findings = check_entries(path)
    for finding in findings:  # before the datasets, which can take hours
        progress.note(f"{finding.code}: {finding.message}")
    reports = _validate_each(
        datasets,
        request,
        only_joined=_list_only_joined(path),
        workers=workers,
        wait=wait,
        progress=progress,
        load_check=load_check,
    )
    if not findings and all("load" in reports[root].levels for root, stores in datasets.items() if stores is not None):
        splits = list_split_names(path) or ["train"]
        findings = tuple(each for split in splits for each in find_blend_conflicts(path, split))
    return _combine_reports(path, datasets, reports, findings, request)


def validate_polylithic(
    path: str,
    request: ValidateRequest,
    *,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
    load_check: LoadCheckName | None = None,
) -> ValidateReport:
    """Validate the primary and the media of a polylithic dataset, and combine the reports as `validate_blend`.

    If `path` is `ROOT@VIEW`, validates the view of the primary only. The level `refs` looks up the names of media.
    Raises like `validate_dataset`, and UsageError for `refs`.
    """
    if request.refs:
        raise OptionConflict(
            "--refs applies to one dataset",
            options=("--refs",),
            hint="omit --refs: a polylithic dataset has its own media",
        )
    root, view = split_root(path)
    folder = read_polylithic_folder(root)
    primary = follow_to_primary(path)
    datasets: dict[str, list[str] | None] = {primary: [folder.media]}
    if not view:
        datasets[folder.media] = None
    reports = _validate_each(datasets, request, workers=workers, wait=wait, progress=progress, load_check=load_check)
    # `_prefix_shards` names datasets relative to the folder of the file.
    combined = _combine_reports(folder.config, datasets, reports, [], request)
    return replace(combined, root=redact_secrets(root), samples=reports[primary].samples, view=view)


def _list_only_joined(path: str) -> set[str]:
    """The datasets that are only read as members of joins, which batch other samples."""
    joined, alone = set[str](), set[str]()
    for split in list_split_names(path) or ["train"]:
        for leaf in read_blend(path, split_part=split).leaves:
            members = (leaf, *leaf.join.members) if leaf.join else ()
            joined.update(follow_to_primary(each.path) for each in members)
            alone.update(() if members else [follow_to_primary(leaf.path)])
    return joined - alone


def _validate_each(
    datasets: Mapping[str, Sequence[str] | None],
    request: ValidateRequest,
    *,
    only_joined: Container[str] = (),
    workers: int,
    wait: float,
    progress: Progress,
    load_check: LoadCheckName | None,
) -> dict[str, ValidateReport]:
    """Validate datasets, each with its stores. Samples of `only_joined` are not batched as they are.

    A dataset with None instead of stores is itself a store: the level `refs` applies only if dataset.yaml has rules,
    and `load` never, as the loader reads its entries one by one.
    """
    clear_store_cache()  # stores may have changed since an earlier call
    reports: dict[str, ValidateReport] = {}
    for root, stores in datasets.items():
        progress.note(f"validating {root}")
        levels = request.levels
        if stores is None:
            omitted = ("load",) if _has_ref_rules(root) else ("load", "refs")
            levels = tuple(each for each in request.levels if each not in omitted)
        reports[root] = validate_dataset(
            root,
            replace(request, levels=levels),
            workers=workers,
            wait=wait,
            progress=progress,
            stores=stores,
            load_check=load_check,
            judges_batches=root not in only_joined,
        )
    return reports


def _combine_reports(
    path: str,
    datasets: Mapping[str, Sequence[str] | None],
    reports: Mapping[str, ValidateReport],
    findings: Sequence[Finding],
    request: ValidateRequest,
) -> ValidateReport:
    """Combine the reports of datasets that the file `path` describes, and findings about the file."""
    findings = [
        *findings,
        *(finding for root, report in reports.items() for finding in _prefix_shards(root, path, report.findings)),
    ]
    # Media have no sample type of their own, and refer to nothing.
    skipped = {
        f"{_relative_name(root, path)}: {each}": None
        for root, report in reports.items()
        if datasets[root] is not None
        for each in report.skipped
    }
    levels = tuple(level for level in request.levels if any(level in report.levels for report in reports.values()))
    quarantines = {root: report.quarantine for root, report in reports.items() if report.quarantine is not None}
    quarantine = QuarantineReport(
        samples=sum(each.samples for each in quarantines.values()),
        shards=sum(each.shards for each in quarantines.values()),
        all_samples=sum(each.all_samples for each in quarantines.values()),
        all_shards=sum(each.all_shards for each in quarantines.values()),
        splits={f"{root}: {name}": count for root, each in quarantines.items() for name, count in each.splits.items()},
    )
    return ValidateReport(
        root=path,
        shards=sum(report.shards for report in reports.values()),
        samples=sum(report.samples for report in reports.values()),
        size_bytes=sum(report.size_bytes for report in reports.values()),
        findings=tuple(sort_findings(findings)),
        seconds=sum(report.seconds for report in reports.values()),
        levels=levels,
        skipped=tuple(skipped),
        unread=sum(report.unread for report in reports.values()),
        share=request.share,
        seed=request.seed,
        quarantine=quarantine if request.quarantine else None,
        not_checked=describe_undecoded(levels) if any(report.not_checked for report in reports.values()) else "",
    )


def _has_ref_rules(root: str) -> bool:
    # `validate_dataset` reports an invalid dataset.yaml.
    with suppress(WdsctlError), open_dataset(root, takes_view=True) as dataset:
        return bool(dataset.config.refs)
    return False


def datasets_with_stores(path: str) -> dict[str, list[str] | None]:
    """Return every dataset that a split of the file names, and every local dataset that is a store.

    Each comes with its stores, or None if it is only a store. A polylithic dataset is its primary, and its media as a
    store.
    """
    datasets: dict[str, list[str]] = {}
    all_stores: list[str] = []
    for _, leaf in iterate_leaves(path):
        folder = find_polylithic_folder(leaf.path)
        own_stores = [*([folder.media] if folder else []), *leaf.aux.values()]
        stores = datasets.setdefault(follow_to_primary(leaf.path), [])
        stores += [store for store in own_stores if store not in stores]
        all_stores += own_stores
    local_stores = [store for store in all_stores if "://" not in store and os.path.exists(store)]
    other_stores = [
        store for store in local_stores if store not in datasets and os.path.exists(locate(store).catalog_path)
    ]
    return {**datasets, **dict.fromkeys(other_stores)}


def _relative_name(root: str, path: str) -> str:
    """Name a dataset relative to the folder of the file `path`."""
    return root if "://" in root else os.path.relpath(split_root(root).root, os.path.dirname(os.path.abspath(path)))


def _prefix_shards(root: str, path: str, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Prefix shards with their dataset, since shards of several datasets may have the same path."""
    name = _relative_name(root, path)
    for finding in findings:
        is_file = (bool(finding.shard) and name.endswith(f"/{finding.shard}")) or name == finding.shard
        shard = f"{name}/{finding.shard}" if finding.shard and not is_file else name
        yield replace(finding, shard=shard)


def release_blend(
    path: str,
    *,
    shards: Sequence[str] = (),
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> ReleaseReport:
    """Release samples of these shards (by default all) in every dataset of the file with a quarantine.

    Does not write other datasets. The report names splits `DATASET: SPLIT`. `wait`: seconds to wait for another
    writer of each dataset. Raises the errors of `release_from_quarantine`, and those of reading a blend file.
    """
    return _release_datasets(
        path, list(datasets_with_stores(path)), shards=shards, workers=workers, wait=wait, progress=progress
    )


def release_polylithic(
    path: str,
    *,
    shards: Sequence[str] = (),
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> ReleaseReport:
    """Release samples of these shards in the primary and the media of a polylithic dataset, as `release_blend`."""
    folder = read_polylithic_folder(path)
    roots = [folder.primary, folder.media]
    return _release_datasets(redact_secrets(path), roots, shards=shards, workers=workers, wait=wait, progress=progress)


def _release_datasets(
    path: str, roots: Sequence[str], *, shards: Sequence[str], workers: int, wait: float, progress: Progress
) -> ReleaseReport:
    quarantined: dict[str, list[str]] = {}
    for root in dict.fromkeys(parse_root(root).root for root in roots):
        with open_dataset(root) as dataset, dataset.checked_ledger() as ledger:
            quarantined[root] = list_quarantined_shards(ledger)
    match_shards([path for paths in quarantined.values() for path in paths], shards, QUARANTINE_SCOPE)
    reports = []
    for root, paths in quarantined.items():
        patterns = [pattern for pattern in shards if match_pattern(paths, pattern)]
        if not paths or (shards and not patterns):
            continue
        progress.note(f"releasing {root}")
        reports.append(release_from_quarantine(root, shards=patterns, workers=workers, wait=wait, progress=progress))
    return ReleaseReport(
        root=path,
        released=sum(report.released for report in reports),
        splits={f"{report.root}: {name}": count for report in reports for name, count in report.splits.items()},
    )
