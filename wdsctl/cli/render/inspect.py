"""What is in a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, field_map, path, relative, safe, share, size
from wdsctl.cli.render.index import columns_table, media
from wdsctl.cli.render.pieces import finding_lines, labelled, table
from wdsctl.cli.render.split import splits_table
from wdsctl.core.command_line import command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.inspect import InspectReport, SampleLine

#: Shards listed; --json has the first 1,000.
SHARDS_SHOWN = 10
PARTS_SHOWN = 100  # of the dataset, and of each sample: tables of thousands of lines are drawn for minutes
STALE_SHOWN = 10


def render(report: InspectReport) -> Iterator[RenderableType]:
    yield (
        f"{path(report.root)}: {count(report.shards, 'shard')}, {count(report.samples, 'sample')}, "
        f"{size(report.size_bytes)}"
    )
    yield labelled(_facts(report))
    if report.parts:
        yield ""
        yield from _parts(report)
    if report.splits:
        yield ""
        yield splits_table(report.splits)
    elif report.samples:
        yield ""
        yield f"no splits yet ({relative(command('split', report.root, '8,1,1'))} makes them)"
    yield from _excluded_and_views(report)
    if report.media is not None:
        yield ""
        yield from media(report.media)
    if report.columns:
        yield ""
        yield columns_table(report.columns)
    if report.shard_list:
        yield ""
        yield from _shards(report)
    if report.first:
        yield ""
        yield from _samples(report.first)
    if report.stale:
        yield ""
        yield from _stale(report)


def _facts(report: InspectReport) -> list[tuple[str, str]]:
    fields = f": {field_map(report.field_map)}" if report.field_map else ""
    facts = [
        ("sample type", f"{report.sample_type or 'not known'}{fields}"),
        ("catalog", f"{path(report.catalog)} ({size(report.catalog_bytes)}, generation {report.generation})"),
    ]
    if report.statuses.keys() - {"ok"}:
        facts.append(("shards", ", ".join(f"{count(number)} {status}" for status, number in report.statuses.items())))
    if report.looked_at < report.shards:
        words = f"{count(report.looked_at)} of {count(report.shards, 'shard')}, whether they are as they were"
        facts.append(("looked at", f"{words} ({relative(command('index', report.root, '--dry-run'))} looks at all)"))
    return facts


def _stale(report: InspectReport) -> Iterator[RenderableType]:
    yield from finding_lines(report.stale[:STALE_SHOWN])
    if len(report.stale) > STALE_SHOWN:
        yield f"... and {count(len(report.stale) - STALE_SHOWN)} more (--json lists them all)"
    if any(finding.code == "WDS305" for finding in report.stale):
        yield f"{relative(command('index', report.root))} brings the catalog up to date"


def _excluded_and_views(report: InspectReport) -> Iterator[RenderableType]:
    if report.excluded:
        yield f"{count(report.excluded, 'sample')} excluded: in no split"
    if report.views:
        yield ""
        yield table(("view", "#samples"), [(view.name, count(view.samples)) for view in report.views])


def _parts(report: InspectReport) -> Iterator[RenderableType]:
    shown = report.parts[:PARTS_SHOWN]
    yield table(
        ("part", "#samples", "#share", "#size", "#empty"),
        [(p.name, count(p.samples), share(p.share), size(p.size_bytes), count(p.empty)) for p in shown],
    )
    yield from _more_parts(len(report.parts))


def _more_parts(parts: int) -> Iterator[str]:
    if parts > PARTS_SHOWN:
        yield f"... and {count(parts - PARTS_SHOWN)} more (--json lists them all)"


def _shards(report: InspectReport) -> Iterator[RenderableType]:
    shown = report.shard_list[:SHARDS_SHOWN]
    yield table(
        ("shard", "#samples", "#size", "status"),
        [(shard.path, count(shard.samples), size(shard.size_bytes), shard.status) for shard in shown],
    )
    if len(shown) < report.shards:
        everywhere = relative(command("ls", report.root, "-l"))
        yield f"... and {count(report.shards - len(shown))} more ({everywhere} lists them all)"


def _samples(samples: tuple[SampleLine, ...]) -> Iterator[RenderableType]:
    yield "first samples"
    for sample in samples:
        yield f"{safe(sample.key)} in {safe(sample.shard)}"
        shown = sample.parts[:PARTS_SHOWN]
        yield labelled([(safe(part.name), f"{size(part.size_bytes)}  {part.preview}") for part in shown])
        yield from _more_parts(len(sample.parts))
