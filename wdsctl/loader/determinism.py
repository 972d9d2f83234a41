"""A mode that finds hooks whose results differ from call to call: what they make cannot be resumed exactly."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgenerator
from typing import Any

import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.failures import FatalSampleError
from wdsctl.loader.randomness import generators, restore_generators
from wdsctl.loader.skip import SkipSample

_NO_MORE = object()  # of a generator
_SKIPPED = object()


def twice(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The hook, run on a copy of its input first, with the same random numbers; of a generator, step by step.

    Raises FatalSampleError WDS508 where the two results differ, byte for byte.
    """

    @wraps(call)
    def run(value: Any, *args: Any, **options: Any) -> Any:
        again = copy.deepcopy(value)
        first, made = _both(lambda: call(again, *args, **options), lambda: call(value, *args, **options))
        if isgenerator(first) and isgenerator(made):
            return _steps(name, first, made)
        return _same(name, first, made)

    return run


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
        return NotImplemented
