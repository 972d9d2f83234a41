"""`wdsctl split`: say which samples train, validate and test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options

if TYPE_CHECKING:
    from wdsctl.core.verbs.split import SplitReport, SplitRequest, WouldMove

EPILOG = """
\b
Examples:
  wdsctl split shards/ 8,1,1                        train, val, test
  wdsctl split shards/ train=0.99,val=0.01 --by key
  wdsctl split shards/ 98,1,1 --by sample --dry-run
  wdsctl split shards/ 8,1,1 --group-by json:video_id
  wdsctl split shards/ 8,2 --stratify part:cls
  wdsctl split shards/ 8,2 --group-by json:video_id --stratify part:cls
  wdsctl split shards/ --pattern train='a-{000..799}.tar' --rest val
  wdsctl split shards/ --keys val=val.txt --rest train --set papers
  wdsctl split shards/ --exclude-code WDS106
  wdsctl split shards/ --leaks jpg                  exits with 1 if any
  wdsctl split shards/                              what there is

\b
Splits of a set are named SET/NAME, such as split_part="papers/train".
Values are found by json:FIELD, part:NAME, key:REGEX or column:NAME.
"""


def command(
    root: options.Root,
    ratios: Annotated[
        str | None, typer.Argument(metavar="RATIOS", help="8,1,1 or train=8,val=1,test=1.", show_default=False)
    ] = None,
    *,
    by: options.By = "auto",
    seed: options.Seed = 0,
    group_by: Annotated[
        str, typer.Option("--group-by", metavar="VALUE", help="Keep samples of one value together, such as json:id.")
    ] = "",
    stratify: Annotated[
        str, typer.Option("--stratify", metavar="VALUE", help="Divide the samples of each value by the shares.")
    ] = "",
    pattern: Annotated[
        list[str] | None,
        typer.Option("--pattern", metavar="NAME=PATTERN", help="Shards by brace range, glob: or re: (repeatable)."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--keys", metavar="NAME=FILE", help="The keys in a file, one a line (repeatable)."),
    ] = None,
    rest: Annotated[
        str, typer.Option("--rest", metavar="NAME", help="The split of what is not named; none leaves it out.")
    ] = "",
    source: Annotated[str, typer.Option("--from", metavar="FILE", help="Divide as a split.yaml of Energon says.")] = "",
    folds: Annotated[
        int,
        typer.Option(
            "--folds", metavar="K", min=0, help="Make K sets, each with another part as val.", show_default=False
        ),
    ] = 0,
    of_set: Annotated[
        str, typer.Option("--set", metavar="SET", help="Make this set of splits, beside the others.")
    ] = "",
    exclude_shard: Annotated[
        list[str] | None,
        typer.Option("--exclude-shard", metavar="PATTERN", help="Leave shards out of all splits (repeatable)."),
    ] = None,
    exclude_key: Annotated[
        list[str] | None,
        typer.Option("--exclude-key", metavar="KEY", help="Leave samples out of all splits (repeatable)."),
    ] = None,
    exclude_keys: Annotated[
        list[str] | None,
        typer.Option("--exclude-keys", metavar="FILE", help="The same for the keys in a file (repeatable)."),
    ] = None,
    exclude_code: Annotated[
        list[str] | None,
        typer.Option("--exclude-code", metavar="WDSnnn", help="The same for what validate found (repeatable)."),
    ] = None,
    no_excludes: Annotated[
        bool, typer.Option("--no-excludes", help="Remove the excludes in force; those given here take their place.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Splits may be empty; patterns and keys may match nothing.")
    ] = False,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Forget the set that --set names; without, asks for the one that has no name."),
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Make all sets by the rules in dataset.yaml.")] = False,
    export: Annotated[
        str, typer.Option("--export", metavar="FILE", help="Write a split.yaml of Energon (- for stdout).")
    ] = "",
    leaks: Annotated[
        str | None,
        typer.Option("--leaks", metavar="[PARTS]", help="Find content that is in two splits. [bare: media]"),
    ] = None,
    wait: options.Wait = 0.0,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Say which samples train, validate and test. The shards are not touched."""
    from wdsctl.cli.split_options import Asked, check_question, request_of

    asked = Asked(
        ratios=ratios,
        by=by,
        seed=seed,
        group_by=group_by,
        stratify=stratify,
        patterns=pattern or (),
        keys=keys or (),
        rest=rest,
        source=source,
        folds=folds,
        of_set=of_set,
        exclude_shards=exclude_shard or (),
        exclude_keys=exclude_key or (),
        exclude_key_files=exclude_keys or (),
        exclude_codes=exclude_code or (),
        no_excludes=no_excludes,
        drop=drop,
        again=again,
        allow_empty=allow_empty,
    )
    if not asked.is_question:
        _refuse_beside(export, leaks)
        request = request_of(asked, options.worker_count(workers))
        if drop and not (of_set or dry_run or common.yes):
            _be_sure(root, request, catalog, common)
        return _make(root, request, catalog, common, wait=wait, dry_run=dry_run)
    check_question(asked)
    if leaks is not None:
        return _leaks(root, leaks, of_set, catalog, options.worker_count(workers), common)
    return _export(root, export, of_set, catalog, common) if export else _show(root, of_set, catalog, common)


