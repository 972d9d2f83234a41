"""What is said of the media of a dataset: what was asked, how it stands, and what they are on the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wdsctl.core.catalog.facts import media_settings_of
from wdsctl.core.catalog.media_line import MediaLine, media_counts
from wdsctl.core.catalog.media_settings import MediaSettings
from wdsctl.core.catalog.totals import Totals

if TYPE_CHECKING:
    from wdsctl.core.catalog.catalog import Catalog

State = Literal["made", "current", "outdated", "incomplete", "dropped", "would be made", "would be dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaReport:
    """The media of a dataset. Counts are of what the catalog has now.

    `incomplete`: some could not be read for a reason that is not theirs, or their shard is missing; the next run that
    can reads them.
    """

    selection: str
    keyframes: bool
    state: State
    read: int = 0  # shards, or files of a folder, that this run read
    counts: dict[str, int] = field(default_factory=dict)  # image, audio, video, unreadable
    lines: tuple[MediaLine, ...] = ()


def media_now(path: str, facts: Mapping[str, str], totals: Totals) -> MediaReport | None:
    """What the catalog at `path` has of media, by its facts and totals. Cost: nothing where these are kept in it."""
    settings = media_settings_of(path, facts)
    if settings is None:
        return None
    lines = totals.media
    if lines is None:
        from wdsctl.core.catalog.catalog import Catalog

        with Catalog(path) as catalog:
            lines = tuple(catalog.media.lines())
    return _report(settings, "incomplete" if totals.without_facts else "current", 0, lines)


def media_report(catalog: Catalog, state: State, *, read: int = 0) -> MediaReport | None:
    """What the catalog has of media; None where nobody asked for them."""
    settings = catalog.media_settings()
    return None if settings is None else _report(settings, state, read, tuple(catalog.media.lines()))


def _report(settings: MediaSettings, state: State, read: int, lines: tuple[MediaLine, ...]) -> MediaReport:
    return MediaReport(
        selection=settings.selection,
        keyframes=settings.keyframes,
        state=state,
        read=read,
        counts=dict(media_counts(lines)),
        lines=lines,
    )
