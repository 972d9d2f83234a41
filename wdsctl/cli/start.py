"""Where `wdsctl` starts: a plain `get` is answered at once, everything else by the command line.

Scripts call `get` by the thousand, and importing what parses a command line takes longer than the answer. Only what is
written here is taken for plain; what is not, what fails before a byte is out, and whatever a configuration might change
goes the long way, which says everything.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wdsctl.core.errors import WdsctlError

INTERRUPTED = "interrupted; run the same command again to go on"
UNWRITTEN = "interrupted; nothing was written"
#: Options of a plain `get`, by what they set.
OPTIONS = {"--part": "part", "-p": "part", "--shard": "shard", "--output": "output", "-o": "output"}
#: Variables that are nobody's configuration of `get`.
KNOWN = frozenset({"WDSCTL_ALLOW_PATH", "WDSCTL_CATALOG", "WDSCTL_NO_COLOR"})
#: In the working directory it is not used, which the long way says.
FILE = "wdsctl.toml"


class LeftUnwritten(Exception):  # noqa: N818 - somebody has left, and nothing is wrong
    """Ctrl-C or Ctrl-D at a question that comes before anything is written."""


def run() -> None:
    """The console script."""
    # What is imported stays: walking through it again and again took a tenth of a short command.
    gc.set_threshold(100_000, 50, 50)
    # numpy's BLAS starts a thread a CPU as it is imported, which waits for work that no command has.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_what_is_closed()
    try:
        code = quick_get(sys.argv[1:])
        if code is None:
            from wdsctl.cli.main import main

            code = main()
    except KeyboardInterrupt:  # while all this was imported; later, it ends in `main`
        sys.stderr.write(f"{INTERRUPTED}\n")
        code = 130
    sys.exit(code)


def open_what_is_closed() -> None:
    """Give descriptors 0 to 2 to nowhere where a shell has closed them (`>&-`): the next file would get the number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle == number:
                os.set_inheritable(number, True)  # as `dup2` makes it: what we start would find it closed again
            else:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - as long as the process


def quick_get(words: Sequence[str]) -> int | None:
    """Write the part that a plain `get` names into the pipe or file that is asked for. None: go the long way."""
    asked = plain_get(words)
    if asked is None or is_configured(os.environ):
        return None
    from wdsctl.core.errors import WdsctlError
    from wdsctl.core.verbs.get import find, read, write

    root, key, options = asked
    output = options.get("output", "-")
    try:
        wanted = find(root, key, part=options.get("part"), shard=options.get("shard"))
        if output != "-":
            report = write(wanted, output)
            from wdsctl.cli.figures import path, size

            lines = [f"wrote {path(part.output or '')} ({size(part.size_bytes)})\n" for part in report.parts]
            sys.stderr.write("".join(lines))
            return 0
        pieces = read(wanted)
        first = next(pieces, b"")
    except WdsctlError:
        return None
    return _written(first, pieces)


def plain_get(words: Sequence[str]) -> tuple[str, str, dict[str, str]] | None:
    """(root, key, options) of `get ROOT KEY [--part P] [--shard S] [-o FILE]`; None for anything else."""
    if not words or words[0] != "get" or sys.stdout is None or sys.stdout.isatty():
        return None
    options: dict[str, str] = {}
    places: list[str] = []
    left = iter(words[1:])
    for word in left:
        name, equals, value = word.partition("=")
        if word in OPTIONS:
            options[OPTIONS[word]] = next(left, "")
        elif equals and name in OPTIONS and name.startswith("--"):
            options[OPTIONS[name]] = value
        elif word.startswith("-"):
            return None
        else:
            places.append(word)
    if len(places) != 2 or not places[0] or not all(options.values()) or options.get("output", "-").endswith(os.sep):
        return None
    return places[0], places[1], options


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether a variable or the user's file may change what a command does, or one lies here that is not used."""
    if any(name.startswith("WDSCTL_") and name not in KNOWN for name in environment):
        return True
    homes = {environment.get("XDG_CONFIG_HOME", ""), os.path.join(os.path.expanduser("~"), ".config")} - {""}
    return os.path.lexists(FILE) or any(os.path.exists(os.path.join(each, "wdsctl")) for each in homes)


def _written(first: bytes, rest: Iterator[bytes]) -> int:
    """Write to stdout. Bytes are out now: what goes wrong is said, and nothing is written twice."""
    from wdsctl.core.errors import WdsctlError

    try:
        sys.stdout.buffer.write(first)
        for piece in rest:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        return 141
    except (WdsctlError, OSError) as error:
        return _told(error)
    except KeyboardInterrupt:
        sys.stderr.write(f"{INTERRUPTED}\n")
        return 130
    return 0


def _told(error: WdsctlError | OSError) -> int:
    from wdsctl.cli.errors import Manner, report
    from wdsctl.core.errors import WdsctlError
    from wdsctl.core.os_errors import translate

    ours = error if isinstance(error, WdsctlError) else translate(error, "<stdout>", "write")
    return report(ours, Manner.of([]))
