"""References from the primary of a polylithic dataset to its media: their encoding, and the stores they lead to.

In tars, a sample has a part `refs.json`: an object of part -> entry of the media dataset. In JSONL, a sample is one
object:

    key    the sample's key
    media  part -> entry of the media dataset (`KEY.PART`)
    parts  part -> its text, its JSON value, or its bytes in base64
    as     part -> `base64`, or the style of its JSON, for parts that are not plain text

The style restores the bytes of a JSON part: a part is stored as a JSON value only if `json.dumps` returns exactly its
bytes. A store resolves an entry to a range of a file.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import REFERENCES_PART
from wdsctl.core.errors import DatasetError, translate_os_errors
from wdsctl.core.importers.common.folder_files import digest_of_folder
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.importers.shards import shards_digest
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.key_index import open_key_index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.samples.naming import possible_keys, split_name
from wdsctl.core.storage import source_files

#: Style of JSON -> the arguments of `json.dumps` that write it.
_JSON_STYLES: Mapping[str, dict[str, Any]] = {
    "json": {"ensure_ascii": False},
    "json ascii": {"ensure_ascii": True},
    "json compact": {"ensure_ascii": False, "separators": (",", ":")},
    "json compact ascii": {"ensure_ascii": True, "separators": (",", ":")},
    "json indent": {"ensure_ascii": False, "indent": 2},
}
_MAX_JSON_BYTES = 1 << 20  # longer JSON is stored as text


def make_references_part(media: Mapping[str, str]) -> Part:
    """The part that names the media of a sample. `media`: part -> entry of the media dataset."""
    return Part(REFERENCES_PART, _dump_json(dict(sorted(media.items()))))


def encode_line(key: str, parts: Sequence[Part | FilePart], media: Mapping[str, str]) -> bytes:
    """Encode a sample without its media as one line, without the line end. `media`: part -> its entry."""
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for part in parts:
        values[part.name], how = _encode_value(part.data, is_json=part.name.rpartition(".")[2] == "json")
        if how:
            spelled[part.name] = how
    line: dict[str, Any] = {"key": key, "media": dict(sorted(media.items())), "parts": values}
    return _dump_json(line | ({"as": spelled} if spelled else {}))


def parts_of_line(line: Mapping[str, Any]) -> list[Part]:
    """The parts of a line that `encode_line` wrote. Raises DatasetError WDS343 for any other line."""
    try:
        spelled = line.get("as", {})
        return [
            Part(name, _decode_value(value, spelled.get(name, ""))) for name, value in sorted(line["parts"].items())
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise foreign_primary_error("a line of the primary lacks the object of the sample's parts") from error


def parse_json_part(data: bytes, part: str) -> dict[str, Any]:
    """Parse a part of a primary. Raises DatasetError WDS343 if it is not a JSON object."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise foreign_primary_error(f"the part {part} is not JSON") from error
    if not isinstance(value, dict):
        raise missing_object_error(part)
    return value


def missing_object_error(part: str) -> DatasetError:
    return foreign_primary_error(f"a sample has no part {part} that is an object")


def reference_items(value: Any) -> list[tuple[str, str]]:
    """The references of a sample: (part, entry of the media dataset). Raises DatasetError WDS343 for another value."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise foreign_primary_error("the references of a sample are not an object of names")
    return sorted(value.items())


def foreign_primary_error(message: str) -> DatasetError:
    """The error WDS343 for a primary that `convert` did not write."""
    return DatasetError(message, hint="convert the original dataset again with `--layout polylithic`", code="WDS343")


def _encode_value(data: bytes, *, is_json: bool) -> tuple[Any, str]:
    """(value for the line, style of the value; empty for plain text)."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
    if is_json and len(data) <= _MAX_JSON_BYTES:
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
            for how, options in _JSON_STYLES.items():
                for end in ("", "\n"):
                    if json.dumps(value, **options) + end == text:
                        return value, how + (" newline" if end else "")
        except (ValueError, RecursionError):
            return text, ""
    return text, ""


def _decode_value(value: Any, style: str) -> bytes:
    if not style:
        if not isinstance(value, str):
            raise TypeError("text is expected")
        return value.encode()
    if style == "base64":
        return b64decode(value, validate=True)
    spelling = style.removesuffix(" newline")
    return (json.dumps(value, **_JSON_STYLES[spelling]) + ("\n" if spelling != style else "")).encode()


