"""What goes wrong in a worker, as the consumer is told it."""

from __future__ import annotations

import pickle
import signal
import traceback

from wdsctl.core.errors import LoaderError, lines


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, not an error
    """Where in the worker an exception was raised, as text: its frames do not cross processes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def portable(error: BaseException, worker: int) -> tuple[Exception, str]:
    """An exception that pickles, and its traceback. What would end the process becomes a LoaderError."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if isinstance(error, SystemExit):
        return _exit_called(error, worker), text
    if isinstance(error, Exception) and _survives(error):
        return error, text
    described = "".join(traceback.format_exception_only(type(error), error)).strip()
    return LoaderError(
        lines(*f"worker {worker} raised {described}".splitlines()),
        hint="the worker's own traceback stands above; the exception itself cannot be sent between processes",
        code="WDS533",
    ), text


def raised(error: Exception, text: str) -> Exception:
    """The error with the worker's traceback as its cause."""
    error.__cause__ = WorkerTraceback(text)
    return error


def how_it_ended(status: int | None) -> str:
    """In words, from an exit code as subprocess gives it: negative for a signal. None: nobody knows."""
    if status is None:
        return "ended, how is not known"
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}" + (" (the system does so when memory runs out)" if name == "SIGKILL" else "")


def died_twice(worker: int, how: str, text: str, dump: str) -> LoaderError:
    """The same task ended two workers: a third would end too."""
    return LoaderError(
        lines(f"worker {worker} {how}, a second time at the same task", *dump.splitlines()),
        hint="give num_workers=0 to see the failure in this process, or leave the sample out",
        where=text,
        code="WDS530",
    )


def _exit_called(error: SystemExit, worker: int) -> LoaderError:
    return LoaderError(
        f"code in worker {worker} asked the process to exit (code {error.code!r})",
        hint="raise SkipSample to leave a sample out, or any other exception to stop",
        code="WDS532",
    )


def _survives(error: Exception) -> bool:
    """Whether the exception comes out of a pickle as what it was. Its own code runs here, and may raise anything."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - written a moment ago
    except Exception:  # noqa: BLE001 - an exception's __reduce__ and __init__ are anybody's code; the text is kept
        return False
