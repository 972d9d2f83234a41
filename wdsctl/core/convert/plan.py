"""Makes the plan: lists the sources, settles keys that collide, puts the samples in order, and cuts them into units.

Nothing is written to the destination before the plan is whole. Memory does not grow with the number of samples.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from wdsctl.core.convert.asked_parts import unmet_parts
from wdsctl.core.convert.collisions import OnCollision, settle_collisions
from wdsctl.core.convert.cut import Cut
from wdsctl.core.convert.groups import Group
from wdsctl.core.convert.part_rules import is_media, new_name, renamed
from wdsctl.core.convert.plan_file import new_plan
from wdsctl.core.convert.recipe import PartRules, Stream
from wdsctl.core.convert.source import Detailed, Known, Source
from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.keys import derive, mix_one
from wdsctl.core.progress import Progress
from wdsctl.core.tar import padded
from wdsctl.core.tar_header import member_bytes
from wdsctl.core.transcode.options import AudioOptions, ImageOptions

Order = Literal["none", "key", "shuffle"]

#: What the headers and the padding of a sample take up, where its parts are not known beforehand.
_AROUND = 3 * 768
_WORD = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """How samples are to be put in order and cut. `media`: what a polylithic layout keeps apart."""

    shard_samples: int = 10_000
    shard_size: int = 1 << 30
    template: str = "shard-{index:06d}.tar"  # `.tar` stands for the suffixes
    suffixes: Mapping[Stream, str] = field(default_factory=lambda: {"": ".tar"})
    order: Order = "none"
    seed: int = 0
    on_collision: OnCollision = "error"
    media: tuple[str, ...] = ()
    parts: PartRules = field(default_factory=PartRules)
    image: ImageOptions | None = None
    audio: AudioOptions | None = None


class Planned(NamedTuple):
    """`repeated`: samples left out since their key came before. `bare`: those without a part that goes along."""

    samples: int
    repeated: int
    bare: int
    apart: int  # samples that are in no group


def make_plan(
    path: str,
    sources: Sequence[Source],
    names: Sequence[str],
    request: PlanRequest,
    facts: Mapping[str, str],
    progress: Progress,
    *,
    group: Group | None = None,
    splits: Sequence[Sequence[int]] = (),
) -> Planned:
    """Write the plan to `path`. `names` stand before keys where they are to be prefixed.

    `splits`: of each source, for each of its splits the number that it has among all; -1 where it does not go along.
    Raises InputError WDS003 where nothing is left, or nothing that `image` and `audio` name, StorageError; UsageError
    WDS340 where keys collide, WDS342 where every sample that has a part to be renamed has one of the new name already.
    Cost: some 6 us a sample, and twice that where they are put in another order.
    """
    with new_plan(path) as connection:
        progress.phase("list")
        counts = _Counts()
        rows = _rows(sources, request, group, splits, counts, progress)
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        _check_renames(request, counts)
        names_of_groups = group.names if group is not None else [""]
        connection.executemany("INSERT INTO grp VALUES (?, ?)", enumerate(names_of_groups))
        progress.phase("plan")
        repeated = settle_collisions(connection, request.on_collision, names)
        _put_in_order(connection, request, is_grouped=group is not None)
        samples = _cut(connection, request)
        made = Planned(samples, repeated, counts.bare, counts.apart)
        if not samples:
            raise _nothing(made)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        more = {"samples": samples, "repeated": repeated, "bare": counts.bare, "apart": counts.apart}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", ((name, str(n)) for name, n in more.items()))
        missed = unmet_parts(counts.names, request) if all(isinstance(each, Detailed) for each in sources) else []
        connection.execute("INSERT INTO meta VALUES ('unmet', ?)", (json.dumps(missed),))
    return made


@dataclass(slots=True)
class _Counts:
    """`renamed`: samples with a part that is renamed, by its name; `met`: those of them that have the new name, too."""

    bare: int = 0
    apart: int = 0
    renamed: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)  # of parts, where something is asked of some of them


def _rows(
    sources: Sequence[Source],
    request: PlanRequest,
    group: Group | None,
    splits: Sequence[Sequence[int]],
    counts: _Counts,
    progress: Progress,
) -> Iterator[tuple[int, int, int, str, int, int, int, int, int]]:
    salt = derive("convert", request.seed) if request.order == "shuffle" else None
    g = told = 0
    for number, source in enumerate(sources):
        translated = _translation(splits[number] if number < len(splits) else ())
        for known, size, media in _sized(source, request, counts):
            grp = group.of(source, number, known) if group is not None else 0
            if grp is None:
                counts.apart += 1
                continue
            rank = 0 if salt is None else mix_one(salt, g) - _WORD
            bits = known.splits and translated(known.splits)
            yield g, number, known.place, known.key, size, media, grp, bits, rank
            g += 1
            if g - told == 10_000:
                progress.advance(items=g - told)
                told = g
    progress.advance(items=g - told)


def _check_renames(request: PlanRequest, counts: _Counts) -> None:
    """Where some samples alone have both parts, these fail, and the others go along."""
    for old, new in request.parts.rename:
        if counts.met[old] and counts.met[old] == counts.renamed[old]:
            met = counted(counts.met[old], "sample")
            raise UsageError(
                f"{old} cannot be called {new}: a part {new} is there already, in all {met} with {old}",
                where="--rename-part",
                hint=f"leave that one out: `--drop-parts {new}`, or give another name",
                code="WDS342",
            )


def _translation(numbers: Sequence[int]) -> Callable[[int], int]:
    """From the splits of one source, a bit each, to those of all."""

    @lru_cache(maxsize=1000)
    def translated(bits: int) -> int:
        return sum(1 << number for b, number in enumerate(numbers) if number >= 0 and bits >> b & 1)

    return translated


def _sized(source: Source, request: PlanRequest, counts: _Counts) -> Iterator[tuple[Known, int, int]]:
    """(sample, bytes in a tar, of them in that of the media)."""
    if not isinstance(source, Detailed):
        if request.media:
            raise UsageError(
                "sources of this form do not list their parts, which must be known to keep some apart",
                hint="convert to shards first, and those with --layout polylithic",
            )
        for place, (key, size) in enumerate(source.entries()):
            yield Known(place, key, ()), size + _AROUND, 0
        return
    measure = _measure(request)
    rules = request.parts
    asks = rules != PartRules() or request.media or request.image is not None or request.audio is not None
    for known in source.known():
        if asks:
            counts.names.update(name for name, _ in known.parts)
        for name, is_met in renamed(rules, tuple(name for name, _ in known.parts)) if rules.rename else ():
            counts.renamed[name] += 1
            counts.met[name] += is_met
        size, media = measure(known.key, known.parts)
        if size or not known.parts:  # without any part: the source could not read it, and says why when it is read
            yield known, size or _AROUND, media
        else:
            counts.bare += 1


def _measure(request: PlanRequest) -> Callable[[str, Iterable[tuple[str, int]]], tuple[int, int]]:
    """The function that tells what a sample takes up in a tar, to the byte, and how much of it is media."""
    rules, kept_apart = request.parts, request.media
    is_plain = rules == PartRules()

    def measure(key: str, parts: Iterable[tuple[str, int]]) -> tuple[int, int]:
        whole = media = 0
        length = len(key.encode("utf-8", "surrogatepass"))
        for name, size in parts:
            new = name if is_plain else new_name(rules, name)
            if new is None:
                continue
            if length + len(new) < 100 and new.isascii() and size < 1 << 33:
                taken = 512 + padded(size)
            else:
                taken = member_bytes(f"{key}.{new}".encode("utf-8", "surrogatepass"), size)
            whole += taken
            if kept_apart and is_media(new, kept_apart):
                media += taken
        return whole, media

    return measure


def _put_in_order(connection: sqlite3.Connection, request: PlanRequest, *, is_grouped: bool) -> None:
    by = {"none": "g", "key": "key, g", "shuffle": "rank, g"}[request.order]
    if request.order == "none" and not is_grouped:
        return
    connection.execute(f"INSERT INTO ordered(g) SELECT g FROM entry ORDER BY {'grp, ' if is_grouped else ''}{by}")
    connection.execute("INSERT INTO meta VALUES ('ordered', ?)", (by,))


def _cut(connection: sqlite3.Connection, request: PlanRequest) -> int:
    """Fill the table of units; returns how many samples there are."""
    is_ordered = connection.execute("SELECT 1 FROM ordered LIMIT 1").fetchone() is not None
    query = "SELECT pos, entry.g, grp, size, media FROM ordered JOIN entry ON entry.g = ordered.g ORDER BY pos"
    if not is_ordered:
        query = "SELECT g, g, grp, size, media FROM entry ORDER BY g"
    streams: tuple[Stream, ...] = ("media", "primary") if request.media else ("",)
    cuts = {stream: _cut_of(request, stream) for stream in streams}
    samples = 0
    for pos, _, grp, size, media in connection.execute(query):
        samples += 1
        for stream, cut in cuts.items():
            taken = media if stream == "media" else size - media + 1024 if stream == "primary" else size
            if taken or not stream:  # one of 0 bytes has a fault, which is told when it is read
                cut.add(pos, grp, taken)
    units = [unit for cut in cuts.values() for unit in cut.ended()]
    if request.media and samples and not any(unit[0] == "media" for unit in units):
        raise InputError(
            "no sample has a part that is to be kept apart",
            where=f"--media {','.join(request.media)}",
            hint="`wdsctl inspect SOURCE` lists the parts",
            code="WDS003",
        )
    if len({unit[:3] for unit in units}) < len(units):
        raise UsageError("two files would have one name", where=request.template, hint="give another --template")
    connection.executemany(
        "INSERT INTO unit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", ((number, *unit) for number, unit in enumerate(units))
    )
    return samples


def _cut_of(request: PlanRequest, stream: Stream) -> Cut:
    return Cut(
        stream,
        samples=request.shard_samples,
        size=request.shard_size,
        template=request.template,
        suffix=request.suffixes[stream],
    )


def _nothing(made: Planned) -> InputError:
    why = "the source has no samples, or none that --split and --where leave"
    if made.bare:
        why = "no sample has a part that goes along: look at --parts"
    elif made.apart:
        why = "no sample has what they are to be divided by: look at --apart"
    return InputError("nothing is left to convert", hint=why, code="WDS003")
