"""What came of decoding a medium from end to end."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Verdict(NamedTuple):
    """`doubtful`: it decodes, and its decoder had to guess, or its own checksums do not fit. `reason` in words."""

    is_: Literal["sound", "doubtful", "broken", "too large"]
    reason: str = ""


SOUND = Verdict("sound")
