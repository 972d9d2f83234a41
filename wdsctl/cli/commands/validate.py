"""`wdsctl validate`: check a dataset or a blend, and render the findings."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from wdsctl.cli import options
from wdsctl.cli.declared import takes
from wdsctl.cli.formatting import (
    display_path,
    escape_line,
    format_count,
    format_duration,
    format_share,
    format_size,
    view_suffix,
)
from wdsctl.cli.output import json_document, to_json_types
from wdsctl.cli.tables import count_severities, grouped_finding_lines, make_table, sort_by_severity
from wdsctl.core.codes import load_codes
from wdsctl.core.errors import SEVERITIES, Finding, OptionConflict, Severity
from wdsctl.core.validate.request import ReleaseReport, ValidateCommand, ValidateReport, check_release_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType


EPILOG = """
\b
Examples:
  wdsctl validate shards/
  wdsctl validate shards/ --level content       decode all media
  wdsctl validate shards/ --level all --sample 1%
  wdsctl validate qa.jsonl --level refs --refs image=media/
  wdsctl validate shards/ --fail-on error       exit with 0 despite warnings
  wdsctl validate shards/ --format sarif -o findings.sarif
  wdsctl validate shards/ --level content --quarantine

\b
Levels:
  structure   tars, keys, parts, catalog; always checked
  headers     headers of media and arrays
  content     decodes all parts; includes headers
  load        loads and batches samples as a training; needs wdsctl[loader]
  schema      whether values match the sample type
  refs        whether names of media exist in their stores
  hashes      SHA-256 of every shard; reads all bytes every time
  all         all of these
"""

DEFAULT_LIMIT = 20  # findings in the report

FailOnOption = Annotated[
    Literal["error", "warning", "note", "never"],
    typer.Option(
        "--fail-on",
        metavar="error|warning|note|never",
        help="Exit with 1 if a finding has this severity or a higher one.",
    ),
]
FormatOption = Annotated[
    Literal["text", "json", "sarif", "junit"] | None,
    typer.Option(
        "--format",
        metavar="text|json|sarif|junit",
        help="Format of the report. [default: text]",
        show_default=False,
    ),
]


@takes(ValidateCommand)
def command(
    request: ValidateCommand,
    *,
    fail_on: FailOnOption = "warning",
    limit: options.LimitOption = DEFAULT_LIMIT,
    format: FormatOption = None,  # noqa: A002 - the option's name
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to FILE, and text to stdout.")
    ] = None,
    common: options.CommonOptions,
) -> int:
    """Check a dataset for errors. Checks tar structure, keys, parts and catalog; --level selects further checks."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.errors import findings_at_least
    from wdsctl.core.validate.validate import run_validate

    if request.release:
        given = {
            "--fail-on": fail_on != "warning",
            "--limit": limit != DEFAULT_LIMIT,
            "--format": format,
            "--output": output,
        }
        check_release_options(flag for flag, is_given in given.items() if is_given)
    else:
        _check_format(format or "text", output, is_json=common.json)
    with show_progress(common.output) as progress:
        report = run_validate(request, progress=progress)
    if isinstance(report, ReleaseReport):
        common.output.answer("validate", report, render_release)
        return 0
    _write_answer(report, format, output, fail_on, limit, common)
    return 1 if fail_on != "never" and findings_at_least(report.findings, fail_on) else 0


def _check_format(output_format: str, output: str | None, *, is_json: bool) -> None:
    from wdsctl.core.errors import UsageError

    if output_format == "text" and output is not None and not is_json:
        raise UsageError("-o needs --format", hint="add `--format sarif`, `--format junit` or `--format json`")
    if output is not None and os.path.isdir(output):
        raise UsageError("-o is a folder", where=output, hint="pass a file in this folder")
    if output is not None and not os.path.isdir(os.path.dirname(os.path.abspath(output))):  # before hours of work
        raise UsageError(
            "the folder of -o does not exist", where=output, hint="create the folder, or pass another file"
        )
    if is_json and output_format not in ("text", "json"):
        raise OptionConflict(
            f"--json and --format {output_format} exclude each other",
            options=("--json", "--format"),
            are_exclusive=True,
            hint="omit one of them",
        )


def _write_answer(
    report: ValidateReport,
    output_format: str | None,
    output: str | None,
    fail_on: str,
    limit: int,
    common: options.CommonOptions,
) -> None:
    """Write the report to stdout; or to a file, and the text, or with --json the document, to stdout."""
    from wdsctl.cli.output import write_plain
    from wdsctl.core.directories import resolve_parent
    from wdsctl.core.files import write_text

    selected = "json" if common.json else output_format or "text"
    text = "" if selected == "text" else format_validation(report, selected, fail_on)
    if output is not None:
        write_text(resolve_parent(output), text)
    if text and output is None:
        write_plain(sys.stdout, text)
    else:
        common.output.answer("validate", report, validation_renderer(limit), is_explicit=output_format == "text")


