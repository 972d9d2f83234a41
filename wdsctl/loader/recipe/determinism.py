"""`check_determinism`: finds hooks whose results differ between calls, so that a run cannot be resumed exactly."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import isgenerator
from types import FunctionType, ModuleType
from typing import Any

import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.runtime.failures import FatalSampleError, SkipSample
from wdsctl.loader.runtime.randomness import generator_states, restore_generators
from wdsctl.loader.samples.lazy_part import LazyPart

_EXHAUSTED = object()  # in place of a generator's next value
_TYPES_WITHOUT_VIEWS = (str, bytes, int, float, bool, type(None), type, ModuleType, FunctionType)


def with_determinism_check(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, called twice with the same random numbers, first on a copy of its input; generators step by step.

    The wrapper raises FatalSampleError WDS508 if the results differ in any byte.
    """

    @wraps(call)
    def run(value: Any, *args: Any, **options: Any) -> Any:
        copied = _copy_input(value)
        first, second = _call_both(lambda: call(copied, *args, **options), lambda: call(value, *args, **options))
        if isgenerator(first) and isgenerator(second):
            return _compare_steps(name, first, second)
        return _require_same(name, first, second)

    return run


def _copy_input(value: Any) -> Any:
    """A deep copy that shares read-only views of mapped shards, which cannot be copied."""
    memo = {id(view): view for view in _read_only_views(value)}
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, pickle.PicklingError) as error:
        raise LoaderError(
            f"cannot copy the input of a hook: {error}",
            hint="check_determinism calls each hook on a copy of its input: return values that can be copied",
        ) from error


def _read_only_views(value: Any) -> Iterator[memoryview]:
    """The read-only views in a value: in dicts, lists, tuples, sets, dataclasses and other objects with fields."""
    waiting, seen = [value], set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, memoryview):
            if each.readonly:
                yield each
        elif id(each) not in seen and not isinstance(each, _TYPES_WITHOUT_VIEWS):
            seen.add(id(each))
            waiting += _copied_children(each)


def _copied_children(value: Any) -> list[Any]:
    """The values that a deep copy of `value` copies too."""
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*value]
    kind: Any = type(value)
    if hasattr(kind, "__deepcopy__") or kind.__reduce__ is not object.__reduce__:
        return []  # the class defines its own copy
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]


def _compare_steps(name: str, first: Iterator[Any], second: Iterator[Any]) -> Iterator[Any]:
    """The outputs of two generators of the same hook. The caller seeds random numbers before each step."""
    while True:
        value = _require_same(name, *_call_both(lambda: next(first, _EXHAUSTED), lambda: next(second, _EXHAUSTED)))
        if value is _EXHAUSTED:
            return
        yield value


def _call_both(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """The results of both, with the same random numbers."""
    states = generator_states()
    result = _call_or_skip(first)
    restore_generators(states)
    return result, _call_or_skip(second)


def _call_or_skip(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SkipSample as skip:
        return skip


def _require_same(name: str, first: Any, second: Any) -> Any:
    """The second of two equal results. Raises SkipSample if both skipped the sample."""
    ends = [each for each in (first, second) if each is _EXHAUSTED or isinstance(each, SkipSample)]
    if not _is_same_end(first, second) if ends else _comparable_bytes(first) != _comparable_bytes(second):
        raise FatalSampleError(
            f"{name} returned different results for the same sample, so that a resumed run would differ",
            hint="draw random numbers from torch, numpy or random, which are seeded per sample, and keep no state "
            "between samples",
            code="WDS508",
        )
    if isinstance(second, SkipSample):
        raise second
    return second


def _is_same_end(first: Any, second: Any) -> bool:
    if isinstance(first, SkipSample) and isinstance(second, SkipSample):
        return first.args == second.args
    return first is second


def _comparable_bytes(value: Any) -> bytes:
    """A pickle of the value: equal for equal values, including arrays and dataclasses."""
    buffer = io.BytesIO()
    try:
        _ValuePickler(buffer).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise LoaderError(
            f"cannot compare the results of a hook: {error}",
            hint="return values that can be pickled, or omit check_determinism",
        ) from error
    return buffer.getvalue()


class _ValuePickler(pickle.Pickler):
    """Pickles by value: without storages, addresses and the identity of equal values."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.fast = True

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            data = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
            return str, (f"{value.dtype} {tuple(value.shape)}",), data
        if isinstance(value, LazyPart):
            return str, (repr(value),)
        if isinstance(value, memoryview):
            return str, (f"{value.format} {value.shape}",), value.tobytes()
        return NotImplemented
