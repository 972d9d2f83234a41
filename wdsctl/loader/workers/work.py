"""What a worker process does, as its pool sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Work(Protocol):
    """Lives in a worker process. It keeps what it likes between tasks: the tasks of one worker come in order."""

    def do(self, task: Any) -> Any:
        """The result of one task. What it raises is raised by `Pool.look`."""

    def close(self) -> None:
        """The worker ends, or begins again from elsewhere."""


#: Makes the work of one worker, in that worker: (worker index, what `resume` gave for it).
OpenWork = Callable[[int, Any], Work]
