"""Fresh interpreters: the fork server of "forkserver", and the workers of "spawn". Pickles what they need."""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from wdsctl.core.errors import LoaderError
from wdsctl.core.import_guard import add_implicit_folder, find_implicit_folder
from wdsctl.loader.samples.registry import pickle_registered, receive_registered
from wdsctl.loader.workers.options import TaskRunnerFactory
from wdsctl.loader.workers.process import WorkerDescriptors, flush_output, run_worker
from wdsctl.loader.workers.status_page import new_shared_memory

_MAX_DEPTH = 12


def find_unpicklable_part(runner_factory: Any) -> str:
    """The path to the innermost part that does not pickle, such as "open_work.encoder.model (function <lambda>)"."""
    name, value = "open_work", runner_factory
    for _ in range(_MAX_DEPTH):
        inner = next(((path, part) for path, part in _child_values(value) if not _pickles(part)), None)
        if inner is None:
            break
        name, value = name + inner[0], inner[1]
    return f"{name} ({type(value).__name__} {getattr(value, '__qualname__', '')}".rstrip() + ")"


def _child_values(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, partial):
        yield ".func", value.func
        yield from ((f".args[{i}]", part) for i, part in enumerate(value.args))
        yield from ((f".{key}", part) for key, part in value.keywords.items())
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif hasattr(value, "__self__") and not isinstance(value.__self__, type):
        yield ".__self__", value.__self__
    else:
        yield from _attribute_values(value)


def _attribute_values(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, type) or (callable(getattr(value, "__getstate__", None)) and _has_own_state(value)):
        return
    yield from ((f".{key}", part) for key, part in getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)


def _has_own_state(value: Any) -> bool:
    return type(value).__getstate__ is not getattr(object, "__getstate__", None)


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value, protocol=5)
    except Exception:  # noqa: BLE001 - the __reduce__ of anybody's objects runs here
        return False
    return True


# `python -c` searches the current folder first, which may be a dataset: not even json is imported from there.
_BOOT_CODE = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "import json; sys.path[:] = json.loads(sys.argv[2]); "
    "from wdsctl.loader.workers.spawn import main; main(int(sys.argv[1]))"
)
#: Not empty while a fresh interpreter imports the training script for its classes: no pool may be created there.
_is_preparing: list[bool] = []


def make_payload(runner_factory: TaskRunnerFactory, **extra: Any) -> bytes:
    """The payload for a fresh interpreter. Raises LoaderError (WDS531) for a runner factory that cannot be pickled."""
    try:
        work = pickle.dumps(runner_factory, protocol=5)
    except Exception as error:  # the __reduce__ of anybody's objects runs here
        raise LoaderError(
            f"the loader cannot be pickled for its workers: {find_unpicklable_part(runner_factory)}: {error}",
            hint='pass start_method="fork", which pickles nothing; or define it at the top level of a module, '
            "or drop it in __getstate__",
            code="WDS531",
        ) from error
    prepared = multiprocessing.spawn.get_preparation_data("wdsctl worker")
    for name in ("authkey", "start_method", "log_to_stderr", "log_level"):
        prepared.pop(name, None)
    trust = {"registered": pickle_registered(), "implicit": find_implicit_folder(prepared["sys_path"])}
    return pickle.dumps({"prepared": prepared, "work": work, "parent": os.getpid(), **trust, **extra})


def start_interpreter(payload: bytes, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter with this payload. It inherits only these descriptors, under the same numbers."""
    payload_descriptor = new_shared_memory(len(payload))
    try:
        with open(payload_descriptor, "wb", closefd=False) as file:
            file.write(payload)
        command = [
            sys.executable,
            "-c",
            _BOOT_CODE,
            str(payload_descriptor),
            json.dumps([entry for entry in sys.path if entry]),
        ]
        flush_output()
        passed = (payload_descriptor, *descriptors)
        return subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL)  # noqa: S603 - ourselves
    finally:
        os.close(payload_descriptor)


def check_not_preparing() -> None:
    """Raise LoaderError (WDS534) if a script that a worker imports for its classes starts another training."""
    if _is_preparing:
        raise LoaderError(
            "the training script creates a loader at import, and each worker imports the script",
            hint='move the code that runs under `if __name__ == "__main__":`, or pass start_method="fork"',
            code="WDS534",
        )


def main(payload_descriptor: int) -> None:
    with open(payload_descriptor, "rb") as file:
        file.seek(0)
        payload = pickle.load(file)  # noqa: S301 - from our own parent
    open_work = _unpack_factory(payload)
    if "ends" in payload:
        run_worker(payload["index"], open_work, WorkerDescriptors(*payload["ends"]), payload["ring_bytes"])
        return
    from wdsctl.loader.workers.fork_server import serve

    with socket.socket(fileno=payload["control"]) as control:
        serve(control, open_work, payload["parent"])


def _unpack_factory(payload: dict[str, Any]) -> TaskRunnerFactory:
    """The runner factory; if it cannot be unpickled here, one that raises the reason when it is called."""
    _is_preparing.append(True)
    try:
        multiprocessing.spawn.prepare(payload["prepared"])
        add_implicit_folder(payload["implicit"])
        receive_registered(payload["registered"])
        work: TaskRunnerFactory = pickle.loads(payload["work"])  # noqa: S301 - as above
    except Exception as error:  # noqa: BLE001 - the training's own modules run here; the consumer raises it
        failure = LoaderError(
            f"the loader cannot be unpickled in a fresh interpreter: {type(error).__name__}: {error}",
            hint='pass start_method="fork" if classes are defined in a notebook or a -c script',
            code="WDS531",
        )
        return _FailingFactory(error if isinstance(error, LoaderError) else failure)
    finally:
        _is_preparing.clear()
    return work


class _FailingFactory:
    def __init__(self, error: LoaderError) -> None:
        self._error = error

    def __call__(self, _index: int, _begin: Any) -> Any:
        raise self._error
