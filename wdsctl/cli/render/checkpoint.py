"""What `wdsctl checkpoint` found in saved states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wdsctl.cli.figures import count, path, safe, size
from wdsctl.cli.render.pieces import labelled, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.state_facts import LaneStep, StateFacts
    from wdsctl.core.verbs.checkpoint import DiffReport, InfoReport, RedistributeReport, StateLine

#: Listed for people; --json has them all.
STATES_SHOWN = 20
LANES_SHOWN = 16
WORLDS_SHOWN = 12


def render_info(report: InfoReport) -> Iterator[RenderableType]:
    yield table(
        ("file", "key", "#rank", "#of", "#step", "#lanes", "#pending", "#size", "#budget"),
        [_row(line) for line in report.states[:STATES_SHOWN]],
    )
    if len(report.states) > STATES_SHOWN:
        yield f"... and {count(len(report.states) - STATES_SHOWN)} more (--json lists them all)"
    for line in report.states:
        if line.problem:
            yield f"{path(line.path)}: {safe(line.problem)}"
    for passed in report.passed_over:
        yield f"passed over {path(passed.path)}: {safe(passed.why)}"
    yield ""
    if report.job is not None:
        yield labelled(_facts(report.job))
        yield ""
    yield _verdict(report)


def render_redistribute(report: RedistributeReport) -> Iterator[RenderableType]:
    would = "would write" if report.dry_run else "wrote"
    states = "a united state" if report.states == 1 and report.world > 1 else count(report.states, "state")
    yield (
        f"{states} of {count(report.world, 'rank')} at step {count(report.step)}: {would} {size(report.size_bytes)} to"
    )
    yield labelled([(path(name), "") for name in report.files[:STATES_SHOWN]])
    if len(report.files) > STATES_SHOWN:
        yield f"... and {count(len(report.files) - STATES_SHOWN)} more (--json lists them all)"
    if not report.ranks:
        yield "every rank of any job resumes from it"
    elif report.splits_into == report.lanes:
        yield f"the files are alike: {count(report.ranks, 'rank')} go on with the very same global batches"
    else:
        yield (
            f"the files are alike: on {count(report.ranks, 'rank')} the {count(report.lanes, 'lane')} split into "
            f"{count(report.splits_into)}; nothing comes twice, nothing is missed, batches are composed anew"
        )


def render_diff(report: DiffReport) -> Iterator[RenderableType]:
    if report.is_same:
        yield "the states are the same"
        return
    for tier, lines, meaning in (
        ("order", report.order, "the job of the one refuses the state of the other"),
        ("recipe", report.recipe, "the one goes on under the other, with other batches"),
        ("place", report.place, "who saved it, and over which lanes: it hinders nothing"),
        ("bans", report.bans, "samples that are left out"),
    ):
        if lines:
            yield f"{tier} ({meaning})"
            yield labelled([(line, "") for line in map(safe, lines)])
    yield f"steps: {_apart(report.steps)}"
    if report.lanes:
        yield ""
        yield from _lanes(report.lanes)


def _lanes(lanes: tuple[LaneStep, ...]) -> Iterator[RenderableType]:
    yield table(
        ("#lane", "#first", "#second", "#apart"),
        [
            (str(lane.lane), _picks(lane.picks), _picks(lane.other), _distance(lane.picks, lane.other))
            for lane in lanes[:LANES_SHOWN]
        ],
    )
    if len(lanes) > LANES_SHOWN:
        yield f"... and {count(len(lanes) - LANES_SHOWN)} more (--json lists them all)"


def _row(line: StateLine) -> tuple[str, ...]:
    facts = line.facts
    if facts is None:
        return (path(line.path), line.key, *["?"] * 7)
    return (
        path(line.path),
        line.key,
        "all" if facts.rank < 0 else str(facts.rank),
        str(facts.world),
        count(facts.step),
        count(facts.lanes),
        count(facts.pending),
        size(facts.size_bytes),
        size(facts.budget_bytes),
    )


def _facts(job: StateFacts) -> list[tuple[str, RenderableType]]:
    epochs = f", {job.epochs:.2f} epochs" if job.epochs is not None else ""
    kind = "validation" if job.order.get("validation") else "training"
    if job.pass_number is not None:
        kind += f", pass {count(job.pass_number)}{', which is over,' if job.is_over else ''}"
    begun = "" if job.roots == job.lanes else f", {count(job.roots)} at the start"
    stages = ", ".join(job.shape)
    generations = sorted(set(job.generations))
    facts: list[tuple[str, RenderableType]] = [
        ("job", f"{kind} of {count(job.world, 'rank')}, step {count(job.step)} (batches of all ranks)"),
        ("picked", f"{count(job.picks, 'sample')}{epochs}"),
        ("lanes", f"{count(job.lanes)}{begun}"),
        ("sources", f"{count(job.sources)}, of generation {', '.join(map(str, generations))}"),
        ("waiting", f"{count(job.pending, 'position')}{f' in {stages}' if stages else ''}"),
        ("banned", count(job.bans, "sample")),
        ("order", ", ".join(f"{name} {_short(value)}" for name, value in job.order.items() if value != "")),
        ("recipe", job.recipe),
    ]
    return facts if job.lanes else [fact for fact in facts if fact[0] not in {"picked", "lanes", "waiting"}]


def _verdict(report: InfoReport) -> str:
    if report.problem:
        return f"these cannot be resumed from together: {safe(report.problem)}"
    if report.job is None or not report.job.lanes:
        return "any number of ranks can resume from this"
    shown = ", ".join(map(str, report.alike[:WORLDS_SHOWN]))
    more = ", ..." if len(report.alike) > WORLDS_SHOWN else ""
    return f"any number of ranks can resume from this; with the same global batches {shown}{more}"


def _short(value: Any) -> str:
    text = f"[{len(value)}]" if isinstance(value, list) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _apart(steps: int) -> str:
    if not steps:
        return "at the same step"
    return f"the second is {count(abs(steps), 'batch').replace('batchs', 'batches')} {'on' if steps > 0 else 'behind'}"


def _picks(picks: int | None) -> str:
    return "none" if picks is None else count(picks)


def _distance(first: int | None, second: int | None) -> str:
    return "" if first is None or second is None else f"{second - first:+,}"
