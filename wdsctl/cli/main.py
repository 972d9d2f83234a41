"""Runs the command line once, and handles all errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import typer
from typer.main import get_command

from wdsctl.cli import errors
from wdsctl.cli.app import build_app, fill_bare_options, refuse_repeated_options, use_plain_coercion
from wdsctl.cli.config import attach_config
from wdsctl.cli.interrupts import INTERRUPTED_MESSAGE, INTERRUPTED_UNWRITTEN_MESSAGE, InterruptedBeforeWrite
from wdsctl.cli.options import move_common_options, rewrite_help_words, split_command
from wdsctl.cli.output import PartialDocument, PipeClosed, output_error, write_plain
from wdsctl.core.errors import WdsctlError, is_out_of_space
from wdsctl.core.invocation import recording_invocation
from wdsctl.core.text import escape_unprintable
from wdsctl.core.urls import redact_secrets

#: What a shell sets when it asks for completion (Typer's name for it).
COMPLETION_VARIABLE = "_WDSCTL_COMPLETE"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Every error ends here."""
    typed = rewrite_help_words(move_common_options(list(sys.argv[1:] if argv is None else argv)))
    args = fill_bare_options(typed)
    error_format = errors.ErrorFormat.from_args(args)
    origins: dict[str, tuple[str, str]] = {}
    try:
        try:
            with recording_invocation(*split_command(typed)):
                return _run(args, origins)
        except typer.TyperException as error:
            usage_error = errors.convert_typer_error(error, origins, command_line=_find_command(typed))
            return errors.report_error(usage_error, error_format)
        except WdsctlError as error:
            errors.mention_configured_options(error, origins)
            return errors.report_error(error, error_format)
        except PartialDocument as partial:
            return errors.report_partial(partial, error_format)
    except PipeClosed:
        return 141  # as a shell reports SIGPIPE
    except Exception as error:  # noqa: BLE001 - the one boundary: what is not ours is a bug, and keeps its traceback
        return errors.report_bug(error, error_format)


def run_inner(arguments: Sequence[str]) -> int:
    """Run a command line within another one, which handles its errors, and return its exit code."""
    typed = move_common_options(list(arguments))
    with recording_invocation(*split_command(typed)):
        return _run(fill_bare_options(typed), {})


def _find_command(args: list[str]) -> str:
    command = split_command(args)[0]
    return "" if command.startswith("-") else command


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Write a library's warning without control characters: its text may come from data."""
    write_plain(sys.stderr, redact_secrets(f"{category.__name__}: {escape_unprintable(str(message))}\n"))


def _run(args: list[str], origins: dict[str, tuple[str, str]]) -> int:
    command = use_plain_coercion(get_command(build_app(args, is_completing=COMPLETION_VARIABLE in os.environ)))
    refuse_repeated_options(command, args)
    attach_config(command, origins)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = command(args=args, prog_name="wdsctl", standalone_mode=False) or 0
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        if error.filename is None and is_out_of_space(error):  # help, which Typer writes
            raise output_error(sys.stdout, error) from error
        raise
    except InterruptedBeforeWrite:
        write_plain(sys.stderr, f"{INTERRUPTED_UNWRITTEN_MESSAGE}\n")
        return 130
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as error:
        # Typer ends so when stdout closes under its help, and when it has answered a shell's request for completion.
        if isinstance(error.__context__, BrokenPipeError):
            raise PipeClosed from error
        code = error.code if isinstance(error.code, int) else 0
    if code == 130:
        write_plain(sys.stderr, f"{INTERRUPTED_MESSAGE}\n")
    return int(code)
