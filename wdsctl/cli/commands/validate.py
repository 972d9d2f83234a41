"""`wdsctl validate`: find what is wrong with a dataset."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options

if TYPE_CHECKING:
    from wdsctl.core.progress import Progress
    from wdsctl.core.verbs.validate_request import ValidateReport, ValidateRequest

EPILOG = """
\b
Examples:
  wdsctl validate shards/
  wdsctl validate shards/ --level content       decode everything
  wdsctl validate shards/ --level all --sample 1%
  wdsctl validate qa.jsonl --level refs --refs image=media/
  wdsctl validate shards/ --fail-on error       warnings are shown, and pass
  wdsctl validate shards/ --format sarif -o findings.sarif
  wdsctl validate shards/ --level content --quarantine

\b
Levels: structure (tars, keys, parts; always), headers (of media and arrays),
  content (everything decodes; headers too), schema (fields fit the sample
  type), refs (names are in their stores), hashes (SHA-256; reads every byte,
  each time), all.
"""

FailOn = Annotated[
    Literal["error", "warning", "note", "never"],
    typer.Option(
        "--fail-on",
        metavar="error|warning|note|never",
        help="Exit with 1 if something this grave, or graver, is found.",
    ),
]
Format = Annotated[
    Literal["text", "json", "sarif", "junit"],
    typer.Option("--format", metavar="text|json|sarif|junit", help="The form of the answer."),
]


def command(
    root: Annotated[
        str,
        typer.Argument(
            metavar="ROOT",
            help="The dataset (or ROOT@VIEW): a folder with shards, a .jsonl file, a URL of either. Or a blend file.",
        ),
    ],
    *,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="LEVEL,...", help="How deep to look; see below. [default: structure]"),
    ] = None,
    sample: Annotated[
        str,
        typer.Option("--sample", metavar="SHARE", help="Look into so many of the samples, such as 1%."),
    ] = "100%",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another seed, another sample.")] = 0,
    shards: Annotated[
        list[str] | None,
        typer.Option("--shards", metavar="PATTERN", help="Only these: a glob, a brace range or re:REGEX (repeatable)."),
    ] = None,
    refs: Annotated[
        list[str] | None,
        typer.Option(
            "--refs", metavar="FIELD=STORE", help="What a field of JSON refers to; kept in dataset.yaml (repeatable)."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Read what was validated and has not changed, too; hashes always do.")
    ] = False,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Keep samples with errors out of all splits. No file is touched.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Let all in again that is in quarantine, and do nothing else.")
    ] = False,
    fail_on: FailOn = "warning",
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=0, help="Findings listed, 0 for all; other forms always have all."),
    ] = 20,
    format: Format = "text",  # noqa: A002 - the option's name
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answer there, and text to stdout.")
    ] = None,
    wait: options.Wait = 0.0,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Find what is wrong with a dataset. Tar structure, keys, parts, whether the catalog fits; more by --level."""
    from wdsctl.cli.progress import listening
    from wdsctl.core.checks.levels import parse_levels
    from wdsctl.core.checks.refs import parse_ref
    from wdsctl.core.checks.sampling import parse_share
    from wdsctl.core.findings import at_least
    from wdsctl.core.verbs.validate_request import ValidateRequest

    if release:
        _check_release(root, catalog, is_quarantine=quarantine)
        return _release(root, shards, catalog, options.worker_count(workers), wait, common)
    _check_form(format, output, is_json=common.json)
    request = ValidateRequest(
        levels=parse_levels(level or ["structure", *(["refs"] if refs else [])]),
        share=parse_share(sample),
        seed=seed,
        shards=tuple(shards or ()),
        refs=tuple(parse_ref(each) for each in refs or ()),
        again=again,
        quarantine=quarantine,
    )
    with listening(common.output) as progress:
        report = _validated(root, request, catalog, options.worker_count(workers), wait, progress)
    _answer(report, format, output, fail_on, limit, common)
    return 1 if fail_on != "never" and at_least(report.findings, fail_on) else 0


def _validated(
    root: str, request: ValidateRequest, catalog: str | None, workers: int, wait: float, progress: Progress
) -> ValidateReport:
    from wdsctl.core.blend_file.paths import is_blend_file

    _check_catalog(root, catalog)
    if is_blend_file(root):
        from wdsctl.core.verbs.validate_blend import validate_blend

        return validate_blend(root, request, workers=workers, wait=wait, progress=progress)
    from wdsctl.core.verbs.validate import validate

    return validate(root, request, catalog=catalog, workers=workers, wait=wait, progress=progress)


def _check_release(root: str, catalog: str | None, *, is_quarantine: bool) -> None:
    from wdsctl.core.errors import UsageError

    if is_quarantine:
        raise UsageError("--quarantine and --release contradict each other", hint="leave one of them out")
    _check_catalog(root, catalog)


def _check_catalog(root: str, catalog: str | None) -> None:
    from wdsctl.core.blend_file.paths import is_blend_file
    from wdsctl.core.errors import UsageError

    if catalog is not None and is_blend_file(root):
        raise UsageError("--catalog is of one dataset, and this is a blend file", hint="leave it out")


def _check_form(form: str, output: str | None, *, is_json: bool) -> None:
    from wdsctl.core.errors import UsageError

    if form == "text" and output is not None and not is_json:
        raise UsageError("-o needs a form to write", hint="say `--format sarif`, junit or json")
    if output is not None and os.path.isdir(output):
        raise UsageError("-o names a folder", where=output, hint="name a file in it")
    if is_json and form not in ("text", "json"):
        raise UsageError(f"--json and --format {form} contradict each other", hint="leave one of them out")


def _answer(
    report: ValidateReport, form: str, output: str | None, fail_on: str, limit: int, common: options.Common
) -> None:
    """In the form asked for on stdout; or in a file, with the text on stdout."""
    from wdsctl.cli.output import Output, write
    from wdsctl.cli.render.validate import in_form, renderer
    from wdsctl.core.files import write_text
    from wdsctl.core.folders import resolved

    wanted = "json" if common.json else form
    text = "" if wanted == "text" else in_form(report, wanted, fail_on)
    if output is not None:
        write_text(resolved(output), text)
    if text and output is None:
        write(sys.stdout, text)
    else:
        Output(no_color=common.no_color).answer("validate", report, renderer(limit))


def _release(
    root: str, shards: list[str] | None, catalog: str | None, workers: int, wait: float, common: options.Common
) -> int:
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.validate import render_release
    from wdsctl.core.blend_file.paths import is_blend_file
    from wdsctl.core.verbs.validate_quarantine import release_from_quarantine
    from wdsctl.core.verbs.validate_release import release_blend

    named = tuple(shards or ())
    with listening(common.output) as progress:
        if is_blend_file(root):
            report = release_blend(root, shards=named, workers=workers, wait=wait, progress=progress)
        else:
            report = release_from_quarantine(
                root, shards=named, catalog=catalog, workers=workers, wait=wait, progress=progress
            )
    common.output.answer("validate", report, render_release)
    return 0
