"""The interface of the cache that a cooker gets as `cache`, and `NoCachePool`, which reads from the stores.

`Lazy` is media that is read on demand: packing chooses samples by their facts, and most samples wait long before their
media is needed. Cached values are serialized without pickle:

`WDSVAL1\\n`, u64 length of a JSON description, the description, then the buffers. The description of a value is a list:
["t", dtype, shape, size] a tensor, ["a", dtype, shape, size] an array, ["b", size] bytes, ["s", value] a string,
number, bool or None, ["d", [[key, value], ...]] a dict, ["l", [...]] a list, ["u", [...]] a tuple.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import GenericAlias
from typing import Any

import numpy as np
import torch

from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import read_json
from wdsctl.loader.stores.store import FileStore, StoreEntry, add_source

#: Reads and decodes an entry, from the cache or the store.
LoadEntry = Callable[[FileStore, StoreEntry], Any]


class Lazy:
    """Media that is read on demand: `lazy.get(sample)` reads, decodes, and adds its origin to `sample.__sources__`.

    Equal if they are the same entry of the same store. Pickled as a reference to the store and the pool.
    """

    __slots__ = ("_load", "entry", "store")

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        """`Lazy[AVDecoder]`, for annotations."""
        return GenericAlias(cls, item)

    def __init__(self, store: FileStore, entry: StoreEntry, load: LoadEntry) -> None:
        self.store = store
        self.entry = entry
        self._load = load

    def get(self, sample: Any = None) -> Any:
        """The decoded data; every call reads it again. Raises SampleFailed, StorageError."""
        data = self._load(self.store, self.entry)
        if sample is not None:
            add_source(sample, self.store.source_of(self.entry))
        return data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"Lazy({self.store.path!r}, {self.entry.name!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Lazy:
        """The same object: it is immutable."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazy, (self.store, self.entry, self._load)

    def _identity(self) -> tuple[str, str, StoreEntry]:
        return self.store.path, self.store.digest, self.entry


class CachedValue(Lazy):
    """A value that a cooker put into the cache; it has no origin. Pickled with the value."""

    __slots__ = ("__weakref__", "_value", "name")

    def __init__(self, name: str, value: Callable[[], Any]) -> None:
        self.name = name
        self._value = value

    def get(self, sample: Any = None) -> Any:  # noqa: ARG002 - it has no origin
        return self._value()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"CachedValue({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return hold_in_memory, (self.name, self.get())


def hold_in_memory(name: str, value: Any) -> CachedValue:
    """A value that stays in memory."""
    return CachedValue(name, lambda: value)


class CachePool(ABC):
    """The cache of a cooker. Batches and states do not depend on it."""

    def get(self, store: FileStore, name: str, sample: Any = None) -> Any:
        """Read and decode an entry now; adds its origin to `sample`, if given. Raises what `store.get` raises."""
        store, entry = store.base_store, store.find(name)
        data = self.load(store, entry)
        if sample is not None:
            add_source(sample, store.source_of(entry))
        return data

    def get_lazy(self, store: FileStore, name: str) -> Lazy:
        """An entry that is read on demand. Looks it up now, and raises what `store.find` raises."""
        store, entry = store.base_store, store.find(name)
        self.will_need(store, entry)
        return Lazy(store, entry, self.load)

    @abstractmethod
    def to_cache(self, obj: Any, name: str) -> Lazy:
        """Keep a value outside of memory, if possible, for as long as the returned object lives."""

    @abstractmethod
    def load(self, store: FileStore, entry: StoreEntry) -> Any:
        """Read and decode an entry."""

    @abstractmethod
    def will_need(self, store: FileStore, entry: StoreEntry) -> None:
        """Hint that the entry may be read later. Never raises."""

    @abstractmethod
    def open(self) -> None:
        """Open the cache before workers start, so that they share it. Never raises."""

    @abstractmethod
    def close(self) -> None: ...


class NoCachePool(CachePool):
    """No cache: reads from the stores on demand."""

    def to_cache(self, obj: Any, name: str) -> CachedValue:
        return hold_in_memory(name, obj)

    def load(self, store: FileStore, entry: StoreEntry) -> Any:
        return store.load(entry)

    def will_need(self, store: FileStore, entry: StoreEntry) -> None:
        """No effect."""

    def open(self) -> None:
        """No effect."""

    def close(self) -> None:
        """No effect."""


VALUE_MAGIC = b"WDSVAL1\n"


class UncacheableValueError(UsageError):
    """A value that cannot be serialized without pickle."""


def serialize_value(value: Any) -> bytes:
    """Tensors, arrays, bytes, strings, numbers and containers of them as bytes. Raises UncacheableValueError."""
    buffers: list[bytes] = []
    text = json.dumps(_describe_value(value, buffers)).encode()
    return b"".join([VALUE_MAGIC, len(text).to_bytes(8, "little"), text, *buffers])


def deserialize_value(data: bytes) -> Any:
    """The value from `serialize_value`; tensors are on the CPU."""
    length = int.from_bytes(data[8:16], "little")
    return _ValueReader(data, 16 + length).read_value(read_json(data[16 : 16 + length]))


def _describe_value(value: Any, buffers: list[bytes]) -> list[Any]:
    if type(value) is torch.Tensor and value.layout is torch.strided and not value.is_quantized:
        plain = value.detach().cpu().contiguous().reshape(-1)
        raw = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        buffers.append(raw)
        return ["t", str(value.dtype).removeprefix("torch."), list(value.shape), len(raw)]
    if type(value) is np.ndarray and not value.dtype.hasobject and value.dtype.names is None:
        raw = np.ascontiguousarray(value).tobytes()
        buffers.append(raw)
        return ["a", value.dtype.str, list(value.shape), len(raw)]
    if type(value) is bytes:
        buffers.append(value)
        return ["b", len(value)]
    if value is None or type(value) in (str, int, float, bool):
        return ["s", value]
    if type(value) is dict:
        return ["d", [[_describe_value(key, buffers), _describe_value(each, buffers)] for key, each in value.items()]]
    if type(value) in (list, tuple):
        return ["l" if type(value) is list else "u", [_describe_value(each, buffers) for each in value]]
    raise UncacheableValueError(f"cannot serialize {type(value).__name__}", hint="the value stays in memory")


class _ValueReader:
    """Reads a value and its buffers, in the order of the description."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    def read_value(self, description: list[Any]) -> Any:
        kind, *facts = description
        if kind == "t":
            dtype, shape, size = facts
            raw = torch.frombuffer(bytearray(self._take(size)), dtype=torch.uint8) if size else torch.empty(0)
            return (raw.view(getattr(torch, dtype)) if size else raw.to(getattr(torch, dtype))).reshape(shape)
        if kind == "a":
            dtype, shape, size = facts
            return np.frombuffer(bytearray(self._take(size)), dtype).reshape(shape)
        if kind == "b":
            return self._take(facts[0])
        if kind == "d":
            return {self.read_value(key): self.read_value(each) for key, each in facts[0]}
        if kind == "s":
            return facts[0]
        values = [self.read_value(each) for each in facts[0]]
        return values if kind == "l" else tuple(values)

    def _take(self, size: int) -> bytes:
        self._offset += size
        return self._data[self._offset - size : self._offset]
