"""How long a store is asked again: so many times, and no longer than that is worth waiting for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

TRIES = 4  # of one request, the first included
PAUSE = 0.2  # seconds before the second; four times as long before each further one
LONGEST = 60.0  # seconds after which no further one begins: drivers try again themselves, some for minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """`tell`: hears of every try but the first two; nearly all that fails comes on the second."""

    pause: float = PAUSE
    longest: float = LONGEST
    tell: Callable[[str], object] = str

    def tries(self, what: str) -> Iterator[int]:
        """Numbers from 0, for as long as another try is worth it, each after its pause. `what` is asked for."""
        begun = time.monotonic()
        for tried in range(TRIES):
            if tried:
                if time.monotonic() - begun > self.longest:
                    return
                if tried > 1:
                    self.tell(f"the store does not answer, and is asked again ({tried + 1} of {TRIES}): {what}")
                time.sleep(self.pause * 4 ** (tried - 1))
            yield tried
