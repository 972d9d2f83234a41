"""Samples go through `encode_sample`: one becomes one, none, or (from a generator) several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isgenerator
from itertools import count
from time import perf_counter
from typing import Any

from wdsctl.core.errors import LoaderError, SampleFailed, WdsctlError
from wdsctl.core.keys import mix_one
from wdsctl.loader.randomness import seed_all
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.skip import SkipSample
from wdsctl.loader.stages.cursor import Cursor, State
from wdsctl.loader.stats import Stats

NOTHING: Any = object()  # a sample that was skipped


@dataclass(frozen=True, slots=True)
class EncodeStage:
    """`hook` is the user's; `key` names it and the seed; a lane that skips `patience` samples in a row gives up."""

    hook: Callable[[Any], Any]
    key: int
    patience: int
    stats: Stats

    def open(self, samples: Cursor[Any]) -> EncodeCursor:
        return EncodeCursor(self, samples)

    def run(self, sample: Any) -> Any:
        """What the hook returns for one sample: an output, a generator of outputs, or NOTHING if it is skipped."""
        seed_all(self.key_of(sample))
        made = NOTHING
        with self._failures(sample):
            made = self.hook(sample)
        return made  # noqa: RET504 - the block above swallows SkipSample

    def steps(self, made: Iterator[Any], sample: Any) -> Iterator[Any]:
        """The outputs of a generator. Between two steps others have drawn random numbers, so each step is seeded."""
        key = self.key_of(sample)
        for step in count(1):
            output = NOTHING
            with self._failures(sample):
                output = next(made, NOTHING)
            if output is NOTHING:
                return
            yield output
            seed_all(mix_one(key, step))

    def all_of(self, samples: list[Any]) -> list[Any]:
        """All that the hook makes of these samples: what a finite pass needs, which never stops in the middle."""
        started = perf_counter()
        outputs: list[Any] = []
        for sample in samples:
            made = self.run(sample)
            outputs += self.steps(made, sample) if isgenerator(made) else [made] if made is not NOTHING else []
        self.stats.encode_seconds += perf_counter() - started
        return outputs

    def key_of(self, sample: Any) -> int:
        """The key of the hook's random numbers for this sample: seed, source, pass and sample id."""
        key = self.key
        for part in sample["__restore_key__"] if isinstance(sample, dict) else sample.__restore_key__:
            key = mix_one(key, part)
        return key

    @contextmanager
    def _failures(self, sample: Any) -> Iterator[None]:
        try:
            yield
        except SkipSample:
            self.stats.skipped += 1
        except WdsctlError as error:
            # Of a decoder that the hook called, say: it cannot know the sample.
            where = f"{_place(sample)}, {error.where}" if error.where else _place(sample)
            raise type(error)(error.message, hint=error.hint, where=where, code=error.code) from error
        except Exception as error:
            raise SampleFailed(
                f"encode_sample failed: {type(error).__name__}: {error}",
                where=_place(sample),
                hint="raise SkipSample in the hook to leave such a sample out",
            ) from error


class EncodeCursor:
    """Counts how many outputs of the sample under way have left; the sample itself is read again after a restore."""

    def __init__(self, stage: EncodeStage, samples: Cursor[Any]) -> None:
        self._stage = stage
        self._samples = samples
        self._before: State = {}  # where the sample under way is read again
        self._left = 0  # outputs of it that have left
        self._outputs: Iterator[Any] | None = None  # what is left of a generator

    def take(self, count: int) -> list[Any]:
        taken: list[Any] = []
        started, loading = perf_counter(), self._stage.stats.load_seconds
        barren = 0
        while len(taken) < count and barren <= self._stage.patience:
            output = self._next_output()
            barren = barren + 1 if output is NOTHING else 0
            if output is not NOTHING:
                taken.append(output)
        loading = self._stage.stats.load_seconds - loading
        self._stage.stats.encode_seconds += perf_counter() - started - loading
        if barren > self._stage.patience:
            raise LoaderError(
                f"{barren:,} samples in a row were skipped, as many as there are or more",
                hint="look at what raises SkipSample in encode_sample",
                code="WDS505",
            )
        return taken

    def state_dict(self) -> State:
        if self._outputs is None:
            return {"samples": self._samples.state_dict(), "left": 0}
        return {"samples": self._before, "left": self._left}

    def load_state_dict(self, state: State) -> None:
        self._samples.load_state_dict(state["samples"])
        self._outputs = None
        # Of a hook that has changed since, no more is thrown away than what it makes of this one sample.
        output = self._of_next_sample() if state["left"] else NOTHING
        while output is not NOTHING and 0 < self._left < state["left"]:
            output = self._next_output_of_sample()

    def _next_output(self) -> Any:
        """The next output, or NOTHING where a sample gave none."""
        if self._outputs is not None:
            output = self._next_output_of_sample()
            if output is not NOTHING:
                return output
        return self._of_next_sample()

    def _of_next_sample(self) -> Any:
        self._before = self._samples.state_dict()
        (sample,) = self._samples.take(1)
        made, self._left = self._stage.run(sample), 0
        if not isgenerator(made):
            return made
        self._outputs = self._stage.steps(made, sample)
        return self._next_output_of_sample()

    def _next_output_of_sample(self) -> Any:
        output = NOTHING if self._outputs is None else next(self._outputs, NOTHING)
        if output is NOTHING:
            self._outputs = None
        else:
            self._left += 1
        return output


def _place(sample: Any) -> str:
    """A hook may have changed the sample before it failed."""
    fields = sample if isinstance(sample, dict) else {name: getattr(sample, name, None) for name in BASE_FIELDS}
    place = [f"dataset {each.dataset_path}, shard {each.shard_name}" for each in (fields.get("__sources__") or ())[:1]]
    return ", ".join([*place, f"key {fields.get('__key__')}"])