def validation_renderer(limit: int) -> Callable[[ValidateReport], Iterator[RenderableType]]:
    """A renderer that lists at most `limit` findings, 0 for all."""
    return partial(render_validation, limit=limit)


def render_validation(report: ValidateReport, *, limit: int = 0) -> Iterator[RenderableType]:
    findings = sort_by_severity(report.findings)
    shown = select_examples(findings, limit) if limit else findings
    yield from grouped_finding_lines(findings, shown)
    if len(shown) < len(findings):
        yield f"... and {format_count(len(findings) - len(shown))} more (--limit 0 lists them all)"
    if findings:
        yield ""
        yield make_table(("code", "severity", "#times", "what"), rows_by_code(report))
        yield ""
    checked = (
        f"{format_count(report.shards, 'shard')}, {format_count(report.samples, 'sample')}, "
        f"{format_size(report.size_bytes)}"
    )
    yield f"{display_path(report.root)}{view_suffix(report.view)}: {count_severities(report.findings)}"
    yield f"  checked {checked} in {format_duration(report.seconds)}{_coverage_text(report)}"
    for each in report.skipped:
        yield f"  {escape_line(each)}"
    if report.not_checked:
        yield f"  {report.not_checked}"
    if report.unread:
        yield f"  {_reuse_text(report)}"
    if report.quarantine is not None:
        quarantine = report.quarantine
        new = f"{format_count(quarantine.samples, 'sample')} and {format_count(quarantine.shards, 'whole shard')}"
        total = (
            f"{format_count(quarantine.all_samples, 'sample')} and {format_count(quarantine.all_shards, 'whole shard')}"
        )
        yield f"  newly excluded from all splits: {new}; in quarantine in total: {total}"
        yield from _split_lines(quarantine.splits)


def render_release(report: ReleaseReport) -> Iterator[RenderableType]:
    released = f"released {format_count(report.released)} from quarantine"
    yield f"{display_path(report.root)}: {released if report.released else 'nothing is in quarantine'}"
    yield from _split_lines(report.splits)


def format_validation(report: ValidateReport, output_format: str, fail_on: str) -> str:
    """Format as json, sarif or junit. In junit, findings of severity `fail_on` or above are failures."""
    if output_format == "sarif":
        from wdsctl.core.validate.ci_formats import format_sarif

        return format_sarif(report.root, report.findings)
    if output_format == "junit":
        from wdsctl.core.validate.ci_formats import format_junit

        min_severity = None if fail_on == "never" else cast("Severity", fail_on)
        return format_junit(report.root, report.findings, fail_on=min_severity, seconds=report.seconds)
    return json_document({"command": "validate", **to_json_types(report)})


def select_examples(findings: Sequence[Finding], limit: int) -> list[Finding]:
    """Select `limit` findings in their order, the first of each code before the second of any."""
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for i, finding in enumerate(findings):
        kind = (finding.severity, finding.code)
        ranked.append((seen[kind], i))
        seen[kind] += 1
    return [findings[i] for i in sorted(i for _, i in sorted(ranked)[:limit])]


def rows_by_code(report: ValidateReport) -> list[tuple[str, str, str, str]]:
    """One row per code and severity, the gravest first."""
    counts: dict[tuple[int, str], int] = {}
    for finding in report.findings:
        group = (-SEVERITIES.index(finding.severity), finding.code)
        counts[group] = counts.get(group, 0) + finding.count
    codes = load_codes()
    return [(code, SEVERITIES[-rank], format_count(n), codes[code].title) for (rank, code), n in sorted(counts.items())]


def _coverage_text(report: ValidateReport) -> str:
    """The levels, unless only `structure` was checked, and the share of the samples."""
    levels = f"; levels: {', '.join(report.levels)}" if report.levels != ("structure",) else ""
    share = f"; {format_share(report.share)} of the samples, seed {report.seed}" if report.share < 1 else ""
    return levels + share


def _reuse_text(report: ValidateReport) -> str:
    which = "all shards are" if report.unread == report.shards else f"{format_count(report.unread)} shards are"
    if report.unread == 1:
        which = "1 shard is"
    return f"{which} unchanged since the last validation: earlier findings are shown (--again checks again)"


def _split_lines(splits: dict[str, int]) -> Iterator[RenderableType]:
    for name, samples in splits.items():
        yield f"  split {escape_line(name)}: {format_count(samples, 'sample')}"
