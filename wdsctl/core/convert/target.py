"""What can be written: a target's units (files that are written whole, by one worker each) and what joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from wdsctl.core.convert.source import Options, Part


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit that is in its place. `name` is its path below the destination; `facts` are the target's, as JSON."""

    name: str
    samples: int
    size_bytes: int
    facts: str = "{}"


class Target(Protocol):
    """One form to write. A module-level value without state: workers name it by `name`."""

    name: str
    about: str
    suffix: str  # of a unit: `.tar`, `.parquet`, `` for a folder of files

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:
        """Write one unit to `path`, which nobody else knows yet, from (key, parts). The same samples give the same
        bytes. The caller publishes it by renaming (a file, or a folder of files), after the target has synced it.
        """

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:
        """What there is once for all units, such as an index; called when all units are in their places, again after a
        kill. Publishes what it writes by itself (wdsctl.core.files).
        """
