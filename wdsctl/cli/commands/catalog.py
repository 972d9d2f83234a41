"""`wdsctl catalog`: inspect, check and compact the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, format_count, format_size
from wdsctl.cli.tables import finding_lines, labelled_lines, make_table, more_findings_line, sort_by_severity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.index.catalog_check import CatalogCheckReport, CatalogInfoReport
    from wdsctl.core.index.vacuum import CatalogFile, CatalogVacuumReport


HELP = "Inspect, check and compact the catalog."

EPILOG = """
\b
Examples:
  wdsctl catalog info shards/       versions, sizes, files
  wdsctl catalog check shards/      errors; reads no shards
  wdsctl catalog vacuum shards/     delete unused rows and files

\b
`wdsctl index ROOT --rebuild` rebuilds a catalog from the shards.
"""

INFO_EPILOG = """
\b
Examples:
  wdsctl catalog info shards/
  wdsctl catalog info shards/ --json
"""

CHECK_EPILOG = """
\b
Examples:
  wdsctl catalog check shards/
  wdsctl catalog check shards/ && python train.py

\b
Exits with 1 if a check fails. `wdsctl validate` checks the shards.
"""

VACUUM_EPILOG = """
\b
Examples:
  wdsctl catalog vacuum shards/ --dry-run
  wdsctl catalog vacuum shards/ --generations 1
  wdsctl catalog vacuum shards/ --yes             also damaged files

\b
A training state resumes only if the catalog still has its generation.
"""


def info(root: options.SamplesArgument, *, catalog: options.CatalogOption = None, common: options.CommonOptions) -> int:
    """Show versions, generation, tables and files of the catalog."""
    from wdsctl.core.index.catalog_check import catalog_info

    common.output.answer("catalog info", catalog_info(root, catalog=catalog), render_catalog_info)
    return 0


def check(
    root: options.SamplesArgument, *, catalog: options.CatalogOption = None, common: options.CommonOptions
) -> int:
    """Check that catalog, offsets files and columns are intact and consistent."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.errors import findings_at_least
    from wdsctl.core.index.catalog_check import catalog_check

    with show_progress(common.output) as progress:
        report = catalog_check(root, catalog=catalog, progress=progress)
    common.output.answer("catalog check", report, render_catalog_check)
    return 1 if findings_at_least(report.findings, "warning") else 0


def vacuum(
    root: options.SamplesArgument,
    *,
    generations: Annotated[
        int,
        typer.Option(
            "--generations", metavar="N", min=1, help="Number of generations to keep, including the current one."
        ),
    ] = 3,
    catalog: options.CatalogOption = None,
    wait: options.WaitOption = 0.0,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Delete unused rows and files, and compact the catalog. With --yes, also delete damaged files."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.index.vacuum import catalog_vacuum

    with show_progress(common.output) as progress:
        report = catalog_vacuum(
            root,
            catalog=catalog,
            generations=generations,
            damaged=common.yes,
            dry_run=dry_run,
            wait=wait,
            progress=progress,
        )
    common.output.answer("catalog vacuum", report, render_vacuum)
    return 0


group = options.make_group(
    ("info", info, INFO_EPILOG),
    ("check", check, CHECK_EPILOG),
    ("vacuum", vacuum, VACUUM_EPILOG),
)


#: Findings listed; --json has all.
FINDINGS_SHOWN = 20


def render_catalog_info(report: CatalogInfoReport) -> Iterator[RenderableType]:
    yield (
        f"{display_path(report.catalog)}: generation {report.generation}, {format_size(report.size_bytes)} "
        "with all its files"
    )
    older = "" if report.schema_version == report.present_version else f" (current: {report.present_version})"
    rows = "" if report.sample_rows else ", without sample rows"
    yield labelled_lines(
        [
            (
                "schema",
                f"version {report.schema_version}{older}, written by {report.written_by or 'an unknown version'}",
            ),
            ("uuid", report.uuid),
            ("contents", f"{format_count(report.shards, 'shard')}, {format_count(report.samples, 'sample')}{rows}"),
            ("hashed", f"{format_count(report.hashed)} of {format_count(report.shards, 'shard')}"),
            ("generations", ", ".join(map(str, report.generations)) or "none"),
            *([("selection", report.selection)] if report.selection else []),
            *([("excluded", ", ".join(report.exclude))] if report.exclude else []),
        ]
    )
    yield ""
    filled = [each for each in report.tables if each.rows]
    yield make_table(
        ("table", "#rows", "#size"),
        [
            (each.name, format_count(each.rows), "" if each.size_bytes is None else format_size(each.size_bytes))
            for each in filled
        ],
    )
    yield ""
    yield from _files(report.files)


def render_catalog_check(report: CatalogCheckReport) -> Iterator[RenderableType]:
    yield make_table(
        ("check", "result"),
        [(each.name, "ok" if not each.problems else f"{format_count(each.problems)} wrong") for each in report.checks],
    )
    findings = sort_by_severity(report.findings)
    yield from finding_lines(findings[:FINDINGS_SHOWN])
    if len(findings) > FINDINGS_SHOWN:
        yield f"  {more_findings_line(findings[FINDINGS_SHOWN:], '--json')}"


def render_vacuum(report: CatalogVacuumReport) -> Iterator[RenderableType]:
    would = "would free at least" if report.dry_run else "freed"
    yield f"{display_path(report.root)}: {would} {format_size(max(0, report.freed_bytes))}"
    rows = ", ".join(f"{format_count(rows)} of {name}" for name, rows in report.rows.items()) or "none"
    packed = "" if report.dry_run else f" ({format_size(report.before_bytes)} before)"
    yield labelled_lines(
        [
            ("catalog", f"{format_size(report.after_bytes)}{packed}"),
            *([] if report.dry_run else [("rows dropped", rows)]),
            *((f"generation {kept.generation}", f"kept: {kept.why}") for kept in report.kept),
        ]
    )
    if report.files:
        yield "would remove" if report.dry_run else "removed"
        yield from _files(report.files)
    if report.damaged:
        total = format_size(sum(file.size_bytes for file in report.damaged))
        yield f"--yes also removes {format_count(len(report.damaged), 'damaged file')} ({total})"


def _files(files: tuple[CatalogFile, ...]) -> Iterator[RenderableType]:
    """A table of files by name; a kind with many files takes one row."""
    many = {kind for kind, number in Counter(file.kind for file in files).items() if number > FINDINGS_SHOWN}
    rows = [
        (file.name, file.kind, "" if file.generation is None else str(file.generation), format_size(file.size_bytes))
        for file in files
        if file.kind not in many
    ]
    for kind in sorted(many):
        group = [file for file in files if file.kind == kind]
        rows.append(
            (f"({format_count(len(group), 'file')})", kind, "", format_size(sum(file.size_bytes for file in group)))
        )
    yield make_table(("file", "kind", "#generation", "#size"), rows)
