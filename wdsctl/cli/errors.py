"""How a command ends: the exit codes of reports, and the messages of errors, which `main` writes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import typer

from wdsctl.cli.formatting import display_path, escape_line, relative_paths
from wdsctl.cli.output import (
    Output,
    PartialDocument,
    PipeClosed,
    bug_error,
    error_fields,
    has_color,
    json_document,
    write_plain,
    write_styled,
)
from wdsctl.core.errors import StorageError, UsageError, WdsctlError, findings_at_least
from wdsctl.core.urls import redact_secrets

if TYPE_CHECKING:
    from wdsctl.core.convert.conversion_report import ConvertReport
    from wdsctl.core.errors import Finding
    from wdsctl.core.index.index import IndexReport
    from wdsctl.core.index.media_folder import MediaFolderReport
    from wdsctl.core.inspect.inspect import InspectReport
    from wdsctl.core.inspect.media_folder import MediaFolderInspectReport

NO_SAMPLES = 3
PARTIAL = 5


def index_exit_code(report: IndexReport) -> int:
    """3 without samples, unless a dry run has not read the shards yet; 5 with errors among the findings."""
    is_known = not report.dry_run or report.added + report.changed == 0
    if is_known and not report.samples:
        return NO_SAMPLES
    return PARTIAL if findings_at_least(report.findings, "error") else 0


def media_folder_exit_code(report: MediaFolderReport | MediaFolderInspectReport) -> int:
    """5 if files could not be read, or have changed since. Unreadable media are facts, not errors."""
    findings = report.findings if hasattr(report, "findings") else report.stale
    return PARTIAL if findings_at_least(findings, "error") else 0


def inspect_exit_code(report: InspectReport) -> int:
    if not report.samples:
        return NO_SAMPLES
    is_complete = report.statuses.keys() <= {"ok", "missing"}  # missing: the user chose to keep such shards
    return 0 if is_complete and not findings_at_least(report.stale, "error") else PARTIAL


def explain_partial_if_quiet(output: Output, findings: Sequence[Finding], left_out: Iterable[str] = ()) -> None:
    """With --quiet, write one line to stderr that says why the exit code is 5: no report has the findings.

    `left_out`: what else of the report is the reason.
    """
    from wdsctl.cli.tables import count_severities

    if not output.quiet or output.json:
        return
    codes = ", ".join(dict.fromkeys(finding.code for finding in findings))
    reasons = [*([f"{count_severities(findings)} ({codes})"] if findings else []), *left_out]
    if reasons:
        output.warn(f"incomplete: {'; '.join(reasons)}")


def error_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of severity `error`."""
    return [finding for finding in findings if finding.severity == "error"]


def convert_exit_code(report: ConvertReport) -> int:
    """5 if samples or shards failed, or samples were kept as they were."""
    return PARTIAL if report.failed or report.kept or findings_at_least(report.findings, "error") else 0


#: Typer's messages, from whichever library checks the value, and ours.
TYPER_MESSAGE_REWRITES = (
    (
        re.compile(r"(?:-?\S+ is not in the range x>=|Input should be greater than or equal to )(-?\S+)"),
        r"the minimum is \1",
    ),
    (
        re.compile(r"(?:-?\S+ is not in the range x<=|Input should be less than or equal to )(-?\S+)"),
        r"the maximum is \1",
    ),
    (re.compile(r"(?:\S+ is not a valid integer|Input should be a valid integer.*)"), "expected a whole number"),
    (re.compile(r"(?:\S+ is not a valid float|Input should be a valid number.*)"), "expected a number"),
    (re.compile(r"Value error, "), ""),
)
BUG_MESSAGE = "wdsctl has a bug: please report it with the lines above and the command"


class ErrorFormat(NamedTuple):
    """How to write an error. Read from the raw arguments, because parsing them may be what failed."""

    json: bool
    no_color: bool
    debug: bool

    @classmethod
    def from_args(cls, args: Sequence[str]) -> ErrorFormat:
        options = set(args[: args.index("--")] if "--" in args else args)
        return cls(
            json="--json" in options,
            no_color="--no-color" in options,
            debug="--debug" in options or os.environ.get("WDSCTL_DEBUG", "") not in {"", "0"},
        )


def report_error(error: WdsctlError, error_format: ErrorFormat, *, is_in_document: bool = False) -> int:
    """Write an error to stderr, or as one JSON document to stdout, and return its exit code.

    If stdout cannot be written, the text goes to stderr instead. `is_in_document`: the end of a JSON document that had
    begun has the error already.
    """
    if error_format.debug:
        _write_stderr("".join(traceback.format_exception(error)))
    if not is_in_document and not (error_format.json and _write_json_error(error)):
        text = format_error(error, is_colored=has_color(sys.stderr, error_format.no_color))
        _write_stderr_styled(_wrap_to_terminal(text) if sys.stderr.isatty() else text)
    return error.exit_code


def format_error(error: WdsctlError, *, is_colored: bool) -> str:
    head = f"error[{error.code}]"
    if is_colored:
        head = typer.style(head, fg="red", bold=True)
    lines = [f"{head}: {_indent_lines(error.message)}"]
    if error.where:
        lines.append(f"  --> {display_path(error.where)}")
    lines.append(f"  help: {_indent_lines(error.hint)}")
    return "\n".join(lines) + "\n"


