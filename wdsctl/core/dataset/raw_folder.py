"""List a raw folder as samples: choose where keys end, and what happens to incomplete samples.

File names decide where keys end (`wdsctl.core.samples.key_rules`), unless the caller passes a rule.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter

from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.dataset.raw_folder_walk import (
    DOCUMENT_KEYS,
    RawFolderScan,
    RawProblem,
    regroup_samples,
    walk_raw_folder,
    walk_raw_store,
)
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, join_indented
from wdsctl.core.media.kinds import MEDIA_KINDS
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.key_rules import (
    UNDECIDED_KEY_RULE,
    KeyRuleChoice,
    SampleLayout,
    choose_key_rule,
    equivalent_part,
    use_given_key_rule,
)
from wdsctl.core.samples.naming import FIRST_DOT, KNOWN_EXTENSION, KeyRuleName, OnMissing, RawSample, dotless_key
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url

MAX_EXAMPLES = 5  # of problems, in messages

#: Separates alternatives, of which a complete sample has one: `jpg|png`.
ALTERNATIVE_SEPARATOR = "|"


class RawFolderError(DatasetError):
    """Samples of a folder are incomplete, or files of it are in no sample. `lone_files`: the incomplete samples of one
    file, if there are few: they may be about the others.
    """

    code = "WDS201"
    lone_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawListing:
    """The usable samples, sorted by the code points of their keys, and counts of all other files.

    `expected`: the parts of a complete sample; `jpg|png` means either. `incomplete`: samples that lack one. `strays`:
    files that belong to no sample. `unreadable`: files and folders. `ignored`: hidden files and folders, desktop
    files, documents such as README.md, links to an enclosing folder. `examples`: the first problems. `left_out`: all
    samples, files and folders that are not in `samples`, except ignored ones. `keys`: the key rule, and why it was
    chosen.
    """

    samples: list[RawSample]
    incomplete: int = 0
    strays: int = 0
    unreadable: int = 0
    ignored: int = 0
    examples: tuple[str, ...] = ()
    left_out: tuple[RawProblem, ...] = ()
    expected: tuple[str, ...] = ()
    keys: KeyRuleChoice = UNDECIDED_KEY_RULE


def list_raw_folder(
    root: str,
    *,
    parts: tuple[str, ...] = (),
    on_missing: OnMissing = "error",
    key_until: KeyRuleName | None = None,
    previous_rule: KeyRuleName | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> RawListing:
    """Walk `root` and group its files into samples. Follows links.

    Keys end by the rule `key_until`, else by `previous_rule`, else by the rule that the names suggest. Raises
    DatasetError WDS245 if they suggest none, WDS247 if two samples would have the same key in shards.

    A complete sample has at least `parts` (`jpg|png`: either). The default is the parts that at least half of the
    samples have, where media of one kind count as one part. `on_missing` decides about incomplete samples, strays and
    unreadable files: `error` raises WDS201, `skip` skips them, `keep` uses the parts that exist.

    Costs one `stat` and about 200 bytes of memory per file.
    """
    _check_root(root)
    progress.phase("list")
    scan = RawFolderScan()
    (walk_raw_store if is_url(root) else walk_raw_folder)(root, scan, progress)
    if not scan.samples and not scan.unreadable_parts:
        raise InputError(
            "the folder has no files that can form samples"
            + (f": {_describe_counts(0, scan)}" if scan.fault_count else ""),
            where=root,
            hint="check the path; files with the same name, such as 0001.jpg and 0001.txt, form a sample",
            code="WDS003",
        )
    scan.faults.sort()  # file systems list in any order, and messages should not change between runs
    rule = _find_key_rule(root, scan, key_until, previous_rule)
    if rule.rule != FIRST_DOT:
        regroup_samples(scan, rule.rule)
        _check_key_collisions(root, scan)
    scan.samples.sort(key=attrgetter("key"))
    return replace(_apply_policy(root, scan, parts, on_missing), keys=rule)


def drop_unreadable(
    root: str, listing: RawListing, unreadable: Mapping[tuple[str, str], str], on_missing: OnMissing
) -> RawListing:
    """Remove files that turned out to be unreadable from a listing. `unreadable`: reasons by (key, part).

    If `on_missing` is `keep`, their samples keep the remaining parts; otherwise the samples are removed too. Raises
    InputError if no sample remains.
    """
    samples = []
    for sample in listing.samples:
        parts = tuple(part for part in sample.parts if (sample.key, part.name) not in unreadable)
        if len(parts) == len(sample.parts):
            samples.append(sample)
        elif parts and on_missing == "keep":
            samples.append(sample._replace(parts=parts))
    if not samples:
        raise InputError(
            f"no usable samples: {pluralize(len(unreadable), 'file')} cannot be read",
            where=root,
            hint="check the owner and the mode of the files, and their disk or server",
            code="WDS003",
        )
    found = [RawProblem(f"{key}.{part}", reason) for (key, part), reason in sorted(unreadable.items())]
    return replace(
        listing,
        samples=samples,
        unreadable=listing.unreadable + len(unreadable),
        examples=(*listing.examples, *map(str, found))[:MAX_EXAMPLES],
        left_out=(*listing.left_out, *found),
    )


def _find_key_rule(
    root: str, scan: RawFolderScan, requested_rule: KeyRuleName | None, previous_rule: KeyRuleName | None
) -> KeyRuleChoice:
    layouts = _layouts(scan)
    if requested_rule or previous_rule:
        return use_given_key_rule(
            requested_rule or previous_rule or FIRST_DOT,
            layouts,
            "chosen by the user" if requested_rule else "as before",
        )
    rule = choose_key_rule(layouts)
    if rule.is_clear:
        return rule
    effects = {each.rule: each.reason for each in rule.rejected} | {rule.rule: rule.outcome}
    choices = [f"`--key-until {each}` ({effects[each]})" for each in (FIRST_DOT, KNOWN_EXTENSION)]
    raise DatasetError(
        f"ambiguous key rule: {rule.reason}",
        where=root,
        hint=f"choose {' or '.join(choices)}; `--dry-run` shows the result",
        code="WDS245",
    )


def _layouts(scan: RawFolderScan) -> list[SampleLayout]:
    """Return the combinations of parts by the first dot, with the number of their samples and the first key."""
    counts: dict[tuple[str, ...], int] = {}
    keys: dict[tuple[str, ...], str] = {}
    for key, parts in scan.samples:
        names = tuple([part.name for part in parts])
        counts[names] = counts.get(names, 0) + 1
        if names not in keys or key < keys[names]:
            keys[names] = key
    return [SampleLayout(names, count, keys[names]) for names, count in sorted(counts.items())]


def _check_key_collisions(root: str, scan: RawFolderScan) -> None:
    """Raise DatasetError WDS247 if two keys are equal in shards, where dots of keys become `_`."""
    owners: dict[str, str] = {}
    for key in sorted(sample.key for sample in scan.samples):
        member = dotless_key(key)
        if owners.setdefault(member, key) != key:
            raise DatasetError(
                f"{path_for_message(owners[member])} and {path_for_message(key)} would have the same key "
                f"{path_for_message(member)}, "
                "because keys in shards have no dots",
                where=root,
                hint="rename the files of one of the samples",
                code="WDS247",
            )


def _check_root(root: str) -> None:
    if is_url(root):
        return  # listing it raises
    if not os.path.lexists(root):
        raise InputError("the folder does not exist", where=root, hint="check the path")
    if not os.path.isdir(root):
        raise InputError("the path is not a folder", where=root, hint="pass the folder of the raw files")
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionDenied("cannot list the folder", where=root, hint="check the owner and the mode of the folder")


def _apply_policy(root: str, scan: RawFolderScan, parts: tuple[str, ...], on_missing: OnMissing) -> RawListing:
    expected = parts or _usual_parts(scan)
    incomplete = dict(_find_incomplete(scan, expected))
    documents = {key for key in incomplete if key.lower() in DOCUMENT_KEYS} if not parts else set[str]()
    if documents:
        scan.samples[:] = [sample for sample in scan.samples if sample.key not in documents]
        scan.ignored += len(documents)
        incomplete = {key: lacking for key, lacking in incomplete.items() if key not in documents}
    # The first few incomplete samples and unusable files.
    lacking = list(_describe_incomplete(scan, dict(islice(incomplete.items(), MAX_EXAMPLES))))
    kept = max(MAX_EXAMPLES - len(scan.faults), MAX_EXAMPLES // 2 + 1)
    examples = tuple(map(str, [*lacking[:kept], *scan.faults[:MAX_EXAMPLES]][:MAX_EXAMPLES]))
    if on_missing == "error" and (incomplete or scan.fault_count):
        more = len(incomplete) + scan.fault_count - len(examples)
        error = RawFolderError(
            join_indented(
                _describe_counts(len(incomplete), scan), *examples, *([f"... and {more:,} more"] if more else [])
            ),
            where=root,
            hint=_fix_hint(expected, incomplete=len(incomplete), scan=scan),
        )
        error.lone_files = tuple(_lone_files(scan, incomplete))
        raise error
    samples = scan.samples
    if on_missing == "skip" and (incomplete or scan.unreadable_parts):
        samples = [s for s in samples if s.key not in incomplete and s.key not in scan.unreadable_parts]
    if not samples:
        raise InputError(
            f"no usable samples: {_describe_counts(len(incomplete), scan)}",
            where=root,
            hint="pass the parts of a complete sample with --parts, or keep incomplete samples with --on-missing keep",
            code="WDS003",
        )
    left_out = (*(_describe_incomplete(scan, incomplete) if on_missing == "skip" else ()), *scan.faults)
    return RawListing(
        samples, len(incomplete), scan.strays, scan.unreadable, scan.ignored, examples, left_out, expected
    )


def _usual_parts(scan: RawFolderScan) -> tuple[str, ...]:
    """Return the parts that at least half of the samples have, readable or not.

    Images of all formats count as one part, and so do audio and video: `jpg|png`, the most frequent first. If every
    sample is one media file, a part needs 90 % of them: images beside audio files are complete.
    """
    names: Counter[tuple[str, ...]] = Counter()
    for sample in scan.samples:
        names[_part_names(sample, scan)] += 1
    names.update(tuple(sorted(scan.unreadable_parts[key])) for key in _unreadable_keys(scan))
    counts: Counter[str] = Counter()
    kind_counts: Counter[tuple[str, str]] = Counter()
    for parts, count in names.items():
        counts.update(dict.fromkeys(parts, count))
        kind_counts.update(dict.fromkeys(map(equivalent_part, parts), count))
    are_lone = all(len(parts) == 1 and equivalent_part(parts[0])[1] in MEDIA_KINDS for parts in names)
    min_count = names.total() * (0.9 if are_lone else 0.5)
    usual_kinds = {kind for kind, count in kind_counts.items() if count >= min_count}
    by_kind: dict[tuple[str, str], list[str]] = {}
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        by_kind.setdefault(equivalent_part(name), []).append(name)
    return tuple(sorted(ALTERNATIVE_SEPARATOR.join(by_kind[kind]) for kind in usual_kinds))


def _part_names(sample: RawSample, scan: RawFolderScan) -> tuple[str, ...]:
    """Return all parts of a sample, including unreadable ones."""
    names = [part.name for part in sample.parts]
    unreadable = scan.unreadable_parts.get(sample.key)
    return tuple(sorted({*names, *unreadable})) if unreadable else tuple(names)


def _find_incomplete(scan: RawFolderScan, expected: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return (key, missing parts) of every incomplete sample with at least one readable part."""
    alternatives = [(part, frozenset(part.split(ALTERNATIVE_SEPARATOR))) for part in expected]
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for sample in scan.samples:
        names = _part_names(sample, scan)
        missing = known.get(names)
        if missing is None:
            missing = known[names] = tuple(
                part for part, alternatives_of in alternatives if alternatives_of.isdisjoint(names)
            )
        if missing:
            yield sample.key, missing


