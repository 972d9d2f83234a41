"""`wdsctl inspect`: what is in a dataset, or in a blend file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import exit_codes, options
from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from wdsctl.core.verbs.inspect_samples import Pick

EPILOG = """
\b
Examples:
  wdsctl inspect shards/                     counts, parts, splits, shards
  wdsctl inspect shards/ --samples 3         the first samples, with pictures
  wdsctl inspect shards/ --random 5 --seed 1 --split val
  wdsctl inspect shards/ --key 000042        one sample
  wdsctl inspect shards/ --stats             histograms
  wdsctl inspect blend.yaml --samples 1e6    what a blend is made of
  wdsctl inspect shards/ --json | jq '.parts[].name'

\b
The summary comes from the catalog, whatever the number of samples. --stats
takes sizes and media from there too, and reads 1,000 samples, or --random N,
for texts, JSON and what else the catalog does not have.
"""

#: Samples that --stats reads, and first ones that the summary shows.
READ, FIRST = 1_000, 3

Images = Annotated[
    Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"],
    typer.Option(
        "--images", metavar="auto|blocks|kitty|iterm|sixel|none", help="How to draw pictures in the terminal."
    ),
]


def whole_number(text: str | int) -> int:
    """`5000`, `5_000`, `1e6`. Typer sends a default, a number, through here too."""
    try:
        number = int(float(text)) if isinstance(text, str) and "e" in text.lower() else int(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text} is not a valid integer") from error
    if number < 0:
        raise typer.BadParameter(f"{text} is not in the range x>=0")
    return number


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the options say, of a dataset."""

    root: str
    stats: bool
    samples: int | None
    random: int | None
    key: str | None
    shard: str | None
    seed: int | None
    split: str | None
    images: Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"]
    catalog: str | None


def command(
    root: Annotated[
        str,
        typer.Argument(
            metavar="ROOT", help="The dataset: a folder with shards, a .jsonl file, or a URL; or a blend file."
        ),
    ],
    *,
    stats: Annotated[bool, typer.Option("--stats", help="Sizes, media, texts and JSON keys, with histograms.")] = False,
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", parser=whole_number, help="Show the first N samples.")
    ] = None,
    random: Annotated[
        int | None, typer.Option("--random", metavar="N", parser=whole_number, help="Show N samples drawn by --seed.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="S", help="Another seed, other samples. [default: 0]")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Show the sample of this key.")] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="PATH", help="Where a key repeats: the one in PATH.")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="NAME", help="Samples of this split alone.")] = None,
    images: Images = "auto",
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Show what is in a dataset or a blend file. A summary, samples, or statistics."""
    asked = _Asked(root, stats, samples, random, key, shard, seed, split, images, catalog)
    _check(asked)
    if _is_blend(root):
        return _blend(asked, common)
    if stats:
        return _stats(asked, common)
    if key is not None or random is not None or samples:
        return _samples(asked, common)
    return _summary(asked, common)


def _check(asked: _Asked) -> None:
    """Raise UsageError where options contradict each other, or say nothing."""
    ways = [
        name
        for name, value in (("--key", asked.key), ("--random", asked.random), ("--samples", asked.samples))
        if value is not None
    ]
    if len(ways) > 1:
        raise UsageError(f"{ways[0]} and {ways[1]} exclude each other", hint="each chooses samples in its own way")
    if asked.stats and (asked.key is not None or asked.samples is not None):
        raise UsageError(f"--stats and {ways[0]} exclude each other", hint="--stats --random N reads N samples")
    if asked.seed is not None and asked.random is None and not asked.stats:
        raise UsageError("--seed draws samples, and none are drawn", hint="add --random N, or --stats")
    if asked.shard is not None and asked.key is None:
        raise UsageError("--shard chooses among samples of one key", hint="add --key KEY; `wdsctl ls` lists shards")
    if asked.split is not None and (asked.key is not None or not (ways or asked.stats or _is_blend(asked.root))):
        raise UsageError("--split chooses among samples", hint="add --samples N, --random N or --stats")


def _is_blend(root: str) -> bool:
    from wdsctl.core.blend_file.paths import is_blend_file

    return is_blend_file(root)


def _summary(asked: _Asked, common: options.Common) -> int:
    from wdsctl.cli.commands import media_folder
    from wdsctl.cli.render.inspect import render
    from wdsctl.core.root_name import parse_root
    from wdsctl.core.verbs.inspect import inspect

    root, view = parse_root(asked.root, asked.catalog)
    if view:
        return _view(root, view, asked.catalog, common)
    first = FIRST if asked.samples is None else asked.samples
    if media_folder.is_one(asked.root, asked.catalog):
        return media_folder.show(asked.root, asked.catalog, first, common)
    report = inspect(asked.root, catalog=asked.catalog, samples=first)
    common.output.answer("inspect", report, render)
    return exit_codes.of_inspect(report)


def _view(root: str, view: str, catalog: str | None, common: options.Common) -> int:
    """The summary of `ROOT@VIEW` is that of the view."""
    from wdsctl.cli.render.view import render_show
    from wdsctl.core.verbs.view_look import show_view

    common.output.answer("inspect", show_view(root, view, catalog=catalog), render_show)
    return 0


def _samples(asked: _Asked, common: options.Common) -> int:
    from wdsctl.cli.output import has_color, width
    from wdsctl.cli.render.inspect_samples import renderer
    from wdsctl.cli.render.pictures import largest, manner_of
    from wdsctl.core.verbs.inspect_samples import inspect_samples

    wanted = "none" if common.json else asked.images
    manner = manner_of(wanted, sys.stdout, is_colored=has_color(sys.stdout, common.no_color))
    room = largest(manner, width(sys.stdout))
    report, pictures = inspect_samples(asked.root, _pick(asked), catalog=asked.catalog, largest=room)
    common.output.answer("inspect", report, renderer(pictures, manner))
    if not report.shown:
        return exit_codes.NO_SAMPLES
    return exit_codes.PARTLY if any(part.problem for sample in report.shown for part in sample.parts) else 0


def _pick(asked: _Asked) -> Pick:
    from wdsctl.core.verbs.inspect_samples import Pick

    if asked.random is None:
        return Pick(count=asked.samples or 0, key=asked.key, shard=asked.shard, split=asked.split)
    return Pick(count=asked.random, seed=asked.seed or 0, split=asked.split)


def _stats(asked: _Asked, common: options.Common) -> int:
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.inspect_stats import render
    from wdsctl.core.verbs.inspect_stats import inspect_stats

    count = READ if asked.random is None else asked.random
    with listening(common.output) as progress:
        report = inspect_stats(
            asked.root, count=count, seed=asked.seed or 0, split=asked.split, catalog=asked.catalog, progress=progress
        )
    common.output.answer("inspect", report, render)
    if not report.samples:
        return exit_codes.NO_SAMPLES
    return exit_codes.PARTLY if report.failed else 0


def _blend(asked: _Asked, common: options.Common) -> int:
    from wdsctl.cli.render.inspect_blend import render
    from wdsctl.core.verbs.inspect_blend import inspect_blend

    if asked.stats or asked.key is not None or asked.random is not None:
        raise UsageError("a blend file has no samples of its own to show", hint="inspect one of its datasets")
    report = inspect_blend(asked.root, split=asked.split, samples=asked.samples, catalog=asked.catalog)
    common.output.answer("inspect", report, render)
    return exit_codes.PARTLY if report.problems else 0
