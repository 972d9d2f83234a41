"""What is said of the media of a dataset: what was asked, how it stands, and what they are on the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wdsctl.core.catalog.media_line import MediaLine, totals

if TYPE_CHECKING:
    from wdsctl.core.catalog.catalog import Catalog

State = Literal["made", "current", "outdated", "incomplete", "dropped", "would be made", "would be dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaReport:
    """The media of a dataset. Counts are of what the catalog has now.

    `incomplete`: some could not be read for a reason that is not theirs; the next run tries again.
    """

    selection: str
    keyframes: bool
    state: State
    read: int = 0  # shards, or files of a folder, that this run read
    counts: dict[str, int] = field(default_factory=dict)  # image, audio, video, unreadable
    lines: tuple[MediaLine, ...] = ()


def media_report(catalog: Catalog, state: State, *, read: int = 0) -> MediaReport | None:
    """What the catalog has of media; None where nobody asked for them."""
    settings = catalog.media_settings()
    if settings is None:
        return None
    lines = catalog.media.lines()
    return MediaReport(
        selection=settings.selection,
        keyframes=settings.keyframes,
        state=state,
        read=read,
        counts=dict(totals(lines)),
        lines=tuple(lines),
    )
