"""A light primary and the media it refers to, as one source: each sample with its media in it again.

As `convert --layout polylithic` wrote it; a blend file of one's own, with the field of JSON that names the media; or a
prepared dataset whose dataset.yaml says which fields name entries of which stores (`refs:`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import TracebackType
from typing import Any

from wdsctl.core.beneath import check_beneath, check_store
from wdsctl.core.blend_file.nodes import from_yaml, plain
from wdsctl.core.blend_file.paths import aux_meant
from wdsctl.core.checks.refs import names_at
from wdsctl.core.convert.importers.shards import OPTIONS as SHARDS_OPTIONS
from wdsctl.core.convert.importers.shards import ShardsSource
from wdsctl.core.convert.media_lookup import PreparedStore, Store, open_store
from wdsctl.core.convert.references import REFERENCES, not_ours, parts_of
from wdsctl.core.convert.source import Entry, Known, LargePart, Options, Part, Recognised
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, UsageError
from wdsctl.core.json_text import read_json
from wdsctl.core.place import Place, locate
from wdsctl.core.regular_file import regular

MARK = "polylithic.json"
LARGE = 64 << 20  # bytes: what is larger is handed on by its range

_HINT = "such as `-O media=image`, or `-O media=image,sound` where a sample has two"


@dataclass(frozen=True, slots=True)
class Layout:
    """`fields`: of JSON, that name media; empty where the primary is ours. `stores`: the store of each of them."""

    primary: str
    stores: tuple[str, ...]
    fields: tuple[str, ...] = ()
    form: str = "tar"


class PolylithicSource:
    """Places are those of the primary. `options`: how it is opened, as of any dataset of shards."""

    def __init__(self, layout: Layout, options: Options | None = None) -> None:
        options = options or {}
        self._layout = layout
        self._primary = ShardsSource(locate(layout.primary, options.get("catalog")), options)
        self._stores: Sequence[Store] = [open_store(path) for path in layout.stores]

    def __enter__(self) -> PolylithicSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._primary.__exit__(kind, error, at)

    @property
    def primary(self) -> ShardsSource:
        """Its places are those of this source."""
        return self._primary

    @property
    def store(self) -> PreparedStore | None:
        """The store whose samples have the keys of the primary's; None where a field names media as it likes."""
        store = None if self._layout.fields else self._stores[0]
        return store if isinstance(store, PreparedStore) else None

    @property
    def is_lines(self) -> bool:
        """Whether the primary is lines that hold the parts, so that its own parts are not those of the samples."""
        return self._layout.form == "jsonl"

    @property
    def split_names(self) -> tuple[str, ...]:
        return self._primary.split_names

    @property
    def places(self) -> tuple[Place, ...]:
        """The datasets that are read by their catalogs."""
        stores = (store.place for store in self._stores if store.place is not None)
        return tuple(dict.fromkeys((self._primary.place, *stores)))

    def mark(self) -> bytes:
        return self._marked(self._primary.mark())

    def files_mark(self) -> bytes:
        """Names what the files of the primary and of the stores are like now."""
        return self._marked(self._primary.files_mark())

    def _marked(self, primary: bytes) -> bytes:
        marks = b"".join([primary, *(store.mark() for store in self._stores)])
        return blake2b(repr(self._layout).encode() + marks, digest_size=16).digest()

    def entries(self) -> Iterator[Entry]:
        for known in self.known():
            yield Entry(known.key, sum(size for _, size in known.parts))

    def known(self) -> Iterator[Known]:
        for known in self._primary.known():
            yield known._replace(parts=tuple(sorted(self._parts(known))))

    def _parts(self, known: Known) -> list[tuple[str, int]]:
        """(name, bytes) of all parts; none where the sample has a fault, which is told when it is read."""
        if self._is_plain:
            own = [part for part in known.parts if part[0] != REFERENCES]
            return [*own, *self._stores[0].parts(known.key)]
        try:
            parts, references = self._own(known.place)
            media = [(name, store.find(entry)) for name, store, entry in references]
        except DatasetError:
            return []
        return [*((part.name, len(part.data)) for part in parts), *((name or it.name, it.size) for name, it in media)]

    @property
    def _is_plain(self) -> bool:
        """Whether all that a sample has follows from its key: nothing need be read to list it."""
        return not self._layout.fields and self._layout.form != "jsonl"

    def read(self, place: int) -> tuple[Part, ...]:
        return tuple(Part(part.name, part.data) for part in self.read_some(place, lambda _name: True))

    def read_some(self, place: int, wanted: Callable[[str], bool]) -> tuple[Part | LargePart, ...]:
        own, references = self._own(place)
        made: list[Part | LargePart] = [part for part in own if wanted(part.name)]
        for name, store, entry in references:
            found = store.find(entry)
            called = name or found.name
            if wanted(called):
                large = replace(found, name=called)
                made.append(large if found.size >= LARGE else Part(called, large.data))
        return tuple(sorted(made, key=lambda part: part.name))

    def will_need(self, places: list[int]) -> None:
        self._primary.will_need(places)

    def _own(self, place: int) -> tuple[list[Part], list[tuple[str, Store, str]]]:
        """The parts of the primary, and (part, store, entry) of what they refer to."""
        parts = list(self._primary.read(place))
        if self._layout.fields:
            return parts, list(self._named(parts))
        if self._layout.form == "jsonl":
            line = _object(parts, "json")
            return parts_of(line), [(name, self._stores[0], entry) for name, entry in _texts(line.get("media"))]
        references = _object(parts, REFERENCES)
        own = [part for part in parts if part.name != REFERENCES]
        return own, [(name, self._stores[0], entry) for name, entry in _texts(references)]

    def _named(self, parts: Sequence[Part]) -> Iterator[tuple[str, Store, str]]:
        line = _object(parts, "json")
        for field, store in zip(self._layout.fields, self._stores, strict=True):
            word = "" if len(self._layout.fields) == 1 else field.rpartition(".")[2]
            is_one = isinstance(_at(line, field), str)
            for number, value in enumerate(names_at(line, field)):
                if not isinstance(value, str):
                    raise not_ours(f"the field {field} is no name of a medium")
                before = [each for each in (word, "" if is_one else str(number)) if each]
                ending = value.rpartition("/")[2].partition(".")[2]
                yield ".".join([*before, ending]) if before else "", store, value


