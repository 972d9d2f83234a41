"""Encodes results as segments: the memory of their tensors, arrays and long bytes, and last their pickle (protocol 5).

CPU tensors become a flat storage and a view of it: any dtype, any strides, shared storages once.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch

#: Shorter buffers stay in the pickle, in bytes.
_MIN_BUFFER_BYTES = 1024
#: Minimum size of a pickle, in bytes, for which the encoder tries to lift long bytes out.
_MIN_LIFT_BYTES = 64 << 10
#: Checking one object for long bytes costs as much as copying about this many bytes into the pickle.
_BYTES_PER_CHECK = 128
#: Results until the next try, if the last one did not pay off.
_RESULTS_UNTIL_RETRY = 64

#: Contiguous bytes, one piece after the other.
ByteSegment = list[Any]


class ResultEncoder:
    """Encodes the results of one worker.

    Tensors and arrays always have separate segments. To find long bytes, pickle has to check every object: this makes a
    list of 64 files 50 times as fast, and a list of 10,000 numbers 20 times as slow. The results of a worker are
    similar, so the previous result decides how the next one is encoded.
    """

    def __init__(self) -> None:
        self._lifts_bytes = False
        self._results_until_retry = 0

    def encode(self, value: Any) -> list[ByteSegment]:
        """The segments of a value. Raises what pickle raises. If bytes are lifted, copies nothing of 1 KB or more."""
        sink = _PickleSink()
        pickler = _LiftingPickler(sink) if self._lifts_bytes else _Pickler(sink)
        pickler.dump(value)
        self._choose_next_pickler(pickler, sink)
        lifted = pickler.lifted.values() if isinstance(pickler, _LiftingPickler) else ()
        buffers = [[buffer.raw()] for buffer in pickler.buffers]
        return [*buffers, *([raw] for raw in reversed(list(lifted))), sink.pieces]

    def _choose_next_pickler(self, pickler: _Pickler, sink: _PickleSink) -> None:
        if isinstance(pickler, _LiftingPickler):
            saved = sum(map(len, pickler.lifted.values()))
            self._lifts_bytes = saved >= _BYTES_PER_CHECK * pickler.checks
            self._results_until_retry = _RESULTS_UNTIL_RETRY
        elif self._results_until_retry:
            self._results_until_retry -= 1
        else:
            self._lifts_bytes = segment_bytes(sink.pieces) >= _MIN_LIFT_BYTES


def decode_result(segments: Sequence[memoryview]) -> Any:
    """The value of these segments. Its tensors and arrays use their memory and keep it alive; bytes are copies."""
    return _Unpickler(segments).load()


def segment_bytes(segment: ByteSegment) -> int:
    return sum(map(len, segment))


class _PickleSink:
    """A file that keeps what is written, without copies: pickle writes frames, and very long bytes as they are."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.write = self.pieces.append


class _Pickler(pickle.Pickler):
    def __init__(self, sink: _PickleSink) -> None:
        self.buffers: list[pickle.PickleBuffer] = []
        # Not a bound method, whose reference cycle would keep results alive until the garbage collector finds it.
        super().__init__(cast("io.BytesIO", sink), protocol=5, buffer_callback=partial(_keep_inline, self.buffers))
        self._tensor_reducer: Any = None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            return _reduce_array(value)
        if type(value) is memoryview and value.ndim == 1 and value.format == "B":
            return _rebuild_view, (np.asarray(value),)
        if self._tensor_reducer is None and "torch" in sys.modules:
            self._tensor_reducer = TensorReducer()
        return self._tensor_reducer.reduce(value) if self._tensor_reducer else NotImplemented


class _LiftingPickler(_Pickler):
    """Also lifts long bytes out of the pickle. The n-th of them is the n-th segment before the pickle."""

    def __init__(self, sink: _PickleSink) -> None:
        super().__init__(sink)
        self.lifted: dict[int, bytes] = {}
        self.checks = 0
        self._lifted_index: dict[int, int] = {}

    def persistent_id(self, value: Any) -> int | None:
        self.checks += 1
        if type(value) is not bytes or len(value) < _MIN_BUFFER_BYTES:
            return None
        # `lifted` keeps the bytes alive, so an id identifies one object during this call.
        self.lifted[id(value)] = value
        return self._lifted_index.setdefault(id(value), len(self._lifted_index))


