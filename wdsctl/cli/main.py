"""The command line: one run of it, and the one place where errors end."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

from wdsctl.cli import errors
from wdsctl.cli.apps import app_for
from wdsctl.cli.bare_options import filled
from wdsctl.cli.coercion import lighten
from wdsctl.cli.configured import defaults_for
from wdsctl.cli.options import command_of, common_first
from wdsctl.cli.output import Answered, PipeClosed, unwritable, write
from wdsctl.cli.start import INTERRUPTED, UNWRITTEN, LeftUnwritten
from wdsctl.core.called import typed
from wdsctl.core.errors import WdsctlError
from wdsctl.core.os_errors import is_full
from wdsctl.core.printable import one_line
from wdsctl.core.urls import shown

if TYPE_CHECKING:
    from wdsctl.core.config import Setting

#: What a shell sets when it asks for completion (Typer's name for it).
COMPLETION = "_WDSCTL_COMPLETE"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code. Every error ends here."""
    given = common_first(list(sys.argv[1:] if argv is None else argv))
    words = filled(given)
    manner = errors.Manner.of(words)
    try:
        settings: dict[str, Setting] = {}
        try:
            defaults, settings = defaults_for(words)
            with typed(*command_of(given)):
                return _run(words, defaults)
        except typer.TyperException as error:
            return errors.report(errors.from_typer(error, settings, words=_command_in(given)), manner)
        except WdsctlError as error:
            return errors.report(error, manner)
        except Answered as answered:
            return errors.report(answered.error, manner, is_answered=True)
    except PipeClosed:
        return _pipe_closed()
    except Exception:  # noqa: BLE001 - the one boundary: what is not ours is a bug, and keeps its traceback
        return errors.bug()


def _command_in(given: list[str]) -> str:
    command = command_of(given)[0]
    return "" if command.startswith("-") else command


def _warned(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """What libraries warn of may be words out of a file."""
    write(sys.stderr, shown(f"{category.__name__}: {one_line(str(message))}\n"))


def _run(words: list[str], defaults: dict[str, Any]) -> int:
    command = lighten(get_command(app_for(words, is_completing=COMPLETION in os.environ)))
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warned
            code = command(args=words, prog_name="wdsctl", standalone_mode=False, default_map=defaults or None) or 0
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        if error.filename is None and is_full(error):  # help, which Typer writes
            raise unwritable(sys.stdout, error) from error
        raise
    except LeftUnwritten:
        write(sys.stderr, f"{UNWRITTEN}\n")
        return 130
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as error:
        # Typer ends so when stdout closes under its help, and when it has answered a shell's request for completion.
        if isinstance(error.__context__, BrokenPipeError):
            raise PipeClosed from error
        code = error.code if isinstance(error.code, int) else 0
    if code == 130:
        write(sys.stderr, f"{INTERRUPTED}\n")
    return int(code)


def _pipe_closed() -> int:
    """Quiet, with a shell's code for SIGPIPE. What is still buffered goes nowhere, or Python would complain at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
    return 141
