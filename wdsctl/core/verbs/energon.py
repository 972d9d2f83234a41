"""Takes over what Energon's `prepare` left beside shards (`.nv-meta`), where nobody has said it to wdsctl yet.

What is taken goes into our dataset.yaml and is then ours: what is there already wins, and later changes of `.nv-meta`
are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import DatasetConfig, load, read, update_rules
from wdsctl.core.detect import Detection
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import write_text
from wdsctl.core.findings import Finding
from wdsctl.core.formats.energon_meta import LINES_INDEX, EnergonMeta, energon_meta
from wdsctl.core.formats.split_yaml import SplitYaml
from wdsctl.core.place import ENERGON_META, Place
from wdsctl.core.progress import Progress
from wdsctl.core.split_file import absent, check_named
from wdsctl.core.split_patterns import Patterns, shard_and_key
from wdsctl.core.split_rules import NONE, Excludes, SplitRule
from wdsctl.core.verbs.describe import NOT_ASKED, Asked, describe
from wdsctl.core.verbs.index_request import IndexReport
from wdsctl.core.verbs.split_bring import assign_all
from wdsctl.core.verbs.split_excluded import Noted, excluded_by
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_settle import settle_splits
from wdsctl.core.verbs.split_state import State, ground_of, state_of


@dataclass(frozen=True, slots=True)
class TakenOver:
    """`detection`: of the samples, where nothing said what they are. `findings`: what Energon counted otherwise."""

    detection: Detection | None
    findings: tuple[Finding, ...]


def index_taken_over(place: Place, report: IndexReport, workers: int, progress: Progress) -> IndexReport:
    """The report of an index, with what was taken over after it."""
    taken = take_over(place, report, workers, progress)
    if taken is None:
        return report
    return replace(report, findings=(*report.findings, *taken.findings), up_to_date=False)


def take_over(
    place: Place,
    indexed: IndexReport,
    workers: int,
    progress: Progress,
    *,
    asked: Asked = NOT_ASKED,
    divides: bool = True,
) -> TakenOver | None:
    """Take over what is lacking, for a caller that holds the lock; None where there is nothing to take.

    `asked`: what the user says of the samples. `divides`: whether the splits are wanted, too; what is excluded is, in
    any case.
    Raises DatasetError WDS220 or WDS217 where a file of `.nv-meta` is broken, and DatasetError where its splits are not
    of these shards: names that are not there (WDS217), shards in several splits (WDS212). Nothing is written then.
    Cost where nothing is lacking: one look at dataset.yaml and the catalog.
    """
    if indexed.dry_run or not indexed.samples:
        return None
    state = state_of(place)
    has_rule = "" in state.rules or "" in state.new
    is_described = os.path.exists(place.dataset_yaml)
    if has_rule and is_described:
        return None
    with energon_meta(place.root, place.only) as meta:
        config = None if is_described or asked else meta.config()
        split = None if has_rule else meta.split()
        if config is None and split is None:
            return None
        findings = () if is_described else _counted_otherwise(meta, place)
    base, said = config or DatasetConfig(), _said(config)
    if place.only and (has_rule or not divides):
        base = replace(base, split=None)
    if split is not None:
        left_out = {finding.shard for finding in indexed.findings if finding.code == "WDS113"}
        base, words = _divided(place, base, split, state, workers, progress, left_out, divides=divides)
        said += words
    if is_described and split is not None:
        _write_rules(place, base.split, base.exclude)
    detection, _ = describe(place, indexed.generation, asked, progress, base, is_typed=config is not None)
    settled = settle_splits(place, workers, progress, base.split, base.exclude)
    if said:
        source = LINES_INDEX if place.only else f"/{ENERGON_META}"
        progress.note(f"taken over from {place.shown}{source}: {', '.join(said)}")
    return TakenOver(detection, (*findings, *settled.findings))


def _said(config: DatasetConfig | None) -> list[str]:
    if config is None:
        return []
    fields = " and its field map" if config.field_map else ""
    splits = [f"the split {', '.join(config.split.names)}"] if config.split is not None else []
    return [f"{config.sample_type}{fields}", *(["subflavors"] if config.subflavors else []), *splits]


def _divided(
    place: Place,
    base: DatasetConfig,
    split: SplitYaml,
    state: State,
    workers: int,
    progress: Progress,
    left_out: Collection[str],
    *,
    divides: bool,
) -> tuple[DatasetConfig, list[str]]:
    """The config with the splits and the excludes of the file, and what is said of them. `left_out`: compressed shards,
    which `index` has told of.
    """
    with Catalog(place.catalog) as catalog:
        rows, is_whole = catalog.shards(), catalog.selection().is_all and not catalog.exclude()
    ground = ground_of(place, workers, progress, keeps=True)
    said = []
    excludes = Excludes() if state.excludes else split.excludes
    if is_whole:
        _check_there({row.path for row in rows}.union(left_out), split, excludes, divides=divides)
    # Energon lets splits be empty, and shards be in none.
    rule = replace(split.rule, rest=NONE, allow_empty=True) if divides else None
    if rule is not None:
        left = _check_apart(place, ground, rule, split)
        none = f" ({counted(left, 'sample')} in none of them)" if left else ""
        said.append(f"the splits {', '.join(rule.names)}{none}")
    if is_whole:
        _check_samples(ground, excludes, split)
    entries = len(excludes.shards) + len(excludes.samples)
    said += [f"exclude ({counted(entries, 'entry', 'entries')})"] if entries else []
    return replace(base, split=rule, exclude=excludes), said


def _check_there(paths: Collection[str], split: SplitYaml, excludes: Excludes, *, divides: bool) -> None:
    """Refuse names of shards that are not there: a training would go without them, and nobody would know."""
    wanted = [each for patterns in split.rule.patterns.values() for each in patterns] if divides else []
    for patterns, section in ((wanted, "split_parts"), (excludes.shards, "exclude")):
        table = Patterns(patterns)
        check_named(absent(patterns, {path: table.find(path) for path in paths}), split.document.where(section))
    shards = [shard_and_key(name, paths)[0] for name in excludes.samples]
    check_named([path for path in shards if path not in paths and "{" not in path], split.document.where("exclude"))


def _check_apart(place: Place, ground: Ground, rule: SplitRule, split: SplitYaml) -> int:
    """Refuse shards that are in several splits. How many samples are in none."""
    made = assign_all(ground, rule, {})
    if made.problems:
        raise DatasetError(
            made.problems[0].message,
            where=split.document.where("split_parts"),
            hint=f"divide the dataset otherwise, such as by {command_at(place, 'split', '8,1,1')}; or load it with "
            "split_config='split.yaml', which takes splits one by one",
            code=made.problems[0].code,
        )
    return ground.samples - sum(part.samples for parts in made.parts.values() for part in parts.values())


def _check_samples(ground: Ground, excludes: Excludes, split: SplitYaml) -> None:
    problems = excluded_by(ground, Excludes(samples=excludes.samples), Noted()).problems
    if problems:
        raise DatasetError(
            problems[0].message,
            where=split.document.where("exclude"),
            hint="take them out of the file, if nothing else was meant",
            code=problems[0].code,
        )


def _write_rules(place: Place, rule: SplitRule | None, excludes: Excludes) -> None:
    """Into a dataset.yaml that says nothing of splits, and stays as it is otherwise."""
    own = load(place.dataset_yaml)
    text = read(place.dataset_yaml)
    new = update_rules(text, rule or own.split, own.split_sets, excludes or own.exclude, place.dataset_yaml)
    if new != text:
        write_text(place.dataset_yaml, new)


def _counted_otherwise(meta: EnergonMeta, place: Place) -> tuple[Finding, ...]:
    """Shards that Energon counted otherwise, has not seen, or that are not there any more: a finding a kind."""
    try:
        counts = meta.counts()
    except DatasetError as error:
        return (Finding(code=error.code, severity="warning", message=f"{error.message} ({error.where})"),)
    if counts is None:
        return ()
    with Catalog(place.catalog) as catalog:
        there = {row.path: row.samples for row in catalog.shards()}
    found = []
    others = [path for path, count in counts.items() if there.get(path, count) != count]
    if others:
        first = f"Energon counted {counts[others[0]]:,} samples in it, and there are {there[others[0]]:,}"
        found.append(_otherwise(first, others))
    found += _unlike("shards that Energon counted and that are not there, or cannot be read", counts, there)
    return (*found, *_unlike("shards that Energon has not counted", there, counts))


def _unlike(message: str, some: Mapping[str, int], others: Mapping[str, int]) -> list[Finding]:
    only = [path for path in some if path not in others]
    return [_otherwise(message, only)] if only else []


def _otherwise(message: str, paths: Sequence[str]) -> Finding:
    return Finding(code="WDS129", severity="warning", message=message, shard=paths[0], count=len(paths))
