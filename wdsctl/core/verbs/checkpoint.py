"""The states of a loader in checkpoints: what they say, united for other ranks, and compared."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from wdsctl.core.checkpoint_files import Found, PassedOver, find_states, natural
from wdsctl.core.errors import StateMismatch, UsageError
from wdsctl.core.files import write_text
from wdsctl.core.folders import resolved
from wdsctl.core.job_state import check_form, merge_states, missing_ranks
from wdsctl.core.state_facts import LaneStep, StateFacts, compare, describe, splits_lanes
from wdsctl.core.state_form import State


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLine:
    """A state in a file. `facts` is None where it cannot be used, and `problem` says why."""

    path: str
    key: str
    facts: StateFacts | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoReport:
    """`problem`: why these states cannot be resumed from as they are; empty where they can.

    `job`: the facts of all ranks together, where they fit together. `alike`: numbers of ranks that go on with the very
    same global batches. `missing`: ranks whose states are not there.
    """

    states: tuple[StateLine, ...]
    passed_over: tuple[PassedOver, ...]
    job: StateFacts | None
    missing: tuple[int, ...]
    alike: tuple[int, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedistributeReport:
    """`files`: those written, or that would be. `splits_into`: lanes on that number of ranks, as many as there are
    where the global batches stay what they are; 0 where no number was given."""

    states: int
    world: int
    ranks: int
    step: int
    lanes: int
    splits_into: int
    files: tuple[str, ...]
    size_bytes: int
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """`tier`: the gravest that differs: order, recipe, place, or nothing. Lines as in `StateDifference`."""

    first: str
    second: str
    tier: str
    order: tuple[str, ...]
    recipe: tuple[str, ...]
    place: tuple[str, ...]
    bans: tuple[str, ...]
    steps: int
    lanes: tuple[LaneStep, ...]
    is_same: bool


def info(paths: Sequence[str], *, key: str = "") -> InfoReport:
    """What the states in files or folders say, and what can be resumed from them."""
    found, passed = find_states(paths, key)
    lines = [_line(each) for each in found]
    whole = [each.state for each, line in zip(found, lines, strict=True) if line.facts is not None]
    job, problem = None, next((line.problem for line in lines if line.problem), "")
    alike: tuple[int, ...] = ()
    if not problem:
        try:
            merged = _merged(found)
            job, alike = describe(merged), _alike(merged)
        except (StateMismatch, UsageError) as error:
            problem = error.message
    # Of several jobs, who is missing cannot be told.
    missing = missing_ranks(whole) if len({state["world"] for state in whole}) == 1 else []
    return InfoReport(
        states=tuple(lines),
        passed_over=tuple(passed),
        job=job,
        missing=tuple(missing),
        alike=alike,
        problem=problem,
    )


def redistribute(
    paths: Sequence[str], out: str, *, ranks: int = 0, key: str = "", force: bool = False, dry_run: bool = False
) -> RedistributeReport:
    """Unite the states of all ranks, and write the result once, or once for each of `ranks` ranks.

    A united state is what every rank of any job resumes from, so that all files are alike. Without `ranks`, `out` is a
    file, or a folder that gets `state.json`. With them it is a folder, whose files are named as those that were read,
    or a name with `{rank}` in it. Each file is there whole or not at all. Raises StateMismatch WDS502 where states do
    not fit together, UsageError for files that are there already, unless `force`.
    """
    found, _ = find_states(paths, key)
    merged = _merged(found)
    files = _names(out, ranks, [each.path for each in found])
    there = [name for name in files if os.path.lexists(name)]
    if there and not force:
        raise UsageError(
            f"{len(there)} of the {len(files)} files are there already"
            if len(files) > 1
            else "the file is there already",
            where=there[0],
            hint="name another place, or say --force to overwrite",
        )
    text = json.dumps(merged, separators=(",", ":")) + "\n"
    for name in () if dry_run else files:
        write_text(resolved(name), text)
    lanes = len(merged["lanes"])
    is_split = ranks and lanes and splits_lanes(merged)
    return RedistributeReport(
        states=len(found),
        world=merged["world"],
        ranks=ranks,
        step=merged["drawn"],
        lanes=lanes,
        splits_into=lanes * (ranks // gcd(ranks, lanes)) if is_split else lanes,
        files=tuple(files),
        size_bytes=len(text.encode()),
        dry_run=dry_run,
    )


def diff(first: str, second: str, *, key: str = "") -> DiffReport:
    """How the states in two files or folders differ. Rank states are united first, where all are there."""
    difference = compare(_together(first, key), _together(second, key))
    is_moved = difference.place or difference.bans
    tier = "order" if difference.order else "recipe" if difference.recipe else "place" if is_moved else ""
    return DiffReport(
        first=first,
        second=second,
        tier=tier,
        order=difference.order,
        recipe=difference.recipe,
        place=difference.place,
        bans=difference.bans,
        steps=difference.steps,
        lanes=difference.lanes,
        is_same=difference.is_empty,
    )


def _line(found: Found) -> StateLine:
    try:
        facts = describe(check_form(found.state))
    except StateMismatch as error:
        return StateLine(path=found.path, key=found.key, facts=None, problem=error.message)
    return StateLine(path=found.path, key=found.key, facts=facts, problem="")


def _together(path: str, key: str) -> State:
    found, _ = find_states([path], key)
    return check_form(found[0].state) if len(found) == 1 else _merged(found)


def _merged(found: Sequence[Found]) -> State:
    """The state of all ranks. Raises UsageError where states of several loaders stand under different keys (training
    and validation, say) or a united state beside others, StateMismatch where states do not fit together."""
    names = sorted({_name(each.key) for each in found})
    if len(names) > 1 and len({each.path for each in found}) < len(found):
        shown = " and ".join(repr(name) for name in names)
        raise UsageError(f"there are the states of several loaders, under the keys {shown}", hint="choose one by --key")
    united = [each.path for each in found if each.state.get("kind") == "world"]
    if united and len(found) > 1:
        raise UsageError(
            "a united state is among the states: it has all ranks already",
            where=united[0],
            hint="give it alone, or the states of the ranks without it",
        )
    return merge_states([each.state for each in found])


def _name(key: str) -> str:
    """The keys without the places in lists, which tell ranks apart."""
    return ".".join(part for part in key.split(".") if not part.isdecimal())


def _alike(merged: State) -> tuple[int, ...]:
    """Numbers of ranks that the lanes can be dealt to as they are, so that each has one."""
    lanes = len(merged["lanes"])
    return tuple(world for world in range(1, lanes + 1) if not splits_lanes(merged) or lanes % world == 0)


def _names(out: str, ranks: int, read: Sequence[str]) -> list[str]:
    if not ranks:
        return [os.path.join(out, "state.json") if os.path.isdir(out) or out.endswith(os.sep) else out]
    folder, pattern = os.path.split(out)
    if "{" not in pattern:
        folder, pattern = out, _pattern(read)
    try:
        names = [pattern.format(rank=rank) for rank in range(ranks)]
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise UsageError(
            f"{pattern!r} is no pattern for names of files", hint="write {rank}, or {rank:03} for three digits"
        ) from error
    if len(set(names)) < ranks:
        raise UsageError(f"{pattern!r} names every file alike", hint="write {rank} into the name of the file")
    return [os.path.join(folder, name) for name in names]


def _pattern(read: Sequence[str]) -> str:
    """How the files that were read are named, with {rank} for the number in which they differ; else `rank000.json`."""
    stems = sorted({os.path.splitext(os.path.basename(path))[0] for path in read}, key=natural)
    parts = [re.split(r"(\d+)", stem) for stem in stems]
    if len(stems) < 2 or len({len(each) for each in parts}) > 1:
        return "rank{rank:03}.json"
    varying = [i for i, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
    if len(varying) != 1 or not parts[0][varying[0]].isdecimal():
        return "rank{rank:03}.json"
    first = parts[0][varying[0]]
    plain = [part.replace("{", "{{").replace("}", "}}") for part in parts[0]]
    plain[varying[0]] = f"{{rank:0{len(first)}}}" if len(first) > 1 else "{rank}"
    return f"{''.join(plain)}.json"
