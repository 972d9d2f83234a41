"""What the header of a trace file says: whose it is, and which datasets the numbers in it mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from wdsctl.core.json_text import read_json
from wdsctl.core.urls import shown
from wdsctl.version import VERSION as WDSCTL

VERSION = 1


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One dataset of the blend, under the number that restore keys have for it.

    `root`: a path, or a URL that is kept without user, password and query. `catalog`: the folder of its catalog, where
    that is known. `digest` names the data: shards, sizes, layouts, and which samples of them.
    """

    number: int
    root: str
    split: str
    generation: int
    digest: str
    catalog: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One rank of one run. `started`: microseconds since 1970; of two runs the later one counts."""

    rank: int
    world: int
    started: int
    sources: tuple[SourceFacts, ...]
    run: Mapping[str, Any] = field(default_factory=dict)
    wdsctl: str = WDSCTL


class NewerTraceError(ValueError):
    """The file was written by a later version than this one."""


def to_json(facts: RunFacts) -> bytes:
    sources = [{**asdict(source), "root": shown(source.root)} for source in facts.sources]
    content = {
        "version": VERSION,
        "wdsctl": facts.wdsctl,
        "rank": facts.rank,
        "world": facts.world,
        "started": facts.started,
        "run": dict(facts.run),
        "sources": sources,
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


def from_json(data: bytes) -> RunFacts:
    """Raises NewerTraceError for a version that is not known yet, ValueError, TypeError or KeyError for nonsense."""
    content = read_json(data.decode("utf-8", "surrogateescape"))
    if content["version"] > VERSION:
        raise NewerTraceError(f"it has version {content['version']}, and this wdsctl reads version {VERSION}")
    if content["world"] < 1:
        raise ValueError
    return RunFacts(
        rank=content["rank"],
        world=content["world"],
        started=content["started"],
        sources=tuple(SourceFacts(**source) for source in content["sources"]),
        run=content["run"],
        wdsctl=content["wdsctl"],
    )
