"""Errors and deaths in a worker, as the consumer reports them."""

from __future__ import annotations

import pickle
import signal
import traceback

from wdsctl.core.errors import LoaderError, join_lines


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, not an error
    """The worker's traceback as text: frames do not cross processes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def to_picklable(error: BaseException, worker: int) -> tuple[Exception, str]:
    """An exception that pickles, and its traceback. An exception that would end the process becomes a LoaderError."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if isinstance(error, SystemExit):
        return _exit_error(error, worker), text
    if isinstance(error, Exception) and _survives_pickling(error):
        return error, text
    described = "".join(traceback.format_exception_only(type(error), error)).strip()
    return LoaderError(
        join_lines(*f"worker {worker} raised {described}".splitlines()),
        hint="see the worker's traceback above: the exception itself cannot be pickled",
        code="WDS533",
    ), text


def with_worker_traceback(error: Exception, traceback_text: str) -> Exception:
    """The error with the worker's traceback as its cause."""
    error.__cause__ = WorkerTraceback(traceback_text)
    return error


_CAUSES = {
    "SIGKILL": " (the system does so when memory runs out)",
    "SIGBUS": " (the system does so when a mapped file, such as the offsets of a dataset, was truncated)",
}


def describe_exit(exit_code: int | None) -> str:
    """An exit code in words, as subprocess gives it: negative for a signal. None: unknown."""
    if exit_code is None:
        return "ended for an unknown reason"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"was killed by {name}{_CAUSES.get(name, '')}"


def died_twice_error(worker: int, exit_description: str, activity: str, stack_dump: str) -> LoaderError:
    """The error for a task that ended two workers: a third would end too."""
    return LoaderError(
        join_lines(f"worker {worker} {exit_description}, the second time at the same task", *stack_dump.splitlines()),
        hint="pass num_workers=0 and use the loader in the main thread to see the failure in this process, or exclude "
        "the sample with ban",
        where=activity,
        code="WDS530",
    )


def unpicklable_result_error(error: Exception) -> LoaderError:
    return LoaderError(
        f"a worker cannot send its batch to the training process: {type(error).__name__}: {error}",
        hint="return tensors, arrays, numbers and texts from the hooks, or objects that can be pickled",
        code="WDS535",
    )


def without_parent_frames(stack_dump: str) -> str:
    """What faulthandler writes, without the frames that a forked worker has from the process it was forked from."""
    lines, is_parent = [], False
    for line in stack_dump.splitlines():
        is_frame = line.startswith("  File ")
        if not (is_frame and is_parent):
            lines.append(line)
        is_parent = is_frame and (is_parent or line.endswith(" in run_worker"))
    return "\n".join(lines)


def _exit_error(error: SystemExit, worker: int) -> LoaderError:
    return LoaderError(
        f"code in worker {worker} asked the process to exit (code {error.code!r})",
        hint="raise SkipSample to skip a sample, or any other exception to stop",
        code="WDS532",
    )


def _survives_pickling(error: Exception) -> bool:
    """Whether a pickle returns the exception as it was. Its own code runs here, and may raise anything."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - written a moment ago
    except Exception:  # noqa: BLE001 - an exception's __reduce__ and __init__ are anybody's code; the text is kept
        return False
