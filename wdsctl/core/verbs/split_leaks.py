"""Finds content that is in more than one split: by hashes of the parts, whatever keys and shards are called.

Only samples are read whose parts have the same sizes as those of a sample of another split. Hashes go through files on
disk, divided by their first bits, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.counted import counted
from wdsctl.core.errors import UsageError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.findings import Finding
from wdsctl.core.keys import derive, mix
from wdsctl.core.parallel import map_units
from wdsctl.core.place import locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.shard_index import Ints
from wdsctl.core.split_hash_files import divided, spread
from wdsctl.core.split_hashes import RECORD, HashUnit, run_hash_unit
from wdsctl.core.split_rules import named_in
from wdsctl.core.splitting_bits import NOWHERE, Labels, labels_of
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_catalog
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_leaks_report import LeakCount, LeakPair, LeaksReport, pair_of
from wdsctl.core.verbs.split_state import ground_of, no_such_set, parts_of_set, state_of

Counts = NDArray[np.int64]  # (splits, splits)

CODE = "WDS216"
AT_ONCE = 1 << 22  # hashes that are sorted together
NAMED = 1000  # pairs that are told one by one

#: Parts that are content rather than what is said of it, where nobody says which count.
_IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "avif", "heic")
_FILMS = ("mp3", "wav", "flac", "ogg", "opus", "m4a", "aac", "mp4", "mkv", "webm", "mov", "avi")
MEDIA = frozenset((*_IMAGES, *_FILMS, "npy", "npz", "pth", "pt", "pdf"))


def find_leaks(
    root: str,
    parts: Sequence[str] = (),
    *,
    of_set: str = "",
    catalog: str | None = None,
    workers: int = 1,
    progress: Progress = SILENT,
) -> LeaksReport:
    """Samples of different splits of a set whose `parts` are the same, byte by byte as far as 128 bits of hash tell.

    Without `parts`, images, sounds, videos and arrays are compared, and whole samples where there are none. Raises
    InputError WDS211 where there is no such set, or only one split in it, UsageError where no sample has such a part.
    """
    place = locate(root, catalog)
    check_catalog(place)
    state = state_of(place)
    if of_set not in state.rules:
        raise no_such_set(of_set, state, place.shown)
    splits = parts_of_set(place, of_set)
    words = [place.shown, f"leaks={','.join(parts) or 'auto'}", *([f"of_set={of_set}"] if of_set else [])]
    with journal(place, "split", words, progress) as entry:
        ground = ground_of(place, workers, progress, keeps=False)
        work = _Work(ground, of_set, splits, _chosen(ground, parts))
        report = work.run()
        entry.findings += report.findings
        return report


def _chosen(ground: Ground, parts: Sequence[str]) -> tuple[str, ...]:
    there = list(dict.fromkeys(name for layout in ground.offsets.layouts for name in layout))
    unknown = [part for part in parts if part not in there]
    if unknown:
        raise UsageError(
            f"no sample has a part {unknown[0]!r}",
            where=ground.place.shown,
            hint=did_you_mean(unknown[0], there) or f"the parts are {', '.join(there)}",
        )
    return tuple(parts) or tuple(name for name in there if name.lower().rpartition(".")[2] in MEDIA)


@dataclass(slots=True)
class _Work:
    """One search under way."""

    ground: Ground
    of_set: str
    splits: Parts
    parts: tuple[str, ...]
    hashed: int = 0
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def run(self) -> LeaksReport:
        todo = self._alike()
        count = sum(len(places) for _, places in todo)
        counts = np.zeros((len(self.splits), len(self.splits)), np.int64)
        pairs: list[LeakPair] = []
        with divided(max(1, -(-count // AT_ONCE))) as files:
            self._hash(todo, files)
            for file in files:
                self._compare(file, counts, pairs)
        pairs.sort(key=lambda pair: (pair.one, pair.other))
        return self._report(counts, pairs)

    def _alike(self) -> list[tuple[ShardRow, Ints]]:
        """The samples whose sizes are those of a sample of another split, by shard; and a few that only seem so.

        Two passes over the sizes, and a table whose size is bounded: of each sizes, told apart by some bits of a hash,
        the first and the last split that has them.
        """
        cells = 1 << min(26, max(10, (4 * self.ground.samples).bit_length()))
        least = np.full(cells, np.iinfo(np.int16).max, np.int16)
        most = np.full(cells, NOWHERE, np.int16)
        for row in self.ground.rows:
            labels, cell = self._placed(row, cells)
            np.minimum.at(least, cell[labels != NOWHERE], labels[labels != NOWHERE])
            np.maximum.at(most, cell[labels != NOWHERE], labels[labels != NOWHERE])
        found = []
        for row in self.ground.rows:
            labels, cell = self._placed(row, cells)
            places = np.flatnonzero((labels != NOWHERE) & (least[cell] != most[cell]))
            if len(places):
                found.append((row, places))
        return found

    def _placed(self, row: ShardRow, cells: int) -> tuple[Labels, Ints]:
        """(samples,): the split of each sample, nowhere where it has nothing to compare; and the cell of its sizes."""
        labels = labels_of([mine.get(row.id) for mine in self.splits.values()], row.samples)
        sizes = self._sizes(row)
        labels[sizes == 0] = NOWHERE
        return labels, (mix(0, sizes) & np.uint64(cells - 1)).astype(np.int64)

    def _sizes(self, row: ShardRow) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """(samples,): a number that samples of the same sizes of parts have in common; 0 where there are no parts."""
        offsets, first = self.ground.offsets, self.ground.first_row(row)
        at, columns = offsets.first_part(first), offsets.checked_range(first, first + row.samples)
        counts = offsets.counts(slice(first, first + row.samples)).astype(np.int64)
        starts = np.cumsum(counts) - counts
        part_sizes = columns.part_size[at : at + int(counts.sum())].astype(np.uint64)
        which = (
            np.zeros(row.samples, np.int64) if columns.layout is None else columns.layout[first : first + row.samples]
        )
        mixed = np.zeros(row.samples, np.uint64)
        for number, layout in enumerate(offsets.layouts):
            mine = np.flatnonzero(which == number)
            for place, name in enumerate(layout):
                if len(mine) and (not self.parts or name in self.parts):
                    salt = np.uint64(hash_name(name))
                    mixed[mine] += (part_sizes[starts[mine] + place] + np.uint64(1)) * salt
        return mixed

    def _hash(self, todo: Sequence[tuple[ShardRow, Ints]], files: Sequence[BinaryIO]) -> None:
        ground = self.ground
        ground.progress.phase("hash", items=len(todo), size_bytes=sum(row.size for row, _ in todo))
        path = ground.place.offsets(ground.generation)
        units = [HashUnit(ground.place.root, path, ground.at[row.id], places, self.parts) for row, places in todo]
        with closing(map_units(run_hash_unit, units, ground.workers, preload=("wdsctl.core.split_hashes",))) as results:
            for i, made in results:
                row, places = todo[i]
                if made.broken:
                    words = f"not compared: {made.broken}"
                    found = Finding(code=made.code, severity="error", message=words, shard=row.path, count=len(places))
                    self.findings.append(found)
                self.hashed += len(made.records)
                self.size_bytes += made.size_bytes
                spread(made.records, files)
                ground.progress.advance(items=1, size_bytes=row.size)

    def _compare(self, file: BinaryIO, counts: Counts, pairs: list[LeakPair]) -> None:
        file.seek(0)
        records = np.frombuffer(file.read(), RECORD)
        records = records[np.lexsort((records["row"], records["low"], records["high"]))]
        if not len(records):
            return
        same = (records["high"][1:] == records["high"][:-1]) & (records["low"][1:] == records["low"][:-1])
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
        stops = np.append(starts[1:], len(records))
        for start, stop in zip(starts[stops - starts > 1], stops[stops - starts > 1], strict=True):
            rows = records["row"][start:stop]
            where = np.array([self._label(row) for row in rows.tolist()])
            inside = np.unique(where)
            if len(inside) < 2:
                continue
            for one in inside.tolist():
                counts[one, inside[inside != one]] += int((where == one).sum())
            self._tell(rows, where, pairs)

    def _label(self, row: int) -> int:
        """The split that has a sample."""
        offsets = self.ground.offsets
        at = offsets.shard_of(row)
        shard, place = offsets.shards[at].id, row - int(offsets.shard_row[at])
        for number, mine in enumerate(self.splits.values()):
            part = mine.get(shard)
            if part is not None and (part.bits is None or part.bits[place >> 3] >> (place & 7) & 1):
                return number
        return NOWHERE

    def _tell(self, rows: Ints, where: Ints, pairs: list[LeakPair]) -> None:
        """A pair for each sample but those of the first one's split."""
        names = [named_in(self.of_set, name) for name in self.splits]
        first = int(where.min())
        one = int(rows[np.argmax(where == first)])
        for row, label in zip(rows.tolist(), where.tolist(), strict=True):
            if label != first and len(pairs) < NAMED:
                pairs.append(
                    LeakPair(
                        one_split=names[first], one=self._named(one), other_split=names[label], other=self._named(row)
                    )
                )

    def _named(self, row: int) -> str:
        offsets = self.ground.offsets
        return f"{offsets.shards[offsets.shard_of(row)].path}/{offsets.key(row)}"

    def _finding(self, each: LeakCount, pairs: Sequence[LeakPair]) -> Finding:
        """Told of the later of two splits: there the samples are too many."""
        what = ", ".join(self.parts) or "content"
        message = f"{counted(each.samples, 'sample')} of {each.split} with the same {what} as one of {each.other}"
        first = pair_of(pairs, each)
        if first is not None:
            message += f", such as {first.other} and {first.one}"
        return Finding(code=CODE, severity="error", message=message, count=each.samples)

    def _report(self, counts: Counts, pairs: list[LeakPair]) -> LeaksReport:
        names = [named_in(self.of_set, name) for name in self.splits]
        found = tuple(
            LeakCount(split=names[one], other=names[other], samples=int(counts[one, other]))
            for one, other in np.argwhere(counts).tolist()
        )
        self.findings += [
            self._finding(each, pairs) for each in found if names.index(each.split) > names.index(each.other)
        ]
        return LeaksReport(
            root=self.ground.place.shown,
            set=self.of_set,
            parts=self.parts,
            samples=sum(part.samples for mine in self.splits.values() for part in mine.values()),
            hashed=self.hashed,
            size_bytes=self.size_bytes,
            counts=found,
            pairs=tuple(pairs),
            findings=tuple(self.findings),
        )


def hash_name(name: str) -> int:
    """An odd number for a part's name, so that sizes of different parts are told apart."""
    return derive("part", name) | 1
