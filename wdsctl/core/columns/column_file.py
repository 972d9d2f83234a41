"""Column files: one number per sample, mapped, in the order of the offsets file of the same generation.

Path: `.wdsctl/columns/NAME-GENERATION.bin`. Format, version 1, little-endian. Bytes 0-7 `WDSCOL1\\n`; 8-15
u64, the length of the header in bytes; then the header, JSON, padded with blanks; then three arrays, each at a multiple
of 64 bytes:

    values  i8  samples      0 or more, by row of the offsets file
    table   i8  shards x 3   of each shard, in row order: id, samples, and how many of these have 0 because they
                             have no value
    marks   u1  shards x 16  digest of what the values of each shard were computed from

The header has `name`, `function` (as requested), `source` (a digest of the file that defines it, empty if it
needs none), `parts` (those that the function declares to read; null if it declares none), `generation`, `dtype`
(`<i8`), `zero` (whether samples may fail), `samples`, `failed` (how many did), `shards` (a digest of the shards,
see `digest_shards`), `digest` (of the values: BLAKE2b, 16 bytes), `summary` (min, p50, p99, max, total; null if there
are no samples), and `arrays`: name -> [offset, dtype, count].

Checksums by block follow (`block_checksums.py`). Opening costs the header, whatever the number of samples: values are
checked when they are first used. A file is written once and never changed; one that replaces it has another inode, so
processes that have mapped the old one keep it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import CatalogError, InputError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.files import replace_atomically
from wdsctl.core.offsets.block_checksums import BlockChecksums, append_checksums
from wdsctl.core.offsets.head import digest_shard_rows
from wdsctl.core.offsets.mapped_arrays import map_file, read_array_header
from wdsctl.core.offsets.read import ShardWithId
from wdsctl.core.samples.fields import did_you_mean

CHUNK_VALUES = 1 << 20  # values processed together
BINS = 1 << 16


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A summary of one or more numbers. A percentile is the smallest number with that share at or below it."""

    min: int
    p50: int
    p99: int
    max: int
    total: int  # may exceed 64 bits


