"""A mode that finds hooks whose results differ from call to call: what they make cannot be resumed exactly."""

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
from wdsctl.loader.failures import FatalSampleError
from wdsctl.loader.lazy_part import LazyPart
from wdsctl.loader.randomness import generators, restore_generators
from wdsctl.loader.skip import SkipSample

_NO_MORE = object()  # of a generator
_SKIPPED = object()
_WITHOUT_VIEWS = (str, bytes, int, float, bool, type(None), type, ModuleType, FunctionType)


def twice(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, run on a copy of its input first, with the same random numbers; of a generator, step by step.

    Raises FatalSampleError WDS508 where the two results differ, byte for byte.
    """

    @wraps(call)
    def run(value: Any, *args: Any, **options: Any) -> Any:
        again = _copied(value)
        first, made = _both(lambda: call(again, *args, **options), lambda: call(value, *args, **options))
        if isgenerator(first) and isgenerator(made):
            return _steps(name, first, made)
        return _same(name, first, made)

    return run


def _copied(value: Any) -> Any:
    """A deep copy. Views of mapped shards cannot be copied and need not be: nobody can write to them."""
    memo = {id(view): view for view in _views(value)}
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, pickle.PicklingError) as error:
        raise LoaderError(
            f"the input of a hook cannot be copied: {error}",
            hint="check_determinism calls each hook twice, with a copy of its input first: pass on what can be copied",
        ) from error


def _views(value: Any) -> Iterator[memoryview]:
    """The read-only views in a value: in dicts, lists, tuples, sets, dataclasses and other objects with fields."""
    waiting, seen = [value], set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, memoryview):
            if each.readonly:
                yield each
        elif id(each) not in seen and not isinstance(each, _WITHOUT_VIEWS):
            seen.add(id(each))
            waiting += _inside(each)


def _inside(value: Any) -> list[Any]:
    """What a deep copy of a value copies too."""
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*value]
    kind: Any = type(value)
    if hasattr(kind, "__deepcopy__") or kind.__reduce__ is not object.__reduce__:
        return []  # a class that says itself how it is copied
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]


def _steps(name: str, first: Iterator[Any], second: Iterator[Any]) -> Iterator[Any]:
    """What two generators of the same hook give. Before each step, somebody has seeded it."""
    while True:
        made = _same(name, *_both(lambda: next(first, _NO_MORE), lambda: next(second, _NO_MORE)))
        if made is _NO_MORE:
            return
        yield made


def _both(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """What both give, with the same random numbers."""
    before = generators()
    made = _made(first)
    restore_generators(before)
    return made, _made(second)


def _made(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SkipSample:
        return _SKIPPED


def _same(name: str, first: Any, second: Any) -> Any:
    """The second of two results. Raises SkipSample where that is what both say."""
    ends = [each for each in (first, second) if each is _NO_MORE or each is _SKIPPED]
    if first is not second if ends else _frozen(first) != _frozen(second):
        raise FatalSampleError(
            f"{name} does not give the same for the same sample: what it made cannot be made again after a restart",
            hint="draw random numbers from torch, numpy or random, which are seeded for each sample, and keep no "
            "state between samples",
            code="WDS508",
        )
    if second is _SKIPPED:
        raise SkipSample
    return second


def _frozen(value: Any) -> bytes:
    """Bytes that are equal where results are: pickled, which sees into arrays and dataclasses."""
    frozen = io.BytesIO()
    try:
        _ByValue(frozen).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise LoaderError(
            f"the result of a hook cannot be compared: {error}",
            hint="check_determinism needs results that can be pickled",
        ) from error
    return frozen.getvalue()


class _ByValue(pickle.Pickler):
    """Says nothing of where a value lies, and not whether two equal ones are the same."""

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
