"""Values as bytes and back, without pickle: what a description in JSON says, and the bytes that it refers to.

`WDSVAL1\\n`, u64 length of the description, the description, then the buffers one behind the other. The description
of a value is a list: ["t", dtype, shape, size] a tensor, ["a", dtype, shape, size] an array, ["b", size] bytes,
["s", value] text, a number, a bool or None, ["d", [[key, value], ...]] a dict, ["l", [...]], ["u", [...]] a tuple.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import read_json

MAGIC = b"WDSVAL1\n"


class CannotKeepError(UsageError):
    """A value has something in it that has no safe form."""


def dumped(value: Any) -> bytes:
    """Raises CannotKeepError for anything but tensors, arrays, bytes, texts, numbers and containers of them."""
    buffers: list[bytes] = []
    text = json.dumps(_described(value, buffers)).encode()
    return b"".join([MAGIC, len(text).to_bytes(8, "little"), text, *buffers])


def loaded(data: bytes) -> Any:
    """The value that `dumped` was given; tensors are on the CPU."""
    length = int.from_bytes(data[8:16], "little")
    return _Reader(data, 16 + length).value(read_json(data[16 : 16 + length]))


def _described(value: Any, buffers: list[bytes]) -> list[Any]:
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
        return ["d", [[_described(key, buffers), _described(each, buffers)] for key, each in value.items()]]
    if type(value) in (list, tuple):
        return ["l" if type(value) is list else "u", [_described(each, buffers) for each in value]]
    raise CannotKeepError(f"a {type(value).__name__} has no safe form", hint="it stays in memory")


class _Reader:
    """Takes the buffers in the order of the description."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def value(self, described: list[Any]) -> Any:
        kind, *facts = described
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
            return {self.value(key): self.value(each) for key, each in facts[0]}
        if kind == "s":
            return facts[0]
        values = [self.value(each) for each in facts[0]]
        return values if kind == "l" else tuple(values)

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]
