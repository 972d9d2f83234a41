"""Import the metadata that Energon's `prepare` wrote beside the shards (`.nv-meta`), unless dataset.yaml has it.

The import writes the settings into dataset.yaml. From then on dataset.yaml decides: later changes of `.nv-meta` have no
effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from wdsctl.core.dataset.config import DatasetConfig, read_config_text, update_all_split_sections
from wdsctl.core.dataset.location import ENERGON_META_FOLDER, shell_command_at
from wdsctl.core.dataset.shard_patterns import ShardPatterns, split_shard_and_key
from wdsctl.core.energon.meta import JSONL_INDEX_SUFFIX, EnergonMeta, energon_meta
from wdsctl.core.energon.split_file import check_none_missing, find_absent
from wdsctl.core.energon.split_yaml import SplitYaml
from wdsctl.core.errors import DatasetError, Finding
from wdsctl.core.files import write_text
from wdsctl.core.index.report import IndexReport
from wdsctl.core.index.write_dataset_yaml import NO_SAMPLE_TYPE_REQUEST, SampleTypeRequest, write_dataset_yaml
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.samples.detect import Detection
from wdsctl.core.split.assign import assign_all
from wdsctl.core.split.context import SplitContext, SplitState, open_split_context, read_split_state
from wdsctl.core.split.excludes import LedgerExclusions, find_excluded
from wdsctl.core.split.reapply import reapply_splits
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.names import NO_SPLIT
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.text import pluralize


@dataclass(frozen=True, slots=True)
class EnergonImport:
    """`detection`: the detected sample type; None if Energon's metadata or an existing dataset.yaml names one."""

    detection: Detection | None
    findings: tuple[Finding, ...]


def import_after_index(dataset: OpenDataset, report: IndexReport, workers: int, progress: Progress) -> IndexReport:
    """Import Energon's metadata after indexing. Returns the report with the findings of the import added."""
    taken = import_energon_meta(dataset, report, workers, progress)
    if taken is None:
        return report
    return replace(report, findings=(*report.findings, *taken.findings), up_to_date=False)


def import_energon_meta(
    dataset: OpenDataset,
    indexed: IndexReport,
    workers: int,
    progress: Progress,
    *,
    request: SampleTypeRequest = NO_SAMPLE_TYPE_REQUEST,
    with_splits: bool = True,
) -> EnergonImport | None:
    """Import the settings that dataset.yaml and the catalog lack; None if there is nothing to import.

    The caller holds the lock. `request`: the sample type that the user named. `with_splits`: import the splits;
    excludes are imported in any case. Raises DatasetError WDS220 or WDS217 if a file of `.nv-meta` is broken, WDS217 if
    it names shards or samples that do not exist, WDS212 if a shard is in several splits. Nothing is written then.
    Cost if nothing is lacking: one read of dataset.yaml and of the catalog's splits.
    """
    if indexed.dry_run or not indexed.samples:
        return None
    location, state = dataset.location, read_split_state(dataset)
    has_rule = "" in state.rules or "" in state.new_rules
    is_described = dataset.has_config()
    if has_rule and is_described:
        return None
    with energon_meta(location.root, location.single_file) as meta:
        config = None if is_described or request else meta.config()
        split = None if has_rule else meta.split("" if config is None else config.split_config)
        if config is None and split is None:
            return None
        findings = () if is_described else _count_findings(meta, dataset)
    base, descriptions = config or DatasetConfig(), _describe_config(config)
    if split is not None:  # the catalog has the splits from now on
        base = replace(base, split_config="")
    if location.single_file and (has_rule or not with_splits):
        base = replace(base, split=None)
    if split is not None:
        left_out = {finding.shard for finding in indexed.findings if finding.code == "WDS113"}
        base, split_descriptions = _with_splits(
            dataset, base, split, state, workers, progress, left_out, with_splits=with_splits
        )
        descriptions += split_descriptions
    if is_described and split is not None:
        _write_rules(dataset, base.split, base.exclude)
    detection, _ = write_dataset_yaml(
        dataset, indexed.generation, request, progress, base, base_has_type=config is not None
    )
    settled = reapply_splits(dataset, workers, progress, base.split, base.exclude)
    if descriptions:
        source = JSONL_INDEX_SUFFIX if location.single_file else f"/{ENERGON_META_FOLDER}"
        progress.note(f"imported from {location.display_path}{source}: {', '.join(descriptions)}")
    return EnergonImport(detection, (*findings, *settled.findings))


def _describe_config(config: DatasetConfig | None) -> list[str]:
    if config is None:
        return []
    fields = " and its field map" if config.field_map else ""
    splits = [f"the split {', '.join(config.split.names)}"] if config.split is not None else []
    return [f"{config.sample_type}{fields}", *(["subflavors"] if config.subflavors else []), *splits]


