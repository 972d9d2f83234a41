"""Runs tests in several processes, which are forks of the one that has collected them: `pytest --processes 4`.

Collecting the tests and importing torch takes half a minute, so it happens once. A process runs the tests of a module
in chunks, because they share fixtures, and helps with another module when none is left that nobody has begun.
`tests/conftest.py` imports the hooks.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest
from _pytest.config import create_terminal_writer
from hypothesis import strategies as st

from tests import children

_CHUNK_ITEMS = 8
_MANY_ITEMS = 500
_EXIT_SECONDS = 20.0  # for processes to close their fixtures

Answer = tuple[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, metavar="N", help="run the tests in N processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = min(session.config.getoption("processes"), len(session.items))
    if count < 2 or session.config.option.collectonly or session.testsfailed:
        return None
    _Controller(session, count).run()
    return True


class _Controller:
    """Hands out the indexes of tests, and gives their reports to the plugins of this process."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        modules = groupby(range(len(session.items)), key=lambda i: session.items[i].nodeid.partition("::")[0])
        self._unbegun = deque(deque(indexes) for _, indexes in modules)
        self._processes = [_Process(number) for number in range(count)]

    def run(self) -> None:
        if reporter := self._session.config.pluginmanager.getplugin("terminalreporter"):
            reporter.showfspath = False  # tests of several files end in turn
        if len(self._session.items) > _MANY_ITEMS:
            children.start_parents()  # once, instead of in each process on first use
            st.text().validate()  # hypothesis finds the characters of UTF-8 in 3 s, and keeps them in a file
        gc.collect()
        gc.freeze()  # collections in the forks pass over the tests and modules, and do not copy their memory
        try:
            for process in self._processes:
                process.fork(self._session)
            while running := {each.connection: each for each in self._processes if each.connection}:
                for connection in wait(list(running)):
                    self._answer(running[connection])  # type: ignore[index]
        finally:
            self._end_processes()
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _answer(self, process: _Process) -> None:
        assert process.connection
        try:
            kind, value = process.connection.recv()
        except (EOFError, ConnectionResetError):
            self._replace(process)
            return
        hooks = self._session.config.hook
        if kind == "next":
            with suppress(BrokenPipeError):  # it has died meanwhile
                process.connection.send(self._next_chunk(process))
        elif kind == "report":
            report = hooks.pytest_report_from_serializable(config=self._session.config, data=value)
            hooks.pytest_runtest_logreport(report=report)
        elif kind == "finish":
            process.handed_out.remove(value)
            item = self._session.items[value]
            hooks.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif kind == "end":
            process.close()

    def _next_chunk(self, process: _Process) -> list[int]:
        if self._session.shouldfail or self._session.shouldstop:
            return []
        if not process.module:
            largest = max((each.module for each in self._processes), key=len)
            process.module = self._unbegun.popleft() if self._unbegun else largest
        chunk = [process.module.popleft() for _ in range(min(_CHUNK_ITEMS, len(process.module)))]
        process.handed_out.extend(chunk)
        return chunk

    def _replace(self, process: _Process) -> None:
        """Report the test in which a process has died as failed, and run the others of its chunk in a new process."""
        process.close()
        text = f"the process of this test has ended with exit code {process.exit_code}"
        if not process.handed_out:
            self._session.shouldfail = f"{text}, after its last test"
            return
        item = self._session.items[process.handed_out.popleft()]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        item.config.hook.pytest_runtest_logreport(report=report)
        process.module.extendleft(reversed(process.handed_out))
        process.handed_out.clear()
        process.fork(self._session)

    def _end_processes(self) -> None:
        """Wait for the processes, which end when they have no more tests or connection."""
        for process in self._processes:
            process.close(time.monotonic() + _EXIT_SECONDS)


class _Process:
    def __init__(self, number: int) -> None:
        self.number = number
        self.module: deque[int] = deque()
        self.handed_out: deque[int] = deque()  # the first one is running
        self.connection: Connection | None = None
        self.exit_code: int | None = None
        self._pid = 0

    def fork(self, session: pytest.Session) -> None:
        near_end, far_end = Pipe()
        self._pid = os.fork()
        if not self._pid:
            near_end.close()
            _run_tests(session, far_end, self.number)
        far_end.close()
        self.connection = near_end

    def close(self, until: float = 0.0) -> None:
        if not self.connection:
            return
        self.connection.close()
        self.connection = None
        until = until or time.monotonic() + _EXIT_SECONDS
        while not (ended := os.waitpid(self._pid, os.WNOHANG))[0] and time.monotonic() < until:
            time.sleep(0.01)
        if not ended[0]:
            os.kill(self._pid, signal.SIGKILL)
            ended = os.waitpid(self._pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(ended[1])


def _run_tests(session: pytest.Session, connection: Connection, number: int) -> None:
    """Run the tests that the controller hands out, then end this process."""
    code = 0
    atexit._clear()  # what is registered so far is for the controller
    try:
        _own_resources(session.config, number)
        session.config.pluginmanager.register(_Reports(session.config, connection))
        for index, following in _with_next(_handed_out(connection)):
            item, next_item = session.items[index], None if following is None else session.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            connection.send(("finish", index))
        connection.send(("end", None))
    except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):  # Ctrl-C, or the controller has gone
        code = 2
        session._setupstate.teardown_exact(None)
    except BaseException:  # noqa: BLE001 - this fork must not continue as a second controller
        sys.excepthook(*sys.exc_info())
        code = 3
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _own_resources(config: pytest.Config, number: int) -> None:
    """Capture output into files of this process, and give it a temporary folder."""
    manager = config.pluginmanager
    manager.unregister(name="terminalreporter")
    # pytest-timeout writes the stacks of all threads to it, and without it fails in the place of the test.
    config.get_terminal_writer = lambda: create_terminal_writer(config, sys.stderr)  # type: ignore[method-assign]
    if capture := manager.getplugin("capturemanager"):
        capture.stop_global_capturing()
        capture.start_global_capturing()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.mktemp(f"process-{number}-", numbered=True)


class _Reports:
    """Sends the reports of this process to the controller."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))


def _handed_out(connection: Connection) -> Iterator[int]:
    while True:
        connection.send(("next", None))
        chunk: Sequence[int] = connection.recv()
        if not chunk:
            return
        yield from chunk


def _with_next(indexes: Iterator[int]) -> Iterator[tuple[int, int | None]]:
    """Pairs of each index with the one after it; fixtures that the next test shares stay open."""
    current = next(indexes, None)
    while current is not None:
        following = next(indexes, None)
        yield current, following
        current = following
