"""A raw folder as samples: files in one directory that share a name, up to where keys end, are the parts of one sample.

Where keys end is decided by the names (`wdsctl.core.key_rules`), or said.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Literal

from wdsctl.core.checks.kinds import MEDIA
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, several
from wdsctl.core.formats.folder_walk import EXAMPLES, Found, regroup, walk
from wdsctl.core.key_rules import OPEN, KeyRule, Layout, choose_rule, kind_of_part, told_rule
from wdsctl.core.naming import FIRST_DOT, KNOWN_EXTENSION, KeyUntil, shard_key
from wdsctl.core.printable import named
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.raw_sample import RawSample

OnMissing = Literal["error", "skip", "keep"]

#: Between parts of which a complete sample has one: `jpg|png`.
EITHER = "|"


@dataclass(frozen=True, slots=True)
class Listing:
    """The samples that are to be used, sorted by the key's code points, and counts of what is not as it should be.

    `expected`: parts that every sample is to have, `jpg|png` where either will do. `incomplete`: samples that lack one.
    `strays`: files that belong to no sample. `unreadable`: files and folders. `ignored`: hidden files and folders,
    litter, links back to an enclosing folder. `keys`: where keys end, and why.
    """

    samples: list[RawSample]
    incomplete: int = 0
    strays: int = 0
    unreadable: int = 0
    ignored: int = 0
    examples: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    keys: KeyRule = OPEN


def list_folder(
    root: str,
    *,
    parts: tuple[str, ...] = (),
    on_missing: OnMissing = "error",
    key_until: KeyUntil | None = None,
    kept: KeyUntil | None = None,
    progress: Progress = SILENT,
) -> Listing:
    """Walk `root` and group its files. Linked files and folders are followed.

    Keys end as `key_until` says, or as they did before (`kept`), or else by the rule that the names call for; where
    they leave it open, raises DatasetError WDS245, and WDS247 where two samples would have one key in shards.
    A complete sample has `parts` (`jpg|png`: one of these), or else the parts that at least half of the samples have,
    media of one kind counting as one; more parts are fine.
    Where something is missing, stray or unreadable: `error` raises WDS201, `skip` leaves it out, `keep` keeps what a
    sample has. Cost: one `stat` a file; about 200 bytes of memory a file.
    """
    _check_root(root)
    progress.phase("list")
    found = Found()
    walk(root, found, progress)
    if not found.samples and not found.unreadable_parts:
        raise InputError(
            "no file here can become a sample" + (f": {_counts(0, found)}" if found.faults else ""),
            where=root,
            hint="files that share a name, such as 0001.jpg and 0001.txt, make a sample: check the path",
            code="WDS003",
        )
    found.examples.sort()
    rule = _rule(root, found, key_until, kept)
    if rule.rule != FIRST_DOT:
        regroup(found, rule.rule)
        _check_keys(root, found)
    found.samples.sort(key=attrgetter("key"))
    return replace(_apply_policy(root, found, parts, on_missing), keys=rule)


def without(root: str, listing: Listing, unreadable: Mapping[tuple[str, str], str], on_missing: OnMissing) -> Listing:
    """The listing when files turn out to be unreadable that looked as if they were: (key, part) -> the reason.

    `keep` takes what is left of their samples, otherwise they are left out. Raises InputError if nothing is left.
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
            f"no sample is left to use: {counted(len(unreadable), 'file')} cannot be read",
            where=root,
            hint="check the owner and the mode of the files, and the disk or server that they are on",
            code="WDS003",
        )
    these = [f"{named(f'{key}.{part}')}: {reason}" for (key, part), reason in sorted(unreadable.items())]
    examples = (*listing.examples, *these)[:EXAMPLES]
    return replace(listing, samples=samples, unreadable=listing.unreadable + len(unreadable), examples=examples)


