"""Results of units of work in files, which outlive a kill: see `wdsctl/core/jobs.py`.

A result file contains the results of the units that ran together. Bytes 0-3: the CRC-32 of the table; bytes 4-11: its
length as u64; the table, a JSON list of [name of the unit, bytes of its result]; then the results, each with its own
checksum (`encode_checked`). Result files are not synced. A file that a power failure damaged, or that another program
left there, counts as absent, and its units run again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import translate_os_errors
from wdsctl.core.file_limits import MAX_TABLE_BYTES, check_whole_size, scale_limit
from wdsctl.core.files import (
    CRC_BYTES,
    LENGTH_BYTES,
    MALFORMED_ERRORS,
    BytesLike,
    decode_checked,
    encode_checked,
    open_own,
    write_pieces,
)
from wdsctl.core.json_text import read_json
from wdsctl.core.records import LazySequence

UnitT = TypeVar("UnitT")
ResultT = TypeVar("ResultT")

RESULT_SUFFIX = ".result"
_NAMES_PER_BLOCK = 1 << 16

#: Facts for JSON, and the bytes that follow them.
EncodedResult = tuple[Mapping[str, Any], Sequence[BytesLike]]


class PackedResults(NamedTuple):
    """A result file before it is written. `file_name`: empty if no result is kept."""

    are_kept: list[bool]
    file_name: str
    pieces: Sequence[BytesLike]


@dataclass(frozen=True, slots=True)
class ResultFolder(Generic[UnitT, ResultT]):
    """Stores results of units in files of a folder. Workers receive it with the units: its functions must pickle.

    `name` returns a name that identifies everything the result of a unit depends on. `encode` returns None for a
    result that must not be stored, such as the failure to read a shard: the next run tries again. `decode` raises one
    of `MALFORMED_ERRORS` for a result that cannot belong to the unit.
    """

    folder: str
    name: Callable[[UnitT], str]
    encode: Callable[[UnitT, ResultT], EncodedResult | None]
    decode: Callable[[UnitT, Mapping[str, Any], memoryview], ResultT]

    def path(self, unit: UnitT) -> str:
        """Return the file for the results of a batch. `unit`: the first unit of it whose result is stored."""
        return os.path.join(self.folder, self.name(unit) + RESULT_SUFFIX)

    def save(self, units: Sequence[UnitT], results: Sequence[ResultT]) -> list[bool]:
        """Write the results of a batch to one file, atomically. Returns which of them the file contains."""
        packed = self.pack(units, results)
        self.write(packed)
        return packed.are_kept

    def pack(self, units: Sequence[UnitT], results: Sequence[ResultT]) -> PackedResults:
        """Encode the results of a batch. Touches no file: `write` may follow in another process."""
        encoded = [self.encode(unit, result) for unit, result in zip(units, results, strict=True)]
        kept = [(unit, encode_checked(*each)) for unit, each in zip(units, encoded, strict=True) if each is not None]
        if not kept:
            return PackedResults([False] * len(units), "", [])
        table = json.dumps([[self.name(unit), sum(map(len, pieces))] for unit, pieces in kept]).encode()
        head = [crc32(table).to_bytes(CRC_BYTES, "little"), len(table).to_bytes(LENGTH_BYTES, "little"), table]
        return PackedResults(
            [each is not None for each in encoded],
            self.name(kept[0][0]) + RESULT_SUFFIX,
            [*head, *chain.from_iterable(pieces for _, pieces in kept)],
        )

    def write(self, packed: PackedResults) -> None:
        """Write packed results to their file, atomically."""
        if packed.file_name:
            write_pieces(os.path.join(self.folder, packed.file_name), packed.pieces, durable=False)

    def load(self, unit: UnitT) -> ResultT | None:
        """Return the result of a unit that ran alone; None if there is none, or it is damaged."""
        path = self.path(unit)
        return self._read(unit, ResultFile(path)) if os.path.exists(path) else None

    def load_or_run(self, unit: UnitT, fn: Callable[[UnitT], ResultT], file: ResultFile | None = None) -> ResultT:
        """Return the result of a unit that ran alone, or in the batch of `file`.

        Runs the unit if the result is missing or damaged.
        """
        found = self.load(unit) if file is None else self._read(unit, file)
        return fn(unit) if found is None else found

    def find(self, units: Sequence[UnitT], *, are_batched: bool) -> FoundFiles:
        """Find the files with results of these units, by index.

        Lists the folder; if units ran in batches, also reads the table of each file.
        """
        names = LazySequence(len(units), lambda i: self.name(units[i]))
        return self.find_names(names, are_batched=are_batched)

    def find_names(self, names: Sequence[str], *, are_batched: bool) -> FoundFiles:
        """Like `find`, by the names of the units."""
        with translate_os_errors(self.folder, "read"):
            listed = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        listed = [name for name in listed if name.endswith(RESULT_SUFFIX)]
        found = FoundFiles(names if listed else ())
        for file_name in listed:
            file = ResultFile(os.path.join(self.folder, file_name))
            found.add(file, file.names() if are_batched else [file_name.removesuffix(RESULT_SUFFIX)])
        return found

    def _read(self, unit: UnitT, file: ResultFile) -> ResultT | None:
        data = file.get(self.name(unit))
        checked = None if data is None else decode_checked(data)
        try:
            return None if checked is None else self.decode(unit, *checked)
        except MALFORMED_ERRORS:
            return None


class UnitNames(Sequence[str]):
    """Names of units, in a numpy array: 32 bytes a name, and 8 once names were looked up."""

    def __init__(self, names: Iterable[str]) -> None:
        remaining = iter(names)
        blocks = iter(lambda: [name.encode() for name in islice(remaining, _NAMES_PER_BLOCK)], [])
        self._names = np.concatenate([np.array([], "S1"), *map(np.array, blocks)])
        self._order: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [name.decode() for name in self._names[index].tolist()]
        return bytes(self._names[index]).decode()

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the indices of all units with one of these names, in no particular order."""
        if self._order is None:
            self._order = np.argsort(self._names, kind="stable")
        encoded = np.array([name.encode() for name in names] or [], "S")
        first = np.searchsorted(self._names, encoded, side="left", sorter=self._order)
        after = np.searchsorted(self._names, encoded, side="right", sorter=self._order)
        if int((after - first).max(initial=0)) > 1:  # units with the same name
            return np.concatenate([self._order[a:b] for a, b in zip(first, after, strict=True)])
        return self._order[first[after > first]]


