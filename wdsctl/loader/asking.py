"""What a training does while a store that is far away is asked, perhaps again and again."""

from __future__ import annotations

from wdsctl.core.patience import TRIES
from wdsctl.loader.logs import log
from wdsctl.loader.workers.page import sign_of_life


def heard(what: str, tried: int) -> None:
    """A worker that asks a store does not hang. The third try is told: most of what fails comes on the second."""
    sign_of_life()
    if tried > 1:
        log.warning("the store does not answer, and is asked again (%d of %d): %s", tried + 1, TRIES, what)
