"""Python programs of tests, forked from a warm parent instead of started: `run` and `Popen` as in `subprocess`.

A fresh Python takes 0.1 s to import the command line and 3 s to import torch. A test uses `subprocess` itself if it is
about the start of Python, imported modules, hash seeds or the installed command.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from tests.warm_parent import MAX_REQUEST_BYTES, PRELOADED, Program

#: Read when Python starts, so a forked child cannot have another value than its parent.
_READ_AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS")
_controls: dict[str, socket.socket] = {}
_parents: list[subprocess.Popen[bytes]] = []  # a Popen that is freed before its process has ended warns


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` for `[sys.executable, ...]`, with a child of a warm parent.

    `parent` is "commands" (command line and core) or "training" (core and loader, with torch). The options are those
    of `Popen`, without other users, groups and shells. `preexec_fn` is pickled.
    """

    def __init__(self, args: Sequence[str | os.PathLike[str]], *, parent: str = "commands", **options: Any) -> None:
        self._parent = parent
        self._status: IO[bytes] | None = None
        super().__init__(args, **options)

    def _execute_child(self, *given: Any) -> None:
        """The seam of `subprocess.Popen` between its descriptors and the system, in Python 3.10 to 3.14."""
        args, _, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *pipes = given[:16]
        _, gid, gids, uid, umask, new_session, *_ = given[16:]
        stdin, _, _, stdout, _, stderr = pipes
        words = [os.fspath(each) for each in args]
        if words[0] != sys.executable or shell or uid is not None or gid is not None or gids is not None:
            raise ValueError(f"not a program for a warm parent: {words}")
        environment = dict(os.environ if env is None else env)
        for name in _READ_AT_START:
            if environment.get(name) != _ENVIRONMENT.get(name):
                raise ValueError(f"{name} is read when Python starts: use subprocess")
        if umask < 0:
            umask = os.umask(0)
            os.umask(umask)
        streams = {0: stdin, 1: stdout, 2: stderr}
        passed = {number: number if each == -1 else each for number, each in streams.items() if _is_open(number, each)}
        passed |= {each: each for each in pass_fds}
        folder = os.getcwd() if cwd is None else os.path.abspath(cwd)
        program = Program(words[1:], environment, folder, [*passed], new_session, umask, preexec_fn)
        reader, writer = os.pipe()
        self._status = open(reader, "rb", buffering=0)  # noqa: SIM115 - closed when the status is read
        try:
            data = pickle.dumps(program)
            if len(data) > MAX_REQUEST_BYTES:
                raise ValueError("the request is too large for a warm parent")
            socket.send_fds(_control(self._parent), [data], [writer, *passed.values()])
        finally:
            os.close(writer)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = self._read_number()
        self._child_created = True

    def _is_readable(self, timeout: float | None) -> bool:
        poll = select.poll()  # unlike `select`, for descriptors of any number
        poll.register(self._status, select.POLLIN)  # type: ignore[arg-type]
        return bool(poll.poll(None if timeout is None else 1000 * timeout))

    def _read_number(self) -> int:
        assert self._status
        data = self._status.read(4)
        if not data:
            self.returncode = 255
            raise RuntimeError("the warm parent has ended")
        return int.from_bytes(data, "little")

    def _internal_poll(self, _deadstate: int | None = None, *_: Any) -> int | None:
        return self._wait_for_status(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._wait_for_status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _wait_for_status(self, timeout: float | None) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None and self._status and self._is_readable(timeout):
                self.returncode = os.waitstatus_to_exitcode(self._read_number())
                self._status.close()
            return self.returncode


def run(
    args: Sequence[str | os.PathLike[str]],
    *,
    parent: str = "commands",
    input: Any = None,  # noqa: A002 - the name in `subprocess.run`
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with a child of a warm parent."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, parent=parent, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, stdout, stderr)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def start_parents() -> None:
    """Start the warm parents now. Requests wait until they have imported their modules."""
    for kind in PRELOADED:
        _control(kind)


def _is_open(number: int, descriptor: int) -> bool:
    try:
        os.fstat(number if descriptor == -1 else descriptor)
    except OSError:
        return False
    return True


def _control(kind: str) -> socket.socket:
    """The socket of a warm parent, which is started on first use. It serves forks of this process, and ends with it."""
    if kind not in _controls:
        near_end, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        near_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_REQUEST_BYTES)
        command = [sys.executable, "-m", "tests.warm_parent", str(far_end.fileno()), kind]
        environment = {**_ENVIRONMENT, "OMP_NUM_THREADS": "1"}  # programs run side by side, with few processors
        process = subprocess.Popen(
            command, pass_fds=[far_end.fileno()], env=environment, cwd=_FOLDER, stdin=subprocess.DEVNULL
        )
        far_end.close()
        _controls[kind] = near_end
        _parents.append(process)
        atexit.register(_end, os.getpid(), near_end, process)
    return _controls[kind]


def _end(owner: int, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    if os.getpid() == owner:  # not in a fork of the tests
        control.close()
        process.wait()


#: As this module was imported: no test that changes the environment or the folder changes the parents.
_ENVIRONMENT: Mapping[str, str] = dict(os.environ)
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
