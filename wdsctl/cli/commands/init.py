"""`wdsctl init`: a training script for a prepared dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options
from wdsctl.core.invocation import worker_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.init.init import InitReport
    from wdsctl.core.init.kinds import TrainingKind


EPILOG = """
\b
Examples:
  wdsctl init shards/                  writes shards-train/
  wdsctl init shards/ run1             into another folder
  wdsctl init coco/ run2 --captions    fails if the samples have no captions
  python shards-train/train.py --steps 100

\b
The script fits the sample type: conversations, with or without images,
questions about images, captions of images or films, text in images, speech,
classes, texts, boxes, masks, or the actions of a robot. It trains a small
model on one or several GPUs, or on a CPU, validates, saves and resumes. It
needs pip install 'wdsctl[loader]'. See docs/init.md.
"""

DestArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DEST",
        help="The folder to write to. [default: NAME-train in the working directory]",
        show_default=False,
    ),
]


def command(
    root: options.RootArgument,
    dest: DestArgument = None,
    *,
    vlm: Annotated[
        bool,
        typer.Option("--vlm", help="Train on conversations or questions about images, with the loss over the answers."),
    ] = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Train on conversations without images, with the loss over the answers.")
    ] = False,
    captions: Annotated[bool, typer.Option("--captions", help="Train on captions of images.")] = False,
    ocr: Annotated[bool, typer.Option("--ocr", help="Train on text in images.")] = False,
    video: Annotated[bool, typer.Option("--video", help="Train on captions of videos.")] = False,
    speech: Annotated[bool, typer.Option("--speech", help="Train on transcripts of speech, by CTC.")] = False,
    classify: Annotated[bool, typer.Option("--classify", help="Train on classes of images.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Train a language model, with packing.")] = False,
    detect: Annotated[bool, typer.Option("--detect", help="Train on boxes of objects in images.")] = False,
    segment: Annotated[bool, typer.Option("--segment", help="Train on masks of images.")] = False,
    robot: Annotated[
        bool, typer.Option("--robot", help="Train on the actions of a robot, from cameras and state.")
    ] = False,
    box_format: Annotated[
        Literal["xywh", "xyxy", "cxcywh", "normalized_xywh", "normalized_xyxy", "normalized_cxcywh"] | None,
        typer.Option(
            "--box-format",
            metavar="FORMAT",
            help="Box format, if the samples do not state it: xywh, xyxy, cxcywh, or one of these with normalized_.",
        ),
    ] = None,
    workers: options.WorkersOption = None,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Write a training script, blend file and README for a dataset.

    The sample type of the dataset decides what the script trains, unless one
    of the options --vlm to --robot does.
    """
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.errors import UsageError
    from wdsctl.core.init.init import init

    flags: dict[TrainingKind, bool] = {
        "vlm": vlm,
        "chat": chat,
        "captions": captions,
        "ocr": ocr,
        "video": video,
        "speech": speech,
        "classify": classify,
        "text": text,
        "detect": detect,
        "segment": segment,
        "robot": robot,
    }
    chosen = [name for name, is_set in flags.items() if is_set]
    if len(chosen) > 1:
        raise UsageError(
            f"--{chosen[0]} and --{chosen[1]} are different scripts",
            hint="pass one of these options, or none to use the sample type",
        )
    with show_progress(common.output) as progress:
        report = init(
            root,
            dest,
            kind=chosen[0] if chosen else None,
            box_format=box_format,
            overwrite=common.yes,
            dry_run=dry_run,
            workers=worker_count(workers),
            progress=progress,
        )
    files = [os.path.join(report.folder, name) for name in report.files]
    common.output.answer("init", report, render_init, names=files)
    return 0


def render_init(report: InitReport) -> Iterator[RenderableType]:
    from wdsctl.cli.formatting import display_path, format_count
    from wdsctl.core.dataset.location import quote_shell_word
    from wdsctl.core.text import pluralize

    names = ", ".join(report.files)
    yield f"{'would write' if report.dry_run else 'wrote'} {names} to {display_path(report.folder)}"
    classes = "" if report.classes is None else f", {pluralize(report.classes, 'class', 'classes')}"
    samples = "LeRobot frames" if report.kind == "robot" else report.sample_type
    yield f"{samples}: {report.about}{classes}"
    val = f"{format_count(report.val_samples)} in {report.val_split}" if report.val_split else "no validation split"
    yield f"{format_count(report.train_samples, 'sample')} in train, {val}"
    if report.unlabelled:
        yield f"note: {format_count(report.unlabelled, 'sample')} without a label; the loader skips them"
    if not report.dry_run:
        yield f"next: cd {quote_shell_word(display_path(report.folder))} && python train.py --steps 100"
