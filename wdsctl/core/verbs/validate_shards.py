"""Runs `validate` over shards: in parallel, and only what has changed since it was last validated.

Who looks into some of the samples of a shard of which all are known is told what is known. Otherwise what is found adds
to what was found in other samples of the same shard.

Hashes are for what changes without a trace, so that after a run that has come to its end the next one reads all bytes
again. What a run that was stopped has hashed is good for the next one within a day.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import Check, Checks, Reach, checks, expire_checks, note_checks
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.checks.hashes import Expected
from wdsctl.core.checks.levels import Level
from wdsctl.core.checks.placed import Placed, as_text, from_text, merged
from wdsctl.core.checks.refs import RefRule
from wdsctl.core.checks.sampling import Sampling
from wdsctl.core.checks.schema import Rules
from wdsctl.core.checks.shard import OF_SAMPLES, PRELOAD, Checked, CheckUnit, check_shards
from wdsctl.core.checks.stores import Marks, open_ref_store
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.stores import workers_for
from wdsctl.core.units import ShardFile

FORMAT = 4  # raise it when a level finds something else: what was found before is then looked for again

_TOGETHER, _TOGETHER_BYTES = 64, 16 << 20  # shards that one process is told of at once
_DAY_S = 86_400
_MARK = 16  # bytes of a mark that say what was looked at; behind them, which samples, where not all
_SAVE_EVERY_S = 2.0  # what was found until then stays found, whatever becomes of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What all shards are looked at for."""

    place: Place
    levels: tuple[Level, ...]
    rows: Mapping[str, ShardRow]  # of the catalog, by path
    keys: LineKeys
    sampling: Sampling
    offsets: str = ""  # the file; empty where it cannot be used
    rules: Rules | None = None
    refs: tuple[RefRule, ...] = ()
    expected: Mapping[str, Sequence[Expected]] = field(default_factory=dict)
    media_marks: Mapping[int, bytes] = field(default_factory=dict)  # by shard id, where the catalog has facts of media


@dataclass(slots=True)
class Outcome:
    """What was found in all shards. `unread`: those that nothing was read of."""

    placed: dict[str, list[Placed]] = field(default_factory=dict)  # by shard
    unread: int = 0
    marks: dict[str, list[Marks]] = field(default_factory=dict)  # by store, what is referred to
    names: dict[str, int] = field(default_factory=dict)  # by field of references, how many names it had
    is_complete: bool = True  # whether every shard could be read
    refs_mark: bytes = b""  # names all that the references of all shards depend on; empty where that may change
    over_refs: tuple[Placed, ...] | None = None  # what was found over all references, where none was read again

    def add(self, shard: str, found: Mapping[Level, tuple[Placed, ...]]) -> None:
        for each in found.values():
            if each:
                self.placed.setdefault(shard, []).extend(each)


def check_all(
    task: Task, shards: Sequence[ShardFile], ledger: Ledger | None, *, again: bool, workers: int, progress: Progress
) -> Outcome:
    """Look at these shards on these levels, or remember what was found when they were last looked at.

    What is found is noted in the ledger as it comes, so that a run that is killed goes on where it was.
    """
    outcome = Outcome(refs_mark=_refs_mark(task, shards))
    known: Checks = {} if ledger is None else checks(ledger)
    left: list[CheckUnit] = []
    over_refs = None if again else known.get(("", "refs", "all"))
    # What nobody refers to follows from all shards together: if one is to be read for its references, all are.
    refs_again = over_refs is None or not outcome.refs_mark or over_refs.mark != outcome.refs_mark
    if over_refs is not None and not refs_again:
        outcome.over_refs = from_text(over_refs.findings)
    for shard in shards:
        unit = _unit(task, shard)
        found: dict[Level, tuple[Placed, ...]] = {}
        for level in () if again else task.levels:
            before = _found_before(task, unit, level, known)
            if before is not None and not (level == "refs" and refs_again):
                found[level] = before
        outcome.add(shard.path, found)
        missing = tuple(level for level in task.levels if level not in found)
        if missing:
            left.append(replace(unit, levels=missing))
    outcome.unread = len(shards) - len(left)
    progress.phase("check", items=len(left), size_bytes=sum(unit.shard.size for unit in left))
    for unit, checked in _run(task, left, known, ledger, workers, progress):
        outcome.add(unit.shard.path, checked.found)
        outcome.is_complete &= checked.is_read
        for store, marks in checked.referred.items():
            outcome.marks.setdefault(store, []).append(marks)
        for name, count in checked.names.items():
            outcome.names[name] = outcome.names.get(name, 0) + count
    if ledger is not None and "hashes" in task.levels:
        expire_checks(ledger, "hashes", [shard.path for shard in shards])
    return outcome


