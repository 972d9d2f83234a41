"""What `wdsctl catalog` says of a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, size
from wdsctl.cli.render.pieces import finding_lines, gravest_first, labelled, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.catalog_check import CatalogCheckReport
    from wdsctl.core.verbs.catalog_files import CatalogFile
    from wdsctl.core.verbs.catalog_info import CatalogInfoReport
    from wdsctl.core.verbs.catalog_migrate import CatalogMigrateReport
    from wdsctl.core.verbs.catalog_vacuum import CatalogVacuumReport

#: Listed for people; --json has them all.
SHOWN = 20


def render_info(report: CatalogInfoReport) -> Iterator[RenderableType]:
    yield f"{path(report.catalog)}: generation {report.generation}, {size(report.size_bytes)} with all its files"
    older = "" if report.schema_version == report.present_version else f" (the present one is {report.present_version})"
    rows = "" if report.sample_rows else ", without rows of samples"
    yield labelled(
        [
            ("schema", f"version {report.schema_version}{older}, written by {report.written_by or 'nobody'}"),
            ("uuid", report.uuid),
            ("holds", f"{count(report.shards, 'shard')}, {count(report.samples, 'sample')}{rows}"),
            ("hashed", f"{count(report.hashed)} of {count(report.shards, 'shard')}"),
            ("generations", ", ".join(map(str, report.generations)) or "none"),
            *([("chosen", report.selection)] if report.selection else []),
            *([("excluded", ", ".join(report.exclude))] if report.exclude else []),
        ]
    )
    yield ""
    filled = [each for each in report.tables if each.rows]
    yield table(
        ("table", "#rows", "#size"),
        [(each.name, count(each.rows), "" if each.size_bytes is None else size(each.size_bytes)) for each in filled],
    )
    yield ""
    yield from _files(report.files)


def render_check(report: CatalogCheckReport) -> Iterator[RenderableType]:
    yield table(
        ("check", "result"),
        [(each.name, "ok" if not each.problems else f"{count(each.problems)} wrong") for each in report.checks],
    )
    yield from finding_lines(gravest_first(report.findings)[:SHOWN])
    if len(report.findings) > SHOWN:
        yield f"  ... and {count(len(report.findings) - SHOWN)} more (--json lists them all)"


def render_migrate(report: CatalogMigrateReport) -> Iterator[RenderableType]:
    if report.up_to_date:
        yield f"{path(report.root)}: of the present schema, version {report.now}"
        return
    done = "would be brought" if report.dry_run else "brought"
    yield (
        f"{path(report.root)}: {done} from schema version {report.was} to {report.now}, "
        f"generation {report.generation} as before"
    )


def render_vacuum(report: CatalogVacuumReport) -> Iterator[RenderableType]:
    would = "would free at least" if report.dry_run else "freed"
    yield f"{path(report.root)}: {would} {size(max(0, report.freed_bytes))}"
    rows = ", ".join(f"{count(rows)} of {name}" for name, rows in report.rows.items()) or "none"
    packed = "" if report.dry_run else f" ({size(report.before_bytes)} before)"
    yield labelled(
        [
            ("catalog", f"{size(report.after_bytes)}{packed}"),
            *([] if report.dry_run else [("rows dropped", rows)]),
            *((f"generation {kept.generation}", f"stays: {kept.why}") for kept in report.kept),
        ]
    )
    if report.files:
        yield "would remove" if report.dry_run else "removed"
        yield from _files(report.files)
    if report.asked_for:
        total = size(sum(file.size_bytes for file in report.asked_for))
        yield f"--yes removes {count(len(report.asked_for), 'damaged file')}, too ({total})"


def _files(files: tuple[CatalogFile, ...]) -> Iterator[RenderableType]:
    """Files by name; those that are many of a kind as one line."""
    many = {kind for kind, number in Counter(file.kind for file in files).items() if number > SHOWN}
    rows = [
        (file.name, file.kind, "" if file.generation is None else str(file.generation), size(file.size_bytes))
        for file in files
        if file.kind not in many
    ]
    for kind in sorted(many):
        group = [file for file in files if file.kind == kind]
        rows.append((f"({count(len(group), 'file')})", kind, "", size(sum(file.size_bytes for file in group))))
    yield table(("file", "kind", "#generation", "#size"), rows)