def _at(value: Any, field: str) -> Any:
    for step in field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _object(parts: Sequence[Part], name: str) -> dict[str, Any]:
    for part in parts:
        if part.name == name:
            try:
                value = json.loads(part.data)
            except (ValueError, RecursionError) as error:
                raise not_ours(f"the part {name} does not parse") from error
            if isinstance(value, dict):
                return value
    raise not_ours(f"a sample has no part {name} that is an object")


def _texts(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise not_ours("the references of a sample are no object of names")
    return sorted(value.items())


class PolylithicImporter:
    """`-O media=FIELD,...` of a blend file of one's own; `-O store=NAME,...` where it has several stores.

    Of a prepared dataset the engine names the fields and their stores, `refs`, as dataset.yaml has them.
    """

    name = "polylithic"
    about = "a light primary and its media, as --layout polylithic writes them; or a blend file with aux stores"

    def recognise(self, path: str) -> Recognised | None:
        """By our mark, or as a blend file with stores."""
        if os.path.isfile(os.path.join(path, MARK)):
            return Recognised(1.0, f"there is a {MARK} in it")
        if path.lower().endswith((".yaml", ".yml")) and os.path.isfile(path):
            return Recognised(0.9, "it is a blend file")
        return None

    def open(self, path: str, options: Options) -> PolylithicSource:
        """Raises InputError, UsageError, CatalogError where a dataset was not prepared."""
        if "refs" in options:
            own = {name: value for name, value in options.items() if name in SHARDS_OPTIONS}
            return PolylithicSource(_of_refs(path, options), own)
        unknown = sorted(set(options) - {"media", "store", "split"})
        if unknown:
            raise UsageError(f"polylithic has no option {unknown[0]!r}", hint="it has media, store and split")
        if os.path.isdir(path):
            return PolylithicSource(_ours(path))
        return PolylithicSource(_of_blend(path, options))


def _ours(path: str) -> Layout:
    try:
        with open(os.path.join(path, MARK), encoding="utf-8", opener=regular) as file:
            said = read_json(file.read())
        primary, media = os.path.join(path, said["primary"]), os.path.join(path, said["media"])
        check_beneath(primary, path)
        check_beneath(media, path)
        return Layout(primary, (media,), (), said["form"])
    except PermissionDenied:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"its {MARK} cannot be read: {error}"
        raise InputError(message, where=path, hint="convert the original again") from error


def _of_refs(path: str, options: Options) -> Layout:
    unknown = sorted(set(options) - {"refs", "media", *SHARDS_OPTIONS})
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r} here", hint="`-O media=FIELD,...` chooses fields")
    refs: dict[str, str] = read_json(options["refs"])
    fields = tuple(filter(None, options.get("media", "").split(","))) or tuple(refs)
    for field in fields:
        if field not in refs:
            hint = f"its dataset.yaml has {', '.join(refs)} under `refs:`"
            raise UsageError(f"nothing says where the media of {field} are", where=path, hint=hint)
    folder = locate(path, options.get("catalog")).root
    stores = {field: aux_meant(refs[field], folder) for field in fields}
    for field, store in stores.items():
        check_store(store, folder, f"{path}, refs: {field}")
    return Layout(path, tuple(stores.values()), fields)