def _run(
    task: Task, units: Sequence[CheckUnit], known: Checks, ledger: Ledger | None, workers: int, progress: Progress
) -> Iterator[tuple[CheckUnit, Checked]]:
    waiting: list[Check] = []
    saved_s = time.monotonic()
    try:
        runs = _runs(units, workers_for(task.place.root, workers))
        for i, results in map_units(check_shards, runs, workers_for(task.place.root, workers), preload=PRELOAD):
            for unit, result in zip(runs[i], results, strict=True):
                progress.advance(items=1, size_bytes=unit.shard.size)
                checked = _with_known(task, unit, result, known)
                waiting += _notes(task, unit, checked)
                if ledger is not None and time.monotonic() - saved_s > _SAVE_EVERY_S:
                    note_checks(ledger, waiting)
                    waiting, saved_s = [], time.monotonic()
                yield unit, checked
    finally:
        if ledger is not None:
            note_checks(ledger, waiting)


def _runs(units: Sequence[CheckUnit], workers: int) -> list[list[CheckUnit]]:
    """Neighbours that are looked at together: large shards alone, small ones by the dozen, few ones spread."""
    most = min(_TOGETHER, len(units) // (4 * workers)) if workers > 1 else 1
    runs: list[list[CheckUnit]] = []
    size = 0
    for unit in units:
        if not runs or len(runs[-1]) >= most or size + unit.shard.size > _TOGETHER_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(unit)
        size += unit.shard.size
    return runs


def _found_before(task: Task, unit: CheckUnit, level: Level, known: Checks) -> tuple[Placed, ...] | None:
    """What is known of a shard that has not changed, where all is known that this run asks for; None otherwise."""
    path = unit.shard.path
    whole, some = known.get((path, level, "all")), known.get((path, level, "some"))
    if (path, level, "none") in known:
        return None
    if whole is not None and _holds(task, unit, level, whole):
        return _together(task, unit, level, known)
    if some is not None and _is_some(task, level) and some.mark == _mark(task, unit, level) + _sample(task, unit):
        return _of_shard(path, some)
    return None


def _with_known(task: Task, unit: CheckUnit, checked: Checked, known: Checks) -> Checked:
    """The same with what is known of other samples, where some were looked at."""
    found = {
        level: merged(now, _together(task, unit, level, known)) if _is_some(task, level) else now
        for level, now in checked.found.items()
    }
    return replace(checked, found=found)


def _together(task: Task, unit: CheckUnit, level: Level, known: Checks) -> tuple[Placed, ...]:
    """What was found in all samples of a shard and in some of them, of the same file and by the same rules."""
    reaches: tuple[Reach, ...] = ("all", "some")
    checks = (known.get((unit.shard.path, level, reach)) for reach in reaches)
    held = [check for check in checks if check is not None and _holds(task, unit, level, check)]
    return merged(*(_of_shard(unit.shard.path, check) for check in held))


def _of_shard(path: str, check: Check) -> tuple[Placed, ...]:
    """The findings by the name that the shard has now."""
    found = from_text(check.findings)
    return tuple(each._replace(finding=replace(each.finding, shard=path)) for each in found)


def _notes(task: Task, unit: CheckUnit, checked: Checked) -> Iterator[Check]:
    layout_hash = checked.layout_hash or unit.indexed_as
    for level, found in checked.found.items():
        reach: Reach = "none" if not checked.is_read else "some" if _is_some(task, level) else "all"
        mark = b""
        if checked.is_read and _lasts(task, level):
            mark = _mark(task, unit, level) + (_sample(task, unit) if reach == "some" else b"")
        yield Check(unit.shard.path, level, reach, layout_hash, mark, as_text(found))


def _unit(task: Task, shard: ShardFile) -> CheckUnit:
    row = task.rows.get(shard.path)
    is_same = row is not None and row.size == shard.size  # of another time, too: bytes decide
    has_facts = row is not None and is_same and row.id in task.media_marks
    return CheckUnit(
        root=task.place.root,
        shard=shard,
        levels=task.levels,
        keys=task.keys,
        indexed_as=row.layout_hash if row is not None and is_same and row.status != "unreadable" else "",
        offsets=task.offsets if row is not None and is_same and row.status == "ok" and row.code is None else "",
        catalog=task.place.catalog if has_facts else "",
        shard_id=row.id if row is not None else 0,
        rules=task.rules,
        refs=task.refs,
        sampling=task.sampling,
        expected=tuple(task.expected.get(shard.path, ())),
        content_is_known="content" in task.levels,
    )


def _lasts(task: Task, level: Level) -> bool:
    """Whether a result holds until the shard changes: files of a plain folder come and go without a word."""
    return level != "refs" or all(open_ref_store(rule.store).digest for rule in task.refs)


def _refs_mark(task: Task, shards: Sequence[ShardFile]) -> bytes:
    if "refs" not in task.levels or not _lasts(task, "refs"):
        return b""
    digest = blake2b(digest_size=16)
    for shard in shards:
        digest.update(_mark(task, _unit(task, shard), "refs"))
    return digest.digest()


def note_over_refs(ledger: Ledger, outcome: Outcome, found: Sequence[Placed]) -> None:
    """Keep what was found over all references, for as long as no shard and no store changes."""
    if outcome.refs_mark and outcome.over_refs is None:
        note_checks(ledger, [Check("", "refs", "all", "", outcome.refs_mark, as_text(found))])


def _holds(task: Task, unit: CheckUnit, level: Level, check: Check) -> bool:
    """Whether nothing has changed since this was found; of hashes, which change without a trace, not for long."""
    days = (0, 1) if level == "hashes" else (0,)
    return check.mark[:_MARK] in [_mark(task, unit, level, days_ago=ago) for ago in days]


def _is_some(task: Task, level: Level) -> bool:
    """Whether some samples are looked at on this level, and not all."""
    return level in OF_SAMPLES and not task.sampling.is_all


def _sample(task: Task, unit: CheckUnit) -> bytes:
    """Names the samples that are looked at."""
    return f"{task.sampling.share} {task.sampling.seed} {unit.shard.path}".encode("utf-8", "surrogatepass")


def _mark(task: Task, unit: CheckUnit, level: Level, *, days_ago: int = 0) -> bytes:
    """Names everything that the findings of a level depend on, but for which samples were looked at."""
    shard = unit.shard
    told: list[object] = [FORMAT, level, shard.size, shard.mtime_ns, unit.indexed_as]
    if level == "structure":
        told += [unit.keys.field, unit.keys.is_alone]
    elif level == "hashes":
        told += [*unit.expected, int(time.time() // _DAY_S) - days_ago]
    if level == "headers" and unit.catalog:
        told.append(task.media_marks[unit.shard_id])
    elif level == "schema":
        told += [repr(task.rules), "content" in task.levels]
    elif level == "refs":
        told += [(rule.field, rule.store, open_ref_store(rule.store).digest) for rule in task.refs]
    return blake2b(repr(told).encode("utf-8", "backslashreplace"), digest_size=_MARK).digest()
