"""`wdsctl prepare`: options, and what follows the report."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from wdsctl.cli import errors, options
from wdsctl.core.invocation import parse_part_names, worker_count

EPILOG = """
\b
Examples:
  wdsctl prepare photos/ shards/ --split 8,1,1     raw files, class folders
  wdsctl prepare labels.csv shards/                rows that name files
  wdsctl prepare coco/ shards/                     COCO, LLaVA, Parquet, ...
  wdsctl prepare shards/                           tars, in place
  wdsctl prepare texts.jsonl --key id              JSONL of texts, in place
  wdsctl prepare shards/ --media                   with facts of the media
  wdsctl prepare clips/ --media                    a folder of media, as it is
  wdsctl prepare photos/ shards/ --shard-size 500MB --parts jpg,txt
  wdsctl prepare shards/ --sample-type CaptioningSample \\
      --field-map "image=jpg,caption=json[text]"

\b
If prepare is killed, run the same command again: it does the remaining work.
On a terminal, it asks for missing options before it writes anything (? lists
the choices), and ends by printing the command that asks no questions.
prepare refuses a SOURCE that is neither the folder that DEST was built from
nor a copy of it. Pass --yes if it is that folder, moved and changed since.
"""

SourceArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="A folder or file in any format that wdsctl reads: raw files, class folders, tables (CSV, JSON, Parquet) "
        "whose rows name files, COCO, LLaVA, ...; tars or JSONL, also at a URL; "
        "or some shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).",
        show_default=False,
    ),
]
DestArgument = Annotated[
    str | None,
    typer.Argument(metavar="DEST", help="The folder for the shards. Tars stay where they are and need none."),
]
FormatOption = Annotated[
    list[str] | None,
    typer.Option(
        "-O", "--option", metavar="NAME=VALUE", help="Option of the source's format, such as key=id (repeatable)."
    ),
]
ShardSamplesOption = Annotated[
    int, typer.Option("--shard-samples", metavar="N", min=1, help="Maximum number of samples per shard.")
]
ShardSizeOption = Annotated[
    int,
    typer.Option(
        "--shard-size",
        metavar="SIZE",
        parser=options.parse_size_option,
        show_default=False,
        help="Maximum bytes per shard. [default: 1GiB]",
    ),
]
TemplateOption = Annotated[str, typer.Option("--template", metavar="T", help="Template of the shard names.")]
PartsOption = Annotated[
    str,
    typer.Option(
        "--parts",
        metavar="jpg,txt",
        help="The parts of a complete sample; 'jpg|png' for either. "
        "[default: those that at least half of the samples have]",
    ),
]
OnMissingOption = Annotated[
    Literal["error", "skip", "keep"],
    typer.Option(
        "--on-missing",
        metavar="error|skip|keep",
        help="Incomplete samples, files without a key, and unreadable files: stop, skip these samples, "
        "or keep the parts that exist.",
    ),
]
SplitOption = Annotated[
    str | None,
    typer.Option("--split", metavar="RATIOS", help="8,1,1 or train=8,val=1,test=1. [default: all samples in train]"),
]
SampleTypeOption = Annotated[
    str,
    typer.Option("--sample-type", metavar="NAME", help="Sample type, such as CaptioningSample. [default: detected]"),
]
FieldMapOption = Annotated[
    str,
    typer.Option(
        "--field-map",
        metavar="MAP",
        help="Fields and their parts: image=jpg,caption=txt or a JSON object. [default: detected]",
    ),
]
RedetectOption = Annotated[
    bool, typer.Option("--redetect", help="Detect the sample type again and rewrite dataset.yaml.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Say why every other format and sample type does not fit.")
]


def command(
    source: SourceArgument = None,
    dest: DestArgument = None,
    *,
    from_format: options.FromOption = "",
    option: FormatOption = None,
    shard_samples: ShardSamplesOption = 10_000,
    shard_size: ShardSizeOption = 1 << 30,
    template: TemplateOption = "shard-{index:06d}.tar",
    parts: PartsOption = "",
    on_missing: OnMissingOption = "error",
    split: SplitOption = None,
    by: options.ByOption = "auto",
    seed: options.SeedOption = 0,
    sample_type: SampleTypeOption = "",
    field_map: FieldMapOption = "",
    redetect: RedetectOption = False,
    explain: ExplainOption = False,
    key: options.KeyOption = None,
    key_until: options.KeyUntilOption = None,
    media: options.MediaOption = None,
    media_index: options.MediaIndexOption = False,
    exclude: options.ExcludeOption = None,
    missing: options.MissingOption = "error",
    sample_rows: options.SampleRowsOption = None,
    hashed: options.HashOption = None,
    wait: options.WaitOption = 0.0,
    workers: options.WorkersOption = None,
    catalog: options.CatalogOption = None,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Build a training dataset from whatever holds the data.

    Recognises the format of SOURCE, says what it found, and writes the samples as shards into DEST; uses tars and JSONL
    of texts in place. Then indexes the shards, detects the sample type, and assigns the samples to splits. With --media
    and without DEST, catalogs a folder of media files in place.
    """
    from wdsctl.cli import wizard
    from wdsctl.cli.commands.media_folder import render_media_folder_index
    from wdsctl.cli.commands.prepare_output import prepare_renderer
    from wdsctl.cli.formatting import shell_argument
    from wdsctl.cli.output import terminal_width
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.dataset.root_spec import parse_root_spec
    from wdsctl.core.dataset.split_rules import parse_split_shares
    from wdsctl.core.index.index import index_if_media_folder
    from wdsctl.core.index.request import IndexRequest, MediaRequest
    from wdsctl.core.prepare.request import PrepareRequest

    spec = wizard.ask_source(common) if source is None else parse_root_spec(source)
    source = spec.root
    request = IndexRequest(
        workers=worker_count(workers),
        missing=missing,
        exclude=tuple(exclude or ()),
        selection=spec.selection,
        sample_rows=sample_rows,
        hashed=hashed,
        dry_run=dry_run,
        media=MediaRequest(selection=media, keyframes=media_index),
        key=key,
        key_until=key_until,
    )
    if dest is None:
        with show_progress(common.output) as progress:
            folder_report = index_if_media_folder(spec, request, catalog=catalog, wait=wait, progress=progress)
        if folder_report is not None:
            common.output.answer("prepare", folder_report, render_media_folder_index)
            return errors.media_folder_exit_code(folder_report)
    prepare_request = PrepareRequest(
        from_format=from_format,
        format_options=options.parse_format_options(option or []),
        shard_samples=shard_samples,
        shard_size=shard_size,
        template=template,
        parts=parse_part_names(parts),
        on_missing=on_missing,
        split=parse_split_shares(split) if split else None,
        split_by=by,
        seed=seed,
        may_move=common.yes,
        sample_type=sample_type,
        field_map=options.parse_field_map_option(field_map),
        redetect=redetect,
        moved=common.yes,
        take_unsure=common.yes,
        catalog=catalog,
        index=request,
        wait=wait,
    )
    outcome = wizard.prepare_interactively(
        wizard.PrepareCommand(source=source, dest=dest, request=prepare_request), common
    )
    report, output = outcome.report, common.output
    output.answer("prepare", report, prepare_renderer(outcome.command.request, explain=explain))
    if not (report.dry_run or report.up_to_date or common.json):
        verb = "inspect" if report.split is not None else "validate"
        allowed = () if report.from_folder else common.allow_path or ()  # what links lead to lies in the shards then
        again = [("--catalog", catalog)] if catalog else []
        again += [("--allow-path", folder) for folder in allowed]
        options_again = "".join(f" {name} {shell_argument(value)}" for name, value in again)
        output.note(f"next: wdsctl {verb} {shell_argument(report.dest)}{options_again}")
    if outcome.has_prompted:
        output.note("the same without questions:", *wizard.command_lines(outcome.command, terminal_width(sys.stderr)))
    codes = [errors.index_exit_code(report.index)] if report.index is not None else []
    codes += [errors.convert_exit_code(report.conversion)] if report.conversion is not None else []
    return max(codes, default=0)
