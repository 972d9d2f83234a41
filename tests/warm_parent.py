"""A warm parent: a process that has imported what programs need, and forks a child for each program that it is sent.

`tests/children.py` starts it as `python -m tests.warm_parent DESCRIPTOR KIND`, and sends requests through the socket
with this descriptor. The parent runs no program itself, so all children start from the same state. A child gets
arguments, environment, folder, descriptors and signals as a fresh `python` would, and ends like one. What differs: its
modules are imported, it has the parent's hash seed and one thread for OpenMP, and its parent is this process.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import os
import pickle
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import NamedTuple, NoReturn

#: What each kind of parent imports: packages with all their modules, and single modules that torch imports late.
PRELOADED: Mapping[str, tuple[str, ...]] = {
    "commands": ("wdsctl.cli", "wdsctl.core"),
    "training": ("wdsctl.core", "wdsctl.loader", "torch._dynamo"),
}
MAX_REQUEST_BYTES = 1 << 20
_MAX_DESCRIPTORS = 64
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class Program(NamedTuple):
    """A request. With it come the descriptor that gets process id and status, and those of the child."""

    arguments: Sequence[str]  # of `python`: `-c CODE`, `-m MODULE` or a script, and its arguments
    environment: Mapping[str, str]
    folder: str
    numbers: Sequence[int]  # of the child's descriptors, in the child
    has_new_session: bool
    umask: int
    prepare: Callable[[], object] | None  # called in the child before the program


def main() -> None:
    program = serve(socket.socket(fileno=int(sys.argv[1])), PRELOADED[sys.argv[2]])
    if program:
        _exit(_run_to_exit_code(program))


def serve(control: socket.socket, packages: Sequence[str]) -> Program | None:
    """Fork a child for each request until the socket is closed. Returns None in the parent, the program in a child.

    Each number that is written to a status descriptor has 4 bytes: first the process id, at the end the wait status.
    """
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    import_modules(packages)  # of this checkout, as the tests: not those that are installed, if these are others
    sys.path[:] = [folder for folder in sys.path[1:] if folder not in own]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C concerns the tests and the programs
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wakeup, wakeup_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()  # children share this memory
    running: dict[int, int] = {}  # process id -> status descriptor
    while True:
        ready, _, _ = select.select([control.fileno(), wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 1 << 12)
            _report_ended(running)
        if control.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, _MAX_DESCRIPTORS)
        if not data:
            return None
        program: Program = pickle.loads(data)  # noqa: S301 - from our own tests
        status, *passed = descriptors
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            control.close()
            for each in (wakeup, wakeup_writer, status, *running.values()):
                os.close(each)
            _renumber(passed, program.numbers)
            return program
        for each in passed:
            os.close(each)
        running[pid] = status
        os.write(status, pid.to_bytes(4, "little"))


def import_modules(packages: Sequence[str]) -> None:
    """Import the packages, and those of wdsctl with all their modules."""
    for name in packages:
        package = importlib.import_module(name)
        if name.startswith("wdsctl"):
            for each in pkgutil.walk_packages(package.__path__, f"{name}."):
                with suppress(ImportError):  # an integration with a package that is not installed
                    importlib.import_module(each.name)


def _report_ended(running: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            pid, status = ended
            descriptor = running.pop(pid)
            with suppress(BrokenPipeError):  # the test has ended without its child
                os.write(descriptor, status.to_bytes(4, "little"))
            os.close(descriptor)


def _renumber(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give the descriptors these numbers, and close the standard streams that are not among them."""
    above = max((2, *numbers, *descriptors)) + 1
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in descriptors]
    for descriptor, number in zip(high, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for each in {0, 1, 2, *descriptors} - set(numbers):
        with suppress(OSError):
            os.close(each)


def _run_to_exit_code(program: Program) -> int:
    try:
        _run(program)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 - printed as by Python
        trace = error.__traceback__
        while trace and trace.tb_next and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _exit(code: int) -> NoReturn:
    """End as Python does, but leave the imported modules to the system: destroying torch takes two seconds."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            code = 120  # as Python, if output cannot be written
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 255)


def _run(program: Program) -> None:
    """Run the program as `python` does, in this process, up to its last statement."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(program.umask)
    os.chdir(program.folder)
    if program.has_new_session:
        os.setsid()
    if program.prepare:
        program.prepare()
    os.environ.clear()
    os.environ.update(program.environment)
    _open_streams()
    if random := sys.modules.get("numpy.random"):
        random.seed(None)  # `random` is seeded in each child, numpy's generator is not
    first, *rest = program.arguments
    while first == "-W":
        warnings.simplefilter(rest[0])  # type: ignore[arg-type]
        first, *rest = rest[1:]
    folders = [folder for folder in program.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    script_folder = {"-c": "", "-m": os.getcwd()}.get(first, os.path.dirname(os.path.abspath(first)))
    sys.path[:0] = [script_folder, *folders]
    for folder in folders:
        if os.path.exists(path := os.path.join(folder, "sitecustomize.py")):
            runpy.run_path(path, run_name="sitecustomize")
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        _execute(rest[0], "<string>")
    else:
        sys.argv = [first, *rest]
        with open(first, encoding="utf-8") as file:
            source = file.read()
        _execute(source, first)


def _open_streams() -> None:
    """Open the standard streams on the child's descriptors; the parent's show how Python opens them here."""
    for number, (name, mode) in enumerate(_STREAMS):
        own = getattr(sys, f"__{name}__")
        try:
            buffering = 1 if name == "stderr" or os.isatty(number) else -1
            stream = open(number, mode, buffering, own.encoding, own.errors, closefd=False)  # noqa: SIM115
            stream.buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
        except OSError:
            stream = None  # closed
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _execute(source: str, file: str) -> None:
    module = ModuleType("__main__")
    if not file.startswith("<"):
        module.__file__ = os.path.abspath(file)
    sys.modules["__main__"] = module
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the test's program


if __name__ == "__main__":
    main()
