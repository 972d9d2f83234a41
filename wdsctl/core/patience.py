"""How long a store is asked again: so many times, and no longer than that is worth waiting for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

TRIES = 4  # of one request, the first included
PAUSE = 0.2  # seconds before the second; four times as long before each further one
LONGEST = 60.0  # seconds after which no further one begins: drivers try again themselves, some for minutes


#: Hears of every try: what is asked for, and how often it was before.
Hear = Callable[[str, int], None]


def nobody(what: str, tried: int) -> None:
    """Does not hear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    pause: float = PAUSE
    longest: float = LONGEST
    hear: Hear = nobody

    def tries(self, what: str) -> Iterator[int]:
        """Numbers from 0, for as long as another try is worth it, each after its pause. `what` is asked for."""
        begun = time.monotonic()
        for tried in range(TRIES):
            if tried:
                if time.monotonic() - begun > self.longest:
                    return
                time.sleep(self.pause * 4 ** (tried - 1))
            self.hear(what, tried)
            yield tried
