"""Finds content that is in more than one split, by hashes of the parts, whatever the keys and shards are named.

It reads only samples whose parts have the same sizes as those of a sample in another split. Hashes are divided by their
bits into files on disk, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array, Uint64Array
from wdsctl.core.catalog.presence import check_catalog_exists
from wdsctl.core.catalog.splits import NO_SPLIT_LABEL, SplitLabels, SplitShards, split_labels
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.lock import publish_changes
from wdsctl.core.dataset.polylithic import REFERENCES_PART, find_folder_of_primary
from wdsctl.core.errors import Finding, UsageError
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.writing import recording
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.split.assignment import verb_for
from wdsctl.core.split.context import (
    SplitContext,
    missing_set_error,
    open_split_context,
    read_split_state,
)
from wdsctl.core.split.leak_hashes import HASH_RECORD, HashUnit, bucket_files, run_hash_unit, write_to_buckets
from wdsctl.core.split_rules.names import qualified_split_name
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakPair:
    """Two samples of different splits with the same content."""

    one_split: str
    one: str  # SHARD/KEY
    other_split: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakCount:
    """How many samples of `split` have content that is also in `other`."""

    split: str
    other: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaksReport:
    """`parts`: what was compared; empty means whole samples. `hashed`: samples that were read."""

    root: str
    set: str
    parts: tuple[str, ...]
    samples: int
    hashed: int
    size_bytes: int
    counts: tuple[LeakCount, ...]
    pairs: tuple[LeakPair, ...]  # the first of them
    findings: tuple[Finding, ...]


LEAK_CODE = "WDS216"
MAX_SORTED_HASHES = 1 << 22  # hashes that are sorted in memory
MAX_REPORTED_PAIRS = 1000

#: The extensions of parts that are compared by default: content, not annotations.
CONTENT_EXTENSIONS = MEDIA_EXTENSIONS | {"npy", "npz", "pth", "pt", "pdf"}


def find_leaks(
    root: str,
    parts: Sequence[str] = (),
    *,
    split_set: str = "",
    catalog: str | None = None,
    workers: int = 1,
    progress: Progress = SILENT_PROGRESS,
) -> LeaksReport:
    """Find samples of different splits of a set whose `parts` are equal: byte by byte, as far as 128 bits of hash show.

    By default images, audio, videos and arrays are compared, in a polylithic dataset with shared media the references
    to them, or whole samples if there are none. Raises InputError WDS211 if there is no such set, UsageError if no
    sample has such a part, or if media are stored apart and not shared.
    """
    with open_dataset(root, catalog) as dataset:
        location = dataset.location
        check_catalog_exists(location)
        arguments = [location.display_path, f"leaks={','.join(parts) or 'auto'}"]
        if split_set:
            arguments.append(f"split_set={split_set}")
        dataset.catalog.check_not_media_folder()
        state = read_split_state(dataset)
        if split_set not in state.rules:
            raise missing_set_error(split_set, state, location.display_path)
        with (
            publish_changes(location, progress.note, is_record=True),
            recording(dataset, "split", arguments, progress) as entry,
        ):
            context = open_split_context(dataset, workers, progress, keeps_results=False)
            split_shards = dataset.catalog.split_reader.split_shards(split_set)
            report = _LeakSearch(context, split_set, split_shards, _select_parts(context, parts)).search()
            entry.findings += report.findings
            return report


def _select_parts(context: SplitContext, parts: Sequence[str]) -> tuple[str, ...]:
    known = list(dict.fromkeys(name for layout in context.offsets.layouts for name in layout))
    for part in parts:
        if part not in known:
            raise UsageError(
                f"no sample has a part {part!r}",
                where=context.location.display_path,
                hint=did_you_mean(part, known) or f"the parts are {', '.join(known)}",
            )
    if parts:
        return tuple(parts)
    content = [name for name in known if name.lower().rpartition(".")[2] in CONTENT_EXTENSIONS]
    return (*content, *_reference_parts(context, known))


def _reference_parts(context: SplitContext, known: Sequence[str]) -> tuple[str, ...]:
    """The part that refers to shared media, in the primary of a polylithic dataset. Raises UsageError if equal media
    may have several references: comparing these would miss leaks.
    """
    root = context.location.root
    folder = None if is_url(root) else find_folder_of_primary(root)
    if folder is None and REFERENCES_PART not in known:
        return ()
    if folder is not None and folder.is_shared and folder.form == "tar":
        return (REFERENCES_PART,)
    raise UsageError(
        "--leaks does not compare media that are stored apart from the samples",
        where=context.location.display_path,
        hint="search in the dataset that it was converted from, or pass parts of the primary, such as `--leaks json`",
    )


@dataclass(slots=True)
class _LeakSearch:
    """One search, and what it has found so far."""

    context: SplitContext
    split_set: str
    split_shards: SplitShards
    parts: tuple[str, ...]
    hashed_samples: int = 0
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    pairs: list[LeakPair] = field(default_factory=list)

    def search(self) -> LeaksReport:
        candidates = self._find_candidates()
        count = sum(len(positions) for _, positions in candidates)
        # (splits, splits): samples of one split whose content is in the other
        counts = np.zeros((len(self.split_shards), len(self.split_shards)), np.int64)
        with bucket_files(max(1, -(-count // MAX_SORTED_HASHES))) as files:
            self._hash_candidates(candidates, files)
            for file in files:
                self._compare_bucket(file, counts)
        self.pairs.sort(key=lambda pair: (pair.one, pair.other))
        return self._report(counts)

    def _find_candidates(self) -> list[tuple[ShardRow, Int64Array]]:
        """By shard, the samples with the part sizes of a sample in another split, and a few false positives.

        Two passes over the sizes. A table of bounded size has the first and the last split for each hash of sizes.
        """
        cells = 1 << min(26, max(10, (4 * self.context.samples).bit_length()))
        lowest = np.full(cells, np.iinfo(np.int16).max, np.int16)
        highest = np.full(cells, NO_SPLIT_LABEL, np.int16)
        for row in self.context.rows:
            labels, cell = self._labels_and_cells(row, cells)
            is_assigned = labels != NO_SPLIT_LABEL
            np.minimum.at(lowest, cell[is_assigned], labels[is_assigned])
            np.maximum.at(highest, cell[is_assigned], labels[is_assigned])
        candidates = []
        for row in self.context.rows:
            labels, cell = self._labels_and_cells(row, cells)
            positions = np.flatnonzero((labels != NO_SPLIT_LABEL) & (lowest[cell] != highest[cell]))
            if len(positions):
                candidates.append((row, positions))
        return candidates

    def _labels_and_cells(self, row: ShardRow, cells: int) -> tuple[SplitLabels, Int64Array]:
        """(samples,) each: the split, none for samples without content to compare; and the table cell of the sizes."""
        labels = split_labels([shards.get(row.id) for shards in self.split_shards.values()], row.samples)
        sizes = self._size_hashes(row)
        labels[sizes == 0] = NO_SPLIT_LABEL
        return labels, (hash_values(0, sizes) & np.uint64(cells - 1)).astype(np.int64)

    def _size_hashes(self, row: ShardRow) -> Uint64Array:
        """(samples,): a hash of the names and sizes of the parts; 0 if there are none."""
        offsets, first = self.context.offsets, self.context.first_row(row)
        first_part, columns = offsets.first_part(first), offsets.check_range(first, first + row.samples)
        counts = offsets.part_counts(slice(first, first + row.samples)).astype(np.int64)
        starts = np.cumsum(counts) - counts
        part_sizes = columns.part_size[first_part : first_part + int(counts.sum())].astype(np.uint64)
        layouts = (
            np.zeros(row.samples, np.int64) if columns.layout is None else columns.layout[first : first + row.samples]
        )
        hashes = np.zeros(row.samples, np.uint64)
        for number, layout in enumerate(offsets.layouts):
            samples = np.flatnonzero(layouts == number)
            for part, name in enumerate(layout):
                if len(samples) and (not self.parts or name in self.parts):
                    # An odd number for a part's name: equal sizes of different parts have different hashes.
                    salt = np.uint64(derive_seed("part", name) | 1)
                    hashes[samples] += (part_sizes[starts[samples] + part] + np.uint64(1)) * salt
        return hashes

    def _hash_candidates(self, candidates: Sequence[tuple[ShardRow, Int64Array]], files: Sequence[BinaryIO]) -> None:
        context = self.context
        path = context.location.offsets_path(context.generation)
        units = [
            HashUnit(context.location.root, path, context.offsets_index[row.id], positions, self.parts)
            for row, positions in candidates
        ]
        finished = run_units(
            run_hash_unit,
            units,
            make_executor(context.workers, ("wdsctl.core.split.leak_hashes",)),
            phase="hash",
            progress=context.progress,
            size=lambda unit: UnitSize(1, context.offsets.shards[unit.shard_index].size),
            reads=(context.location.root, path),
        )
        with closing(finished):
            for each in finished:
                hashes, (row, positions) = each.result(), candidates[each.index]
                if hashes.error:
                    message = f"not compared: {hashes.error}"
                    count = len(positions)
                    self.findings.append(
                        Finding(code=hashes.code, severity="error", message=message, shard=row.path, count=count)
                    )
                self.hashed_samples += len(hashes.records)
                self.size_bytes += hashes.size_bytes
                write_to_buckets(hashes.records, files)

    def _compare_bucket(self, file: BinaryIO, counts: NDArray[np.int64]) -> None:
        """Add the equal hashes of one file to `counts` and to the pairs."""
        file.seek(0)
        records = np.frombuffer(file.read(), HASH_RECORD)
        records = records[np.lexsort((records["row"], records["low"], records["high"]))]
        if not len(records):
            return
        is_equal = (records["high"][1:] == records["high"][:-1]) & (records["low"][1:] == records["low"][:-1])
        starts = np.concatenate(([0], np.flatnonzero(~is_equal) + 1))
        stops = np.append(starts[1:], len(records))
        has_copies = stops - starts > 1
        for start, stop in zip(starts[has_copies], stops[has_copies], strict=True):
            rows = records["row"][start:stop]
            labels = np.array([self._split_of(row) for row in rows.tolist()])
            splits = np.unique(labels)
            if len(splits) < 2:
                continue
            for split in splits.tolist():
                counts[split, splits[splits != split]] += int((labels == split).sum())
            self._add_pairs(rows, labels)

    def _split_of(self, row: int) -> int:
        """The split of a sample, by its row in the offsets file."""
        offsets = self.context.offsets
        i = offsets.shard_of(row)
        shard, position = offsets.shards[i].id, row - int(offsets.shard_row[i])
        for number, shards in enumerate(self.split_shards.values()):
            part = shards.get(shard)
            if part is not None and (part.bits is None or part.bits[position >> 3] >> (position & 7) & 1):
                return number
        return NO_SPLIT_LABEL

    def _add_pairs(self, rows: Int64Array, labels: Int64Array) -> None:
        """Pair the first sample of the first split with each copy in other splits."""
        names = self._split_names()
        first_split = int(labels.min())
        first_sample = self._sample_name(int(rows[np.argmax(labels == first_split)]))
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            if label != first_split and len(self.pairs) < MAX_REPORTED_PAIRS:
                self.pairs.append(
                    LeakPair(
                        one_split=names[first_split],
                        one=first_sample,
                        other_split=names[label],
                        other=self._sample_name(row),
                    )
                )

    def _split_names(self) -> list[str]:
        return [qualified_split_name(self.split_set, name) for name in self.split_shards]

    def _sample_name(self, row: int) -> str:
        offsets = self.context.offsets
        return f"{offsets.shards[offsets.shard_of(row)].path}/{offsets.key(row)}"

    def _finding(self, leak_count: LeakCount) -> Finding:
        content = ", ".join(self.parts) or "content"
        message = (
            f"{pluralize(leak_count.samples, 'sample')} of {leak_count.split} "
            f"{verb_for(leak_count.samples, 'have', 'has')} the same {content} as a sample of {leak_count.other}"
        )
        splits = (leak_count.other, leak_count.split)
        example = next((pair for pair in self.pairs if (pair.one_split, pair.other_split) == splits), None)
        if example is not None:
            message += f", such as {example.other} and {example.one}"
        return Finding(code=LEAK_CODE, severity="error", message=message, count=leak_count.samples)

    def _report(self, counts: NDArray[np.int64]) -> LeaksReport:
        names = self._split_names()
        leak_counts = tuple(
            LeakCount(split=names[split], other=names[other], samples=int(counts[split, other]))
            for split, other in np.argwhere(counts).tolist()
        )
        # A finding for the later one of two splits: its samples are the copies.
        self.findings += [
            self._finding(each) for each in leak_counts if names.index(each.split) > names.index(each.other)
        ]
        return LeaksReport(
            root=self.context.location.display_path,
            set=self.split_set,
            parts=self.parts,
            samples=sum(part.samples for shards in self.split_shards.values() for part in shards.values()),
            hashed=self.hashed_samples,
            size_bytes=self.size_bytes,
            counts=leak_counts,
            pairs=tuple(self.pairs),
            findings=tuple(self.findings),
        )