def _wrap_to_terminal(text: str) -> str:
    """Wrap a message, measuring its coloured head without the escape sequences."""
    from wdsctl.cli.output import terminal_width, wrap_lines

    head, reset, rest = text.rpartition("\x1b[0m")
    plain_head = re.sub("\x1b\\[[0-9;]*m", "", head)
    wrapped = wrap_lines(plain_head + rest, terminal_width(sys.stderr))
    return head + reset + wrapped[len(plain_head) :]


def convert_typer_error(
    error: typer.TyperException, origins: Mapping[str, tuple[str, str]] | None = None, *, command_line: str = ""
) -> UsageError:
    """Typer's usage error as ours; its suggestions are part of its message.

    `origins`: the configured options and the variable or file of each, by parameter. `command_line`: the command that
    was typed, for errors that Typer raises before it has found the command.
    """
    message = error.format_message().strip().removesuffix(".").replace("\n\t", " ")
    for pattern, replacement in TYPER_MESSAGE_REWRITES:
        message = pattern.sub(replacement, message)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else f"wdsctl {command_line}".rstrip()
    message = message[:1].lower() + message[1:]
    parameter = getattr(getattr(error, "param", None), "name", "")
    if context is not None and is_configured(context, parameter):
        _, origin = (origins or {}).get(parameter, ("", ""))
        return UsageError(
            message, where=origin, hint="correct the value in its source, or pass the option", code="WDS010"
        )
    unknown = _UNKNOWN_COMMAND.match(message)
    if unknown and (meant := _meant_command(command, unknown[1])):
        return UsageError(unknown[0], hint=meant)  # a similar name that Typer suggests may be that of another task
    return UsageError(message, hint=f"run `{command} --help` for the accepted values")


def is_configured(context: typer.Context, parameter: str) -> bool:
    """Whether the value of a parameter comes from a variable or a configuration file."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name in {"DEFAULT_MAP", "ENVIRONMENT"}


_UNKNOWN_COMMAND = re.compile(r"no such command '(.+?)'(?=$|\. Did you mean )")
#: What people type first -> the command that does it.
_OTHER_WORDS = {
    "prepare": "add build create import ingest load make pack shard write",
    "inspect": "browse cat describe head info look peek preview sample samples show stat summary",
    "inspect --stats": "analyze count histogram stats",
    "validate": "check fsck lint test verify",
    "repair": "fix heal mend",
    "convert": "export merge pack repack reshard transcode",
    "ls": "keys list shards",
    "sql": "filter find query search select",
    "log": "history runs",
    "view": "subset subsets views",
    "checksum": "hash md5 sha256",
}


def _meant_command(command: str, word: str) -> str:
    """A hint that names the command for a word that is none; empty if no command is known to be meant."""
    if command == "wdsctl view" and re.search(r"[./]|^\w+$", word):
        return f"`wdsctl inspect {word} --samples 3` shows samples; a view is a saved selection of them"
    meant = [known for known, words in _OTHER_WORDS.items() if word.lower() in words.split()]
    return (
        f"did you mean `wdsctl {meant[0]}`? `wdsctl --help` lists all commands" if command == "wdsctl" and meant else ""
    )


def mention_configured_options(error: WdsctlError, origins: Mapping[str, tuple[str, str]]) -> None:
    """Add to the hint of a usage error which of the options in its message were not typed but configured."""
    if not isinstance(error, UsageError):
        return
    for flag, origin in origins.values():
        if re.search(rf"{re.escape(flag)}(?![\w-])", error.message):
            error.hint += f"; {display_path(origin)} sets {flag}; pass --config none to ignore files"


def report_partial(partial: PartialDocument, error_format: ErrorFormat) -> int:
    """Report an error that the end of a JSON document has already, and return its exit code."""
    cause = partial.__cause__
    if isinstance(cause, Exception) and not isinstance(cause, WdsctlError):
        return report_bug(cause, error_format, is_in_document=True)
    return report_error(partial.error, error_format, is_in_document=True)


def report_bug(error: Exception, error_format: ErrorFormat, *, is_in_document: bool = False) -> int:
    """Write the traceback of the exception being handled to stderr, for a bug report, and the JSON document if asked.

    `is_in_document`: as for `report_error`.
    """
    _write_stderr(f"{traceback.format_exc()}\n{BUG_MESSAGE}\n")
    if error_format.json and not is_in_document:
        with suppress(PipeClosed):
            _write_json_error(bug_error(error))
    return 1


def _write_json_error(error: WdsctlError) -> bool:
    try:
        write_plain(sys.stdout, json_document({"error": error_fields(error)}))
    except StorageError:
        return False
    return True


def _write_stderr(text: str) -> None:
    """Write to stderr. If that fails, too, only the exit code is left."""
    with suppress(StorageError):
        write_plain(sys.stderr, redact_secrets(text))


def _write_stderr_styled(text: str) -> None:
    with suppress(StorageError):
        write_styled(sys.stderr, text)


def _indent_lines(text: str) -> str:
    return "\n  ".join(escape_line(line) for line in relative_paths(text).split("\n"))
