"""Splits that names of shards and folders, or a field of the samples, declare, for datasets without a split rule."""

from __future__ import annotations

from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.dataset.shard_names import shard_format
from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.split_paths import (
    PathSplit,
    configuration_findings,
    find_path_splits,
    path_split_findings,
    split_options_of_names,
    split_patterns,
    unnamed_split_findings,
    unused_split_findings,
)
from wdsctl.core.importers.splits.fields import split_field_findings, split_rule_from_values
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.split_rules.names import NO_SPLIT
from wdsctl.core.split_rules.rule import SplitRule


def default_split_rule(dataset: OpenDataset, *, uses_field: bool) -> SplitRule | None:
    """The splits that names, or else (`uses_field`) a field of the samples, tell; None if they tell none."""
    by_names = _split_rule_from_names(dataset)
    if not uses_field or (by_names is not None and len(by_names.names) > 1):
        return by_names
    return split_rule_from_values(dataset) or by_names


def _split_rule_from_names(dataset: OpenDataset) -> SplitRule | None:
    """The splits of shards whose folders, or files, are named after splits; None for other datasets."""
    paths, found = _find_shard_splits(dataset)
    patterns = split_patterns(found, paths)
    rest = "" if all(each.split for each in found) else NO_SPLIT
    return SplitRule({}, patterns=patterns, rest=rest) if patterns else None


def split_findings_in_place(dataset: OpenDataset, *, has_new_rule: bool, is_all_train: bool) -> list[Finding]:
    """The findings about splits that names of shards tell, for a dataset that was prepared in place.

    WDS213 for shards in no split and WDS260 for joined configurations, if the splits follow the names
    (`has_new_rule`); WDS258 if names say `val` or `test`, but all samples are for training.
    """
    if is_all_train:
        paths = _shard_paths(dataset)
        command = shell_command_at(dataset.location, "split", *split_options_of_names(paths))
        return unused_split_findings(paths, f"to make them splits, run {command}")
    if not has_new_rule:
        return []
    paths, found = _find_shard_splits(dataset)
    patterns = [f"{split}={each}" for split, own in split_patterns(found, paths).items() for each in own]
    options = [word for pattern in patterns for word in ("--pattern", pattern)]
    train = next((each.split for each in found if each.split.lower().startswith("train")), "train")
    command = shell_command_at(dataset.location, "split", *options, "--rest", train)
    return [
        *unnamed_split_findings(found, paths, f"run {command}"),
        *configuration_findings(found, dataset.location.display_path, "prepare"),
    ]


def split_findings_of_source(dataset: OpenDataset) -> list[Finding]:
    """The findings about splits that names of shards, or a field of the samples, tell, for a source without splits."""
    paths, found = _find_shard_splits(dataset)
    findings = path_split_findings(found, paths, dataset.location.display_path)
    if default_split_rule(dataset, uses_field=True) is not None:
        return [each for each in findings if each.code != "WDS258"]
    return [*findings, *split_field_findings(dataset, "DEST")]


def _find_shard_splits(dataset: OpenDataset) -> tuple[list[str], list[PathSplit]]:
    """The paths of the shards, and their splits.

    One split must be for training: without one, all shards are. Importers give MDS and LitData the splits of any
    folders.
    """
    paths = _shard_paths(dataset)
    needs_train = not any(shard_format(path) in ("mds", "litdata") for path in paths[:1])
    return paths, find_path_splits(paths, needs_train=needs_train)


def _shard_paths(dataset: OpenDataset) -> list[str]:
    return [row.path for row in dataset.catalog.shards()]
