"""`wdsctl repair`: write fixed copies of broken shards, and render the report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.errors import PARTIAL, explain_partial_if_quiet
from wdsctl.cli.formatting import display_path, format_count, format_duration, shell_argument
from wdsctl.cli.tables import finding_lines, make_table, sort_by_severity
from wdsctl.core.invocation import worker_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from wdsctl.core.repair.repair import RepairReport


EPILOG = """
\b
Examples:
  wdsctl repair shards/ fixed/ --dry-run        preview the repair
  wdsctl repair shards/ fixed/                  copy and fix broken shards
  wdsctl repair shards/ fixed/ --all            also copy intact shards
  wdsctl repair qa.jsonl fixed/ --encoding latin-1
  wdsctl repair shards/ --in-place --yes        keep originals as SHARD.bak

\b
`repair` fixes truncated tails, headers with wrong checksums, interleaved
and duplicate keys, and duplicate parts. In JSONL, it removes byte order
marks and lines that are not JSON objects, and turns CRLF into LF. It reports
what it loses or cannot decide, and then exits with 5.
"""


def command(
    root: options.RootArgument,
    dest: Annotated[
        str | None, typer.Argument(metavar="DEST", help="The folder or URL for the fixed copies, outside ROOT.")
    ] = None,
    *,
    in_place: Annotated[bool, typer.Option("--in-place", help="Replace the broken shards. Needs --yes.")] = False,
    no_backup: Annotated[
        bool, typer.Option("--no-backup", help="With --in-place: do not keep the originals as SHARD.bak.")
    ] = False,
    all_shards: Annotated[bool, typer.Option("--all", help="Also copy the intact shards.")] = False,
    encoding: Annotated[
        str,
        typer.Option("--encoding", metavar="NAME", help="For JSONL: the encoding of lines that are not UTF-8."),
    ] = "",
    limit: options.LimitOption = 20,
    dry_run: options.DryRunOption = False,
    wait: options.WaitOption = 0.0,
    workers: options.UnitWorkersOption = None,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Write fixed copies of broken shards. Does not modify ROOT without --in-place."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.repair.repair import RepairRequest, repair

    _check_options(encoding, in_place=in_place, no_backup=no_backup, is_sure=common.yes or dry_run)
    request = RepairRequest(
        dest=dest or "",
        in_place=in_place,
        all_shards=all_shards,
        backup=not no_backup,
        encoding=encoding,
        wait=wait,
        dry_run=dry_run,
    )
    with show_progress(common.output) as progress:
        report = repair(root, request, catalog=catalog, workers=worker_count(workers), progress=progress)
    common.output.answer("repair", report, repair_renderer(limit, in_place=in_place), names=_written(report))
    explain_partial_if_quiet(common.output, report.findings)
    return PARTIAL if report.findings else 0


def _check_options(encoding: str, *, in_place: bool, no_backup: bool, is_sure: bool) -> None:
    import codecs

    from wdsctl.core.errors import OptionConflict, UsageError

    if in_place and not is_sure:
        raise UsageError("--in-place replaces shards, so it needs --yes", hint="`--dry-run` shows what would be done")
    if no_backup and not in_place:
        raise OptionConflict(
            "--no-backup needs --in-place",
            options=("--no-backup",),
            hint="remove --no-backup: repair does not change ROOT",
        )
    try:
        if encoding:
            codecs.lookup(encoding)
    except LookupError as error:
        raise UsageError(
            f"--encoding {encoding}: unknown encoding",
            hint="pass an encoding that Python knows, such as latin-1 or cp1252",
        ) from error


def _written(report: RepairReport) -> Iterator[str]:
    """The paths of the shards that the report says were written."""
    for shard in report.repaired:
        if shard.became in ("fixed", "copied"):
            yield os.path.join(report.dest or report.root, shard.shard)


def repair_renderer(limit: int, *, in_place: bool = False) -> Callable[[RepairReport], Iterator[RenderableType]]:
    """A renderer that lists at most `limit` shards, and as many findings; 0 for all."""
    return partial(render_repair, limit=limit, in_place=in_place)


def render_repair(report: RepairReport, *, limit: int = 0, in_place: bool = False) -> Iterator[RenderableType]:
    findings = sort_by_severity(report.findings)
    shown = findings[:limit] if limit else findings
    yield from finding_lines(shown)
    if len(shown) < len(findings):
        yield f"... and {format_count(len(findings) - len(shown))} more (--limit 0 lists them all)"
    broken = [shard for shard in report.repaired if shard.fixes or shard.became == "lost"]
    listed = broken[:limit] if limit else broken
    if listed:
        rows = [
            (shard.shard, _fixes_text(shard.fixes) if shard.became != "lost" else "beyond repair") for shard in listed
        ]
        yield make_table(("shard", "what was done" if not report.dry_run else "what would be done"), rows)
    if len(listed) < len(broken):
        yield f"... and {format_count(len(broken) - len(listed))} more (--limit 0 lists them all)"
    if broken:
        yield ""
    yield f"{display_path(report.root)}: {_verdict(report, in_place=in_place)}"
    total: Counter[str] = Counter()
    for shard in broken:
        total.update(shard.fixes)
    yield from (f"  {fix}: {format_count(times)}" for fix, times in sorted(total.items()))
    yield f"  checked {format_count(report.shards, 'shard')} in {format_duration(report.seconds)}"
    if report.fixed and not report.dry_run:
        yield from _next_steps(report, in_place=in_place)


def _next_steps(report: RepairReport, *, in_place: bool) -> Iterator[str]:
    if in_place:
        yield f"  next: wdsctl index {shell_argument(report.root)}"
        yield "  after that, trainings cannot resume from states saved on the repaired shards: let them end first"
        if any(shard.backup for shard in report.repaired):
            yield "  to resume them nevertheless, put the .bak files back and run index again"
        return
    if report.sound and not report.copied:
        only = f"only the {format_count(report.fixed, 'repaired shard')}"
        yield f"  {display_path(report.dest)} has {only}; --all copies the sound ones too"
    yield f"  next: wdsctl prepare {shell_argument(report.dest)}"


def _verdict(report: RepairReport, *, in_place: bool) -> str:
    if report.fixed + report.beyond_repair + report.copied == 0:
        return f"nothing to repair: {format_count(report.sound, 'sound shard')}"
    would = "would be " if report.dry_run else ""
    facts = [
        (report.fixed, f"{would}repaired"),
        (report.copied, f"{would}copied unchanged"),
        (report.beyond_repair, "beyond repair"),
        (report.sound, "sound"),
    ]
    summary = ", ".join(f"{format_count(count)} {outcome}" for count, outcome in facts if count)
    backups = sum(bool(shard.backup) for shard in report.repaired)
    if backups:
        return f"{summary}; the originals are in {format_count(backups, '.bak file')}"
    is_written = (report.fixed or report.copied) and not (report.dry_run or in_place)
    return f"{summary} (in {display_path(report.dest)})" if is_written else summary


def _fixes_text(fixes: dict[str, int]) -> str:
    return ", ".join(f"{fix}: {format_count(times)}" if times > 1 else fix for fix, times in fixes.items())