class FoundFiles(Mapping[int, "ResultFile"]):
    """The files with results of units, by the index of the unit. Memory: 4 bytes a unit, and `UnitNames`."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names if isinstance(names, UnitNames) else UnitNames(names)
        self._files: list[ResultFile] = []
        self._file_numbers = np.full(len(self._names), -1, np.int32)

    def add(self, file: ResultFile, names: Sequence[str]) -> None:
        """Record that `file` has the results of the units with these names."""
        if found := self._names.find(names).tolist():
            self._file_numbers[found] = len(self._files)
            self._files.append(file)

    def __getitem__(self, index: int) -> ResultFile:
        number = int(self._file_numbers[index]) if index in self else -1
        if number < 0:
            raise KeyError(index)
        return self._files[number]

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and 0 <= index < len(self._file_numbers) and bool(self._file_numbers[index] >= 0)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._file_numbers >= 0))

    def __iter__(self) -> Iterator[int]:
        return (i for i, number in enumerate(self._file_numbers.data) if number >= 0)


@dataclass(slots=True)
class ResultFile:
    """A file with the results of a batch, which is read at the first `get`, and kept until every result was taken."""

    path: str
    _results: dict[str, bytes] | None = None

    def names(self) -> list[str]:
        """Return the names of the units with results in the file. Reads only the table."""
        with self._open() as file:
            return [name for name, _ in _read_table(file)]

    def get(self, name: str) -> bytes | None:
        if self._results is None or name not in self._results:
            with translate_os_errors(self.path, "read"), self._open() as file:
                file_size = os.fstat(file.fileno()).st_size
                check_whole_size(file_size, self.path, MAX_TABLE_BYTES)
                self._results = {name: file.read(min(size, file_size)) for name, size in _read_table(file)}
        found = self._results.pop(name, None)
        self._results = self._results or None
        return found

    def _open(self) -> BinaryIO:
        return open_own(self.path)


def _read_table(file: BinaryIO) -> list[tuple[str, int]]:
    """Return (name, bytes) of each result in the file; nothing if the table is damaged."""
    checksum, length = file.read(CRC_BYTES), int.from_bytes(file.read(LENGTH_BYTES), "little")
    table = file.read(length) if length <= scale_limit(MAX_TABLE_BYTES) else b""
    if not table or crc32(table).to_bytes(CRC_BYTES, "little") != checksum:
        return []
    try:
        return [(str(name), size) for name, size in read_json(table) if type(size) is int and size >= 0]
    except MALFORMED_ERRORS:
        return []