def _with_splits(
    dataset: OpenDataset,
    base: DatasetConfig,
    split: SplitYaml,
    state: SplitState,
    workers: int,
    progress: Progress,
    compressed_paths: Collection[str],
    *,
    with_splits: bool,
) -> tuple[DatasetConfig, list[str]]:
    """Add the splits and excludes of `split` to the config. Returns (config, descriptions for the user).

    `compressed_paths`: compressed shards, which Energon may name, and which `index` has reported.
    """
    catalog = dataset.catalog
    rows, is_all = catalog.shards(), catalog.selection().is_all and not catalog.exclude_patterns()
    context = open_split_context(dataset, workers, progress, keeps_results=True)
    descriptions = []
    excludes = Excludes() if state.excludes else split.excludes
    if is_all:
        _check_shards_exist(
            {row.path for row in rows}.union(compressed_paths), split, excludes, with_splits=with_splits
        )
    # Energon allows empty splits, and shards without a split.
    rule = replace(split.rule, rest=NO_SPLIT, allow_empty=True) if with_splits else None
    if rule is not None:
        left = _check_disjoint(context, rule, split)
        none = f" ({pluralize(left, 'sample')} in none of them)" if left else ""
        descriptions.append(f"the splits {', '.join(rule.names)}{none}")
    if is_all:
        _check_samples_exist(context, excludes, split)
    entries = len(excludes.shards) + len(excludes.samples)
    descriptions += [f"exclude ({pluralize(entries, 'entry', 'entries')})"] if entries else []
    return replace(base, split=rule, exclude=excludes), descriptions


def _check_shards_exist(paths: Collection[str], split: SplitYaml, excludes: Excludes, *, with_splits: bool) -> None:
    """Raise DatasetError WDS217 for names of missing shards: otherwise training would silently run without them."""

    def find_missing(patterns: Sequence[str]) -> list[str]:
        table = ShardPatterns(patterns)
        return find_absent(patterns, {path: table.find(path) for path in paths})

    missing = {name: find_missing(each) for name, each in split.rule.patterns.items()} if with_splits else {}
    first = next((name for name, names in missing.items() if names), "")
    check_none_missing(
        [name for names in missing.values() for name in names], split.document.where("split_parts", first)
    )
    check_none_missing(find_missing(excludes.shards), split.document.where("exclude"))
    shards = [split_shard_and_key(name, paths)[0] for name in excludes.samples]
    check_none_missing(
        [path for path in shards if path not in paths and "{" not in path], split.document.where("exclude")
    )


def _check_disjoint(context: SplitContext, rule: SplitRule, split: SplitYaml) -> int:
    """Raise DatasetError if a shard is in several splits. Returns the number of samples without a split."""
    assignment = assign_all(context, rule, {})
    if assignment.problems:
        raise DatasetError(
            assignment.problems[0].message,
            where=split.document.where("split_parts"),
            hint="split the dataset differently, for example with "
            f"{shell_command_at(context.location, 'split', '8,1,1')}; or load single splits with "
            "split_config='split.yaml'",
            code=assignment.problems[0].code,
        )
    return context.samples - sum(part.samples for parts in assignment.split_shards.values() for part in parts.values())


def _check_samples_exist(context: SplitContext, excludes: Excludes, split: SplitYaml) -> None:
    problems = find_excluded(context, Excludes(samples=excludes.samples), LedgerExclusions()).problems
    if problems:
        raise DatasetError(
            problems[0].message,
            where=split.document.where("exclude"),
            hint="remove these entries from the file, or correct them",
            code=problems[0].code,
        )


def _write_rules(dataset: OpenDataset, rule: SplitRule | None, excludes: Excludes) -> None:
    """Add split rule and excludes to a dataset.yaml that has no split rule; leave the rest of the file unchanged."""
    own, path = dataset.config, dataset.location.config_path
    text = read_config_text(path)
    new = update_all_split_sections(text, rule or own.split, own.split_sets, excludes or own.exclude, path)
    if new != text:
        write_text(path, new)


def _count_findings(meta: EnergonMeta, dataset: OpenDataset) -> tuple[Finding, ...]:
    """Compare Energon's sample counts with the catalog.

    Returns one finding each for shards with other counts, shards that the catalog lacks, and shards that Energon lacks.
    """
    try:
        counts = meta.counts()
    except DatasetError as error:
        return (Finding(code=error.code, severity="warning", message=f"{error.message} ({error.where})"),)
    if counts is None:
        return ()
    there = {row.path: row.samples for row in dataset.catalog.shards()}
    found = []
    others = [path for path, count in counts.items() if there.get(path, count) != count]
    if others:
        first = f"Energon counted {counts[others[0]]:,} samples in the shard, but it has {there[others[0]]:,}"
        found.append(_count_finding(first, others))
    found += _missing_path_findings("missing or unreadable shards that Energon counted", counts, there)
    return (*found, *_missing_path_findings("shards that Energon has not counted", there, counts))


def _missing_path_findings(message: str, paths: Mapping[str, int], other_paths: Mapping[str, int]) -> list[Finding]:
    only = [path for path in paths if path not in other_paths]
    return [_count_finding(message, only)] if only else []


def _count_finding(message: str, paths: Sequence[str]) -> Finding:
    return Finding(code="WDS129", severity="warning", message=message, shard=paths[0], count=len(paths))
