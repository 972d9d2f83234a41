"""A raw folder as samples: files in one directory that share a name up to its first dot are the parts of one sample."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Literal

from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied
from wdsctl.core.formats.folder_walk import EXAMPLES, Found, walk
from wdsctl.core.printable import named
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.raw_sample import RawSample

OnMissing = Literal["error", "skip", "keep"]


@dataclass(frozen=True, slots=True)
class Listing:
    """The samples that are to be used, sorted by the key's code points, and counts of what is not as it should be.

    `incomplete`: samples that lack one of the `expected` parts. `strays`: files that belong to no sample.
    `unreadable`: files and folders. `ignored`: hidden files and folders, litter, links back to an enclosing folder.
    """

    samples: list[RawSample]
    incomplete: int = 0
    strays: int = 0
    unreadable: int = 0
    ignored: int = 0
    examples: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


def list_folder(
    root: str, *, parts: tuple[str, ...] = (), on_missing: OnMissing = "error", progress: Progress = SILENT
) -> Listing:
    """Walk `root` and group its files. Linked files and folders are followed.

    A complete sample has `parts`, or else the parts that at least half of the samples have; more parts are fine.
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
    found.samples.sort(key=attrgetter("key"))
    return _apply_policy(root, found, parts, on_missing)


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
            "\n  ".join([_counts(len(incomplete), found), *examples, *([f"... and {more:,} more"] if more else [])]),
            where=root,
            hint=_remedy(expected, incomplete=bool(incomplete), found=found),
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
    """The parts that at least half of the samples have, whether they can be read or not."""
    having = Counter(part.name for sample in found.samples for part in sample.parts)
    having.update(name for names in found.unreadable_parts.values() for name in names)
    samples = len(found.samples) + len(_unreadable_keys(found))
    return tuple(sorted(name for name, count in having.items() if 2 * count >= samples))


def _lacking(found: Found, expected: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(key, the parts it lacks) of every incomplete sample.

    A part that cannot be read is there, and counts as such. So does a sample of which no part can be read.
    """
    hidden = found.unreadable_parts
    complete = frozenset(expected)
    for key, parts in found.samples:
        missing = complete.difference([part.name for part in parts], hidden.get(key, ()))
        if missing:
            yield key, tuple(sorted(missing))


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
    """A line a sample, with the parts that differ from a missing one by their letters' case alone."""
    for key, parts in found.samples:
        if key in incomplete:
            alike = {part.name.lower(): part.name for part in parts}
            lacks = [
                f"{part} (it has {alike[part.lower()]}: case counts)" if part.lower() in alike else part
                for part in incomplete[key]
            ]
            yield f"{named(key)}: no {', '.join(lacks)}"


def _remedy(expected: Sequence[str], *, incomplete: bool, found: Found) -> str:
    steps = (
        (incomplete, "complete the samples"),
        (found.strays > 0, "take away the files that belong to none"),
        (found.unreadable > 0, "check the mode of what cannot be read, and where its links lead"),
    )
    do = ", ".join(step for is_due, step in steps if is_due)
    usual = f"; a complete sample has {', '.join(expected) or 'any part'}: --parts says otherwise" if incomplete else ""
    return f"{do}; or say --on-missing skip (leave them out) or --on-missing keep (take what there is){usual}"


def _counts(incomplete: int, found: Found) -> str:
    kinds = (
        (incomplete, "sample is incomplete", "samples are incomplete"),
        (found.strays, "file belongs to no sample", "files belong to no sample"),
        (found.unreadable, "file or folder cannot be read", "files or folders cannot be read"),
    )
    return ", ".join(counted(n, one, many) for n, one, many in kinds if n)
