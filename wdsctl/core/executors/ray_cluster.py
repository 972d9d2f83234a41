"""Run the units of a command on a Ray cluster: an existing one, or a local one for the time of the command.

Units and results travel through Ray, and the driver saves the results: nodes need the data, not the driver's disk. If
a worker or a node dies, Ray runs its units again elsewhere. An error of a unit is raised in the driver, as with local
processes. When no units are left to start, those that run for unusually long are started a second time: the first
result counts, because results depend on the unit alone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

from wdsctl.core.errors import StorageError, UsageError, WdsctlError
from wdsctl.core.extras import require_packages
from wdsctl.core.job_results import ResultT, UnitT
from wdsctl.core.jobs import Executor, UnitBatch, using_executor
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
from wdsctl.core.urls import is_url
from wdsctl.core.version import VERSION

_UNITS_PER_WORKER = 2  # one running and one queued, so that no worker is idle
_RETRIES = 3  # runs of a unit whose worker or node died, besides the first
_WAIT_SECONDS = 1.0
_CONNECT_SECONDS = 10.0
_CANCEL_SECONDS = 5.0  # for units that are cancelled to clean up; afterwards their processes are killed
_STRAGGLER_SECONDS = 10.0  # a unit that takes less is not started a second time
_STRAGGLER_FACTOR = 3.0  # of the median time of a unit

Note = Callable[[str], None]


@contextmanager
def using_ray(address: str | None, workers: int | None, note: Note) -> Iterator[None]:
    """Let commands in the block run their units on a Ray cluster.

    `address`: of the cluster; None for that of RAY_ADDRESS, or for a local cluster, which ends with the block.
    `workers`: the number of units at the same time; None for all CPUs of the cluster. `note` receives messages for the
    user. Raises UsageError WDS236 without Ray, StorageError WDS453 if the cluster cannot be reached.
    """
    with require_packages("--executor ray"):
        import ray
    cluster = _Cluster(ray, address or os.environ.get("RAY_ADDRESS") or "local", workers, note)
    try:
        with using_executor(cluster.make_executor):
            yield
    finally:
        cluster.disconnect()


@dataclass(slots=True)
class _Cluster:
    """A connection to a cluster, made when the first units are ready to run."""

    ray: ModuleType
    address: str
    requested_workers: int | None
    note: Note
    has_connected: bool = False  # this process connected, and disconnects

    def make_executor(self, _workers: int, _preload: Sequence[str]) -> Executor:
        self.connect()
        return RayExecutor(self.ray, self.count_workers(), self.note)

    def connect(self) -> None:
        if self.ray.is_initialized():
            return
        is_local = self.address == "local"
        settings: dict[str, Any] = {"include_dashboard": False} if is_local else {}
        if is_local:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            _check_answers(self.address)
            self.ray.init(
                address=self.address, configure_logging=False, log_to_driver=False, namespace="wdsctl", **settings
            )
        except (self.ray.exceptions.RayError, OSError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"cannot use the Ray cluster at {self.address}: {_first_line(error)}",
                hint="check --ray-address and `ray status`; or omit --ray-address to start a local cluster",
                code="WDS453",
            ) from error
        self.has_connected = True

    def count_workers(self) -> int:
        """Return the number of units that run at the same time."""
        cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        return min(cpus, self.requested_workers or cpus)

    def disconnect(self) -> None:
        if self.has_connected:
            self.ray.shutdown()


class _Attempt(NamedTuple):
    """A run of a unit on the cluster. `number`: of the unit, from 0."""

    number: int
    label: str
    started_s: float


class PathProbe(NamedTuple):
    """A local path as the driver sees it. `size`: of a file, or -1; `entry`: the name of one entry of a folder."""

    path: str
    size: int
    entry: str


class _UnitResult(NamedTuple):
    """What a unit returned or raised."""

    result: Any
    error: Exception | None
    seconds: float


@dataclass(slots=True)
class RayExecutor:
    """Runs units as Ray tasks. `workers`: units that run at the same time; about as many more are queued."""

    ray: ModuleType
    workers: int
    note: Note
    _attempts: dict[Any, _Attempt] = field(default_factory=dict)
    _seconds: list[float] = field(default_factory=list)

    @property
    def shares_files(self) -> bool:
        return False

    def run(self, fn: Callable[[UnitT], ResultT], units: Iterable[UnitT]) -> Generator[tuple[int, ResultT], None, None]:
        """Yield (index of the unit, `fn(unit)`) as units finish. Closing the generator cancels the other units.

        Raises what a unit raises, StorageError WDS405 if the processes of a unit die again and again, WDS453 if a node
        lacks this version of wdsctl or the data.
        """
        remaining = enumerate(units)
        shared = self.ray.put(fn)
        settings = _NodeSettings(VERSION, os.environ.get(ALLOW_PATH_VARIABLE), ())
        remote = self.ray.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(run_on_node)
        flying: dict[int, Any] = {}  # index -> unit, for a second start
        again: set[int] = set()
        try:
            while True:
                for _ in range(_UNITS_PER_WORKER * self.workers - len(self._attempts)):
                    started = next(remaining, None)
                    if started is None:
                        break
                    index, unit = started
                    if not settings.probes and isinstance(unit, UnitBatch):
                        settings = settings._replace(probes=probe_paths(unit.reads))
                    flying[index] = unit
                    self._start(remote, settings, shared, index, unit)
                if not self._attempts:
                    return
                for index, outcome in self._collect():
                    if flying.pop(index, None) is None:
                        continue  # the other run of the unit was first
                    if outcome.error is not None:
                        raise outcome.error
                    self._seconds.append(outcome.seconds)
                    yield index, outcome.result
                self._drop_late_runs(flying)
                if len(self._attempts) < self.workers:
                    self._start_stragglers_again(remote, settings, shared, flying, again)
        finally:
            self._cancel(list(self._attempts))

    def _start(self, remote: Any, settings: _NodeSettings, shared: Any, index: int, unit: Any) -> None:
        reference = remote.remote(settings, shared, unit)
        label = unit.label if isinstance(unit, UnitBatch) and unit.label else f"unit {index + 1}"
        self._attempts[reference] = _Attempt(index, label, time.monotonic())

    def _collect(self) -> Iterator[tuple[int, _UnitResult]]:
        """Wait a moment for units to finish; yield their outcomes."""
        done, _ = self.ray.wait(list(self._attempts), num_returns=1, timeout=_WAIT_SECONDS)
        if done:  # also others that have finished since
            done, _ = self.ray.wait(list(self._attempts), num_returns=len(self._attempts), timeout=0)
        for reference in done:
            attempt = self._attempts.pop(reference)
            yield attempt.number, self._get(reference, attempt)

    def _get(self, reference: Any, attempt: _Attempt) -> _UnitResult:
        errors = self.ray.exceptions
        try:
            outcome: _UnitResult = self.ray.get(reference)
            return outcome
        except errors.RayTaskError as error:
            if isinstance(error.cause, ImportError) or "No module named 'wdsctl'" in str(error):
                raise _wrong_version_error("none, or a version that lacks a module") from error
            raise
        except errors.RayError as error:
            raise StorageError(
                f"the worker process of a unit died {_RETRIES + 1} times: {_first_line(error)}",
                where=attempt.label,
                hint="if memory ran out, lower --workers or use larger nodes, then run the same command again",
                code="WDS405",
            ) from error

    def _drop_late_runs(self, flying: Mapping[int, Any]) -> None:
        """Cancel second runs of units whose first run has finished, and the other way round."""
        self._cancel([reference for reference, attempt in self._attempts.items() if attempt.number not in flying])

    def _start_stragglers_again(
        self, remote: Any, settings: _NodeSettings, shared: Any, flying: Mapping[int, Any], again: set[int]
    ) -> None:
        """Start units a second time that run for much longer than usual, while workers are idle."""
        usual_s = median(self._seconds) if self._seconds else 0.0
        limit_s = max(_STRAGGLER_SECONDS, _STRAGGLER_FACTOR * usual_s)
        now_s = time.monotonic()
        for attempt in sorted(self._attempts.values(), key=lambda attempt: attempt.started_s):
            if len(self._attempts) >= self.workers or now_s - attempt.started_s < limit_s:
                return
            if attempt.number not in again:
                again.add(attempt.number)
                seconds = now_s - attempt.started_s
                self.note(
                    f"{attempt.label} has run for {seconds:.0f} s, usual is {usual_s:.0f} s: started a second time"
                )
                self._start(remote, settings, shared, attempt.number, flying[attempt.number])

    def _cancel(self, references: Sequence[Any]) -> None:
        """Cancel runs: they may clean up for a moment, and then their processes are killed."""
        if not references:
            return
        for reference in references:
            self._attempts.pop(reference, None)
            self.ray.cancel(reference, force=False)
        _, left = self.ray.wait(references, num_returns=len(references), timeout=_CANCEL_SECONDS)
        for reference in left:
            self.ray.cancel(reference, force=True)


class _NodeSettings(NamedTuple):
    """What a node needs besides function and unit. `allowed_paths`: the value of WDSCTL_ALLOW_PATH."""

    version: str
    allowed_paths: str | None
    probes: tuple[PathProbe, ...]


def run_on_node(settings: _NodeSettings, fn: Callable[[Any], Any], unit: Any) -> _UnitResult:
    """Run a unit in a Ray worker. Returns its error: Ray would wrap an error that is raised."""
    if settings.version != VERSION:
        return _UnitResult(None, _wrong_version_error(VERSION), 0.0)
    if settings.allowed_paths is None:
        os.environ.pop(ALLOW_PATH_VARIABLE, None)
    else:
        os.environ[ALLOW_PATH_VARIABLE] = settings.allowed_paths
    started = time.monotonic()
    try:
        check_paths(settings.probes)
        return _UnitResult(fn(unit), None, time.monotonic() - started)
    except Exception as error:  # noqa: BLE001 - the driver raises it
        return _UnitResult(None, error, time.monotonic() - started)


def probe_paths(paths: Sequence[str]) -> tuple[PathProbe, ...]:
    """Describe local paths, so that `check_paths` can recognise them on another machine. URLs need no check."""
    local = [os.path.abspath(path) for path in dict.fromkeys(paths) if path and not is_url(path)]
    return tuple(_probe(path) for path in local if os.path.exists(path))


def _probe(path: str) -> PathProbe:
    if not os.path.isdir(path):
        return PathProbe(path, os.path.getsize(path), "")
    with os.scandir(path) as entries:
        first = next((entry.name for entry in entries if not entry.name.endswith(".partial")), "")
    return PathProbe(path, -1, first)


@lru_cache(maxsize=64)
def check_paths(probes: tuple[PathProbe, ...]) -> None:
    """Raise StorageError WDS453 unless this machine sees the same files and folders as the driver."""
    for probe in probes:
        try:
            is_same = (
                os.path.getsize(probe.path) == probe.size
                if probe.size >= 0
                else os.path.isdir(probe.path) and os.path.lexists(os.path.join(probe.path, probe.entry))
            )
        except OSError:
            is_same = False
        if not is_same:
            raise StorageError(
                f"node {socket.gethostname()} sees another file or none at this path",
                where=probe.path,
                hint="use storage that all nodes mount at the same path, or URLs, for data, catalog and destination",
                code="WDS453",
            )


def _check_answers(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT, where Ray would end this process."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()


def _wrong_version_error(found: str) -> WdsctlError:
    return UsageError(
        f"node {socket.gethostname()} has another version of wdsctl: {found}",
        hint=f"install wdsctl {VERSION} on every node: `pip install 'wdsctl[ray]=={VERSION}'`",
        code="WDS453",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
