"""Starts worker processes for the consumer: forked by a fork server, or each in a fresh interpreter."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import socket
import subprocess
import time
import warnings
from typing import Any, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.workers.fork_server import ExitCodeRequest, ForkRequest, serve
from wdsctl.loader.workers.options import PoolOptions, TaskRunnerFactory
from wdsctl.loader.workers.process import WorkerDescriptors, flush_output, run_forked
from wdsctl.loader.workers.spawn import make_payload, start_interpreter
from wdsctl.loader.workers.wire import hang_up, receive_parcel, send_parcel

#: Seconds after which an unresponsive fork server is abandoned: a fresh one may import torch from a slow disk.
_ANSWER_SECONDS = 120.0
_EXIT_SECONDS = 2.0


class Launcher(Protocol):
    def prepare(self) -> None:
        """Prepare a launch, before the worker's descriptors are opened: processes that are forked later must not hold
        them."""

    def launch(self, index: int, descriptors: WorkerDescriptors) -> int:
        """Start a worker with these descriptors; returns its process id. The caller closes its own copies."""

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a worker that ended; negative for a signal, None if it is unknown."""

    def close(self) -> None: ...


def open_launcher(runner_factory: TaskRunnerFactory, options: PoolOptions) -> Launcher:
    """The launcher for a start method. Raises LoaderError (WDS531) if a runner factory must be pickled and cannot."""
    return (
        SpawnLauncher(runner_factory, options)
        if options.start_method == "spawn"
        else ForkServer(runner_factory, options)
    )


class SpawnLauncher:
    """Starts a fresh interpreter for each worker."""

    def __init__(self, runner_factory: TaskRunnerFactory, options: PoolOptions) -> None:
        self._runner_factory = runner_factory
        self._ring_bytes = options.ring_bytes
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        make_payload(runner_factory)

    def prepare(self) -> None:
        """Do nothing: nothing is forked."""

    def launch(self, index: int, descriptors: WorkerDescriptors) -> int:
        raw = make_payload(self._runner_factory, index=index, ends=tuple(descriptors), ring_bytes=self._ring_bytes)
        process = start_interpreter(raw, descriptors)
        self._running[process.pid] = process
        return process.pid

    def exit_code(self, pid: int) -> int | None:
        process = self._running.pop(pid)
        return _wait_for_exit(process, _EXIT_SECONDS)

    def close(self) -> None:
        for process in self._running.values():
            if _wait_for_exit(process, _EXIT_SECONDS) is None:
                process.kill()
                process.wait()
        self._running.clear()


class ForkServer:
    """A process that forks workers on request. If it dies, its workers continue, and the next launch starts another."""

    def __init__(self, runner_factory: TaskRunnerFactory, options: PoolOptions) -> None:
        self._runner_factory = runner_factory
        self._options = options
        self._control_socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | _ForkedProcess | None = None
        self._is_request_pending = False
        self.prepare()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def prepare(self) -> None:
        # An interrupted request leaves an answer behind that belongs to no request.
        if self._process and (
            self._control_socket is None or self._is_request_pending or self._process.poll() is not None
        ):
            self._abandon()
        if self._process is None:
            self._start_server()

    def launch(self, index: int, descriptors: WorkerDescriptors) -> int:
        question = ForkRequest(index, self._options.ring_bytes)
        try:
            pid = self._send_request(question, descriptors)
        except LoaderError:
            self._abandon()
            self._start_server()
            pid = self._send_request(question, descriptors)
        if pid is None:
            raise LoaderError("no worker could be started", hint="see the log for the reason", code="WDS530")
        return pid

    def exit_code(self, pid: int) -> int | None:
        try:
            return self._send_request(ExitCodeRequest(pid))
        except LoaderError:
            return None

    def close(self) -> None:
        """End the process, which kills the workers that are left."""
        control, self._control_socket = self._control_socket, None
        process, self._process = self._process, None
        self._is_request_pending = False
        if control:
            hang_up(control)
        if process and _wait_for_exit(process, _EXIT_SECONDS) is None:
            process.kill()
            process.wait()

    def _abandon(self) -> None:
        """Kill the process. Its workers continue: a fork server kills them only if its consumer is gone."""
        self._options.log_line("the fork server of the workers died; starting a new one")
        if self._process:
            self._process.kill()
            self._process.wait()
        self.close()

    def _start_server(self) -> None:
        consumer_end, server_end = socket.socketpair()
        consumer_end.settimeout(_ANSWER_SECONDS)
        with contextlib.ExitStack() as undo, server_end:
            undo.callback(consumer_end.close)
            if self._options.start_method == "fork":
                self._process = _fork_server_process(consumer_end, server_end, self._runner_factory)
            else:
                raw = make_payload(self._runner_factory, control=server_end.fileno())
                self._process = start_interpreter(raw, [server_end.fileno()])
            self._control_socket = consumer_end
            undo.pop_all()

    def _send_request(self, request: Any, descriptors: Any = ()) -> int | None:
        if self._control_socket is None or self._is_request_pending:
            raise _no_answer_error()
        self._is_request_pending = True
        try:
            send_parcel(self._control_socket, pickle.dumps(request), list(descriptors))
            raw, _ = receive_parcel(self._control_socket)
        except (OSError, EOFError) as error:
            raise _no_answer_error() from error
        self._is_request_pending = False
        answer: int | None = pickle.loads(raw)  # noqa: S301 - from our own fork server
        return answer


class _ForkedProcess:
    """A forked child with the methods of subprocess.Popen that we need."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._code if self._code is not None else self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._code if self._code is not None else self._wait(0)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, flags: int) -> int | None:
        try:
            pid, status = os.waitpid(self.pid, flags)
        except ChildProcessError:
            # Other code in this process waited for all children at once: the exit code is lost.
            self._code = 255
        else:
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def _fork_server_process(
    consumer_socket: socket.socket, server_socket: socket.socket, runner_factory: TaskRunnerFactory
) -> _ForkedProcess:
    parent = os.getpid()
    flush_output()
    # Other threads may run in this process. The child runs none of their code and takes none of their locks; Python and
    # the C library reinitialize their own locks in a forked child. `catch_warnings` would change the filters of all
    # threads, and undo what they change meanwhile.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
    pid = os.fork()
    if not pid:
        consumer_socket.close()
        run_forked(lambda: serve(server_socket, runner_factory, parent))
    return _ForkedProcess(pid)


def _wait_for_exit(process: subprocess.Popen[bytes] | _ForkedProcess, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while (code := process.poll()) is None and time.monotonic() < until:
        time.sleep(0.002)
    return code


def _no_answer_error() -> LoaderError:
    return LoaderError(
        f"the fork server of the workers did not respond within {_ANSWER_SECONDS:g} s",
        hint="check free memory and process limits, then resume from the last saved state",
        code="WDS530",
    )