def _rule(root: str, found: Found, asked: KeyUntil | None, kept: KeyUntil | None) -> KeyRule:
    layouts = _layouts(found)
    if asked or kept:
        return told_rule(asked or kept or FIRST_DOT, layouts, "as told" if asked else "as before")
    rule = choose_rule(layouts)
    if rule.is_clear:
        return rule
    made = {each.rule: each.reason for each in rule.rejected} | {rule.rule: rule.made}
    ways = [f"`--key-until {each}` ({made[each]})" for each in (FIRST_DOT, KNOWN_EXTENSION)]
    raise DatasetError(
        f"where the keys of these files end cannot be told: {rule.reason}",
        where=root,
        hint=f"say it: {' or '.join(ways)}; `--dry-run` shows what comes of it",
        code="WDS245",
    )


def _layouts(found: Found) -> list[Layout]:
    """What the samples consist of up to the first dot. Only names with two dots need a key in messages."""
    counts: dict[tuple[str, ...], int] = {}
    keys: dict[tuple[str, ...], str] = {}
    for key, parts in found.samples:
        names = tuple([part.name for part in parts])
        counts[names] = counts.get(names, 0) + 1
        if names not in keys or key < keys[names]:
            keys[names] = key
    return [Layout(names, count, keys[names]) for names, count in sorted(counts.items())]


def _check_keys(root: str, found: Found) -> None:
    """Dots of keys become `_` in shards: raise where that makes one key of two."""
    owners: dict[str, str] = {}
    for key in sorted(sample.key for sample in found.samples):
        member = shard_key(key)
        if owners.setdefault(member, key) != key:
            raise DatasetError(
                f"{named(owners[member])} and {named(key)} would both have the key {named(member)} in the shards, "
                "where keys have no dots",
                where=root,
                hint="rename the files of one of them",
                code="WDS247",
            )


def _check_root(root: str) -> None:
    if not os.path.lexists(root):
        raise InputError("the folder does not exist", where=root, hint="check the path")
    if not os.path.isdir(root):
        raise InputError("this is not a folder", where=root, hint="give the folder that holds the raw files")
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionDenied("cannot list the folder", where=root, hint="check its owner and its mode")


def _apply_policy(root: str, found: Found, parts: tuple[str, ...], on_missing: OnMissing) -> Listing:
    expected = parts or _usual_parts(found)
    incomplete = dict(_lacking(found, expected))
    examples = _examples(found, incomplete)
    if on_missing == "error" and (incomplete or found.faults):
        more = len(incomplete) + found.faults - len(examples)
        raise DatasetError(
            several(_counts(len(incomplete), found), *examples, *([f"... and {more:,} more"] if more else [])),
            where=root,
            hint=_remedy(expected, incomplete=len(incomplete), found=found),
            code="WDS201",
        )
    samples = found.samples
    if on_missing == "skip" and (incomplete or found.unreadable_parts):
        samples = [s for s in samples if s.key not in incomplete and s.key not in found.unreadable_parts]
    if not samples:
        raise InputError(
            f"no sample is left to use: {_counts(len(incomplete), found)}",
            where=root,
            hint="--parts says what a complete sample has; --on-missing keep takes what there is",
            code="WDS003",
        )
    return Listing(samples, len(incomplete), found.strays, found.unreadable, found.ignored, examples, expected)


def _usual_parts(found: Found) -> tuple[str, ...]:
    """The parts that at least half of the samples have, whether they can be read or not.

    Pictures are one part, whatever their formats, and so are sounds and videos: `jpg|png`, the commonest first. Where
    every sample is one media file, only what nine of ten are is expected: pictures beside sounds lack nothing.
    """
    names: Counter[tuple[str, ...]] = Counter()
    for sample in found.samples:
        names[_part_names(sample, found)] += 1
    names.update(tuple(sorted(found.unreadable_parts[key])) for key in _unreadable_keys(found))
    having: Counter[str] = Counter()
    of_kind: Counter[tuple[str, str]] = Counter()
    for parts, count in names.items():
        having.update(dict.fromkeys(parts, count))
        of_kind.update(dict.fromkeys(map(kind_of_part, parts), count))
    are_lone = all(len(parts) == 1 and kind_of_part(parts[0])[1] in MEDIA for parts in names)
    enough = names.total() * (0.9 if are_lone else 0.5)
    usual = {kind for kind, count in of_kind.items() if count >= enough}
    alike: dict[tuple[str, str], list[str]] = {}
    for name in sorted(having, key=lambda name: (-having[name], name)):
        alike.setdefault(kind_of_part(name), []).append(name)
    return tuple(sorted(EITHER.join(alike[kind]) for kind in usual))


