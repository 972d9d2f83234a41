"""Find the files that several samples name, so that a polylithic layout stores each of them once.

The first part that names a file, in the order of the output, owns it: the media dataset has the file under the key of
its sample. Every other part of the same dataset refers to that entry. SQL sorts the references, so that memory does not
grow with the samples.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from wdsctl.core.convert.parts import is_selected_part, transcoded_name
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.importers.common.files import REFERENCED_EXTENSIONS

#: `layout="auto"` is polylithic if repeated files cost at least this many bytes, and this share of all bytes.
MIN_REPEATED_BYTES = 64 << 20
MIN_REPEATED_SHARE = 0.1

#: The parts of the media dataset, if the request names none: all media, arrays and other files that rows name.
DEFAULT_MEDIA = tuple(sorted(REFERENCED_EXTENSIONS | {"bin"}))

_BATCH_ROWS = 10_000


class RepeatedFiles(NamedTuple):
    """What repeated files cost. `references`: parts whose file an earlier part stores; `files`: these files.

    `size_bytes`: of the repeats, in tars; `total_bytes`: of all samples with the repeats.
    """

    references: int
    files: int
    size_bytes: int
    total_bytes: int

    @property
    def are_costly(self) -> bool:
        return self.size_bytes >= max(MIN_REPEATED_BYTES, MIN_REPEATED_SHARE * self.total_bytes)


class FileReferences:
    """The references of samples to files, in a temporary table of the plan."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: list[tuple[int, str, bytes, int]] = []
        connection.execute("CREATE TEMP TABLE reference(g INTEGER, part TEXT, file BLOB, size INTEGER)")

    def add(self, g: int, references: Iterable[tuple[str, bytes, int]]) -> None:
        """Add references of the sample `g`: (part, digest of the file and of how it is written, bytes in a tar)."""
        self._rows += [(g, *reference) for reference in references]
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        self._connection.executemany("INSERT INTO reference VALUES (?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def find_repeated(self, *, is_ordered: bool) -> RepeatedFiles:
        """Fill the temporary table `repeated` with the references that an earlier one of the same group makes needless.

        `is_ordered`: whether the table `ordered` has the positions.
        """
        self.flush()
        position, join = ("ordered.pos", "JOIN ordered ON ordered.g = reference.g") if is_ordered else ("entry.g", "")
        self._connection.execute(
            "CREATE TEMP TABLE repeated AS SELECT g, pos, part, owner, owner_part, size FROM ("
            "SELECT g, pos, part, size, first_value(pos) OVER same AS owner, first_value(part) OVER same AS owner_part "
            f"FROM (SELECT entry.g AS g, {position} AS pos, part, grp, file, reference.size AS size "
            f"FROM reference JOIN entry ON entry.g = reference.g {join}) "
            "WINDOW same AS (PARTITION BY grp, file ORDER BY pos, part)"
            ") WHERE pos <> owner OR part <> owner_part"
        )
        query = "SELECT count(*), coalesce(sum(size), 0) FROM repeated"
        references, size_bytes = self._connection.execute(query).fetchone()
        files = self._connection.execute("SELECT count(*) FROM (SELECT DISTINCT owner, owner_part FROM repeated)")
        total = self._connection.execute("SELECT coalesce(sum(size), 0) FROM entry")
        return RepeatedFiles(references, files.fetchone()[0], size_bytes, total.fetchone()[0])

    def share_repeated(self) -> None:
        """Write the table `shared`, and subtract the bytes of repeated files from the samples that refer to them."""
        self._connection.execute("INSERT INTO shared SELECT pos, part, owner, owner_part FROM repeated")
        sums = self._connection.execute("SELECT sum(size), sum(size), g FROM repeated GROUP BY g")
        self._connection.executemany("UPDATE entry SET size = size - ?, media = media - ? WHERE g = ?", sums)


def file_digester(request: ConvertRequest) -> Callable[[str, str], bytes | None]:
    """A function of a part's new name and file: a digest, equal for parts that can share one entry; None if none can.

    Parts share an entry if they have the same extension and the same transcoding. With `on_error="keep"`, a part that
    cannot be transcoded keeps its name, which is not known before: such parts share nothing.
    """

    @lru_cache(maxsize=10_000)
    def treatment(name: str) -> str | None:
        is_transcoded = [
            options is not None and is_selected_part(name, options) for options in (request.image, request.audio)
        ]
        if any(is_transcoded) and request.on_error == "keep":
            return None
        return f"{transcoded_name(name, request.image, request.audio).rpartition('.')[2]}\0{is_transcoded}"

    def digest(name: str, file: str) -> bytes | None:
        way = treatment(name)
        if way is None:
            return None
        return blake2b(f"{way}\0{file}".encode("utf-8", "surrogateescape"), digest_size=16).digest()

    return digest