def _dump_json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair: JSON can escape it, UTF-8 cannot encode it
        return json.dumps(value, separators=(",", ":")).encode()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


class MediaStore(Protocol):
    @property
    def location(self) -> DatasetLocation | None:
        """The location of the store's dataset; None for a plain folder."""

    def find_entry(self, name: str) -> FilePart:
        """The entry with this name. Raises DatasetError WDS343 if there is none, or more than one."""

    def parts(self, key: str) -> tuple[tuple[str, int], ...]:
        """(name, bytes) of all parts of a sample; empty if no sample has this key."""

    def digest(self) -> bytes:
        """A digest of the current state of the store's files."""


class PreparedMediaStore:
    """A prepared dataset as a store. Entries are named `KEY.PART`."""

    def __init__(self, location: DatasetLocation) -> None:
        self._location = location
        self._root = location.root
        with OpenDataset(location) as dataset:
            self._offsets = dataset.offsets()
        self._names = open_key_index(location, self._offsets)

    @property
    def location(self) -> DatasetLocation:
        return self._location

    @property
    def offsets(self) -> Offsets:
        return self._offsets

    def rows(self, key: str) -> Iterator[int]:
        """Yield the row in `offsets` of the sample with this key, if there is one.

        Raises DatasetError WDS343 if several samples have the key.
        """
        return self._rows(key, key)

    def find_entry(self, name: str) -> FilePart:
        for key, part in possible_keys(name):
            for row in self._rows(key, name):
                for found, offset, size in self._offsets.parts(row):
                    if found == part:
                        shard = self._offsets.shards[self._offsets.shard_of(row)]
                        return FilePart(part, os.path.join(self._root, shard.path), offset, size, self._root)
        raise _missing_entry_error(name, self._root)

    def parts(self, key: str) -> tuple[tuple[str, int], ...]:
        return tuple((name, size) for row in self._rows(key, key) for name, _, size in self._offsets.parts(row))

    def digest(self) -> bytes:
        return shards_digest(self._location, self._offsets)

    def _rows(self, key: str, name: str) -> Iterator[int]:
        rows = self._names.find(key).rows
        if len(rows) > 1:
            raise DatasetError(
                f"{len(rows)} samples of the store have the key {key!r}",
                where=f"{self._root}, entry {name}",
                hint="make the keys of the store unique: `wdsctl convert STORE DEST --on-collision prefix`",
                code="WDS343",
            )
        yield from rows


class FolderMediaStore:
    """A plain folder as a store. Entries are named by their path below it.

    Reads nothing outside of the folder, not through links either.
    """

    location: None = None

    def __init__(self, root: str) -> None:
        self._root = source_files.resolve_links(root)

    def find_entry(self, name: str) -> FilePart:
        path = source_files.resolve_links(os.path.join(self._root, name))
        if os.path.isabs(name) or ".." in name.split("/") or os.path.commonpath([path, self._root]) != self._root:
            raise DatasetError(
                "a reference leads out of its folder",
                where=f"{self._root}, entry {name}",
                hint="write references as paths below the folder, without `..`",
                code="WDS552",
            )
        if not source_files.is_file(path):
            raise _missing_entry_error(name, self._root)
        with translate_os_errors(path, "read"):
            return FilePart((split_name(name) or ("", ""))[1], path, 0, source_files.stat_file(path).size, self._root)

    def parts(self, key: str) -> tuple[tuple[str, int], ...]:  # noqa: ARG002
        return ()

    def digest(self) -> bytes:
        return digest_of_folder(self._root, self._list_files())

    def _list_files(self) -> Iterator[str]:
        """The paths of all files below the folder, in a stable order. Follows no links to folders."""
        for folder, folders, names in source_files.walk(self._root):
            folders.sort()
            yield from (os.path.relpath(os.path.join(folder, name), self._root) for name in sorted(names))


def open_media_store(path: str) -> MediaStore:
    """Open a store: a prepared dataset if the path has a catalog, otherwise a plain folder (also `filesystem://DIR`)."""
    if path.startswith("filesystem://"):
        return FolderMediaStore(path.removeprefix("filesystem://"))
    location = open_dataset(path).location
    return PreparedMediaStore(location) if source_files.exists(location.catalog_path) else FolderMediaStore(path)


def _missing_entry_error(name: str, root: str) -> DatasetError:
    return DatasetError(
        f"the store has no file {name!r}",
        where=root,
        hint="list the names in the store: `wdsctl ls STORE`",
        code="WDS343",
    )
