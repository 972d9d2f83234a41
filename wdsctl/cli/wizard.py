"""`wdsctl prepare` on a terminal: ask for missing options, and print the command that runs without questions."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typer

from wdsctl.cli.interrupts import InterruptedBeforeWrite
from wdsctl.cli.options import CommonOptions
from wdsctl.cli.output import Output
from wdsctl.cli.progress import show_progress
from wdsctl.cli.prompts import TerminalPrompter, may_ask
from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.invocation import recording_invocation
from wdsctl.core.options import Declared, changed_options
from wdsctl.core.prepare.request import PrepareRequest, parse_field_map
from wdsctl.core.text import escape_control_chars
from wdsctl.core.urls import is_url, redact_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.dataset.root_spec import RootSpec
    from wdsctl.core.prepare.prepare import PrepareReport
    from wdsctl.core.prepare.preview import FormatPreview, SamplesPreview
    from wdsctl.core.prepare.source import SourceFormat
    from wdsctl.core.samples.detect import Detection


T = TypeVar("T")

MAX_REASON_LINES = 16  # fits a terminal of 24 lines and 80 columns with the question
LINE_CHARACTERS = 70

#: Texts that the answer ? shows.
SOURCE_HELP = """  photos/            raw files (0001.jpg and 0001.txt form a sample), class
                     folders, COCO, a Hugging Face dataset, ...
  labels.csv         a table whose rows name files; also TSV, JSON, Parquet
  shards/            tars or JSONL at any depth, prepared in place
  'shards/a-*.tar'   some of the shards"""
DEST_HELP = """  A new folder for the shards. The source is not modified.
  Press Enter for the folder in brackets."""
SPLIT_HELP = """  8,1,1                   train, val and test with exactly these shares
  train=0.98,val=0.02     splits by name
  Enter                   {default}; `wdsctl split` changes it later"""
SPLIT_BY_DEFAULT = "all in train"
SPLIT_BY_DEFAULT_IN_PLACE = "as in the source, or all in train"


class Prompter(Protocol):
    """Answers questions: a person at a terminal, or a test."""

    def text(self, question: str, default: str) -> str: ...

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool: ...


@dataclass(slots=True)
class Interview:
    """Asks questions, and records whether it did. `yes`: confirm without asking; values are still asked for.

    `choices`: the text that the answer ? shows, before the question is repeated.
    """

    prompter: Prompter
    yes: bool = False
    has_prompted: bool = False

    def text(self, question: str, default: str = "", *, choices: str = "") -> str:
        self.has_prompted = True
        while (answer := self.prompter.text(question, default).strip()) == "?" and choices:
            typer.echo(escape_control_chars(choices), err=True)
        return answer

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool:
        if self.yes:
            return True
        self.has_prompted = True
        return self.prompter.confirm(question, default=default, choices=choices)

    def ask_until(
        self, question: str, parse: Callable[[str], T], output: Output, *, default: str = "", choices: str = ""
    ) -> T:
        """Ask until `parse` accepts the answer; show each error that it raises."""
        while True:
            try:
                return parse(self.text(question, default, choices=choices))
            except WdsctlError as error:
                output.warn(f"{error.message} ({error.hint})")
            except typer.BadParameter as error:
                output.warn(error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class WizardCommand:
    """The arguments of `prepare`.

    `preview`: of a source that an importer reads, and that is not prepared yet. `accepted`: the sample type of some
    samples that is sure, or that the user confirmed; `prepare` detects it again in the whole dataset.
    """

    source: str
    dest: str | None
    request: PrepareRequest
    preview: FormatPreview | None = None
    accepted: Detection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareResult:
    """The report of `prepare`, and the request with the answers. `has_prompted`: whether there were questions."""

    command: WizardCommand
    report: PrepareReport
    has_prompted: bool = False


def prepare_interactively(command: WizardCommand, common: CommonOptions) -> PrepareResult:
    """Run `prepare`, on a terminal after questions. Nothing is written before the last answer."""
    if not may_ask(common):
        return PrepareResult(command=command, report=run_prepare(command, common.output))
    return prepare_with_questions(command, Interview(TerminalPrompter(), yes=common.yes), common.output)


def ask_source(common: CommonOptions) -> RootSpec:
    """Ask for the source. Raises UsageError without a terminal."""
    if not may_ask(common):
        raise UsageError("missing argument 'SOURCE'", hint="run `wdsctl prepare --help` for the accepted sources")
    question = "data to prepare: a folder or a file (? explains)"
    with report_unwritten_interrupt():
        return Interview(TerminalPrompter()).ask_until(question, _parse_source, common.output, choices=SOURCE_HELP)


def _parse_source(text: str) -> RootSpec:
    from wdsctl.core.dataset.root_spec import parse_root_spec
    from wdsctl.core.prepare.source import AmbiguousFormatError, recognise_format

    if not text:
        raise UsageError("the path is empty", hint="write . for the working directory")
    spec = parse_root_spec(text)
    if spec.selection is None:
        with contextlib.suppress(AmbiguousFormatError):  # the next question
            recognise_format(spec.root)
    return spec


@contextlib.contextmanager
def report_unwritten_interrupt() -> Iterator[None]:
    """Raise InterruptedBeforeWrite for Ctrl-C within the block, which must come before the first write."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        raise InterruptedBeforeWrite from interrupt