def _unreadable_keys(scan: RawFolderScan) -> list[str]:
    """Return the keys of samples without a readable part."""
    unreadable = scan.unreadable_parts
    return (
        sorted(unreadable.keys() - {sample.key for sample in scan.samples if sample.key in unreadable})
        if unreadable
        else []
    )


def _describe_incomplete(scan: RawFolderScan, incomplete: Mapping[str, tuple[str, ...]]) -> Iterator[RawProblem]:
    """Say what each sample lacks, with a part in another case or format instead of the missing one."""
    for key, parts in scan.samples:
        if key in incomplete:
            existing_parts = [part.name for part in parts]
            lacking = ", ".join(_describe_missing_part(part, existing_parts) for part in incomplete[key])
            yield RawProblem(key, f"no {lacking}")


def _describe_missing_part(part: str, existing_parts: Sequence[str]) -> str:
    alternatives_of = part.split(ALTERNATIVE_SEPARATOR)
    by_kind = {name.lower(): name for name in existing_parts}
    cased = next((by_kind[name.lower()] for name in alternatives_of if name.lower() in by_kind), "")
    if cased:
        return f"{part} (it has {cased}: names are case-sensitive)"
    kind_counts = set(map(equivalent_part, alternatives_of))
    other = next((name for name in existing_parts if equivalent_part(name) in kind_counts), "")
    both = quote_shell_word(f"{part}{ALTERNATIVE_SEPARATOR}{other}")
    return f"{part} (it has {other}: `--parts {both}` accepts both)" if other else part


