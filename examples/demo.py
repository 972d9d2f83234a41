"""The whole way: photographs, a raw folder, shards, training, a save, and an exact resume in a new process."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
STEPS, SAVE_AT = 60, 30
DIGESTS = 5  # as train_captions.py prints by default
PROCESS = re.compile(r"process (\d+)")  # of a training that is to be killed


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        self.exit(2, f"error: {message}\n")


class DemoError(Exception):
    """A step that did not do what it should."""


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--keep", metavar="DIR", help="work in this new or empty folder, and leave everything in it")
    keep = parser.parse_args(argv).keep
    try:
        if keep:
            demo(kept(Path(keep)))
            print(f"everything is still there: {keep}")
            return 0
        with tempfile.TemporaryDirectory(prefix="wdsctl-demo-") as folder:
            demo(Path(folder))
    except (DemoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def run_demo(
    demo: Callable[[Path, int], None],
    description: str | None,
    name: str,
    option: str,
    default: int,
    argv: list[str] | None,
) -> int:
    """Run `demo(folder, N)` in a temporary folder, or in that of `--keep`. `option`: how the tests name N."""
    parser = Parser(description=description)
    parser.add_argument("--keep", metavar="DIR", help="work in this new or empty folder, and leave everything in it")
    parser.add_argument(option, dest="amount", type=int, default=default, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    try:
        if arguments.keep:
            demo(kept(Path(arguments.keep)), arguments.amount)
            print(f"everything is still there: {arguments.keep}")
            return 0
        with tempfile.TemporaryDirectory(prefix=f"wdsctl-demo-{name}-") as folder:
            demo(Path(folder), arguments.amount)
    except (DemoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def kept(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise DemoError(f"{folder} is not empty")
    return folder


def demo(folder: Path) -> None:
    print_step("1. A raw folder as people have it: images, captions and facts, one folder for each class.")
    example(folder, "make_raw_folder.py", "raw")
    print_step("2. Prepare it: write WebDataset shards, index them, split them 8 : 1 : 1.")
    wdsctl(folder, "prepare", "raw", "photos", "--split", "8,1,1", "--shard-samples", "50", "--no-input")
    print_step("3. Look at what is there, and check the header of every file in the shards.")
    wdsctl(folder, "inspect", "photos")
    wdsctl(folder, "validate", "photos")
    print_step(f"4. Train {STEPS} steps, and save model and loader after step {SAVE_AT}.")
    first = train(folder, "--save-at", str(SAVE_AT))
    print_step("5. A new process resumes from the save.")
    second = train(folder, "--resume", "state.pt")
    print_step("6. Did the second process get the batches that the first one got?")
    compare(first, second)


def wdsctl(folder: Path, *arguments: str) -> list[str]:
    return step(folder, ["wdsctl", *arguments], [sys.executable, "-m", "wdsctl", *arguments])


def example(folder: Path, script: str, *arguments: str) -> list[str]:
    typed = ["python", f"examples/{script}", *arguments]
    return step(folder, typed, [sys.executable, str(HERE / script), *arguments])


def train(folder: Path, *arguments: str) -> list[str]:
    return example(folder, "train_captions.py", "photos", "--steps", str(STEPS), *arguments)


def step(folder: Path, typed: list[str], command: list[str], *, kill_at: int = 0) -> list[str]:
    """Show the command as a user would type it, run it, pass on what it prints; returns its lines.

    `kill_at`: the step of a training at which the process that trains gets SIGKILL. It must print its process id.
    """
    print("\n".join(wrapped(typed)), flush=True)
    lines: list[str] = []
    errors = subprocess.DEVNULL if kill_at else None  # a launcher reports the death of its rank at length
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
            if kill_at and re.match(rf"step +{kill_at} ", line):
                os.kill(next(int(found[1]) for each in lines if (found := PROCESS.search(each))), signal.SIGKILL)
    if kill_at:
        check_killed(typed, process.returncode)
    elif process.returncode:
        raise DemoError(f"`{shlex.join(typed)}` ended with exit code {process.returncode}")
    return lines


def check_killed(typed: list[str], exit_code: int) -> None:
    if not exit_code:
        raise DemoError(f"`{shlex.join(typed)}` was killed, and ended with exit code 0")
    print(f"killed: exit code {exit_code}")


def wrapped(typed: list[str]) -> list[str]:
    """`$ command ...`, in lines that a shell would take and 80 columns hold."""
    lines = textwrap.wrap(f"$ {shlex.join(typed)}", 78, subsequent_indent="    ", break_on_hyphens=False)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def environment() -> dict[str, str]:
    """Ours, with this checkout importable, 80 columns, and no catalog place that belongs to another dataset."""
    inherited = {name: value for name, value in os.environ.items() if name != "WDSCTL_CATALOG"}
    paths = [str(HERE.parent), *filter(None, [inherited.get("PYTHONPATH")])]
    return inherited | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}


def compare(first: list[str], second: list[str]) -> None:
    """Raise DemoError unless both runs printed the same digests, and as many as requested."""
    seen, again = digests(first), digests(second)
    if len(seen) != DIGESTS + 1:
        raise DemoError(f"the first run printed {len(seen)} digests instead of {DIGESTS + 1}")
    different = [name for name in seen if seen[name] != again.get(name)]
    if different or len(seen) != len(again):
        raise DemoError(f"the batches after the resume are not the same: {', '.join(different) or 'others came'}")
    print(f"yes: batches {SAVE_AT + 1} to {STEPS} are identical, byte for byte: the same samples,")
    print("in the same order, with the same pixels.")
    print(f"loss at step {STEPS}: {last_loss(first)} in the first process, {last_loss(second)} in the second")
    for what in ("loading and training", "loading alone"):
        print(f"samples a second, {what}: {rate(first, what)}, then {rate(second, what)}")


def digests(lines: list[str]) -> dict[str, str]:
    """Digests by the words before them: `batch 31`, ..., and `batches` for all of them."""
    found = (re.fullmatch(r"(batch(?: +\d+|es)) +([0-9a-f]{64})", line) for line in lines)
    return {" ".join(match[1].split()): match[2] for match in found if match}


def last_loss(lines: list[str]) -> str:
    return [line.split()[-1] for line in lines if line.startswith("step")][-1]


def rate(lines: list[str], what: str) -> str:
    start = f"samples a second, {what}: "
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), "?")


def print_step(text: str) -> None:
    print("\n" + textwrap.fill(text, 78) + "\n", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