def run_prepare(command: WizardCommand, output: Output) -> PrepareReport:
    from wdsctl.core.prepare.prepare import prepare as verb

    with show_progress(output) as progress:
        return verb(command.source, command.dest, command.request, progress=progress)


def detect_sample_type(command: WizardCommand, output: Output) -> Detection | None:
    """Detect the sample type from some samples; None if dataset.yaml, Energon or the source's format determines it."""
    from wdsctl.core.index.index import is_energon_imported
    from wdsctl.core.opened.opening import open_dataset
    from wdsctl.core.prepare.preview import preview_samples
    from wdsctl.core.prepare.robots import FORMAT as ROBOT_FORMAT
    from wdsctl.core.prepare.source import recognise_format

    if command.preview is not None:
        return _show_samples(command.preview.samples, output)
    request, root = command.request, command.dest or command.source
    if request.index.dry_run or (_is_prepared(root, request.catalog) and not request.redetect):
        return None
    if is_url(root) or os.path.exists(root):
        with open_dataset(root, request.catalog) as dataset:
            if not is_energon_imported(dataset):
                return None
    may_be_robot = command.dest is None and not request.index.selection
    if may_be_robot and recognise_format(command.source, None, request.from_format).name == ROBOT_FORMAT:
        return None
    with show_progress(output) as progress:
        found = preview_samples(command.source, command.dest, request, progress=progress)
    return _show_samples(found, output)


def _show_samples(preview: SamplesPreview | None, output: Output) -> Detection | None:
    """Show the first samples, and return the detection of their type; None if there is none."""
    from wdsctl.cli.recognition import example_rows
    from wdsctl.cli.tables import labelled_lines

    if preview is None:
        return None
    output.note("the first samples would be:", labelled_lines(example_rows(preview.examples)))
    return preview.detection


def prepare_with_questions(
    command: WizardCommand,
    interview: Interview,
    output: Output,
    run: Callable[[WizardCommand, Output], PrepareReport] = run_prepare,
    detect: Callable[[WizardCommand, Output], Detection | None] = detect_sample_type,
) -> PrepareResult:
    """Complete the request, let the user confirm the detected sample type, and run `prepare`.

    The questions are about the files in the zips of the source, too.
    """
    from wdsctl.core.prepare.archives import unpack_archives
    from wdsctl.core.prepare.prepare import may_unpack

    if command.request.index.selection is not None or not may_unpack(command.request):
        return _prepare_with_questions(command, interview, output, run, detect)
    with unpack_archives(command.source, command.dest, output.note) as folder:
        outcome = _prepare_with_questions(replace(command, source=folder), interview, output, run, detect)
    return replace(outcome, command=replace(outcome.command, source=command.source))


def _prepare_with_questions(
    command: WizardCommand,
    interview: Interview,
    output: Output,
    run: Callable[[WizardCommand, Output], PrepareReport],
    detect: Callable[[WizardCommand, Output], Detection | None],
) -> PrepareResult:
    with report_unwritten_interrupt():
        command = confirm_sample_type(ask_missing(command, interview, output), detect, interview, output)
    command, report = _run_confirmed(command, interview, output, run)
    return PrepareResult(command=command, report=report, has_prompted=interview.has_prompted)


