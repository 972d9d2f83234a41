"""Finds the samples that are in no split: by shard pattern, key, code of a finding, or quarantine.

A finding holds until its shard changes, or until a validation of the same level checks all samples of the shard again
(wdsctl/core/catalog/ledger_checks.py). Missing parts and repeated keys follow from the catalog alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np

from wdsctl.core.catalog.consistency import expected_parts, find_incomplete_samples, find_repeated_keys, required_parts
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import (
    LocatedFinding,
    QuarantineEntry,
    located_findings_from_json,
    read_checks,
    read_quarantine,
)
from wdsctl.core.catalog.splits import SampleFlags, SplitShard, sample_flags, shard_from_flags
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.shard_names import expand_braces
from wdsctl.core.dataset.shard_patterns import ShardPatterns, split_shard_and_key
from wdsctl.core.errors import InputError
from wdsctl.core.offsets.key_list import KeyList, key_list, read_key_list
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.split.assignment import NO_MATCH, SplitProblem, join_names, verb_for
from wdsctl.core.split.context import SplitContext
from wdsctl.core.split_rules.excludes import Excludes, excludes_to_plain
from wdsctl.core.split_rules.rule import SplitRule, dump_split_rules
from wdsctl.core.text import pluralize

#: Findings that follow from the catalog: keys in several shards, samples without a required part.
REPEATED_KEY_CODE, MISSING_PART_CODE = "WDS106", "WDS108"
CATALOG_CODES = frozenset((REPEATED_KEY_CODE, MISSING_PART_CODE))


@dataclass(frozen=True, slots=True)
class KnownFindings:
    """Findings with some codes, by path and layout of their shard.

    `validated_by_level`: the shards that were validated completely, for each level that has such a finding.
    """

    by_shard: dict[tuple[str, str], tuple[LocatedFinding, ...]] = field(default_factory=dict)
    validated_by_level: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)

    def count_unvalidated(self, rows: Collection[ShardRow]) -> int:
        """How many of these shards lack a complete validation on one of the levels."""
        if not self.validated_by_level:
            return 0
        validated = frozenset.intersection(*self.validated_by_level.values())
        return sum((row.path, row.layout_hash) not in validated for row in rows)


@dataclass(frozen=True, slots=True)
class LedgerExclusions:
    """The ledger's quarantine, and its findings with the excluded codes.

    `findings` is None if no code is excluded, or the dataset was never validated.
    """

    quarantine: tuple[QuarantineEntry, ...] = ()
    findings: KnownFindings | None = None


def read_ledger_exclusions(dataset: OpenDataset, codes: Sequence[str]) -> LedgerExclusions:
    """Reads findings only if there are codes to exclude."""
    with dataset.checked_ledger() as ledger:
        return LedgerExclusions(tuple(read_quarantine(ledger)), read_known_findings(ledger, codes) if codes else None)


def read_known_findings(ledger: Ledger, codes: Collection[str]) -> KnownFindings | None:
    """The findings with these codes; None if the dataset was never validated."""
    rows = [row for row in read_checks(ledger).values() if row.shard]
    if not rows:
        return None
    by_shard: dict[tuple[str, str], tuple[LocatedFinding, ...]] = {}
    levels: set[str] = set()
    for row in rows:
        if not any(code in row.findings for code in codes):
            continue  # parses JSON only where a code occurs
        stored = located_findings_from_json(row.findings, with_faults=False)
        findings = tuple(each for each in stored if each.finding.code in codes)
        if findings:
            levels.add(row.level)
            shard = (row.shard, row.layout_hash)
            by_shard[shard] = (*by_shard.get(shard, ()), *findings)
    validated = {
        level: frozenset((row.shard, row.layout_hash) for row in rows if (row.level, row.reach) == (level, "all"))
        for level in sorted(levels)
    }
    return KnownFindings(dict(sorted(by_shard.items())), validated)


def split_inputs_digest(
    location: DatasetLocation,
    generation: int,
    rules: Mapping[str, SplitRule],
    excludes: Excludes,
    ledger_exclusions: LedgerExclusions,
) -> str:
    """Identifies everything that splits and excludes follow from: while it stays the same, they are up to date."""
    files = [os.path.join(location.meta, file) for rule in rules.values() for file in rule.keys.values()]
    files += [os.path.join(location.meta, file) for file in excludes.key_files]
    findings = ledger_exclusions.findings
    inputs: list[Any] = [
        generation,
        dump_split_rules(dict(sorted(rules.items()))),
        excludes_to_plain(excludes),
        [_size_and_time(file) for file in files],
        [asdict(row) | {"run_id": 0} for row in ledger_exclusions.quarantine],
        None if findings is None else list(findings.by_shard.items()),
    ]
    if MISSING_PART_CODE in excludes.codes:  # dataset.yaml says which parts are required
        inputs.append(_size_and_time(location.config_path))
    return blake2b(json.dumps(inputs, default=asdict).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _size_and_time(path: str) -> list[int]:
    try:
        stat = os.stat(path)
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns]


@dataclass(slots=True)
class ExcludedSamples:
    """The samples that are in no split. `problems`: excludes that match nothing. `notes`: messages for the user."""

    by_shard: dict[int, SplitShard]
    problems: list[SplitProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def samples(self) -> int:
        return sum(part.samples for part in self.by_shard.values())


def find_excluded(
    context: SplitContext,
    excludes: Excludes,
    ledger_exclusions: LedgerExclusions,
    current: Mapping[int, SplitShard] = MappingProxyType({}),
) -> ExcludedSamples:
    """Find the excluded samples. Raises DatasetError and InputError if a key file cannot be read.

    `current`: the samples that are excluded now. They stay excluded if the findings that excluded them were lost with
    the ledger.
    """
    builder = _ExcludeBuilder(context)
    builder.add_patterns(excludes.shards)
    builder.add_sample_names(excludes.samples)
    if excludes.keys:
        builder.add_key_list(key_list(excludes.keys), "")
    for file in excludes.key_files:
        builder.add_key_list(read_key_list(context.location.meta, file), f" of {file}")
    builder.add_codes(excludes.codes, ledger_exclusions.findings, current)
    builder.add_quarantine(ledger_exclusions.quarantine)
    return builder.build()


def find_excluded_by_user(context: SplitContext, excludes: Excludes) -> ExcludedSamples:
    """Like `find_excluded`, for excludes of this command: raises InputError if the dataset was never validated."""
    ledger_exclusions = read_ledger_exclusions(context.dataset, excludes.codes)
    if set(excludes.codes) - CATALOG_CODES and ledger_exclusions.findings is None:
        raise InputError(
            "the dataset has not been validated, so it has no findings to exclude",
            where=context.location.display_path,
            hint=shell_command_at(context.location, "validate"),
        )
    return find_excluded(context, excludes, ledger_exclusions)


class _ExcludeBuilder:
    """Collects flags of excluded samples by shard."""

    def __init__(self, context: SplitContext) -> None:
        self._context = context
        self._flags: dict[int, SampleFlags] = {}
        self._unmatched: list[str] = []
        self._problems: list[SplitProblem] = []
        self._notes: list[str] = []

    def flags_of_shard(self, row: ShardRow) -> SampleFlags:
        if row.id not in self._flags:
            self._flags[row.id] = np.zeros(row.samples, np.bool_)
        return self._flags[row.id]

    def add_patterns(self, patterns: Sequence[str]) -> None:
        """Exclude the shards that match a pattern."""
        table, used = ShardPatterns(patterns), set()
        for row in self._context.rows:
            matches = table.find(row.path)
            if matches:
                self.flags_of_shard(row)[:] = True
                used.update(matches)
        self._unmatched += [pattern for i, pattern in enumerate(patterns) if i not in used]

    def add_sample_names(self, names: Iterable[str]) -> None:
        """Exclude samples by SHARD/KEY, in which braces expand."""
        keys_by_shard: dict[str, set[str]] = {}
        for name in (each for text in names for each in expand_braces(text)):
            shard, key = split_shard_and_key(name, self._context.by_path)
            keys_by_shard.setdefault(shard, set()).add(key)
        for path, keys in keys_by_shard.items():
            row = self._context.by_path.get(path)
            found = self.add_keys_of_shard(row, keys) if row is not None else set()
            self._unmatched += [f"{path}/{key}" for key in sorted(keys - found)]

    def add_keys_of_shard(self, row: ShardRow, keys: set[str]) -> set[str]:
        """Exclude the samples of a shard with these keys. Returns the keys that the shard has."""
        first, offsets = self._context.first_row(row), self._context.offsets
        found = set()
        for position in range(row.samples):
            key = offsets.key(first + position)
            if key in keys:
                self.flags_of_shard(row)[position] = True
                found.add(key)
        return found

    def add_key_list(self, keys: KeyList, source: str) -> None:
        """Exclude all samples whose key is in a list."""
        seen = np.zeros(len(keys.key_start), np.bool_)
        for rows, offsets_rows in self._context.row_batches(self._context.rows):
            found = keys.find(self._context.offsets, offsets_rows)
            seen[found[found >= 0]] = True
            for row, flags in _by_shard(rows, found >= 0):
                self.flags_of_shard(row)[flags] = True
        count, first = keys.find_missing(seen)
        if count:
            message = (
                f"{pluralize(count, 'key')}{source} to exclude {verb_for(count)} not in the dataset: "
                f"{join_names(first, count)}"
            )
            self._problems.append(
                SplitProblem(
                    NO_MATCH, message, "correct the keys, or pass `--allow-empty` to ignore missing keys", count
                )
            )

    def add_codes(
        self, codes: Sequence[str], findings: KnownFindings | None, current: Mapping[int, SplitShard]
    ) -> None:
        """Exclude the samples that findings with these codes name, or the whole shard if they name none."""
        used: set[str] = set()
        excluded_shards: set[int] = set()
        for row in self._context.rows if findings else ():
            for located in findings.by_shard.get((row.path, row.layout_hash), ()) if findings else ():
                used.add(located.finding.code)
                if self.add_finding(row, located):
                    excluded_shards.add(row.id)
        for code in sorted(CATALOG_CODES.intersection(codes)):
            flag = flag_repeated_keys if code == REPEATED_KEY_CODE else flag_missing_parts
            for row, flags in flag(self._context):
                used.add(code)
                self.flags_of_shard(row)[flags] = True
        if excluded_shards:
            shards = pluralize(len(excluded_shards), "shard")
            self._notes.append(f"{shards} excluded completely, because their findings do not name individual samples")
        self.note_unvalidated(set(codes) - CATALOG_CODES, findings, current)
        unused = [code for code in codes if code not in used]
        if unused:
            message = f"no sample or shard has a finding with code {join_names(unused, len(unused))}"
            command = shell_command_at(self._context.location, "validate", "--level", "all")
            hint = f"run {command} to check for all codes, or pass `--allow-empty` to ignore codes without findings"
            self._problems.append(SplitProblem(NO_MATCH, message, hint, len(unused)))

    def add_finding(self, row: ShardRow, located: LocatedFinding) -> bool:
        """Exclude the samples of a finding. Returns whether these are the whole shard."""
        flags, finding = self.flags_of_shard(row), located.finding
        positions = [position for position in located.positions if position < row.samples]
        if positions and not located.covers_shard:
            flags[positions] = True
        elif not (finding.key and finding.count == 1 and self.add_keys_of_shard(row, {finding.key})):
            flags[:] = True
            return True
        return False

    def note_unvalidated(
        self, codes: Collection[str], findings: KnownFindings | None, current: Mapping[int, SplitShard]
    ) -> None:
        """Note shards that `validate` has not checked. Without a ledger, excluded samples stay excluded."""
        names = " and ".join(sorted(codes))
        if codes and findings is None:
            for row in self._context.rows:
                if row.id in current:
                    self.flags_of_shard(row)[sample_flags(current[row.id], row.samples)] = True
            command = shell_command_at(self._context.location, "validate", "--level", "all")
            effect = "excluded samples stay excluded" if current else "no sample is excluded"
            self._notes.append(f"no `validate` run has checked the dataset for {names}, so {effect}: run {command}")
        elif findings and (count := findings.count_unvalidated(self._context.rows)):
            levels = ",".join(findings.validated_by_level)
            command = shell_command_at(self._context.location, "validate", "--level", levels)
            shards = f"{pluralize(count, 'new or changed shard')} {verb_for(count)} not validated for {names}"
            self._notes.append(f"{shards}: run {command}")

    def add_quarantine(self, rows: Iterable[QuarantineEntry]) -> None:
        """Exclude the samples in quarantine whose shard has not changed."""
        keys_by_shard: dict[str, set[str]] = {}
        for entry in rows:
            row = self._context.by_path.get(entry.shard)
            if row is None or row.layout_hash != entry.layout_hash:
                continue
            if entry.position is not None:
                if entry.position < row.samples:
                    self.flags_of_shard(row)[entry.position] = True
            elif entry.key:
                keys_by_shard.setdefault(entry.shard, set()).add(entry.key)
            else:
                self.flags_of_shard(row)[:] = True
        for path, keys in keys_by_shard.items():
            self.add_keys_of_shard(self._context.by_path[path], keys)

    def build(self) -> ExcludedSamples:
        if self._unmatched:
            count = len(self._unmatched)
            message = f"nothing to exclude: no shard or sample matches {join_names(self._unmatched, count)}"
            hint = "write whole paths below the root, or pass `--allow-empty` to ignore patterns without a match"
            self._problems.append(SplitProblem(NO_MATCH, message, hint, count))
        parts = {shard: shard_from_flags(shard, flags) for shard, flags in sorted(self._flags.items())}
        by_shard = {shard: part for shard, part in parts.items() if part is not None}
        return ExcludedSamples(by_shard, self._problems, self._notes)


def flag_repeated_keys(context: SplitContext) -> Iterator[tuple[ShardRow, SampleFlags]]:
    """By shard, the samples whose key is in several shards, except for the first sample of each key.

    Raises CatalogError WDS307 if the catalog has no keys.
    """
    _, repeated = find_repeated_keys(context.dataset.catalog, sys.maxsize)
    keys = key_list([each.key for each in repeated])
    seen = np.zeros(len(repeated), np.bool_)
    for rows, offsets_rows in context.row_batches(context.rows if repeated else ()):
        found = keys.find(context.offsets, offsets_rows)
        flags = found >= 0
        positions = np.flatnonzero(flags)
        key_rows, firsts = np.unique(found[positions], return_index=True)
        flags[positions[firsts[~seen[key_rows]]]] = False
        seen[key_rows] = True
        yield from _by_shard(rows, flags)


def flag_missing_parts(context: SplitContext) -> Iterator[tuple[ShardRow, SampleFlags]]:
    """By shard, the samples that lack a required or expected part."""
    config = context.dataset.config
    parts = [*required_parts(context.offsets, config), *expected_parts(context.offsets, config)]
    for shard, positions in find_incomplete_samples(context.offsets, parts).items():
        row = context.by_path[shard]
        flags = np.zeros(row.samples, np.bool_)
        flags[positions] = True
        yield row, flags


def _by_shard(rows: Sequence[ShardRow], flags: SampleFlags) -> Iterator[tuple[ShardRow, SampleFlags]]:
    """Flags of a batch of shards as flags of each shard that has any."""
    bounds = np.cumsum([row.samples for row in rows])[:-1]
    for row, shard_flags in zip(rows, np.split(flags, bounds), strict=True):
        if shard_flags.any():
            yield row, shard_flags