class _Unpickler(pickle.Unpickler):
    def __init__(self, segments: Sequence[memoryview]) -> None:
        super().__init__(io.BytesIO(segments[-1]), buffers=segments)
        self._segments = segments
        self._lifted: dict[int, bytes] = {}

    def persistent_load(self, index: int) -> bytes:
        if index not in self._lifted:
            self._lifted[index] = bytes(self._segments[-2 - index])
        return self._lifted[index]


def _keep_inline(buffers: list[pickle.PickleBuffer], buffer: pickle.PickleBuffer) -> bool:
    """Whether the buffer stays in the pickle."""
    if buffer.raw().nbytes < _MIN_BUFFER_BYTES:
        return True
    buffers.append(buffer)
    return False


def _rebuild_view(array: np.ndarray[Any, Any]) -> memoryview:
    return array.data.toreadonly()


def _reduce_array(array: np.ndarray[Any, Any]) -> Any:
    """Reduce an array to a contiguous one: numpy passes only those out of band."""
    if array.dtype.hasobject or array.flags.c_contiguous or array.flags.f_contiguous:
        return NotImplemented
    return np.ascontiguousarray(array).__reduce_ex__(5)


#: A tensor that uses less than one part in this many of its storage is sent as a compact copy.
_MAX_STORAGE_RATIO = 2


class FlatStorage:
    """One storage. Pickle writes each object once, so that shared storages stay shared."""

    __slots__ = ("storage",)

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.storage.nbytes():
            return _rebuild_flat, (None,)
        storage_bytes = torch.empty(0, dtype=torch.uint8).set_(self.storage)
        return _rebuild_flat, (pickle.PickleBuffer(storage_bytes.numpy().data),)


class TensorReducer:
    """Reduces the tensors of one result. Keeps their storages alive."""

    def __init__(self) -> None:
        self._flat_storages: dict[tuple[int, int], FlatStorage] = {}

    def reduce(self, value: Any) -> Any:
        """The return value for pickle's `reducer_override`: NotImplemented except for tensors and storages on the CPU.

        A tensor that requires a gradient arrives without: its graph stays in the worker.
        """
        if type(value) is torch.Tensor:
            if value.device.type != "cpu" or value.layout != torch.strided or value.is_quantized or value.is_nested:
                return NotImplemented
            return self._reduce_tensor(value.detach().resolve_conj().resolve_neg())
        if isinstance(value, torch.UntypedStorage) and value.device.type == "cpu":
            return _rebuild_storage, (self._flat_storage(value),)
        if isinstance(value, torch.storage.TypedStorage) and value._untyped_storage.device.type == "cpu":  # noqa: SLF001 - see below
            return _rebuild_typed_storage, (self._flat_storage(value._untyped_storage), value.dtype)  # noqa: SLF001 - untyped() warns
        return NotImplemented

    def _reduce_tensor(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        storage = tensor.untyped_storage()
        if storage.nbytes() > _MAX_STORAGE_RATIO * tensor.nbytes and _storage_id(storage) not in self._flat_storages:
            tensor = tensor.clone()
            storage = tensor.untyped_storage()
        layout = (tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
        return _rebuild_tensor, (self._flat_storage(storage), *layout)

    def _flat_storage(self, storage: torch.UntypedStorage) -> FlatStorage:
        return (
            self._flat_storages.setdefault(_storage_id(storage), FlatStorage(storage))
            if storage.nbytes()
            else FlatStorage(storage)
        )


def _storage_id(storage: torch.UntypedStorage) -> tuple[int, int]:
    """The identity of a storage. Two may begin at one address: tensors over one array, of different lengths."""
    return storage.data_ptr(), storage.nbytes()


def _rebuild_flat(memory: Any) -> torch.Tensor:
    """uint8 over the memory itself, which lives as long as the tensor does."""
    return torch.empty(0, dtype=torch.uint8) if memory is None else torch.frombuffer(memory, dtype=torch.uint8)


def _rebuild_tensor(
    flat: torch.Tensor, dtype: torch.dtype, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), offset, size, stride)


def _rebuild_storage(flat: torch.Tensor) -> torch.UntypedStorage:
    return flat.untyped_storage()


def _rebuild_typed_storage(flat: torch.Tensor, dtype: torch.dtype) -> torch.storage.TypedStorage:
    make: Any = torch.storage.TypedStorage
    typed: torch.storage.TypedStorage = make(wrap_storage=flat.untyped_storage(), dtype=dtype, _internal=True)
    return typed
