"""`wdsctl prepare`: raw files or tars become a dataset that can be trained on."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from wdsctl.cli import exit_codes, options, values

EPILOG = """
\b
Examples:
  wdsctl prepare photos/ shards/ --split 8,1,1
  wdsctl prepare shards/                           tars, in place
  wdsctl prepare labels.jsonl --key id             JSONL, in place
  wdsctl prepare shards/ --media                   with facts of the media
  wdsctl prepare clips/ --media                    a folder of media, as it is
  wdsctl prepare photos/ shards/ --shard-size 500MB --parts jpg,txt
  wdsctl prepare shards/ --sample-type CaptioningSample \\
      --field-map "image=jpg,caption=json[text]"

\b
Killed at any moment and run again, it does the rest. On a terminal it asks
for what is not given before it writes anything (? lists the choices), and
ends by printing the command without questions.
A SOURCE that is neither the folder DEST was made from nor a copy of it is
refused; --yes says that it is that folder, moved and changed since.
"""

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="A folder of raw files, or of tars or JSONL at any depth, or one JSONL file; "
        "all but raw files also at a URL. Or some shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, -.",
        show_default=False,
    ),
]
Dest = Annotated[
    str | None,
    typer.Argument(metavar="DEST", help="Where the shards of raw files go; tars stay where they are."),
]
ShardSamples = Annotated[
    int, typer.Option("--shard-samples", metavar="N", min=1, help="Samples a shard holds at most.")
]
ShardSize = Annotated[
    int,
    typer.Option(
        "--shard-size",
        metavar="SIZE",
        parser=values.size_bytes,
        show_default=False,
        help="Bytes a shard holds at most. [default: 1GiB]",
    ),
]
Template = Annotated[str, typer.Option("--template", metavar="T", help="Names of the shards.")]
Parts = Annotated[
    str,
    typer.Option(
        "--parts",
        metavar="jpg,txt",
        help="The parts of a complete sample; 'jpg|png' for either. [default: the usual ones]",
    ),
]
OnMissing = Annotated[
    Literal["error", "skip", "keep"],
    typer.Option(
        "--on-missing",
        metavar="error|skip|keep",
        help="Incomplete samples, stray and unreadable files: stop, leave them out, or take what there is.",
    ),
]
Split = Annotated[
    str | None, typer.Option("--split", metavar="RATIOS", help="8,1,1 or train=8,val=1,test=1. [default: all is train]")
]
SampleType = Annotated[
    str, typer.Option("--sample-type", metavar="NAME", help="Such as CaptioningSample. [default: detected]")
]
FieldMap = Annotated[
    str,
    typer.Option("--field-map", metavar="MAP", help="image=jpg,caption=txt or a JSON object. [default: detected]"),
]
Redetect = Annotated[bool, typer.Option("--redetect", help="Detect the sample type again and write dataset.yaml anew.")]


def command(
    source: Source = None,
    dest: Dest = None,
    *,
    shard_samples: ShardSamples = 10_000,
    shard_size: ShardSize = 1 << 30,
    template: Template = "shard-{index:06d}.tar",
    parts: Parts = "",
    on_missing: OnMissing = "error",
    split: Split = None,
    by: options.By = "auto",
    seed: options.Seed = 0,
    sample_type: SampleType = "",
    field_map: FieldMap = "",
    redetect: Redetect = False,
    key: options.Key = None,
    key_until: options.KeyUntil = None,
    media: options.Media = None,
    media_index: options.MediaIndex = False,
    exclude: options.Exclude = None,
    missing: options.Missing = "error",
    sample_rows: options.SampleRows = None,
    hashed: options.Hash = None,
    wait: options.Wait = 0.0,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Make a dataset that can be trained on.

    Raw files are written into shards; tars and JSONL stay as they are. Then the shards are indexed, the sample type is
    detected, and the samples are split. With --media and without DEST, a folder of media files stays as it is, and gets
    a catalog that says what each of them is.
    """
    from wdsctl.cli import wizard
    from wdsctl.cli.commands import media_folder
    from wdsctl.cli.figures import argument
    from wdsctl.cli.output import width
    from wdsctl.cli.render.prepare import renderer
    from wdsctl.core.ratios import parse_ratios
    from wdsctl.core.root_spec import root_spec
    from wdsctl.core.verbs.media_request import MediaRequest
    from wdsctl.core.verbs.prepare import PrepareOptions

    spec = wizard.ask_source(common) if source is None else root_spec(source)
    source = spec.root
    if dest is None and spec.selection is None and media_folder.is_one(source, catalog, media):
        media_folder.refuse(of_shards=hashed is not None or sample_rows is not None)
        request = MediaRequest(selection=media, keyframes=media_index)
        return media_folder.run(
            media_folder.Request(source, catalog, request, exclude, workers, dry_run=dry_run, wait=wait),
            "prepare",
            common,
        )
    chosen = PrepareOptions(
        shard_samples=shard_samples,
        shard_size=shard_size,
        template=template,
        parts=values.part_names(parts),
        on_missing=on_missing,
        split=parse_ratios(split) if split else None,
        split_by=by,
        seed=seed,
        may_move=common.yes,
        sample_type=sample_type,
        field_map=values.field_map(field_map),
        redetect=redetect,
        key=key,
        key_until=key_until,
        media=media,
        media_index=media_index,
        moved=common.yes,
        take_unsure=common.yes,
        workers=options.worker_count(workers),
        catalog=catalog,
        missing=missing,
        exclude=tuple(exclude or ()),
        selection=spec.selection,
        sample_rows=sample_rows,
        hashed=hashed,
        wait=wait,
        dry_run=dry_run,
    )
    outcome = wizard.prepare(wizard.Request(source=source, dest=dest, options=chosen), common)
    report, output = outcome.report, common.output
    output.answer("prepare", report, renderer(outcome.request.options))
    if not (report.dry_run or report.up_to_date or common.json):
        verb = "inspect" if report.split is not None else "validate"
        allowed = () if report.from_folder else common.allow_path or ()  # what links lead to lies in the shards then
        again = [("--catalog", catalog)] if catalog else []
        again += [("--allow-path", folder) for folder in allowed]
        options_again = "".join(f" {name} {argument(value)}" for name, value in again)
        output.say(f"next: wdsctl {verb} {argument(report.dest)}{options_again}")
    if outcome.has_asked:
        output.say("the same without questions:", *wizard.command_lines(outcome.request, width(sys.stderr)))
    return exit_codes.of_index(report.index) if report.index is not None else 0