def _run_confirmed(
    command: WizardCommand,
    interview: Interview,
    output: Output,
    run: Callable[[WizardCommand, Output], PrepareReport],
) -> tuple[WizardCommand, PrepareReport]:
    """Run `prepare`, again after each confirmation that only the finished shards show to be necessary."""
    from wdsctl.core.index.write_dataset_yaml import UnsureTypeError
    from wdsctl.core.split.split import SamplesWouldMoveError

    while True:
        try:
            with _record_answers(command, interview):
                return command, run(command, output)
        except SamplesWouldMoveError as refused:
            from wdsctl.cli.commands.split import render_moves

            output.warn(*render_moves(refused.report))
            if not interview.confirm("move them?", default=False):
                raise
            command = replace(command, request=replace(command.request, allow_split_changes=True))
        except UnsureTypeError as unsure:
            command = _choose_type(command, unsure.detection, "detected in the whole dataset:", interview, output)


def _record_answers(command: WizardCommand, interview: Interview) -> contextlib.AbstractContextManager[None]:
    """Record the answers in the history as if they had been typed."""
    return (
        recording_invocation("prepare", _command_line(command)[2:])
        if interview.has_prompted
        else contextlib.nullcontext()
    )


def ask_missing(command: WizardCommand, interview: Interview, output: Output) -> WizardCommand:
    """Ask for the form of a source that could be several, the destination, and the split of a new dataset."""
    from wdsctl.core.importers import CHOSEN_BY_USER
    from wdsctl.core.prepare.checks import check_format_dest, check_source_and_dest, unused_split_options
    from wdsctl.core.prepare.robots import FORMAT as ROBOT_FORMAT
    from wdsctl.core.prepare.source import IN_PLACE, RAW_FOLDER
    from wdsctl.core.split_rules.shares import parse_split_shares

    dest, request = command.dest, command.request
    form = None if request.index.selection else _ask_format(command, interview, output)
    if form is not None and form.reason == CHOSEN_BY_USER:
        request = replace(request, from_format=form.name)
    is_imported = form is not None and form.name not in (IN_PLACE, RAW_FOLDER, ROBOT_FORMAT)

    def check_dest(answer: str) -> str:
        if is_imported:
            check_format_dest(command.source, answer)
        else:
            check_source_and_dest(command.source, answer, request)
        return answer

    if dest is not None:
        check_dest(dest)
    elif form is not None and form.name not in (IN_PLACE, ROBOT_FORMAT):
        output.warn(f"{form.name}: {form.reason}")
        question = "folder for the shards (? explains)"
        dest = interview.ask_until(
            question, check_dest, output, default=default_dest(command.source), choices=DEST_HELP
        )
    elif form is not None and form.name == ROBOT_FORMAT:
        output.note(f"{form.reason}: prepare writes a catalog and frames/, and leaves tables and videos in place")
    elif form is not None:
        output.note(f"{form.reason}: prepare writes only a catalog, and leaves the source in place")
    root = dest or command.source
    preview = None
    if is_imported and form is not None and not _is_prepared(root, request.catalog):
        preview = _preview_format(command.source, form, request, output)
    has_splits = preview is not None and bool(preview.split_names)
    if request.split is None and not (has_splits or _is_prepared(root, request.catalog) or _has_energon_splits(root)):
        default = SPLIT_BY_DEFAULT_IN_PLACE if dest is None else SPLIT_BY_DEFAULT
        question = f"split, such as 8,1,1 (empty: {default}; ? explains)"
        choices = SPLIT_HELP.format(default=default)
        split = interview.ask_until(
            question, lambda text: parse_split_shares(text) if text else None, output, choices=choices
        )
        request = replace(request, split=split)
    if unused := unused_split_options(request):
        output.note(f"ignored without a split: {' and '.join(unused)}")
        request = replace(request, split_by="auto", seed=0, allow_split_changes=False)
    return replace(command, dest=dest, request=request, preview=preview)


