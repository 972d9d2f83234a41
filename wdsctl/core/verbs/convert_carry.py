"""What was worked out for the samples of the sources, carried over to the samples of one dataset of the destination.

Facts of media first, as there are columns made of them. Both are written whole, and again by a run that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.catalog.media_settings import MediaSettings
from wdsctl.core.command_line import command
from wdsctl.core.convert.plan_file import Origins
from wdsctl.core.convert.recipe import Recipe, Stream
from wdsctl.core.findings import Finding
from wdsctl.core.media.selection import AUTO
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.verbs.convert_columns import Carried, Left, carry_columns, columns_after
from wdsctl.core.verbs.convert_media import MediaFacts, carry_media, media_after
from wdsctl.core.verbs.convert_sources import Opened


@dataclass(frozen=True, slots=True)
class Carrying:
    """What may go along, by stream. `columns`: those that do, and those that do not. `media`: facts, where there
    are any.

    A store has no columns: they are of samples, and those are the primary's. Lines have no media.
    """

    columns: Mapping[Stream, tuple[list[Carried], list[Left]]]
    media: Mapping[Stream, MediaFacts]

    def names(self, stream: Stream) -> tuple[str, ...]:
        """The columns that go along, as far as it is known before anything is written."""
        wanted, _ = self.columns.get(stream, ([], []))
        return tuple(each.name for each in wanted)

    def unfit(self, stream: Stream) -> list[Left]:
        """All columns, for a dataset of which shards turned out otherwise."""
        wanted, _ = self.columns.get(stream, ([], []))
        return [Left(each.name, "shards do not hold the samples that were written", each.spec) for each in wanted]


class Lost(NamedTuple):
    """Something that did not go along, and why. `command`: makes it anew; empty where nothing does."""

    what: str
    why: str
    command: str


def carrying_of(opened: Opened, recipe: Recipe, streams: Iterable[Stream]) -> Carrying:
    """What the sources have, and what of it still holds. Cost: headers of columns, and a look at the catalogs."""
    known = sorted(set(streams))
    facts = media_after(opened, recipe) if known else None
    holding = [stream for stream in known if not (stream == "primary" and recipe.primary == "jsonl")]
    media = {} if facts is None else dict.fromkeys(holding, facts)
    has_media = facts is not None and not facts.why
    columns: dict[Stream, tuple[list[Carried], list[Left]]] = {
        stream: columns_after(opened, recipe, stream, has_media=has_media) for stream in known if stream != "media"
    }
    return Carrying(columns, media)


def carry(
    place: Place,
    generation: int,
    carrying: Carrying,
    stream: Stream,
    came: Callable[[str], Origins],
    progress: Progress,
) -> tuple[tuple[str, ...], int, list[Lost]]:
    """Make them of one dataset: (its columns, how many media have facts, what did not go along).

    `came`: of a shard, by its path, where its samples came from. The caller holds the lock.
    """
    facts = carrying.media.get(stream)
    media = carry_media(place, generation, facts, came) if facts is not None and not facts.why else 0
    wanted, _ = carrying.columns.get(stream, ([], []))
    names, more = carry_columns(place, generation, wanted, came, has_media=media > 0, progress=progress)
    return tuple(names), media, lost_of(place.shown, carrying, stream, more)


def lost_of(root: str, carrying: Carrying, stream: Stream, more: Iterable[Left] = ()) -> list[Lost]:
    """What does not go along into the dataset at `root`, with the commands for it."""
    _, left = carrying.columns.get(stream, ([], []))
    facts = carrying.media.get(stream)
    lost = [Lost(f"the column {each.name}", each.why, _makes(root, each, facts)) for each in (*left, *more)]
    if facts is not None and facts.why:
        lost.append(Lost("what is known of media", facts.why, command("index", root, *_asked(facts.settings))))
    return lost


def _makes(root: str, left: Left, facts: MediaFacts | None) -> str:
    """The command that makes a column anew; empty where nothing does."""
    if left.spec is None:
        return ""
    asked = _asked(facts.settings) if left.spec.kind == "media" and facts is not None else []
    return command("index", root, *asked, "--column", f"{left.name}={left.spec.text}")


def _asked(settings: MediaSettings) -> list[str]:
    selection = [] if settings.selection == AUTO else [settings.selection]
    return ["--media", *selection, *(["--media-index"] if settings.keyframes else [])]


def lost_findings(lost: Iterable[Lost]) -> list[Finding]:
    """One a thing and reason, with the command for the first dataset."""
    counts: dict[tuple[str, str], int] = {}
    commands: dict[tuple[str, str], str] = {}
    for what, why, made_by in lost:
        counts[what, why] = counts.get((what, why), 0) + 1
        commands.setdefault((what, why), made_by)
    return [
        Finding(
            code="WDS346",
            severity="warning",
            message=f"{what} does not go along: {why}" + (f"; {made_by} makes it anew" if made_by else ""),
            count=counts[what, why],
        )
        for (what, why), made_by in commands.items()
    ]
