"""CPU tensors as a flat storage and a view of it: any dtype, any strides, shared storages once."""

from __future__ import annotations

import pickle
from typing import Any

import torch

#: A tensor that takes less of its storage than one part in so many is sent alone, as a copy without gaps.
_SPARSE = 2


class Flat:
    """One storage on its way. Pickle sends an object once, however often it comes: shared storages stay shared."""

    __slots__ = ("storage",)

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.storage.nbytes():
            return _flat, (None,)
        return _flat, (pickle.PickleBuffer(_bytes_of(self.storage).numpy().data),)


class Tensors:
    """How the tensors of one result are reduced. Holds on to their storages."""

    def __init__(self) -> None:
        self._flats: dict[tuple[int, int], Flat] = {}

    def reduce(self, value: Any) -> Any:
        """What pickle's reducer_override returns; NotImplemented for what is not a tensor or storage on the CPU.

        A tensor that requires a gradient arrives without: its graph stays where it is.
        """
        if type(value) is torch.Tensor:
            if value.device.type != "cpu" or value.layout != torch.strided or value.is_quantized or value.is_nested:
                return NotImplemented
            return self._tensor(value.detach().resolve_conj().resolve_neg())
        if isinstance(value, torch.UntypedStorage) and value.device.type == "cpu":
            return _storage, (self._flat(value),)
        if isinstance(value, torch.storage.TypedStorage) and value._untyped_storage.device.type == "cpu":  # noqa: SLF001 - see below
            return _typed_storage, (self._flat(value._untyped_storage), value.dtype)  # noqa: SLF001 - untyped() warns
        return NotImplemented

    def _tensor(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        storage = tensor.untyped_storage()
        if storage.nbytes() > _SPARSE * tensor.nbytes and _key(storage) not in self._flats:
            tensor = tensor.clone()
            storage = tensor.untyped_storage()
        layout = (tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
        return _tensor, (self._flat(storage), *layout)

    def _flat(self, storage: torch.UntypedStorage) -> Flat:
        return self._flats.setdefault(_key(storage), Flat(storage)) if storage.nbytes() else Flat(storage)


def _key(storage: torch.UntypedStorage) -> tuple[int, int]:
    """Two storages may begin at one address: tensors over one array, of unlike lengths."""
    return storage.data_ptr(), storage.nbytes()


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _flat(memory: Any) -> torch.Tensor:
    """uint8 over the memory itself, which stays alive as long as the tensor does."""
    return torch.empty(0, dtype=torch.uint8) if memory is None else torch.frombuffer(memory, dtype=torch.uint8)


def _tensor(
    flat: torch.Tensor, dtype: torch.dtype, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), offset, size, stride)


def _storage(flat: torch.Tensor) -> torch.UntypedStorage:
    return flat.untyped_storage()


def _typed_storage(flat: torch.Tensor, dtype: torch.dtype) -> torch.storage.TypedStorage:
    make: Any = torch.storage.TypedStorage
    typed: torch.storage.TypedStorage = make(wrap_storage=flat.untyped_storage(), dtype=dtype, _internal=True)
    return typed
