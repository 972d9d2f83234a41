"""`make fuzz`: hostile input for the readers, guided by coverage if atheris is installed.

python -m tests.fuzz [--seconds N | --inputs N] [--seed N] [TARGET ...]

Each target runs in its own process for the given seconds (FUZZ_SECONDS, 60). With `--inputs` (FUZZ_INPUTS), this
number of inputs is divided evenly among the targets, however long they take. The last line has the counts. An
exception, a crash, an input that takes longer than a second twice, and memory above 1 GB are findings: the input is
written to `findings/` next to this file, the other targets continue, and the exit status is 1. After a crash, the
target continues with other inputs.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import mmap
import os
import random
import resource
import signal
import struct
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
HANG_SECONDS = 10
MAX_BYTES = 1 << 30  # beyond what the process has after its valid inputs
_MAX_INPUT_BYTES = 1 << 16  # bytes of a mutated input
_MAX_KEPT_BYTES = 1 << 20  # of the last input, for the case of a crash


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "60")))
    inputs = int(os.environ.get("FUZZ_INPUTS", "0")) or None
    parser.add_argument("--inputs", type=int, default=inputs, help="of all targets together, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations, without atheris")
    parser.add_argument("--one", metavar="FILE", help="in this process, which keeps its last input in the file")
    parser.add_argument("targets", nargs="*")
    args = parser.parse_args()
    if args.one:
        return _run_target(args.targets[0], args)
    from tests.fuzz.targets import TARGETS

    targets = args.targets or list(TARGETS)
    args.inputs, args.seconds = (
        (sys.maxsize, args.seconds) if args.inputs is None else (-(-args.inputs // len(targets)), float("inf"))
    )
    results = [_run_in_child(name, args) for name in targets]
    inputs, failed = sum(count for count, _ in results), sum(has_findings for _, has_findings in results)
    print(f"{inputs:,} inputs of {len(targets)} targets, {failed} targets with findings", flush=True)
    return int(failed > 0)


def _run_in_child(name: str, args: argparse.Namespace) -> tuple[int, bool]:
    """(inputs, whether there were findings). Runs the target again for the rest of its time or inputs if it crashes."""
    until, seed, failed, inputs = time.monotonic() + args.seconds, args.seed, False, 0
    with tempfile.NamedTemporaryFile(prefix="wdsctl-fuzz-") as last:
        while (seconds := until - time.monotonic()) > 0 and inputs < args.inputs:
            options = ["--seconds", str(seconds), "--inputs", str(args.inputs - inputs), "--seed", str(seed)]
            words = [sys.executable, "-m", "tests.fuzz", "--one", last.name, *options, name]
            code = subprocess.run(words, check=False).returncode
            count, size, data = _read_last(Path(last.name).read_bytes())
            failed, seed, inputs = failed or code != 0, seed + 1, inputs + count
            if code >= 0:
                break
            _write_finding(name, data[:size], f"crash by {signal.Signals(-code).name}")
    return inputs, failed


_LAST = struct.Struct("<QQ")  # number of inputs, and size of the last one, which follows


def _read_last(file: bytes) -> tuple[int, int, bytes]:
    return (*_LAST.unpack_from(file.ljust(_LAST.size, b"\0")), file[_LAST.size :])


def _run_target(name: str, args: argparse.Namespace) -> int:
    seconds: float = args.seconds
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        atheris = None
    if atheris is not None:
        with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["wdsctl"]):  # it names every module
            from tests.fuzz import targets
    else:
        from tests.fuzz import targets
    fuzz_run, initial_inputs = _FuzzRun(name, targets.TARGETS[name].run, args.one), targets.inputs_of(name)
    for data in initial_inputs:  # imports modules
        fuzz_run.run(data)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES + _used_bytes(), resource.RLIM_INFINITY))
    if atheris is None:
        fuzz_run.mutate(initial_inputs, args)
        return fuzz_run.report()
    _guided(atheris, fuzz_run, initial_inputs, seconds, args.inputs)
    return 0


def _guided(atheris: Any, fuzz_run: _FuzzRun, initial_inputs: Sequence[bytes], seconds: float, inputs: int) -> None:
    """Fuzz with libFuzzer, which keeps inputs that reach new code. It never returns, so the process exits at the first
    input after the end of its time, or after `inputs`."""
    folder = tempfile.mkdtemp(prefix="wdsctl-corpus-")
    for number, data in enumerate(initial_inputs):
        Path(folder, f"{number:04}").write_bytes(data)
    until = time.monotonic() + seconds

    def run_one(data: bytes) -> None:
        if time.monotonic() > until or fuzz_run.inputs >= inputs:
            os._exit(fuzz_run.report())
        fuzz_run.run(data)

    words = [sys.argv[0], folder, f"-max_len={_MAX_INPUT_BYTES}", "-rss_limit_mb=0", "-timeout=0", "-verbosity=0"]
    atheris.Setup(words, run_one)
    atheris.Fuzz()


class _FuzzRun:
    def __init__(self, name: str, run: Callable[[bytes], None], last_path: str) -> None:
        self.name = name
        self.inputs = 0
        self._begun = time.monotonic()
        with open(last_path, "r+b") as file:
            file.truncate(_LAST.size + _MAX_KEPT_BYTES)
            self._last = mmap.mmap(file.fileno(), 0)  # outlives a crash
        self.findings: set[str] = set()
        self._run = run
        signal.signal(signal.SIGALRM, _raise_timeout)

    def run(self, data: bytes) -> None:
        self.inputs += 1
        kept = data[:_MAX_KEPT_BYTES]
        self._last[: _LAST.size + len(kept)] = _LAST.pack(self.inputs, len(kept)) + kept
        seconds = self._time(data)
        if seconds > SLOW_SECONDS and (again := self._time(data)) > SLOW_SECONDS:  # once may be another process's load
            self._record_finding(data, f"slow: {seconds:.1f} s, then {again:.1f} s")

    def _time(self, data: bytes) -> float:
        """Run an input, and return the seconds that it took. Records its error as a finding."""
        started_at = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
        try:
            self._run(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._record_finding(data, f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return time.monotonic() - started_at

    def mutate(self, initial_inputs: Sequence[bytes], args: argparse.Namespace) -> None:
        """Fuzz without coverage by mutations of known inputs: cut, joined, with flipped bits and extreme numbers."""
        draw, until, corpus = random.Random(args.seed), self._begun + args.seconds, list(initial_inputs)
        while time.monotonic() < until and self.inputs < args.inputs:
            self.run(_mutate(draw, corpus))

    def report(self) -> int:
        """Prints a summary; returns the exit status."""
        seconds = time.monotonic() - self._begun
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{self.name}: {self.inputs:,} inputs in {seconds:.0f} s, {self.inputs / seconds:,.0f} a second, "
            f"at most {most:,} MiB, {len(self.findings)} findings",
            flush=True,
        )
        return int(len(self.findings) > 0)

    def _record_finding(self, data: bytes, what: str) -> None:
        cause = what.partition(": ")[0]
        if cause in self.findings:
            return
        self.findings.add(cause)
        _write_finding(self.name, data, what)


def _write_finding(name: str, data: bytes, what: str) -> None:
    FINDINGS.mkdir(exist_ok=True)
    path = FINDINGS / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    print(f"{name}: {what[:300]}\n  {path}", flush=True)


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


def _mutate(draw: random.Random, corpus: Sequence[bytes]) -> bytes:
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
    return bytes(data[:_MAX_INPUT_BYTES])


def _raise_timeout(*_: object) -> None:
    raise TimeoutError(f"no end after {HANG_SECONDS} s")


def _used_bytes() -> int:
    """The address space that the process uses already; libraries reserve gigabytes of it."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main())
