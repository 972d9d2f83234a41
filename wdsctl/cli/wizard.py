"""`wdsctl prepare` on a terminal: ask for what the flags do not say, and print the command that would not ask."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from wdsctl.cli import values
from wdsctl.cli.asking import Terminal, may_ask
from wdsctl.cli.options import Common
from wdsctl.cli.output import Output
from wdsctl.cli.progress import listening
from wdsctl.cli.start import LeftUnwritten
from wdsctl.core.called import typed
from wdsctl.core.command_line import quoted
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.printable import harmless
from wdsctl.core.urls import is_url, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.detect import Detection
    from wdsctl.core.root_spec import RootSpec
    from wdsctl.core.verbs.prepare import PrepareOptions, PrepareReport

T = TypeVar("T")

#: Options of the verb whose flag has another name.
FLAGS = {"split_by": "--by", "moved": "--yes", "may_move": "--yes", "hashed": "--hash"}
#: Options without one: the number of workers changes nothing, and which shards were chosen the catalog knows.
UNSAID = ("workers", "selection", "take_unsure")


MOST_LINES = 16  # of reasons, on a screen of 24 lines of 80
LINE = 70

#: What a question mark shows.
SOURCES = """  photos/            raw files: 0001.jpg and 0001.txt make a sample
  shards/            tars or JSONL at any depth, prepared in place
  labels.jsonl       one file of lines
  'shards/a-*.tar'   some of the shards"""
DESTS = """  a folder that is made, for the shards: the raw files stay as they are.
  Enter alone takes the one in brackets."""
SPLITS = """  8,1,1                   train, val and test, exactly by these shares
  train=0.98,val=0.02     splits by name
  Enter alone             all is train; `wdsctl split` divides it later"""


class Ask(Protocol):
    """Who answers: a person at a terminal, or a test."""

    def text(self, question: str, default: str) -> str: ...

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool: ...


@dataclass(slots=True)
class Interview:
    """Asks, and knows whether it has. With `yes`, values are still asked for, confirmations are not.

    `choices`: what is shown to who answers with a question mark, before the question is asked again.
    """

    ask: Ask
    yes: bool = False
    has_asked: bool = False

    def text(self, question: str, default: str = "", *, choices: str = "") -> str:
        self.has_asked = True
        while (answer := self.ask.text(question, default).strip()) == "?" and choices:
            typer.echo(harmless(choices), err=True)
        return answer

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool:
        if self.yes:
            return True
        self.has_asked = True
        return self.ask.confirm(question, default=default, choices=choices)

    def ask_until(
        self, question: str, parse: Callable[[str], T], output: Output, *, default: str = "", choices: str = ""
    ) -> T:
        """Ask until `parse` takes the answer: what it raises is said, and the question comes again."""
        while True:
            try:
                return parse(self.text(question, default, choices=choices))
            except WdsctlError as error:
                output.say(f"{error.message} ({error.hint})")
            except typer.BadParameter as error:
                output.say(error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of the verb `prepare`."""

    source: str
    dest: str | None
    options: PrepareOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. `request` is complete; `has_asked` tells whether repeating it would ask again."""

    request: Request
    report: PrepareReport
    has_asked: bool = False


def prepare(request: Request, common: Common) -> Outcome:
    """Run the verb, with questions before it where somebody is there to answer. Nothing is written before the last."""
    if not may_ask(common):
        return Outcome(request=request, report=run(request, common.output))
    return converse(request, Interview(Terminal(), yes=common.yes), common.output)


def ask_source(common: Common) -> RootSpec:
    """What is to be prepared, where nobody has said it. Raises UsageError where nobody can be asked."""
    if not may_ask(common):
        raise UsageError("missing argument 'SOURCE'", hint="`wdsctl prepare --help` lists what it accepts")
    question = "data to prepare: folder of raw files or tars, or a .jsonl file (? explains)"
    with nothing_written():
        return Interview(Terminal()).ask_until(question, _source, common.output, choices=SOURCES)


def _source(text: str) -> RootSpec:
    from wdsctl.core.root_spec import root_spec
    from wdsctl.core.verbs.prepare_source import look, refuse_other_forms

    if not text:
        raise UsageError("an empty name", hint="for the folder you are in, write .")
    spec = root_spec(text)
    if spec.selection is None and look(spec.root) == "folder":
        refuse_other_forms(spec.root, None)
    return spec


@contextlib.contextmanager
def nothing_written() -> Iterator[None]:
    """Around questions that come before the first write: who leaves them is told that nothing was written."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort) as left:
        raise LeftUnwritten from left