def summarize_values(values: Int64Array) -> ColumnSummary | None:
    """The exact summary of numbers from 0 to 2^63 - 1; None for none. Memory is bounded. Cost: a few passes."""
    if not len(values):
        return None
    least, most = int(values.min()), int(values.max())
    p50, p99 = (_value_at_rank(values, -(-len(values) * share // 100) - 1, least, most) for share in (50, 99))
    return ColumnSummary(min=least, p50=p50, p99=p99, max=most, total=_total(values))


def _value_at_rank(values: Int64Array, rank: int, low: int, high: int) -> int:
    """The number at index `rank` in sorted order. Counts in narrowing ranges: at most 4 passes."""
    while low < high:
        width = (high - low) // BINS + 1
        counts = np.zeros(BINS, np.int64)
        for chunk in _chunks(values):
            inside = chunk[(chunk >= low) & (chunk <= high)]
            counts += np.bincount((inside - low) // width, minlength=BINS)
        reached = np.cumsum(counts)
        which = int(np.searchsorted(reached, rank, side="right"))
        rank -= int(reached[which]) - int(counts[which])
        low, high = low + which * width, min(high, low + (which + 1) * width - 1)
    return low


def _total(values: Int64Array) -> int:
    """The sum. Adds upper and lower halves of the numbers separately, so that nothing overflows."""
    return sum(
        (int((chunk >> 32).sum(dtype=np.int64)) << 32) + int((chunk & 0xFFFFFFFF).sum(dtype=np.int64))
        for chunk in _chunks(values)
    )


def _chunks(values: Int64Array) -> Iterator[Int64Array]:
    return (values[at : at + CHUNK_VALUES] for at in range(0, len(values), CHUNK_VALUES))


COLUMN_MAGIC = b"WDSCOL1\n"
ARRAY_ALIGNMENT_BYTES = 64
SHARD_DIGEST_BYTES = 16  # bytes

_DTYPES = {"values": "<i8", "table": "<i8", "marks": "|u1"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_FILE = re.compile(r"(.+)-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """The header, as the docstring of this module describes it."""

    name: str
    function: str
    source: str
    generation: int
    shards: str
    zero: bool = False
    samples: int = 0
    failed: int = 0
    digest: str = "0" * 32
    summary: ColumnSummary | None = None
    parts: tuple[str, ...] | None = None  # that a function of Python declares; None also where nothing is declared


class CheckedValues:
    """The values of a column, (samples,), by row, checked when they are first used. Raises CatalogError WDS311 if they
    are not what was written, or negative.
    """

    def __init__(
        self, values: Int64Array, checksums: BlockChecksums, begin: int, damaged: Callable[[], WdsctlError]
    ) -> None:
        self._values = values
        self._checksums = checksums
        self._begin = begin  # of the values in the file, in bytes
        self._damaged = damaged

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: Any) -> Any:
        """By numpy's rules for a row, a slice, an array or a list of rows."""
        if isinstance(rows, slice):
            first, stop, _ = rows.indices(len(self))
            self._checksums.check(self._begin + 8 * first, self._begin + 8 * stop)
        elif isinstance(rows, int):
            self._checksums.check(self._begin + 8 * rows, self._begin + 8 * rows + 8)
        else:
            starts = self._begin + 8 * np.atleast_1d(np.asarray(rows, np.int64))
            self._checksums.check_spans(starts, starts + 8)
        found = self._values[rows]
        if found.min(initial=0) < 0:
            raise self._damaged()
        return found


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """A mapped column file. The arrays are read-only views of the map, and keep it open."""

    facts: ColumnFacts
    checked_values: CheckedValues
    table: Int64Array  # (shards, 3): id, samples, samples without a value
    shard_digests: NDArray[np.uint8]  # (shards, 16)

    @property
    def values(self) -> Int64Array:
        """(samples,): all values, checked: 2.4 ms per million the first time."""
        checked: Int64Array = self.checked_values[:]
        return checked


def column_path(location: DatasetLocation, name: str, generation: int) -> str:
    return os.path.join(location.columns_folder, f"{name}-{generation}.bin")


def check_column_name(name: str) -> str:
    """Raise UsageError for a name that no column can have."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid column name",
            hint="use at most 64 letters, digits, '_', '.' and '-'; start with a letter, a digit or '_'",
        )
    return name


def list_columns(location: DatasetLocation) -> dict[str, list[int]]:
    """The columns of a dataset: name -> the generations that have it, ascending."""
    found: dict[str, list[int]] = {}
    folder = location.columns_folder
    with translate_os_errors(folder, "list"):
        names = os.listdir(folder) if os.path.isdir(folder) else []
    for match in filter(None, map(_FILE.fullmatch, names)):
        if _NAME.fullmatch(match[1]):
            found.setdefault(match[1], []).append(int(match[2]))
    return {name: sorted(found[name]) for name in sorted(found)}


def read_column_values(
    location: DatasetLocation, name: str, generation: int, *, shards: Sequence[ShardWithId] | None = None
) -> Int64Array:
    """The values of a column: (samples,), int64, read-only, by row of the offsets file of `generation`.

    `shards`: those of that offsets file, compared with those the column was computed for. Raises what `find_column`
    raises. Cost: all values are checked, 2.4 ms per million, and with `shards` some 100 ns per shard.
    """
    return find_column(location, name, generation, shards=shards).values


def find_column(
    location: DatasetLocation, name: str, generation: int, *, shards: Sequence[ShardWithId] | None = None
) -> ColumnFile:
    """A column with its header.

    Raises InputError WDS310 if the dataset has no such column, CatalogError WDS314 if only other generations or shards
    have it, WDS311 if the file is damaged.
    """
    path = column_path(location, name, generation)
    if not (_NAME.fullmatch(name) and os.path.exists(path)):
        raise _missing_column_error(location, name, generation)
    column = read_column(path)
    if (column.facts.name, column.facts.generation) != (name, generation):
        raise _damaged(path, name)
    is_for_shards = shards is None or (
        column.facts.shards == digest_shards(shards)
        and column.table[:, :2].tolist() == [[shard.id, shard.samples] for shard in shards]
    )
    if not is_for_shards:
        raise CatalogError(
            f"the column {name!r} was computed for other shards",
            where=path,
            hint=_compute_hint(location, name, column.facts.function),
            code="WDS314",
        )
    return column


def read_column(path: str) -> ColumnFile:
    """Map a column file. Raises CatalogError WDS311 if it is damaged."""
    with translate_os_errors(path, "read"):
        data = map_file(path)
    damaged = partial(_damaged, path, os.path.basename(path).rpartition("-")[0])
    try:
        return _parse_column(data, damaged)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise damaged() from error


def digest_shards(shards: Iterable[ShardWithId]) -> str:
    """A digest of shards in order, with sizes and layouts. 32 hex digits."""
    return digest_shard_rows((shard.id, shard.size, shard.layout_hash) for shard in shards)


def digest_values(values: Int64Array) -> str:
    """The `digest` of a column with these values. 32 hex digits."""
    return blake2b(np.ascontiguousarray(values, "<i8").data, digest_size=16).hexdigest()


class ColumnShard(NamedTuple):
    """The values of one shard. `failed`: the number of samples with 0 because their value could not be computed."""

    shard: int  # id
    digest: bytes
    failed: int
    values: Int64Array


def write_column(path: str, facts: ColumnFacts, column_shards: Iterable[ColumnShard]) -> ColumnFacts:
    """Write a column to `path`, atomically, from every shard in order.

    Computes the counts, `digest` and `summary` of `facts`, and returns them as written. Memory: the largest shard, and
    200 bytes per shard.
    """
    table: list[tuple[int, int, int]] = []
    marks: list[bytes] = []
    digest = blake2b(digest_size=16)
    room = len(_encode_header(replace(facts, **_WIDEST_FACTS), 1 << 62, 1 << 62, 1 << 62))
    room += -room % ARRAY_ALIGNMENT_BYTES
    with replace_atomically(path) as draft, open(draft, "x+b") as file:
        file.seek(room)
        for piece in column_shards:
            data = np.ascontiguousarray(piece.values, "<i8").data
            file.write(data)
            digest.update(data)
            table.append((piece.shard, len(piece.values), piece.failed))
            marks.append(piece.digest)
        samples = sum(count for _, count, _ in table)
        _pad(file)
        file.write(np.array(table, "<i8").tobytes())
        _pad(file)
        file.write(b"".join(marks))
        file.flush()
        written = np.memmap(file, "<i8", "r", room, (samples,)) if samples else np.empty(0, np.int64)
        final_facts = replace(
            facts,
            samples=samples,
            failed=sum(failed for _, _, failed in table),
            digest=digest.hexdigest(),
            summary=summarize_values(written),
        )
        file.seek(0)
        file.write(_encode_header(final_facts, samples, len(table), room).ljust(room))
        append_checksums(file)
    return final_facts


#: The longest possible facts, to compute the size of the header before the actual facts are known.
_WIDEST_FACTS: dict[str, Any] = {
    "samples": 1 << 62,
    "failed": 1 << 62,
    "summary": ColumnSummary(min=1 << 62, p50=1 << 62, p99=1 << 62, max=1 << 62, total=1 << 126),
}


def _encode_header(facts: ColumnFacts, samples: int, shards: int, header_bytes: int) -> bytes:
    """The first bytes of the file, for arrays that begin after `header_bytes` bytes."""
    layout, at = {}, header_bytes
    for name, count in (("values", samples), ("table", 3 * shards), ("marks", SHARD_DIGEST_BYTES * shards)):
        layout[name] = [at, _DTYPES[name], count]
        at += np.dtype(_DTYPES[name]).itemsize * count
        at += -at % ARRAY_ALIGNMENT_BYTES
    header = asdict(facts) | {"dtype": "<i8", "arrays": layout}
    text = json.dumps(header, separators=(",", ":")).encode()
    return (
        COLUMN_MAGIC + max(len(text), header_bytes - 16 if header_bytes < 1 << 62 else 0).to_bytes(8, "little") + text
    )


def _pad(file: Any) -> None:
    file.write(b"\0" * (-file.tell() % ARRAY_ALIGNMENT_BYTES))


def _parse_column(data: Any, damaged: Callable[[], WdsctlError]) -> ColumnFile:
    """Parse a column file. Raises various errors if it is damaged."""
    checksums = BlockChecksums(data, damaged)
    header = read_array_header(data, COLUMN_MAGIC, checksums)
    arrays, begins = {}, {}
    for name, (at, dtype, count) in header.pop("arrays").items():
        if dtype != _DTYPES[name] or at % ARRAY_ALIGNMENT_BYTES or min(at, count) < 0:
            raise ValueError
        begins[name] = at
        arrays[name] = np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
    if header.pop("dtype") != "<i8":
        raise ValueError
    summary = header.pop("summary")
    parts = header.pop("parts", None)
    facts = ColumnFacts(
        summary=None if summary is None else ColumnSummary(**summary),
        parts=None if parts is None else tuple(map(str, parts)),
        **header,
    )
    _check_facts(facts)
    table, marks = arrays["table"].reshape(-1, 3), arrays["marks"].reshape(-1, SHARD_DIGEST_BYTES)
    checksums.check(begins["table"], begins["table"] + table.nbytes)
    checksums.check(begins["marks"], begins["marks"] + marks.nbytes)
    is_possible = int(table.min(initial=0)) >= 0 and int(table[:, 1].max(initial=0)) <= facts.samples
    if not is_possible or len(table) != len(marks):
        raise ValueError
    if not facts.samples == len(arrays["values"]) == int(table[:, 1].sum()):
        raise ValueError
    return ColumnFile(facts, CheckedValues(arrays["values"], checksums, begins["values"], damaged), table, marks)


def _check_facts(facts: ColumnFacts) -> None:
    """Raise ValueError for a fact of another type, and for negative numbers."""
    texts = (facts.name, facts.function, facts.source, facts.shards, facts.digest)
    numbers = [facts.generation, facts.samples, facts.failed]
    numbers += [] if facts.summary is None else asdict(facts.summary).values()
    if not all(isinstance(text, str) for text in texts) or type(facts.zero) is not bool:
        raise ValueError(texts)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(numbers)


def _missing_column_error(location: DatasetLocation, name: str, generation: int) -> WdsctlError:
    kept = list_columns(location)
    if name not in kept:
        return no_column_error(location, name, kept)
    newest = column_path(location, name, kept[name][-1])
    generations = ", ".join(map(str, kept[name]))
    return CatalogError(
        f"the column {name!r} was computed for generation {generations}, expected {generation}",
        where=newest,
        hint=_compute_hint(location, name, read_column(newest).facts.function),
        code="WDS314",
    )


def no_column_error(location: DatasetLocation, name: str, names_in_dataset: Iterable[str]) -> InputError:
    """The error for a missing column, with those that exist."""
    names = ", ".join(names_in_dataset)
    return InputError(
        f"the dataset has no column {name!r}; it has {names or 'none yet'}",
        where=location.columns_folder,
        hint=did_you_mean(name, names_in_dataset) or _compute_hint(location, name, "MODULE:FUNCTION"),
        code="WDS310",
    )


def _damaged(path: str, name: str) -> CatalogError:
    return CatalogError(
        f"the file of the column {name!r} is damaged",
        where=path,
        hint=f"compute the column again: `wdsctl index DATASET --drop-column {name} --column {name}=MODULE:FUNCTION`",
        code="WDS311",
    )


def _compute_hint(location: DatasetLocation, name: str, function: str) -> str:
    return f"{shell_command_at(location, 'index', '--column', f'{name}={function}')} makes it"
