"""What may be asked of facts of media: values alone, for most runs ask nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRequest:
    """`selection`: which parts are media (`wdsctl/core/media/selection.py`); None: what was asked before, if anything.

    `keyframes`: index videos for seeking, too. `drop`: forget all facts of media.
    """

    selection: str | None = None
    keyframes: bool = False
    drop: bool = False