def run(request: Request, output: Output) -> PrepareReport:
    from wdsctl.core.verbs.prepare import prepare as verb

    with listening(output) as progress:
        return verb(request.source, request.dest, request.options, progress=progress)


def look_at(request: Request, output: Output) -> Detection | None:
    """The sample type that some of the samples look like; None where dataset.yaml or Energon says it."""
    from wdsctl.core.place import locate
    from wdsctl.core.verbs.index_after import is_told
    from wdsctl.core.verbs.prepare_preview import preview

    options, root = request.options, request.dest or request.source
    if options.dry_run or (_is_prepared(root, options.catalog) and not options.redetect):
        return None
    if (is_url(root) or os.path.exists(root)) and not is_told(locate(root, options.catalog)):
        return None
    with listening(output) as progress:
        return preview(request.source, request.dest, options, progress=progress)


def converse(
    request: Request,
    interview: Interview,
    output: Output,
    run: Callable[[Request, Output], PrepareReport] = run,
    look: Callable[[Request, Output], Detection | None] = look_at,
) -> Outcome:
    """Complete the request, let the user judge the sample type that some samples look like, and run it."""
    from wdsctl.core.verbs.split import WouldMove

    with nothing_written():
        request = judge(complete(request, interview, output), look, interview, output)
    try:
        with _noted(request, interview):
            report = run(request, output)
    except WouldMove as refused:
        from wdsctl.cli.render.split import moved_lines

        output.say(*moved_lines(refused.report))
        if not interview.confirm("move them?", default=False):
            raise
        request = replace(request, options=replace(request.options, may_move=True))
        with _noted(request, interview):
            report = run(request, output)
    return Outcome(request=request, report=report, has_asked=interview.has_asked)


def _noted(request: Request, interview: Interview) -> contextlib.AbstractContextManager[None]:
    """What was answered is noted as if it had been typed."""
    return typed("prepare", _words(request)[2:]) if interview.has_asked else contextlib.nullcontext()


def complete(request: Request, interview: Interview, output: Output) -> Request:
    """Ask for the destination of a raw folder, and for the split of a dataset that is new."""
    from wdsctl.core.ratios import parse_ratios
    from wdsctl.core.verbs.prepare import check_places
    from wdsctl.core.verbs.prepare_source import look, refuse_other_forms

    dest, options = request.dest, request.options

    def usable(answer: str) -> str:
        check_places(request.source, answer, options)
        return answer

    if dest is not None:
        check_places(request.source, dest, options)
    kind = "folder" if dest is not None else "tars" if options.selection else look(request.source)
    if kind == "lines":
        output.say("JSONL, in place: nothing is written but the catalog")
    if dest is None and kind == "folder":
        refuse_other_forms(request.source, None)  # whatever the destination, which need not be asked for then
        question = "folder for the shards (? explains)"
        dest = interview.ask_until(question, usable, output, default=beside(request.source), choices=DESTS)
    root = dest or request.source
    if options.split is None and not (_is_prepared(root, options.catalog) or _is_divided(root)):
        question = "split, such as 8,1,1 (empty: all is train; ? explains)"
        split = interview.ask_until(question, lambda text: parse_ratios(text) if text else None, output, choices=SPLITS)
        options = replace(options, split=split)
    return replace(request, dest=dest, options=options)


def beside(source: str) -> str:
    """A folder for the shards: next to the raw folder, however that is spelt."""
    path = source.rstrip(os.sep)
    return f"{os.path.abspath(source) if os.path.basename(path) in ('', '.', '..') else path}-shards"


def judge(
    request: Request, look: Callable[[Request, Output], Detection | None], interview: Interview, output: Output
) -> Request:
    """The request with the sample type that some samples look like, or with the one that the user says instead."""
    from wdsctl.cli.render.pieces import labelled

    options = request.options
    if options.sample_type or options.field_map or (detection := look(request, output)) is None:
        return request
    output.say("this looks like:", labelled(_on_screen(detection)))
    choices = "y: use it. n: name another sample type:\n" + _type_lines()
    if interview.confirm("use it?" if detection.is_sure else "this is not sure; use it?", choices=choices):
        accepted = replace(options, sample_type=detection.sample_type, field_map=dict(detection.field_map))
        return replace(request, options=accepted)
    sample_type = interview.ask_until("sample type (? lists them)", _sample_type, output, choices=_type_lines())
    fields = _fields_of(sample_type, detection, interview, output)
    return replace(request, options=replace(options, sample_type=sample_type, field_map=fields))


