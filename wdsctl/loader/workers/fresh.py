"""Fresh interpreters: the nursery of "forkserver", and the workers of "spawn". What they need is pickled to them."""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from wdsctl.core.errors import LoaderError
from wdsctl.core.module_origin import also_implicit, implicit_folder
from wdsctl.loader.registry import packed, unpack
from wdsctl.loader.workers.memory import new_memory
from wdsctl.loader.workers.process import Ends, be_worker, flush_output
from wdsctl.loader.workers.unpicklable import culprit
from wdsctl.loader.workers.work import OpenWork

# `python -c` looks in the current folder first, which may be a dataset: not even json is imported from there.
_BOOT = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "import json; sys.path[:] = json.loads(sys.argv[2]); "
    "from wdsctl.loader.workers.fresh import main; main(int(sys.argv[1]))"
)
#: True while a fresh interpreter runs the training's own script, to find its classes: no pool may be made there.
_is_preparing: list[bool] = []


def luggage(open_work: OpenWork, **more: Any) -> bytes:
    """All that a fresh interpreter needs. Raises LoaderError (WDS531) for work that cannot be pickled."""
    try:
        work = pickle.dumps(open_work, protocol=5)
    except Exception as error:  # the __reduce__ of anybody's objects runs here
        raise LoaderError(
            f"the work cannot be pickled: {culprit(open_work)}: {error}",
            hint='start_method="fork" needs no pickles; else move it to the top level of a module, '
            "or drop it in __getstate__",
            code="WDS531",
        ) from error
    prepared = multiprocessing.spawn.get_preparation_data("wdsctl worker")
    for name in ("authkey", "start_method", "log_to_stderr", "log_level"):
        prepared.pop(name, None)
    trust = {"registered": packed(), "implicit": implicit_folder(prepared["sys_path"])}
    return pickle.dumps({"prepared": prepared, "work": work, "parent": os.getpid(), **trust, **more})


def interpreter(raw: bytes, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """A fresh interpreter with this luggage. It inherits these descriptors, under the same numbers, and no others."""
    luggage_at = new_memory(len(raw))
    try:
        with open(luggage_at, "wb", closefd=False) as file:
            file.write(raw)
        command = [sys.executable, "-c", _BOOT, str(luggage_at), json.dumps([entry for entry in sys.path if entry])]
        flush_output()
        passed = (luggage_at, *descriptors)
        return subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL)  # noqa: S603 - ourselves
    finally:
        os.close(luggage_at)


def refuse_while_preparing() -> None:
    """Raises LoaderError (WDS534) where a script that was imported for its classes is about to train again."""
    if _is_preparing:
        raise LoaderError(
            "the training script makes a loader whenever it is imported",
            hint='put what it runs under `if __name__ == "__main__":`, or give start_method="fork"',
            code="WDS534",
        )


def main(luggage_at: int) -> None:
    with open(luggage_at, "rb") as file:
        file.seek(0)
        brought = pickle.load(file)  # noqa: S301 - from our own parent
    open_work = _unpacked(brought)
    if "ends" in brought:
        be_worker(brought["index"], open_work, Ends(*brought["ends"]), brought["ring_bytes"])
        return
    from wdsctl.loader.workers.nursery import tend

    with socket.socket(fileno=brought["control"]) as control:
        tend(control, open_work, brought["parent"])


def _unpacked(brought: dict[str, Any]) -> OpenWork:
    """The work; where it cannot be had here, work that says why when it is opened."""
    _is_preparing.append(True)
    try:
        multiprocessing.spawn.prepare(brought["prepared"])
        also_implicit(brought["implicit"])
        unpack(brought["registered"])
        work: OpenWork = pickle.loads(brought["work"])  # noqa: S301 - as above
    except Exception as error:  # noqa: BLE001 - the training's own modules run here; the consumer raises it
        failure = LoaderError(
            f"the work cannot be unpickled in a fresh interpreter: {type(error).__name__}: {error}",
            hint='classes of a notebook or a -c script need start_method="fork"',
            code="WDS531",
        )
        return _Refuses(error if isinstance(error, LoaderError) else failure)
    finally:
        _is_preparing.clear()
    return work


class _Refuses:
    def __init__(self, error: LoaderError) -> None:
        self._error = error

    def __call__(self, _index: int, _begin: Any) -> Any:
        raise self._error