def _part_names(sample: RawSample, found: Found) -> tuple[str, ...]:
    """All parts that a sample has. One that cannot be read is there, and counts as such."""
    names = [part.name for part in sample.parts]
    hidden = found.unreadable_parts.get(sample.key)
    return tuple(sorted({*names, *hidden})) if hidden else tuple(names)


def _lacking(found: Found, expected: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(key, the parts it lacks) of every incomplete sample. So is one of which no part can be read complete or not."""
    wanted = [(part, frozenset(part.split(EITHER))) for part in expected]
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for sample in found.samples:
        names = _part_names(sample, found)
        missing = known.get(names)
        if missing is None:
            missing = known[names] = tuple(part for part, either in wanted if either.isdisjoint(names))
        if missing:
            yield sample.key, missing


def _unreadable_keys(found: Found) -> list[str]:
    """The keys of samples of which no part can be read."""
    hidden = found.unreadable_parts
    return sorted(hidden.keys() - {sample.key for sample in found.samples if sample.key in hidden}) if hidden else []


def _examples(found: Found, incomplete: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The first few of what is wrong, some of either kind."""
    lacking = list(_describe(found, dict(islice(incomplete.items(), EXAMPLES))))
    kept = max(EXAMPLES - len(found.examples), EXAMPLES // 2 + 1)
    return tuple([*lacking[:kept], *found.examples][:EXAMPLES])


def _describe(found: Found, incomplete: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """A line a sample, with what it has in the place of a missing part: another case, another format."""
    for key, parts in found.samples:
        if key in incomplete:
            there = [part.name for part in parts]
            yield f"{named(key)}: no {', '.join(_missing(part, there) for part in incomplete[key])}"


def _missing(part: str, there: Sequence[str]) -> str:
    either = part.split(EITHER)
    alike = {name.lower(): name for name in there}
    cased = next((alike[name.lower()] for name in either if name.lower() in alike), "")
    if cased:
        return f"{part} (it has {cased}: case counts)"
    kinds = set(map(kind_of_part, either))
    other = next((name for name in there if kind_of_part(name) in kinds), "")
    return f"{part} (it has {other}: `--parts '{part}{EITHER}{other}'` takes either)" if other else part


def _remedy(expected: Sequence[str], *, incomplete: int, found: Found) -> str:
    steps = (
        (incomplete > 0, "complete the samples"),
        (found.strays > 0, "move files that belong to none elsewhere"),
        (found.outside > 0, "allow the folders that links lead to, as above"),
        (found.unreadable > found.outside, "check the mode of what cannot be read, and where its links lead"),
    )
    do = ", ".join(step for is_due, step in steps if is_due)
    usual = f"; a complete sample has {', '.join(expected) or 'any part'}: --parts says otherwise" if incomplete else ""
    skipped = f"leaves {counted(incomplete, 'sample')} out" if incomplete else "leaves them out"
    return f"{do}; or say --on-missing keep (takes what there is), or --on-missing skip ({skipped}){usual}"


def _counts(incomplete: int, found: Found) -> str:
    kinds = (
        (incomplete, "sample is incomplete", "samples are incomplete"),
        (found.strays, "file belongs to no sample", "files belong to no sample"),
        (found.unreadable, "file or folder cannot be read", "files or folders cannot be read"),
    )
    return ", ".join(counted(n, one, many) for n, one, many in kinds if n)
