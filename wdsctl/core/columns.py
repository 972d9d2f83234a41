"""Column files: one number a sample, mapped, in the order of the offsets file of the same generation.

They lie in `.wdsctl/columns/`, as NAME-GENERATION.bin. Format, version 2, little-endian. Bytes 0-7 `WDSCOL2\\n`; 8-15
u64, the length of the header in bytes; then the header, JSON, padded with blanks; then three arrays, each at a multiple
of 64 bytes:

    values  i8  samples      0 or more, by row of the offsets file
    table   i8  shards x 3   of each shard, in the order of the rows: its id, its samples, and how many of these have 0
                             because their value could not be had
    marks   u1  shards x 16  names what the values of each shard were made of

The header has `name`, `function` (as it was asked for), `source` (a digest of the file that defines it, empty for
what needs none), `parts` (those that the function says it looks at; null where it says none), `generation`, `dtype`
(`<i8`), `zero` (whether samples without a value were let pass), `samples`, `failed` (how many those were), `shards`
(names the shards, see `digest_of`), `digest` (names the values: BLAKE2b, 16 bytes), `summary` (min, p50, p99, max,
total; null where there are no samples), and `arrays`: name -> [offset, dtype, count].

Behind all of it stand checksums by block (`block_sums.py`). Opening costs the header, whatever the number of samples:
values are checked when they are first used. A file is written once and never changed; one that takes its place has
another inode, so that whoever has mapped the old one goes on with it.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import BlockSums, seal
from wdsctl.core.column_summary import Summary, summary_of
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError, InputError, UsageError, WdsctlError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.files import open_own, replacing
from wdsctl.core.json_text import read_json
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place
from wdsctl.core.shard_digest import digest_of_rows
from wdsctl.core.shard_index import IndexedShard, Ints

MAGIC = b"WDSCOL2\n"
ALIGN = 64
MARK = 16  # bytes

_DTYPES = {"values": "<i8", "table": "<i8", "marks": "|u1"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_FILE = re.compile(r"(.+)-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What the header says; see the head of this module."""

    name: str
    function: str
    source: str
    generation: int
    shards: str
    zero: bool = False
    samples: int = 0
    failed: int = 0
    digest: str = "0" * 32
    summary: Summary | None = None
    parts: tuple[str, ...] | None = None  # that a function of Python declares; None also where nothing is declared


class Values:
    """The values of a column, (samples,), by row. Those that are asked for are checked when they are first used: raises
    CatalogError WDS311 where they are not what was written, or less than 0."""

    def __init__(self, values: Ints, sums: BlockSums, begin: int, damaged: Callable[[], WdsctlError]) -> None:
        self._values = values
        self._sums = sums
        self._begin = begin  # of the values in the file, in bytes
        self._damaged = damaged

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: Any) -> Any:
        """What numpy gives for a row, a slice of neighbours, or an array or a list of rows."""
        if isinstance(rows, slice):
            first, stop, _ = rows.indices(len(self))
            self._sums.check(self._begin + 8 * first, self._begin + 8 * stop)
        elif isinstance(rows, int):
            self._sums.check(self._begin + 8 * rows, self._begin + 8 * rows + 8)
        else:
            starts = self._begin + 8 * np.atleast_1d(np.asarray(rows, np.int64))
            self._sums.check_spans(starts, starts + 8)
        found = self._values[rows]
        if found.min(initial=0) < 0:
            raise self._damaged()
        return found

    def all(self) -> Ints:
        """All of them: 2.4 ms a million, the first time."""
        checked: Ints = self[:]
        return checked


@dataclass(frozen=True, slots=True)
class Column:
    """A mapped column file. The arrays are read-only views of the map, and keep it open."""

    facts: ColumnFacts
    checked: Values
    table: Ints  # (shards, 3): id, samples, samples without a value
    marks: NDArray[np.uint8]  # (shards, 16)

    @property
    def values(self) -> Ints:
        """(samples,): all of them, checked."""
        return self.checked.all()


def column_path(place: Place, name: str, generation: int) -> str:
    return os.path.join(place.columns, f"{name}-{generation}.bin")


