"""`wdsctl convert`: from any form of a dataset to another, in other shards, in another order."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from wdsctl.cli import exit_codes, options, values

EPILOG = """
\b
Examples:
  wdsctl convert shards/ new/ --shard-size 500MB        other shards
  wdsctl convert shards/ new/ --shuffle --seed 7        mixed, all of it
  wdsctl convert shards/@large new/                     the samples of a view
  wdsctl convert a/ b/ c/ all/ --on-collision prefix    three datasets in one
  wdsctl convert shards/ by-split/ --apart split        one dataset a split
  wdsctl convert shards/ small/ --image jpeg:90 --max-side 1024
  wdsctl convert films/ light/ --layout polylithic --media mp4,wav
  wdsctl convert light/ whole/ --layout monolithic      and back
  wdsctl convert old/ new/                              .tar.gz to .tar
  wdsctl convert labels.csv shards/ -O files=image      from a table

\b
What goes into which file is decided before a byte is written. Killed at any
moment and run again, it does the rest; the bytes are the same for any number
of workers. Splits, sample type and field map go along into prepared datasets;
other forms and compressed shards have none. A sample that cannot be read or
written anew is left out and counted, and the exit code is 5.
"""

Paths = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE... DEST", help="Datasets (ROOT, or ROOT@VIEW) or files; then a new folder."),
]
From = Annotated[str, typer.Option("--from", metavar="FORM", help="What the sources are. [default: looked at]")]
To = Annotated[str, typer.Option("--to", metavar="FORM", help="What to write. [default: shards]")]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "-O", "--option", metavar="NAME=VALUE", help="An option of the form; to.NAME=VALUE of DEST's (repeatable)."
    ),
]
ShardSamples = Annotated[int, typer.Option("--shard-samples", metavar="N", min=1, help="Samples a file holds at most.")]
ShardSize = Annotated[
    int,
    typer.Option(
        "--shard-size",
        metavar="SIZE",
        parser=values.size_bytes,
        show_default=False,
        help="Bytes a file holds at most, by the sizes in the source. [default: 1GiB]",
    ),
]
Template = Annotated[str, typer.Option("--template", metavar="T", help="Names of the files; .tar stands for any end.")]
Sort = Annotated[Literal["none", "key"], typer.Option("--sort", metavar="key", help="Put the samples in order of key.")]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Mix all samples of all sources.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Another seed, another order.")]
Split = Annotated[str, typer.Option("--split", metavar="NAME", help="Take the samples of one split.")]
Where = Annotated[
    str, typer.Option("--where", metavar="SQL", help="Take what fits, such as \"width >= 512 and ext = 'jpg'\".")
]
OnCollision = Annotated[
    Literal["error", "prefix", "keep-first"],
    typer.Option(
        "--on-collision",
        metavar="error|prefix|keep-first",
        help="Keys that come more than once: stop, put the source's name before, or take the first.",
    ),
]
Apart = Annotated[
    str, typer.Option("--apart", metavar="BY", help="One dataset a value of: split, key-prefix or json:FIELD.")
]
Layout = Annotated[
    Literal["", "monolithic", "polylithic"],
    typer.Option(
        "--layout",
        metavar="monolithic|polylithic",
        show_default=False,
        help="All in one, or DEST/primary and DEST/media apart.",
    ),
]
Media = Annotated[str, typer.Option("--media", metavar="PARTS", help="Of polylithic: the parts in DEST/media.")]
Primary = Annotated[
    Literal["tar", "jsonl"], typer.Option("--primary", metavar="tar|jsonl", help="Of polylithic: what the rest is.")
]
Parts = Annotated[str, typer.Option("--parts", metavar="jpg,txt", help="Take these parts alone; '*.png' matches.")]
DropParts = Annotated[str, typer.Option("--drop-parts", metavar="json", help="Take all parts but these.")]
RenamePart = Annotated[
    list[str] | None, typer.Option("--rename-part", metavar="OLD=NEW", help="Call a part otherwise (repeatable).")
]
Image = Annotated[str, typer.Option("--image", metavar="FORMAT", help="Images as jpeg:90, webp:80 or png.")]
MaxSide = Annotated[int, typer.Option("--max-side", metavar="N", min=0, show_default=False, help="Pixels at most.")]
Orientation = Annotated[
    Literal["apply", "keep"],
    typer.Option("--orientation", metavar="apply|keep", help="Of images written anew: turn them upright, or not."),
]
ImageParts = Annotated[
    str, typer.Option("--image-parts", metavar="jpg,*.png", help="Which parts are meant. [default: jpg, png, ...]")
]
Audio = Annotated[str, typer.Option("--audio", metavar="FORMAT", help="Sounds as flac, wav or opus:64k.")]
Rate = Annotated[
    int, typer.Option("--rate", metavar="HZ", min=0, max=768_000, show_default=False, help="Samples a second.")
]
AudioParts = Annotated[
    str, typer.Option("--audio-parts", metavar="wav", help="Which parts are meant. [default: wav, mp3, ...]")
]
OnError = Annotated[
    Literal["skip", "keep", "error"],
    typer.Option(
        "--on-error",
        metavar="skip|keep|error",
        help="Samples that cannot be written anew: leave out, take as they are, or stop.",
    ),
]
Compress = Annotated[
    Literal["none", "gz"],
    typer.Option("--compress", metavar="none|gz", help="gz: to be sent somewhere; it cannot be trained from."),
]


def command(
    paths: Paths,
    *,
    from_form: From = "",
    to_form: To = "",
    option: Option = None,
    shard_samples: ShardSamples = 10_000,
    shard_size: ShardSize = 1 << 30,
    template: Template = "shard-{index:06d}.tar",
    sort: Sort = "none",
    shuffle: Shuffle = False,
    seed: Seed = 0,
    split: Split = "",
    where: Where = "",
    on_collision: OnCollision = "error",
    apart: Apart = "",
    layout: Layout = "",
    media: Media = "",
    primary: Primary = "tar",
    parts: Parts = "",
    drop_parts: DropParts = "",
    rename_part: RenamePart = None,
    image: Image = "",
    max_side: MaxSide = 0,
    orientation: Orientation = "apply",
    image_parts: ImageParts = "",
    audio: Audio = "",
    rate: Rate = 0,
    audio_parts: AudioParts = "",
    on_error: OnError = "skip",
    compress: Compress = "none",
    wait: options.Wait = 0.0,
    workers: options.Workers = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Write a dataset in another form.

    Other shards, another order, fewer samples, several datasets as one or one as several, media apart from labels,
    images and sounds written anew, other formats. What comes of it is a prepared dataset; the source is not changed.
    """
    from wdsctl.cli.figures import argument
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.convert import render
    from wdsctl.core.convert.part_rules import parse_renames
    from wdsctl.core.convert.recipe import PartRules
    from wdsctl.core.errors import UsageError
    from wdsctl.core.transcode.options import parse_audio, parse_image
    from wdsctl.core.verbs.convert import convert
    from wdsctl.core.verbs.convert_report import ConvertOptions

    if len(paths) < 2:
        raise UsageError("convert needs a source and a destination", hint="`wdsctl convert SOURCE... DEST`")
    if shuffle and sort != "none":
        raise UsageError("--sort and --shuffle exclude each other", hint="leave one of them out")
    chosen = ConvertOptions(
        from_form=from_form,
        to_form=to_form,
        form_options=_pairs(option or []),
        shard_samples=shard_samples,
        shard_size=shard_size,
        template=template,
        order="shuffle" if shuffle else sort,
        seed=seed,
        split=split,
        where=where,
        on_collision=on_collision,
        apart=apart,
        layout=layout,
        media=values.part_names(media),
        primary=primary,
        parts=PartRules(values.part_names(parts), values.part_names(drop_parts), parse_renames(rename_part or [])),
        image=parse_image(image, max_side, orientation, values.part_names(image_parts)),
        audio=parse_audio(audio, rate, values.part_names(audio_parts)),
        on_error=on_error,
        compress=compress,
        workers=options.worker_count(workers),
        wait=wait,
        restart=common.yes,
        dry_run=dry_run,
    )
    output = common.output
    with listening(output) as shown:
        report = convert(paths[:-1], paths[-1], chosen, progress=shown)
    output.answer("convert", report, render)
    if report.datasets and report.datasets[0].sample_type and not (report.dry_run or report.up_to_date or common.json):
        # Of media apart from labels the last one is the primary.
        main = report.datasets[-1 if layout == "polylithic" else 0]
        output.say(f"next: wdsctl inspect {argument(main.path)}")
    return exit_codes.of_convert(report)


def _pairs(texts: list[str]) -> dict[str, str]:
    """`name=value`, each once."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or name in pairs:
            raise typer.BadParameter(f"{text!r}: write -O NAME=VALUE, each name once")
        pairs[name] = value
    return pairs
