"""The contract of all cursors. A stage is a frozen recipe; a cursor is where one lane stands in it.

1. State is taken between batches only, so nothing half made is ever saved.
2. State says where to read again, never what was read.
3. State holds positions; settings are in the recipe, whose fingerprint goes with the state.
4. The same keys and types at every position, JSON only.
5. After `load` on a fresh cursor, the rest of the stream equals the rest of an undisturbed run.
6. A `next` that raises leaves the cursor anywhere: it is thrown away, and another one is opened from the last state.
A cursor knows the cursor it draws from and nothing else: no other stage, no rank, no worker.
"""

from __future__ import annotations

from typing import Any, Protocol

from wdsctl.loader.stages.item import Address, Item


class Cursor(Protocol):
    def next(self) -> Item | None:
        """The next item; None where a finite lane ends."""

    def rebuild(self, address: Address) -> Item:
        """The item of an address once more, of which a ban may have taken some or all. Moves nothing."""

    def state(self) -> Any:
        """Where the cursor is. Changes nothing."""

    def load(self, state: Any) -> None:
        """Go there. On a fresh cursor, before the first `next`."""