def check_name(name: str) -> str:
    """The name, where a column can have it. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a column",
            hint="at most 64 letters, digits, '_', '.' and '-', of which the first is a letter, a digit or '_'",
        )
    return name


def kept_columns(place: Place) -> dict[str, list[int]]:
    """The columns of a dataset: name -> the generations it is there for, ascending."""
    found: dict[str, list[int]] = {}
    folder = place.columns
    with translated(folder, "list"):
        names = os.listdir(folder) if os.path.isdir(folder) else []
    for match in filter(None, map(_FILE.fullmatch, names)):
        if _NAME.fullmatch(match[1]):
            found.setdefault(match[1], []).append(int(match[2]))
    return {name: sorted(found[name]) for name in sorted(found)}


def open_column(place: Place, name: str, generation: int, *, shards: Sequence[IndexedShard] | None = None) -> Ints:
    """The values of a column: (samples,), int64, read-only, by row of the offsets file of `generation`.

    `shards`, those of that offsets file, are compared with the ones that the column was made for. Raises what
    `find_column` raises. Cost: all values are checked, 2.4 ms a million, and with `shards` a few hundred ns a shard.
    """
    return find_column(place, name, generation, shards=shards).values


def find_column(place: Place, name: str, generation: int, *, shards: Sequence[IndexedShard] | None = None) -> Column:
    """A column with all that its file says.

    Raises InputError WDS310 where the dataset has no such column, CatalogError WDS314 where it has it for other
    generations or other shards only, WDS311 where the file is damaged.
    """
    path = column_path(place, name, generation)
    if not (_NAME.fullmatch(name) and os.path.exists(path)):
        raise _absent(place, name, generation)
    column = read_column(path)
    if (column.facts.name, column.facts.generation) != (name, generation):
        raise _damaged(path, name)
    if shards is not None and not _is_of(column, shards):
        raise CatalogError(
            f"the column {name!r} was made for other shards",
            where=path,
            hint=_made_by(place, name, column.facts.function),
            code="WDS314",
        )
    return column


def read_column(path: str) -> Column:
    """Map a column file. Raises CatalogError WDS311 where it is damaged."""
    with translated(path, "read"):
        handle = open_own(path)
        try:
            size = os.fstat(handle).st_size
            data = mmap.mmap(handle, size, prot=mmap.PROT_READ) if size > 16 else b""
        finally:
            os.close(handle)
    damaged = partial(_damaged, path, os.path.basename(path).rpartition("-")[0])
    try:
        return _column(data, damaged)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise damaged() from error


def _is_of(column: Column, shards: Sequence[IndexedShard]) -> bool:
    """Whether a column is of these shards: as it says, and by what it has of each."""
    if column.facts.shards != digest_of(shards):
        return False
    return bool(column.table[:, :2].tolist() == [[shard.id, shard.samples] for shard in shards])


def digest_of(shards: Iterable[IndexedShard]) -> str:
    """Names shards in their order, their sizes, and where everything in them is. 32 hex digits."""
    return digest_of_rows((shard.id, shard.size, shard.layout_hash) for shard in shards)


class ShardPiece(NamedTuple):
    """The values of one shard. `failed`: how many of them are 0 because there was no value."""

    shard: int  # id
    mark: bytes
    failed: int
    values: Ints


def write_column(path: str, facts: ColumnFacts, pieces: Iterable[ShardPiece]) -> ColumnFacts:
    """Write a column to `path`, atomically, from every shard in order.

    Of `facts` the counts, `digest` and `summary` are found out here; returns them as they are in the file. Memory: the
    largest piece, and about 200 bytes a shard.
    """
    table: list[tuple[int, int, int]] = []
    marks: list[bytes] = []
    digest = blake2b(digest_size=16)
    room = len(_head(replace(facts, **_WIDEST), 1 << 62, 1 << 62, 1 << 62))
    room += -room % ALIGN
    with replacing(path) as draft, open(draft, "x+b") as file:
        file.seek(room)
        for piece in pieces:
            data = np.ascontiguousarray(piece.values, "<i8").data
            file.write(data)
            digest.update(data)
            table.append((piece.shard, len(piece.values), piece.failed))
            marks.append(piece.mark)
        samples = sum(count for _, count, _ in table)
        _pad(file)
        file.write(np.array(table, "<i8").tobytes())
        _pad(file)
        file.write(b"".join(marks))
        file.flush()
        written = np.memmap(file, "<i8", "r", room, (samples,)) if samples else np.empty(0, np.int64)
        whole = replace(
            facts,
            samples=samples,
            failed=sum(failed for _, _, failed in table),
            digest=digest.hexdigest(),
            summary=summary_of(written),
        )
        file.seek(0)
        file.write(_head(whole, samples, len(table), room).ljust(room))
        seal(file)
    return whole


#: Facts as long as any can be, to tell how much room the header needs before they are known.
_WIDEST: dict[str, Any] = {
    "samples": 1 << 62,
    "failed": 1 << 62,
    "summary": Summary(min=1 << 62, p50=1 << 62, p99=1 << 62, max=1 << 62, total=1 << 126),
}


def _head(facts: ColumnFacts, samples: int, shards: int, room: int) -> bytes:
    """The first bytes of the file, for arrays that begin after `room` bytes."""
    places, at = {}, room
    for name, count in (("values", samples), ("table", 3 * shards), ("marks", MARK * shards)):
        places[name] = [at, _DTYPES[name], count]
        at += np.dtype(_DTYPES[name]).itemsize * count
        at += -at % ALIGN
    header = asdict(facts) | {"dtype": "<i8", "arrays": places}
    text = json.dumps(header, separators=(",", ":")).encode()
    return MAGIC + max(len(text), room - 16 if room < 1 << 62 else 0).to_bytes(8, "little") + text


def _pad(file: Any) -> None:
    file.write(b"\0" * (-file.tell() % ALIGN))


def _column(data: Any, damaged: Callable[[], WdsctlError]) -> Column:
    """Raises many things if it is damaged."""
    if data[:8] != MAGIC:
        raise ValueError
    length = int.from_bytes(data[8:16], "little")
    sums = BlockSums(data, damaged)
    sums.check(0, 16 + length)
    header: dict[str, Any] = read_json(data[16 : 16 + length])
    arrays, begins = {}, {}
    for name, (at, dtype, count) in header.pop("arrays").items():
        if dtype != _DTYPES[name] or at % ALIGN or min(at, count) < 0:
            raise ValueError
        begins[name] = at
        arrays[name] = np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
    if header.pop("dtype") != "<i8":
        raise ValueError
    summary = header.pop("summary")
    parts = header.pop("parts", None)
    facts = ColumnFacts(
        summary=None if summary is None else Summary(**summary),
        parts=None if parts is None else tuple(map(str, parts)),
        **header,
    )
    _check_facts(facts)
    table, marks = arrays["table"].reshape(-1, 3), arrays["marks"].reshape(-1, MARK)
    sums.check(begins["table"], begins["table"] + table.nbytes)
    sums.check(begins["marks"], begins["marks"] + marks.nbytes)
    is_possible = int(table.min(initial=0)) >= 0 and int(table[:, 1].max(initial=0)) <= facts.samples
    if not is_possible or len(table) != len(marks):
        raise ValueError
    if not facts.samples == len(arrays["values"]) == int(table[:, 1].sum()):
        raise ValueError
    return Column(facts, Values(arrays["values"], sums, begins["values"], damaged), table, marks)


def _check_facts(facts: ColumnFacts) -> None:
    """Raise ValueError where a fact is of another type than it is to be, or less than 0."""
    texts = (facts.name, facts.function, facts.source, facts.shards, facts.digest)
    numbers = [facts.generation, facts.samples, facts.failed]
    numbers += [] if facts.summary is None else asdict(facts.summary).values()
    if not all(isinstance(text, str) for text in texts) or type(facts.zero) is not bool:
        raise ValueError(texts)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(numbers)


def _absent(place: Place, name: str, generation: int) -> WdsctlError:
    kept = kept_columns(place)
    if name not in kept:
        return no_such_column(place, name, kept)
    newest = column_path(place, name, kept[name][-1])
    made = ", ".join(map(str, kept[name]))
    return CatalogError(
        f"the column {name!r} was made for generation {made}, and not for {generation}",
        where=newest,
        hint=_made_by(place, name, read_column(newest).facts.function),
        code="WDS314",
    )


def no_such_column(place: Place, name: str, kept: Iterable[str]) -> InputError:
    """The error of asking for a column that is not there, with those that are."""
    names = ", ".join(kept)
    return InputError(
        f"the dataset has no column {name!r}; it has {names or 'none yet'}",
        where=place.columns,
        hint=did_you_mean(name, kept) or _made_by(place, name, "MODULE:FUNCTION"),
        code="WDS310",
    )


def _damaged(path: str, name: str) -> CatalogError:
    return CatalogError(
        f"the file of the column {name!r} is damaged",
        where=path,
        hint=f"make it again: `wdsctl index DATASET --drop-column {name} --column {name}=MODULE:FUNCTION`",
        code="WDS311",
    )


def _made_by(place: Place, name: str, function: str) -> str:
    return f"{command_at(place, 'index', '--column', f'{name}={function}')} makes it"
