"""Finds parts of a dataset, or files of a folder of media, by their file names: where they are, and what they are.

A lookup is a search in one index, whatever the number of names; what it finds is one ranged read away. The standard
library alone: who looks up names by the million does not want SQLAlchemy in between.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from wdsctl.core.catalog.database_file import error_of
from wdsctl.core.catalog.identity import DAMAGE, SAMPLE_ROWS, damaged, without_rows
from wdsctl.core.catalog.media_settings import FACT, FOLDER, KIND
from wdsctl.core.catalog.published import connect
from wdsctl.core.checked_file import UNFIT
from wdsctl.core.json_text import read_json
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.stored import Form, Numbers, facts_of
from wdsctl.core.naming import spellings

_SAMPLES = (
    "SELECT sample.id, shard.path, sample.offset, sample.parts FROM sample JOIN shard ON shard.id = sample.id >> 28 "
    "WHERE sample.key = ? ORDER BY sample.id"
)
_FILE = "SELECT id, path, size FROM file WHERE path = ?"
_FACTS = (
    f"SELECT {', '.join(f'media_form.{name}' for name in Form._fields)}, "
    f"{', '.join(f'media.{name}' for name in Numbers._fields)} "
    "FROM media JOIN media_form ON media_form.id = media.form WHERE sample = ?1 AND (?2 IS NULL OR ext = ?2)"
)
_KEYFRAMES = "SELECT data FROM keyframes WHERE sample = ?1 AND (?2 IS NULL OR ext = ?2)"


class Named(NamedTuple):
    """Where the bytes of a name are."""

    sample: int  # the sample's id; of a folder of media, the file's
    ext: int | None  # the number of the part; None in a folder of media
    path: str  # of the shard or the file, relative to the root
    offset: int
    size: int


class Names:
    """The names of one published catalog, which never changes. For one thread; close it, or use it in a `with`.

    Raises CatalogError WDS301, WDS302 and WDS303.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = connect(path)
        meta = dict(self._rows("SELECT key, value FROM meta"))
        self.is_media_folder: bool = meta.get(KIND) == FOLDER
        self.has_facts: bool = FACT in meta
        self._has_rows = meta.get(SAMPLE_ROWS) != "0"
        self._parts = {name: number for number, name in self._rows("SELECT id, name FROM ext")}

    def __enter__(self) -> Names:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def find(self, name: str) -> list[Named]:
        """Everything of this name (`a/b/7.seg.png`), in id order: nothing, one, or more where a key repeats.

        Raises CatalogError WDS307 where samples have no rows.
        """
        if self.is_media_folder:
            return [Named(number, None, path, 0, size) for number, path, size in self._rows(_FILE, name)]
        if not self._has_rows:
            raise without_rows(self._path)
        for key, part in spellings(name):
            if part in self._parts and (found := self._of(key, self._parts[part])):
                return found
        return []

    def _of(self, key: str, ext: int) -> list[Named]:
        found = []
        for sample, shard, start, parts in self._rows(_SAMPLES, key):
            # Of a part that a sample has twice, the last one counts, as everywhere.
            try:
                places = [(start + at, size) for number, at, size in read_json(parts) if number == ext][-1:]
                if any(type(at) is not int or type(size) is not int or min(at, size) < 0 for at, size in places):
                    raise ValueError(parts)
            except UNFIT as error:
                raise damaged(self._path, f"the parts of sample {sample} do not parse") from error
            found += [Named(sample, ext, shard, at, size) for at, size in places]
        return found

    def facts(self, named: Named) -> Facts | Unreadable | None:
        """What it is; None where the catalog has no facts of it."""
        rows = self._rows(_FACTS, named.sample, named.ext) if self.has_facts else []
        count = len(Form._fields)
        return facts_of(Form(*rows[0][:count]), Numbers(*rows[0][count:])) if rows else None

    def keyframes(self, named: Named) -> bytes | None:
        """Its `KeyframeIndex.to_bytes()`; None where it is no video that was indexed."""
        rows = self._rows(_KEYFRAMES, named.sample, named.ext) if self.has_facts else []
        return bytes(rows[0][0]) if rows else None

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except DAMAGE as error:
            raise damaged(self._path, error_of(self._path, error)) from error
