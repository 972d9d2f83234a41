"""Results as segments: the memory of their tensors, arrays and long bytes, and last their pickle (protocol 5)."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

#: Buffers shorter than this ride in the pickle, in bytes.
_SMALL = 1024
#: From this many bytes in the pickle on it is worth a try to send long bytes beside it.
_LARGE = 64 << 10
#: Each object that is asked whether it is long bytes costs as much as copying about so many bytes into the pickle.
_BYTES_A_QUESTION = 128
#: Results until the next try, where the last one did not pay.
_REST = 64

#: Contiguous bytes, one piece after the other.
Segment = list[Any]


class Encoder:
    """Turns the results of one worker into segments.

    Tensors and arrays go beside the pickle always. For bytes, pickle has to ask about every single object: a list of
    64 files is 50 times as fast so, a list of 10,000 numbers 20 times as slow. The results of a worker are alike, and
    the last one tells which way the next one goes.
    """

    def __init__(self) -> None:
        self._lifts = False
        self._rest = 0

    def encode(self, value: Any) -> list[Segment]:
        """Raises what pickle raises. Where bytes are lifted, nothing of 1 KB or more is copied here."""
        sink = _Sink()
        pickler = _LiftingPickler(sink) if self._lifts else _Pickler(sink)
        pickler.dump(value)
        self._learn(pickler, sink)
        lifted = pickler.lifted.values() if isinstance(pickler, _LiftingPickler) else ()
        beside = [[buffer.raw()] for buffer in pickler.buffers]
        return [*beside, *([raw] for raw in reversed(list(lifted))), sink.pieces]

    def _learn(self, pickler: _Pickler, sink: _Sink) -> None:
        if isinstance(pickler, _LiftingPickler):
            saved = sum(map(len, pickler.lifted.values()))
            self._lifts = saved >= _BYTES_A_QUESTION * pickler.questions
            self._rest = _REST
        elif self._rest:
            self._rest -= 1
        else:
            self._lifts = size_of(sink.pieces) >= _LARGE


def decode(segments: Sequence[memoryview]) -> Any:
    """The value. Its tensors and arrays lie in the memory of the segments and keep it alive; bytes are copies."""
    return _Unpickler(segments).load()


def size_of(segment: Segment) -> int:
    return sum(map(len, segment))


class _Sink:
    """A file that keeps what is written, without copies: pickle writes frames, and very long bytes as they are."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.write = self.pieces.append


class _Pickler(pickle.Pickler):
    def __init__(self, sink: _Sink) -> None:
        self.buffers: list[pickle.PickleBuffer] = []
        # Not a method of its own: results would live until the garbage collector finds the cycle.
        super().__init__(cast("io.BytesIO", sink), protocol=5, buffer_callback=partial(_keep, self.buffers))
        self._tensors: Any = None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            return _array(value)
        if type(value) is memoryview and value.ndim == 1 and value.format == "B":
            return _view, (np.asarray(value),)
        if self._tensors is None and "torch" in sys.modules:
            from wdsctl.loader.workers.tensors import Tensors

            self._tensors = Tensors()
        return self._tensors.reduce(value) if self._tensors else NotImplemented


class _LiftingPickler(_Pickler):
    """Also lifts long bytes out. The n-th of them is the n-th segment before the pickle."""

    def __init__(self, sink: _Sink) -> None:
        super().__init__(sink)
        self.lifted: dict[int, bytes] = {}
        self.questions = 0
        self._places: dict[int, int] = {}

    def persistent_id(self, value: Any) -> int | None:
        self.questions += 1
        if type(value) is not bytes or len(value) < _SMALL:
            return None
        # `lifted` holds on to the bytes, and so an id means one object as long as this lasts.
        self.lifted[id(value)] = value
        return self._places.setdefault(id(value), len(self._places))


class _Unpickler(pickle.Unpickler):
    def __init__(self, segments: Sequence[memoryview]) -> None:
        super().__init__(io.BytesIO(segments[-1]), buffers=segments)
        self._segments = segments
        self._lifted: dict[int, bytes] = {}

    def persistent_load(self, place: int) -> bytes:
        if place not in self._lifted:
            self._lifted[place] = bytes(self._segments[-2 - place])
        return self._lifted[place]


def _keep(buffers: list[pickle.PickleBuffer], buffer: pickle.PickleBuffer) -> bool:
    """Whether the buffer is to ride in the pickle."""
    if buffer.raw().nbytes < _SMALL:
        return True
    buffers.append(buffer)
    return False


def _view(array: np.ndarray[Any, Any]) -> memoryview:
    return array.data.toreadonly()


def _array(array: np.ndarray[Any, Any]) -> Any:
    """numpy gives only arrays without gaps out of band."""
    if array.dtype.hasobject or array.flags.c_contiguous or array.flags.f_contiguous:
        return NotImplemented
    return np.ascontiguousarray(array).__reduce_ex__(5)
