"""A light primary and the media it refers to, as one source of complete samples.

The layout comes from `convert --layout polylithic`; from a blend file, with the JSON field that names the media; or
from a prepared dataset whose dataset.yaml maps fields to stores (`refs:`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import TracebackType
from typing import Any

from wdsctl.core.blend.yaml_tree import from_yaml, node_value, resolve_aux_path
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.dataset.polylithic import MARKER_FILE, REFERENCES_PART, is_polylithic, read_polylithic_folder
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.file_limits import read_whole
from wdsctl.core.importers.protocol import (
    FilePart,
    FormatMatch,
    Options,
    Part,
    SampleListing,
    SourceEntry,
    file_identity,
)
from wdsctl.core.importers.references import (
    MediaStore,
    PreparedMediaStore,
    foreign_primary_error,
    missing_object_error,
    open_media_store,
    parse_json_part,
    parts_of_line,
    reference_items,
)
from wdsctl.core.importers.shards import SHARDS_OPTIONS, ShardsSource
from wdsctl.core.json_text import read_json, values_at_path
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.safe_open import check_store
from wdsctl.core.storage import source_files

LARGE_PART_BYTES = 64 << 20  # media of this size and more are returned as ranges

_MEDIA_OPTION_HINT = "pass `-O media=image`, or `-O media=image,sound` for two media per sample"


@dataclass(frozen=True, slots=True)
class Layout:
    """The primary and the stores of a polylithic dataset.

    `fields`: the JSON fields that name media; empty for a primary that `convert` wrote. `stores`: one per field.
    `form`: the format of the primary, `tar` or `jsonl`. `is_shared`: whether samples refer to media under other keys.
    """

    primary: str
    stores: tuple[str, ...]
    fields: tuple[str, ...] = ()
    form: str = "tar"
    is_shared: bool = False


class PolylithicSource:
    """The complete samples of a primary and its media. Sample indexes are those of the primary.

    `options`: how to open the primary, as for `ShardsSource`.
    """

    def __init__(self, layout: Layout, options: Options | None = None) -> None:
        options = options or {}
        self._layout = layout
        self._primary = ShardsSource(open_dataset(layout.primary, options.get("catalog")).location, options)
        self._stores: Sequence[MediaStore] = [open_media_store(path) for path in layout.stores]

    def __enter__(self) -> PolylithicSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._primary.__exit__(kind, error, at)

    @property
    def primary(self) -> ShardsSource:
        """The source of the primary, which has the same sample indexes."""
        return self._primary

    @property
    def store(self) -> PreparedMediaStore | None:
        """The media dataset of a primary that `convert` wrote; None if fields name the media, or for a folder."""
        store = None if self._layout.fields else self._stores[0]
        return store if isinstance(store, PreparedMediaStore) else None

    @property
    def is_jsonl(self) -> bool:
        """Whether the primary is JSONL that `convert` wrote: its lines contain the parts of the samples."""
        return self._layout.form == "jsonl"

    @property
    def split_names(self) -> tuple[str, ...]:
        return self._primary.split_names

    @property
    def locations(self) -> tuple[DatasetLocation, ...]:
        """The datasets that are read through their catalogs: the primary, and stores that are prepared."""
        stores = (store.location for store in self._stores if store.location is not None)
        return tuple(dict.fromkeys((self._primary.location, *stores)))

    def digest(self) -> bytes:
        return self._combine_digest(self._primary.digest(), self._stores)

    def files_digest(self) -> bytes:
        """A digest of the current state of the files of the primary and of the prepared stores.

        A plain folder may get files that no sample names.
        """
        prepared = [store for store in self._stores if store.location is not None]
        return self._combine_digest(self._primary.files_digest(), prepared)

    def _combine_digest(self, primary_digest: bytes, stores: Sequence[MediaStore]) -> bytes:
        marks = b"".join([primary_digest, *(store.digest() for store in stores)])
        return blake2b(repr(self._layout).encode() + marks, digest_size=16).digest()

    def entries(self) -> Iterator[SourceEntry]:
        for known in self.list_samples():
            yield SourceEntry(known.key, sum(size for _, size in known.parts))

    def list_samples(self) -> Iterator[SampleListing]:
        for known in self._primary.list_samples():
            parts = sorted(self._list_parts(known))
            files = tuple(file for *_, file in parts)
            yield known._replace(
                parts=tuple((name, size) for name, size, _ in parts), files=files if any(files) else ()
            )

    def _list_parts(self, known: SampleListing) -> list[tuple[str, int, str]]:
        """(name, bytes, file) of all parts; empty if the sample has a fault, which is raised when it is read."""
        if self._is_listed_by_key:
            own = [part for part in known.parts if part[0] != REFERENCES_PART]
            return [(*part, "") for part in (*own, *self._stores[0].parts(known.key))]
        try:
            parts, references = self._primary_parts(known.sample_index)
            media = [(name, store.find_entry(entry)) for name, store, entry in references]
        except DatasetError:
            return []
        return [
            *((part.name, len(part.data), "") for part in parts),
            *((name or it.name, it.size, file_identity(it)) for name, it in media),
        ]

    @property
    def _is_listed_by_key(self) -> bool:
        """Whether the key alone locates all parts of a sample, so that listing reads no samples."""
        return not (self._layout.fields or self._layout.is_shared) and self._layout.form != "jsonl"

    def read(self, sample_index: int) -> tuple[Part, ...]:
        return tuple(Part(part.name, part.data) for part in self.read_selected(sample_index, lambda _name: True))

    def read_selected(self, sample_index: int, is_selected: Callable[[str], bool]) -> tuple[Part | FilePart, ...]:
        own, references = self._primary_parts(sample_index)
        parts_read: list[Part | FilePart] = [part for part in own if is_selected(part.name)]
        for name, store, entry in references:
            found = store.find_entry(entry)
            part_name = name or found.name
            if is_selected(part_name):
                large = replace(found, name=part_name)
                parts_read.append(large if found.size >= LARGE_PART_BYTES else Part(part_name, large.data))
        return tuple(sorted(parts_read, key=lambda part: part.name))

    def prefetch(self, sample_indexes: list[int]) -> None:
        self._primary.prefetch(sample_indexes)

    def shard_of(self, sample_index: int) -> str:
        return self._primary.shard_of(sample_index)

    def _primary_parts(self, sample_index: int) -> tuple[list[Part], list[tuple[str, MediaStore, str]]]:
        """(parts of the primary, [(part name, store, entry)] of the media that they refer to)."""
        parts = list(self._primary.read(sample_index))
        if self._layout.fields:
            return parts, list(self._field_references(parts))
        if self._layout.form == "jsonl":
            line = _json_part(parts, "json")
            return parts_of_line(line), [
                (name, self._stores[0], entry) for name, entry in reference_items(line.get("media"))
            ]
        references = _json_part(parts, REFERENCES_PART)
        own = [part for part in parts if part.name != REFERENCES_PART]
        return own, [(name, self._stores[0], entry) for name, entry in reference_items(references)]

    def _field_references(self, parts: Sequence[Part]) -> Iterator[tuple[str, MediaStore, str]]:
        line = _json_part(parts, "json")
        for field, store in zip(self._layout.fields, self._stores, strict=True):
            word = "" if len(self._layout.fields) == 1 else field.rpartition(".")[2]
            is_one = isinstance(_nested_value(line, field), str)
            for number, value in enumerate(values_at_path(line, field)):
                if not isinstance(value, str):
                    raise foreign_primary_error(f"the field {field} does not name a media file")
                before = [each for each in (word, "" if is_one else str(number)) if each]
                ending = value.rpartition("/")[2].partition(".")[2]
                yield ".".join([*before, ending]) if before else "", store, value


def _nested_value(value: Any, field: str) -> Any:
    for step in field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _json_part(parts: Sequence[Part], name: str) -> dict[str, Any]:
    for part in parts:
        if part.name == name:
            return parse_json_part(part.data, name)
    raise missing_object_error(name)


class PolylithicImporter:
    """Options for a blend file: `-O media=FIELD,...`; `-O store=NAME,...` if it has several stores; `-O split=NAME`.
    Of a folder that `convert` wrote, `split` and `view` select samples of the primary.

    For a prepared dataset, `convert` passes the internal option `refs`: fields and their stores, from dataset.yaml.
    """

    name = "polylithic"
    about = "a primary and its media, written by --layout polylithic; or a blend file with aux stores"

    def recognise(self, path: str) -> FormatMatch | None:
        """Match `polylithic.json` in a folder, or a YAML file."""
        if is_polylithic(path):
            return FormatMatch(1.0, f"the folder has a {MARKER_FILE}")
        if path.lower().endswith((".yaml", ".yml")) and source_files.is_file(path):
            return FormatMatch(0.9, "the file is a blend file")
        return None

    def open(self, path: str, options: Options) -> PolylithicSource:
        """Raises InputError, UsageError; CatalogError if a dataset is not prepared."""
        if "refs" in options:
            own = {name: value for name, value in options.items() if name in SHARDS_OPTIONS}
            return PolylithicSource(_layout_of_refs(path, options), own)
        is_folder = source_files.is_folder(path)
        unknown = sorted(set(options) - {"media", "store", "split"} - ({"view"} if is_folder else set()))
        if unknown:
            raise UsageError(f"polylithic has no option {unknown[0]!r}", hint="use its options media, store and split")
        if is_folder:
            selection = {name: value for name, value in options.items() if name in ("split", "view")}
            return PolylithicSource(_read_layout(path), selection)
        return PolylithicSource(_layout_of_blend(path, options))


def _read_layout(path: str) -> Layout:
    folder = read_polylithic_folder(path)
    return Layout(folder.primary, (folder.media,), (), folder.form, is_shared=folder.is_shared)


def _layout_of_refs(path: str, options: Options) -> Layout:
    unknown = sorted(set(options) - {"refs", "media", *SHARDS_OPTIONS})
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r}", hint="pass `-O media=FIELD,...` to choose fields")
    refs: dict[str, str] = read_json(options["refs"])
    fields = tuple(filter(None, options.get("media", "").split(","))) or tuple(refs)
    for field in fields:
        if field not in refs:
            hint = f"its dataset.yaml has {', '.join(refs)} under `refs:`"
            raise UsageError(f"no store for the media of {field}", where=path, hint=hint)
    folder = locate(path, options.get("catalog")).root
    stores = {field: resolve_aux_path(refs[field], folder) for field in fields}
    for field, store in stores.items():
        check_store(store, folder, f"{path}, refs: {field}")
    return Layout(path, tuple(stores.values()), fields)


def _layout_of_blend(path: str, options: Options) -> Layout:
    try:
        with source_files.open_file(path) as file:
            text = read_whole(file, path).decode()
    except (OSError, ValueError) as error:
        raise InputError(f"the blend file cannot be read: {error}", where=path, hint="check it") from error
    content = node_value(from_yaml(text, path))
    leaf = _find_blend_leaf(content, options.get("split", "train"))
    if leaf is None:
        raise InputError(
            "the file does not name exactly one dataset with `path` and `aux`",
            where=path,
            hint="pass the split to convert, such as `-O split=train`; convert the datasets of a larger blend one "
            "by one",
        )
    fields = tuple(filter(None, options.get("media", "").split(",")))
    if not fields:
        raise UsageError("missing option: the JSON field that names the media", where=path, hint=_MEDIA_OPTION_HINT)
    here = os.path.dirname(source_files.absolute(path))
    names = tuple(filter(None, options.get("store", "").split(","))) or tuple(leaf["aux"])[:1] * len(fields)
    unknown = [name for name in names if name not in leaf["aux"]]
    if unknown or len(names) != len(fields):
        known = ", ".join(leaf["aux"])
        raise UsageError(
            f"cannot assign the stores {', '.join(names)} to the fields {', '.join(fields)}",
            where=path,
            hint=f"pass one store for each field with `-O store=...`; the stores are {known}",
        )
    stores = tuple(_join_reference(here, str(leaf["aux"][name])) for name in names)
    for name, store in zip(names, stores, strict=True):
        check_store(store, here, f"{path}, aux: {name}")
    return Layout(_join_reference(here, str(leaf["path"])), stores, fields)


def _join_reference(folder: str, reference: str) -> str:
    scheme, slashes, rest = reference.rpartition("://")
    return f"{scheme}{slashes}{os.path.join(folder, rest)}"


def _find_blend_leaf(content: Any, split: str) -> Mapping[str, Any] | None:
    """The entry with `path` and `aux`, below `splits: SPLIT` or at the top; None if there is not exactly one."""
    node = content
    if isinstance(content, dict) and "splits" in content:
        node = content["splits"].get(split) if isinstance(content["splits"], dict) else None
    while isinstance(node, dict) and "path" not in node and len(node) == 1:
        (node,) = node.values()
        node = node[0] if isinstance(node, list) and len(node) == 1 else node
    is_leaf = isinstance(node, dict) and "path" in node and isinstance(node.get("aux"), dict) and node["aux"]
    return node if is_leaf else None


IMPORTER = PolylithicImporter()
