"""`wdsctl prepare` on a terminal: ask for what the flags do not say, and print the command that would not ask."""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from wdsctl.cli import values
from wdsctl.cli.asking import Terminal, may_ask
from wdsctl.cli.options import Common
from wdsctl.cli.output import Output
from wdsctl.cli.progress import listening
from wdsctl.core.called import typed
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.urls import is_url, shown

if TYPE_CHECKING:
    from wdsctl.core.detect import Detection
    from wdsctl.core.verbs.prepare import PrepareOptions, PrepareReport

T = TypeVar("T")

#: Options of the verb whose flag has another name.
FLAGS = {"split_by": "--by", "moved": "--yes", "hashed": "--hash"}
#: Options without one: the number of workers changes nothing, and which shards were chosen the catalog knows.
UNSAID = ("workers", "selection", "take_unsure")


class Ask(Protocol):
    """Who answers: a person at a terminal, or a test."""

    def text(self, question: str, default: str) -> str: ...

    def confirm(self, question: str) -> bool: ...


@dataclass(slots=True)
class Interview:
    """Asks, and knows whether it has. With `yes`, values are still asked for, confirmations are not."""

    ask: Ask
    yes: bool = False
    has_asked: bool = False

    def text(self, question: str, default: str = "") -> str:
        self.has_asked = True
        return self.ask.text(question, default).strip()

    def confirm(self, question: str) -> bool:
        if self.yes:
            return True
        self.has_asked = True
        return self.ask.confirm(question)

    def insist(self, question: str, understand: Callable[[str], T], output: Output) -> T:
        """Ask until the answer is understood."""
        while True:
            try:
                return understand(self.text(question))
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
    """Run the verb, with questions before and after it where somebody is there to answer."""
    if not may_ask(common):
        return Outcome(request=request, report=run(request, common.output))
    return converse(request, Interview(Terminal(), yes=common.yes), common.output)


def run(request: Request, output: Output) -> PrepareReport:
    from wdsctl.core.verbs.prepare import prepare as verb

    with listening(output) as progress:
        return verb(request.source, request.dest, request.options, progress=progress)


def run_unsure(request: Request, output: Output) -> PrepareReport:
    """The same, where somebody judges the sample type afterwards: it need not be sure."""
    return run(replace(request, options=replace(request.options, take_unsure=True)), output)


def converse(
    request: Request, interview: Interview, output: Output, run: Callable[[Request, Output], PrepareReport] = run_unsure
) -> Outcome:
    """Complete the request, run it, and let the user judge the sample type that was detected."""
    request = complete(request, interview, output)
    with _noted(request, interview):
        report = run(request, output)
    judged = judge(request, report, interview, output)
    if judged != request:
        # The second run writes dataset.yaml anew and no more: what was done is in the report of the first.
        with _noted(judged, interview):
            report = replace(report, detection=run(judged, output).detection)
    elif report.detection is not None and not output.quiet:
        # The evidence has been read, or nobody wanted it: the answer need not repeat it.
        report = replace(report, detection=replace(report.detection, reasons=(), rejected=()))
    return Outcome(request=judged, report=report, has_asked=interview.has_asked)


def _noted(request: Request, interview: Interview) -> contextlib.AbstractContextManager[None]:
    """What was answered is noted as if it had been typed."""
    return typed("prepare", _words(request)[2:]) if interview.has_asked else contextlib.nullcontext()


def complete(request: Request, interview: Interview, output: Output) -> Request:
    """Ask for the destination of a raw folder, and for the split of a dataset that is new."""
    from wdsctl.core.ratios import parse_ratios
    from wdsctl.core.verbs.prepare_source import look

    dest, options = request.dest, request.options
    kind = "folder" if dest is not None else "tars" if options.selection else look(request.source)
    if kind == "lines":
        output.say("JSONL, in place: nothing is written but the catalog")
    if dest is None and kind == "folder":
        dest = interview.text("folder for the shards", beside(request.source))
    root = dest or request.source
    if options.split is None and not (_is_prepared(root, options.catalog) or _is_divided(root)):
        question = "split, such as 8,1,1 (empty: all is train)"
        split = interview.insist(question, lambda text: parse_ratios(text) if text else None, output)
        options = replace(options, split=split)
    return replace(request, dest=dest, options=options)


def beside(source: str) -> str:
    """A folder for the shards: next to the raw folder, however that is spelt."""
    path = source.rstrip(os.sep)
    return f"{os.path.abspath(source) if os.path.basename(path) in ('', '.', '..') else path}-shards"


def judge(request: Request, report: PrepareReport, interview: Interview, output: Output) -> Request:
    """The request with another sample type, if the user does not like the one that was detected."""
    from wdsctl.cli.render.pieces import labelled
    from wdsctl.cli.render.prepare import detection_rows

    detection, options = report.detection, request.options
    if detection is None or options.sample_type or options.field_map:
        return request
    output.say("this looks like:", labelled(detection_rows(detection)))
    if interview.confirm("use it?" if detection.is_sure else "this is not sure; use it?"):
        if detection.is_sure:
            return request
        # Without questions, it has to be said.
        sure = replace(options, sample_type=detection.sample_type, field_map=detection.field_map)
        return replace(request, options=sure)
    sample_type = interview.insist("sample type", _sample_type, output)
    fields = _fields_of(sample_type, detection, interview, output)
    return replace(request, options=replace(options, sample_type=sample_type, field_map=fields, redetect=True))


def command_lines(request: Request, width: int) -> list[str]:
    """The command, on as many lines as it takes, each but the last going on in the next as shells have it."""
    lines = ["  "]
    for word in map(shlex.quote, _words(request)):
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
            words += _flag(field.name, value)
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

    def understand(text: str) -> dict[str, str]:
        fields = values.field_map(text)
        validate_field_map(sample_type, fields, detection.kinds)
        return fields

    if sample_type == CRUDE:
        return {}
    form = ",".join(f"{field.name}=PART" for field in SAMPLE_TYPES[sample_type] if field.required)
    return interview.insist(f"field map, {form} (parts: {', '.join(detection.kinds)})", understand, output)


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