def _ask_format(command: WizardCommand, interview: Interview, output: Output) -> SourceFormat:
    """What the source is; asks if several forms fit equally well."""
    from wdsctl.core.importers import CHOSEN_BY_USER
    from wdsctl.core.prepare.source import AmbiguousFormatError, SourceFormat, recognise_format

    try:
        return recognise_format(command.source, command.dest, command.request.from_format)
    except AmbiguousFormatError as ambiguous:
        forms = {form.name: form for form in ambiguous.forms}
    output.warn(*(f"  {form.name}: {form.reason}" for form in forms.values()))

    def parse(answer: str) -> SourceFormat:
        if answer not in forms:
            raise UsageError(f"{answer!r} is not one of the choices", hint=f"choose from {', '.join(forms)}")
        return SourceFormat(answer, CHOSEN_BY_USER)

    return interview.ask_until(f"the source could be {' or '.join(forms)}; which is it?", parse, output)


def _preview_format(source: str, form: SourceFormat, request: PrepareRequest, output: Output) -> FormatPreview:
    """Show what the source is and what becomes of its fields."""
    from wdsctl.cli.recognition import field_lines
    from wdsctl.cli.tables import labelled_lines
    from wdsctl.core.prepare.preview import preview_format

    with show_progress(output):
        preview = preview_format(source, form, request)
    rows: list[tuple[str, RenderableType]] = [("from", f"{form.name}: {form.reason}")]
    rows += [("", line) for line in field_lines(preview.description.field_uses)]
    if preview.description.config is not None:
        rows.append(("type", f"{preview.description.config.sample_type} (defined by {form.name})"))
    rows += [("", finding.message) for finding in preview.description.findings]
    output.note("found:", labelled_lines(rows))
    return preview


def default_dest(source: str) -> str:
    """The default folder for shards: next to the source folder, or next to the folder of a source file."""
    path = source.rstrip(os.sep)
    if os.path.isfile(path):
        folder, name = os.path.split(path)
        path = folder or os.path.splitext(name)[0]
    return f"{os.path.abspath(path) if os.path.basename(path) in ('', '.', '..') else path}-shards"


def confirm_sample_type(
    command: WizardCommand,
    detect: Callable[[WizardCommand, Output], Detection | None],
    interview: Interview,
    output: Output,
) -> WizardCommand:
    """Show the detected sample type. If it is uncertain, ask, and add the type that the user wants to the request.

    The request gets no field map with an accepted type: `prepare` detects the fields in the whole dataset, of which the
    user has seen some samples.
    """
    from wdsctl.cli.recognition import detected_type_text

    request = command.request
    if request.sample_type or request.field_map or (detection := detect(command, output)) is None:
        return command
    if detection.is_sure:  # `--sample-type` changes it later without new shards
        output.note(f"detected: {detected_type_text(detection)}")
        return replace(command, accepted=detection)
    return _choose_type(command, detection, "detected:", interview, output)


def _choose_type(
    command: WizardCommand, detection: Detection, title: str, interview: Interview, output: Output
) -> WizardCommand:
    """Show an uncertain sample type, and add it to the request if the user accepts it, or the type that they name."""
    from wdsctl.cli.tables import labelled_lines

    request = command.request
    is_accepted = interview.yes or request.accept_type
    show = output.note if is_accepted else output.warn
    show(title, labelled_lines(_fit_to_screen(detection)))
    choices = "y: use the detected type. n: choose another sample type:\n" + _type_lines()
    if is_accepted or interview.confirm("the detection is uncertain; use the detected type?", choices=choices):
        if not is_accepted:
            request = replace(request, sample_type=detection.sample_type, redetect=False)
        return replace(command, request=request, accepted=detection)
    sample_type = interview.ask_until("sample type (? lists them)", _parse_sample_type, output, choices=_type_lines())
    fields = _ask_fields(sample_type, detection, interview, output)
    return replace(
        command, request=replace(request, sample_type=sample_type, field_map=fields, redetect=False), accepted=None
    )


def _fit_to_screen(detection: Detection) -> list[tuple[str, RenderableType]]:
    """The detection and its reasons, cut to fit a screen together with the question."""
    from wdsctl.cli.recognition import detection_rows

    rows = detection_rows(detection)
    shown, lines = rows[:1], 0
    for i, (_, text) in enumerate(rows[1:], 1):
        lines += 1 + len(str(text)) // LINE_CHARACTERS
        if lines > MAX_REASON_LINES:
            left = len(rows) - i
            return [*shown, ("", f"... and {left} more {'reason' if left == 1 else 'reasons'}")]
        shown.append(rows[i])
    return shown


