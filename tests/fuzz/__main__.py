"""`make fuzz`: hostile input for what reads data, guided by coverage where atheris is installed.

python -m tests.fuzz [--seconds N] [--inputs N] [TARGET ...]

Each target runs in a process of its own for so many seconds (FUZZ_SECONDS, 60). What it raises, an input that takes
longer than a second, and memory above 2 GB are findings: the input is written to `findings/` beside this file, the rest
goes on, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

FINDINGS = Path(__file__).parent / "findings"
SLOW_SECONDS = 1
HANGS_SECONDS = 10
MOST_BYTES = 2 << 30
_LONGEST = 1 << 16  # bytes of an input


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "60")))
    parser.add_argument("--one", action="store_true", help="in this process")
    parser.add_argument("targets", nargs="*")
    given = parser.parse_args()
    if given.one:
        return _one(given.targets[0], given.seconds)
    from tests.fuzz.targets import TARGETS

    failed = 0
    for name in given.targets or TARGETS:
        words = [sys.executable, "-m", "tests.fuzz", "--one", "--seconds", str(given.seconds), name]
        failed += subprocess.run(words, check=False).returncode != 0
    return int(failed > 0)


def _one(name: str, seconds: float) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES + _used(), resource.RLIM_INFINITY))
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        atheris = None
    if atheris is not None:
        with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["wdsctl"]):  # it names every module
            from tests.fuzz import targets
    else:
        from tests.fuzz import targets
    fuzzing = _Fuzzing(name, targets.TARGETS[name].run)
    if atheris is None:
        fuzzing.mutate(targets.inputs_of(name), seconds)
        return fuzzing.told(seconds)
    _guided(atheris, fuzzing, targets.inputs_of(name), seconds)
    return 0


def _guided(atheris: Any, fuzzing: _Fuzzing, begin: Sequence[bytes], seconds: float) -> None:
    """By libFuzzer, which keeps what reaches new code. It does not return, so the process ends at the first input that
    comes too late."""
    folder = tempfile.mkdtemp(prefix="wdsctl-corpus-")
    for number, data in enumerate(begin):
        Path(folder, f"{number:04}").write_bytes(data)
    until = time.monotonic() + seconds

    def one(data: bytes) -> None:
        if time.monotonic() > until:
            os._exit(fuzzing.told(seconds))
        fuzzing.run(data)

    words = [sys.argv[0], folder, f"-max_len={_LONGEST}", "-rss_limit_mb=0", "-timeout=0", "-verbosity=0"]
    atheris.Setup(words, one)
    atheris.Fuzz()


class _Fuzzing:
    def __init__(self, name: str, run: Callable[[bytes], None]) -> None:
        self.name = name
        self.inputs = 0
        self.findings: set[str] = set()
        self._run = run
        signal.signal(signal.SIGALRM, _hangs)

    def run(self, data: bytes) -> None:
        self.inputs += 1
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, HANGS_SECONDS)
        try:
            self._run(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._found(data, f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if time.monotonic() - begun > SLOW_SECONDS:
            self._found(data, f"slow: {time.monotonic() - begun:.1f} s")

    def mutate(self, begin: Sequence[bytes], seconds: float) -> None:
        """Without a guide: known inputs, cut, joined, flipped, and with numbers at their borders."""
        for data in begin:
            self.run(data)
        draw, until, corpus = random.Random(0), time.monotonic() + seconds, list(begin)
        while time.monotonic() < until:
            self.run(_mutated(draw, corpus))

    def told(self, seconds: float) -> int:
        """Prints what was done; the exit status."""
        print(f"{self.name}: {self.inputs:,} inputs in {seconds:.0f} s, {len(self.findings)} findings", flush=True)
        return int(len(self.findings) > 0)

    def _found(self, data: bytes, what: str) -> None:
        cause = what.partition(": ")[0]
        if cause in self.findings:
            return
        self.findings.add(cause)
        FINDINGS.mkdir(exist_ok=True)
        path = FINDINGS / f"{self.name}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        print(f"{self.name}: {what[:300]}\n  {path}", flush=True)


_NUMBERS = (
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e999",
    b"NaN",
    b"null",
    b"\0",
    b"\xff" * 8,
    b"..",
    b"/",
    b"\x1b[2J",
)


def _mutated(draw: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = bytearray(draw.choice(corpus))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data) + 1)
        match draw.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << draw.randrange(8)
            case 1:
                del data[at : at + draw.randint(1, 64)]
            case 2:
                data[at:at] = draw.choice(_NUMBERS)
            case 3:
                other = draw.choice(corpus)
                data[at : at + 64] = other[: draw.randrange(len(other) + 1)][-64:]
            case 4:
                data[at:at] = data[at : at + draw.randint(1, 512)]
            case _:
                data[at : at + 8] = draw.choice((0, 1, (1 << 63) - 1, (1 << 64) - 1, 1 << 32)).to_bytes(8, "little")
    return bytes(data[:_LONGEST])


def _hangs(*_: object) -> None:
    raise TimeoutError(f"no end after {HANGS_SECONDS} s")


def _used() -> int:
    """Address space that the process has already, of which libraries reserve gigabytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main())