_MAX_LABEL_FILES = 10  # more incomplete samples are data, such as a text per image
_OBJECT_PER_LINE = re.compile(r"\s*\{.*\}[ \t\r]*\n\s*\{")  # as manifests of NeMo, which are called .json


def has_object_per_line(head: str) -> bool:
    """Whether a text begins with two lines of JSON, each an object."""
    return _OBJECT_PER_LINE.match(head) is not None


def _lone_files(scan: RawFolderScan, incomplete: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The files that are incomplete samples on their own; empty if there are many of these, which are data."""
    if len(incomplete) > _MAX_LABEL_FILES:
        return []
    samples = (sample for sample in scan.samples if sample.key in incomplete and len(sample.parts) == 1)
    return [f"{sample.key}.{sample.parts[0].name}" for sample in samples]


def _fix_hint(expected: Sequence[str], *, incomplete: int, scan: RawFolderScan) -> str:
    steps = (
        (incomplete > 0, "complete the samples"),
        (scan.strays > 0, "move files that belong to no sample elsewhere"),
        (scan.outside_links > 0, "allow the folders that the links point to, as above"),
        (scan.unreadable > scan.outside_links, "check the mode of the unreadable files and the targets of links"),
    )
    do = ", ".join(step for is_due, step in steps if is_due)
    usual_kinds = (
        f"; a complete sample has {', '.join(expected) or 'any part'}; --parts changes that" if incomplete else ""
    )
    skipped = f"skips {pluralize(incomplete, 'sample')}" if incomplete else "skips them"
    skipped += "; left-out.tsv lists all that it leaves out"
    return (
        f"{do}; or pass `--on-missing keep` (uses the parts that exist) or `--on-missing skip` ({skipped}){usual_kinds}"
    )


def _describe_counts(incomplete: int, scan: RawFolderScan) -> str:
    kind_counts = (
        (incomplete, "sample is incomplete", "samples are incomplete"),
        (scan.strays, "file belongs to no sample", "files belong to no sample"),
        (scan.unreadable, "file or folder cannot be read", "files or folders cannot be read"),
    )
    return ", ".join(pluralize(n, one, many) for n, one, many in kind_counts if n)