def _type_lines() -> str:
    """The sample types with their required fields, one per line."""
    from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES

    required = {
        name: ", ".join(field.name for field in fields if field.required) for name, fields in SAMPLE_TYPES.items()
    }
    return "\n".join(
        [
            *(f"  {name}: {fields}" for name, fields in required.items()),
            f"  {CRUDE}: any parts; each sample is a dict of them",
        ]
    )


def command_lines(command: WizardCommand, width: int, allowed_paths: Sequence[str] = ()) -> list[str]:
    """The command on lines of at most `width` characters, continued with backslashes.

    `allowed_paths`: the folders of --allow-path, without which it would refuse links.
    """
    lines = ["  "]
    allowed = [word for folder in allowed_paths for word in ("--allow-path", folder)]
    for argument in map(quote_shell_word, [*_command_line(command), *allowed]):
        if lines[-1].strip() and len(f"{lines[-1]} {argument} \\") > width:
            lines.append("     ")
        lines[-1] += argument if lines[-1] == "  " else f" {argument}"
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _command_line(command: WizardCommand) -> list[str]:
    """The words of the command. Workers do not change the result, and the catalog has the selection."""
    line = ["wdsctl", "prepare", redact_secrets(command.source), *([command.dest] if command.dest is not None else [])]
    for each, value in changed_options(command.request):
        line += _words(each, value) if each.name != "workers" else []
    return [*line, "--no-input"]


def _words(each: Declared, value: Any) -> list[str]:
    """The words of an option: its flag and its value, as `prepare` parses them."""
    flag = each.flag or f"--{each.name}"
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    if isinstance(value, Mapping) and each.name == "field_map":
        from wdsctl.core.samples.field_map import format_field_map_text

        return [flag, format_field_map_text(dict(value))]
    if isinstance(value, Mapping):
        # repr keeps every digit of a share; people write 8.0 as 8.
        shown = {name: text if isinstance(text, str) else repr(text).removesuffix(".0") for name, text in value.items()}
        value = tuple(f"{name}={text}" for name, text in shown.items())
    if isinstance(value, tuple) and each.option.is_repeatable:
        return [word for text in value for word in (flag, text)]
    return [flag, ",".join(value) if isinstance(value, tuple) else str(value)]


def _ask_fields(sample_type: str, detection: Detection, interview: Interview, output: Output) -> dict[str, str]:
    """Ask for the field map, until the answer fits the sample type and the parts."""
    from wdsctl.core.samples.field_map import validate_field_map
    from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES

    def parse(text: str) -> dict[str, str]:
        fields = dict(parse_field_map(text))
        validate_field_map(sample_type, fields, detection.kinds)
        return fields

    if sample_type == CRUDE:
        return {}
    example = ",".join(f"{field.name}=PART" for field in SAMPLE_TYPES[sample_type] if field.required)
    fields = [f"  {field.name}{'' if field.required else ' (optional)'}" for field in SAMPLE_TYPES[sample_type]]
    parts = ", ".join(detection.kinds)
    choices = "\n".join([f"fields of {sample_type}:", *fields, f"parts: {parts}", "a field of a JSON part: json[text]"])
    return interview.ask_until(f"field map, {example} (parts: {parts}; ? explains)", parse, output, choices=choices)


def _parse_sample_type(text: str) -> str:
    from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES

    names = [*SAMPLE_TYPES, CRUDE]
    exact = {name.lower(): name for name in names}
    name = exact.get(text.lower()) or exact.get(f"{text.lower()}sample")
    if name is None:
        near = difflib.get_close_matches(text, names, n=3)
        raise UsageError(f"unknown sample type {text!r}", hint=f"choose from {', '.join(near or names)}")
    return name


def _is_prepared(root: str, catalog: str | None) -> bool:
    from wdsctl.core.opened.opening import open_dataset

    return (is_url(root) or os.path.exists(root)) and open_dataset(root, catalog).has_config()


def _has_energon_splits(root: str) -> bool:
    """Whether Energon has split the dataset; `prepare` imports its splits."""
    from wdsctl.core.energon.meta import energon_meta

    if not is_url(root) and not os.path.isdir(root):
        return False
    with energon_meta(root) as meta:
        return meta.has_split()
