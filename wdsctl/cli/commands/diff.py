"""`wdsctl diff`: what one dataset has and another has not."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl diff old/ new/                two datasets
  wdsctl diff shards/@big shards/@all  two views
  wdsctl diff shards/ --since 3        one, and how it was at generation 3
  wdsctl diff old/ copy/ --content     their bytes, too: reads all of both
  wdsctl diff old/ new/ -q > /dev/null || echo they differ

\b
Samples are the same by key and by names and sizes of their parts; moved
where that is in another shard, changed where the key alone is the same.
Exits with 0 where nothing differs, 1 where something does, and 5 where
nothing else differs and shards could not be read.
"""


def command(
    first: Annotated[str, typer.Argument(metavar="A", help="A dataset, or a view of it: DATASET@NAME.")],
    second: Annotated[str | None, typer.Argument(metavar="[B]", help="Another one.")] = None,
    *,
    since: Annotated[
        int | None, typer.Option("--since", metavar="N", min=0, help="In place of B: compare A at generation N with")
    ] = None,
    until: Annotated[
        int | None, typer.Option("--until", metavar="N", min=0, help="this later one. [default: as it is now]")
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="Compare the bytes of parts whose sizes are the same.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Examples listed of each kind.")] = 5,
    catalog: Annotated[str | None, typer.Option("--catalog", metavar="DIR", help="The catalog of A is in DIR.")] = None,
    catalog_b: Annotated[
        str | None, typer.Option("--catalog-b", metavar="DIR", help="The catalog of B is in DIR.")
    ] = None,
    common: options.Common,
) -> int:
    """Compare two datasets. Shards and samples added, removed, moved, changed; splits."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.diff import render_diff
    from wdsctl.core.verbs.diff import diff

    with listening(common.output) as progress:
        report = diff(
            first,
            second,
            since=since,
            until=until,
            content=content,
            limit=limit,
            catalogs=(catalog, catalog_b),
            progress=progress,
        )
    common.output.answer("diff", report, render_diff)
    if not report.is_same:
        return 1
    return 5 if report.unreadable else 0