def _refuse_beside(export: str, leaks: str | None) -> None:
    from wdsctl.core.errors import UsageError

    if export or leaks is not None:
        raise UsageError(
            f"{'--export' if export else '--leaks'} is about the splits that there are, and others are asked for",
            hint="make them first, then give the other command",
        )


def _be_sure(root: str, request: SplitRequest, catalog: str | None, common: options.Common) -> None:
    """Raises UsageError unless the splits that no name was given for are meant: their rule is lost with them."""
    from wdsctl.cli.asking import Terminal, may_ask
    from wdsctl.cli.figures import path
    from wdsctl.core.errors import UsageError
    from wdsctl.core.verbs.split import split_by

    gone = split_by(root, request, catalog=catalog, dry_run=True)
    names = ", ".join(sorted({move.before for move in gone.moved if not move.after})) or "the splits"
    if not may_ask(common):
        raise UsageError(
            f"--drop without --set forgets {names}, and needs --yes",
            where=gone.root,
            hint="`--dry-run` shows what it would do; --set SET names another set",
        )
    question = f"forget {names} of {path(gone.root)}, and how they were divided?"
    if not Terminal().confirm(question, default=False):
        raise UsageError("nothing is forgotten: the answer was no", hint="--set SET names another set")


def _make(
    root: str, request: SplitRequest, catalog: str | None, common: options.Common, *, wait: float, dry_run: bool
) -> int:
    from dataclasses import replace

    from wdsctl.cli.asking import may_ask
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.split import render
    from wdsctl.core.verbs.split import WouldMove, split_by

    def make(request: SplitRequest) -> SplitReport:
        with listening(common.output) as progress:
            return split_by(root, request, catalog=catalog, wait=wait, dry_run=dry_run, progress=progress)

    try:
        report = make(replace(request, may_move=common.yes))
    except WouldMove as refused:
        if not may_ask(common):
            raise
        _confirm_moves(refused, common)
        report = make(replace(request, may_move=True))
    common.output.answer("split", report, render)
    return 0


def _confirm_moves(refused: WouldMove, common: options.Common) -> None:
    """Show what would move, and ask. Raises UsageError where the answer is no."""
    from wdsctl.cli.asking import Terminal
    from wdsctl.cli.render.split import moved_lines
    from wdsctl.core.errors import UsageError

    common.output.say(*moved_lines(refused.report))
    if not Terminal().confirm("move them?", default=False):
        raise UsageError("nothing has moved: the answer was no", hint="`--set NAME` makes another set beside this one")


def _show(root: str, of_set: str, catalog: str | None, common: options.Common) -> int:
    from wdsctl.cli.render.split import render_sets
    from wdsctl.core.verbs.split_show import show_splits

    common.output.answer("split", show_splits(root, of_set=of_set, catalog=catalog), render_sets)
    return 0


def _export(root: str, export: str, of_set: str, catalog: str | None, common: options.Common) -> int:
    from wdsctl.cli.render.split import render_export
    from wdsctl.core.verbs.split_export import export_split

    path = "" if export == "-" else export
    report = export_split(root, path, of_set=of_set, catalog=catalog, overwrite=common.yes)
    common.output.answer("split", report, render_export)
    return 0


def _leaks(root: str, leaks: str, of_set: str, catalog: str | None, workers: int, common: options.Common) -> int:
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.split import render_leaks
    from wdsctl.cli.values import part_names
    from wdsctl.core.verbs.split_leaks import find_leaks

    parts = () if leaks == "auto" else part_names(leaks)
    with listening(common.output) as progress:
        report = find_leaks(root, parts, of_set=of_set, catalog=catalog, workers=workers, progress=progress)
    common.output.answer("split", report, render_leaks)
    return 1 if report.findings else 0