def _on_screen(detection: Detection) -> list[tuple[str, RenderableType]]:
    """What was recognised and why, as far as it fits on a screen with the question below it."""
    from wdsctl.cli.render.prepare import detection_rows

    rows = detection_rows(detection)
    shown, lines = rows[:1], 0
    for i, (_, said) in enumerate(rows[1:], 1):
        lines += 1 + len(str(said)) // LINE
        if lines > MOST_LINES:
            left = len(rows) - i
            return [*shown, ("", f"... and {left} more {'reason' if left == 1 else 'reasons'}")]
        shown.append(rows[i])
    return shown


def _type_lines() -> str:
    """The sample types with the fields that each needs, a line each."""
    from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES

    needs = {name: ", ".join(field.name for field in fields if field.required) for name, fields in SAMPLE_TYPES.items()}
    return "\n".join([*(f"  {name}: {said}" for name, said in needs.items()), f"  {CRUDE}: the parts as they are"])


def command_lines(request: Request, width: int) -> list[str]:
    """The command, on as many lines as it takes, each but the last going on in the next as shells have it."""
    lines = ["  "]
    for word in map(quoted, _words(request)):
        if lines[-1].strip() and len(f"{lines[-1]} {word} \\") > width:
            lines.append("     ")
        lines[-1] += word if lines[-1] == "  " else f" {word}"
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _words(request: Request) -> list[str]:
    from wdsctl.core.verbs.prepare import PrepareOptions

    words = ["wdsctl", "prepare", shown(request.source), *([request.dest] if request.dest is not None else [])]
    defaults = PrepareOptions()
    for field in fields(PrepareOptions):
        value = getattr(request.options, field.name)
        if value != getattr(defaults, field.name) and field.name not in UNSAID:
            words += [word for word in _flag(field.name, value) if word != "--yes" or word not in words]
    return [*words, "--no-input"]


def _flag(name: str, value: object) -> list[str]:
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    if name == "exclude" and isinstance(value, tuple):
        return [word for pattern in value for word in (flag, str(pattern))]
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    if name == "field_map" and isinstance(value, Mapping):
        from wdsctl.core.fields import option_text

        return [flag, option_text(dict(value))]
    if isinstance(value, Mapping):
        # repr keeps every digit of a share; 8.0 is 8 to people.
        return [flag, ",".join(f"{key}={share!r}".removesuffix(".0") for key, share in value.items())]
    if isinstance(value, tuple):
        return [flag, ",".join(value)]
    return [flag, str(value)]


def _fields_of(sample_type: str, detection: Detection, interview: Interview, output: Output) -> dict[str, str]:
    """Ask where the fields are, until the answer fits the type and the parts that there are."""
    from wdsctl.core.fields import validate_field_map
    from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES

    def parse(text: str) -> dict[str, str]:
        fields = values.field_map(text)
        validate_field_map(sample_type, fields, detection.kinds)
        return fields

    if sample_type == CRUDE:
        return {}
    form = ",".join(f"{field.name}=PART" for field in SAMPLE_TYPES[sample_type] if field.required)
    every = [f"  {field.name}{'' if field.required else ' (may be left out)'}" for field in SAMPLE_TYPES[sample_type]]
    parts = ", ".join(detection.kinds)
    choices = "\n".join([f"fields of {sample_type}:", *every, f"parts: {parts}", "of JSON a field: json[text]"])
    return interview.ask_until(f"field map, {form} (parts: {parts}; ? explains)", parse, output, choices=choices)


def _sample_type(text: str) -> str:
    from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES

    names = [*SAMPLE_TYPES, CRUDE]
    exact = {name.lower(): name for name in names}
    name = exact.get(text.lower()) or exact.get(f"{text.lower()}sample")
    if name is None:
        near = difflib.get_close_matches(text, names, n=3)
        raise UsageError(f"there is no sample type {text!r}", hint=f"choose from {', '.join(near or names)}")
    return name


def _is_prepared(root: str, catalog: str | None) -> bool:
    from wdsctl.core.place import locate

    return (is_url(root) or os.path.exists(root)) and os.path.exists(locate(root, catalog).dataset_yaml)


def _is_divided(root: str) -> bool:
    """Whether Energon has divided it, whose splits are taken over."""
    from wdsctl.core.formats.energon_meta import energon_meta

    if not is_url(root) and not os.path.isdir(root):
        return False
    with energon_meta(root) as meta:
        return meta.is_divided()