def _of_blend(path: str, options: Options) -> Layout:
    try:
        with open(path, encoding="utf-8", opener=regular) as file:
            text = file.read()
    except (OSError, ValueError) as error:
        raise InputError(f"the blend file cannot be read: {error}", where=path, hint="check it") from error
    said = plain(from_yaml(text, path))
    leaf = _leaf(said, options.get("split", "train"))
    if leaf is None:
        raise InputError(
            "it does not name one dataset with `path` and `aux`",
            where=path,
            hint="name the primary of one split: `-O split=train`; blends of several are converted one by one",
        )
    fields = tuple(filter(None, options.get("media", "").split(",")))
    if not fields:
        raise UsageError("which field of JSON names the media?", where=path, hint=_HINT)
    here = os.path.dirname(os.path.abspath(path))
    names = tuple(filter(None, options.get("store", "").split(","))) or tuple(leaf["aux"])[:1] * len(fields)
    unknown = [name for name in names if name not in leaf["aux"]]
    if unknown or len(names) != len(fields):
        known = ", ".join(leaf["aux"])
        raise UsageError(f"the stores do not fit the fields: {', '.join(names)}", where=path, hint=f"there are {known}")
    stores = tuple(_beside(here, str(leaf["aux"][name])) for name in names)
    for name, store in zip(names, stores, strict=True):
        check_store(store, here, f"{path}, aux: {name}")
    return Layout(_beside(here, str(leaf["path"])), stores, fields)


def _beside(folder: str, reference: str) -> str:
    scheme, slashes, rest = reference.rpartition("://")
    return f"{scheme}{slashes}{os.path.join(folder, rest)}"


def _leaf(said: Any, split: str) -> Mapping[str, Any] | None:
    """The entry with `path` and `aux`, below `splits: SPLIT` or at the top."""
    node = said
    if isinstance(said, dict) and "splits" in said:
        node = said["splits"].get(split) if isinstance(said["splits"], dict) else None
    while isinstance(node, dict) and "path" not in node and len(node) == 1:
        (node,) = node.values()
        node = node[0] if isinstance(node, list) and len(node) == 1 else node
    is_leaf = isinstance(node, dict) and "path" in node and isinstance(node.get("aux"), dict) and node["aux"]
    return node if is_leaf else None


IMPORTER = PolylithicImporter()
