"""Makes samples from references: reads, decodes, builds, cooks and encodes them.

One reference becomes one sample, none, or several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.reading.source import SampleRef
from wdsctl.loader.runtime.failures import STORAGE_DOWN_ERRORS, FailureTracker, SkipSample
from wdsctl.loader.runtime.sample_fields import describe_sample_location, set_field
from wdsctl.loader.runtime.stage import NO_OUTPUT, Address, Hook, PipelineItem, check_empty_draws, hash_restore_key
from wdsctl.loader.runtime.stats import Stats

BanCheck = Callable[[SampleRef, int | None], int]  # the ban of a reference at this draw; None: by now


class SeekableRefs(Protocol):
    """Gives references; `draws`: how many it has given."""

    draws: int

    def take(self, count: int) -> list[SampleRef]: ...

    def lookup(self, draw: int) -> SampleRef: ...

    def seek(self, draws: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SampleStage:
    """`cook_hooks`: for crude samples, by the number of the source. `hooks`: of the encoder, in the order in which they
    run.

    `max_empty_draws`: consecutive draws without output after which a lane gives up.
    """

    cook_hooks: Mapping[int, Hook]
    hooks: tuple[Hook, ...]
    max_empty_draws: int

    def open(self, refs: SeekableRefs, failures: FailureTracker, stats: Stats) -> SampleCursor:
        return SampleCursor(self, refs, failures, stats)

    @property
    def is_plain(self) -> bool:
        """Whether samples are handed on as they were built."""
        return not self.hooks and not self.cook_hooks


class SampleCursor:
    """State: [draw, step]. The next output is number `step` of this draw, which is loaded again after a restore."""

    def __init__(self, stage: SampleStage, refs: SeekableRefs, failures: FailureTracker, stats: Stats) -> None:
        self._stage = stage
        self._refs = refs
        self._failures = failures
        self._stats = stats
        self._outputs: Iterator[Any] | None = None  # further outputs of the current sample
        self._draw = self._step = self._key = 0
        self._origin: tuple[int, int, int] = (0, 0, 0)
        self._late_ban = 0  # the ban since the sample was first read
        self._empty_draws = 0
        self._prefetch_steps: dict[int, list[int]] = {}  # the steps that were announced, by draw
        self._rebuilt_items: dict[tuple[int, int], list[PipelineItem]] = {}  # made together with another step
        self.ref: SampleRef | None = None  # of the current sample, or the last one
        self.ban_check: BanCheck | None = None
        self.report_sample: Callable[[str], None] | None = None  # called with the current sample

    def take(self, count: int) -> list[Any]:
        """The next samples as they are built, fewer at the end of a finite lane. For plain stages."""
        samples: list[Any] = []
        while len(samples) < count:
            refs = self._refs.take(count - len(samples))
            if not refs:
                break
            started = perf_counter()
            samples += self.load_all(refs, self._refs.draws - len(refs))
            self._stats.load_seconds += perf_counter() - started
            self.count_empty_draws(len(refs) if not samples else 0)
        return samples

    def load_all(self, refs: list[SampleRef], first_draw: int) -> list[Any]:
        """The samples of these references, draws from `first_draw` on, without those that fail or are banned."""
        if self.ban_check is None and self.report_sample is None:
            try:
                with refs[0][0].decode_in_parallel() if refs else nullcontext():
                    samples = [source.load(block, i) for source, block, i in refs]
                self._failures.tally.count_successes([(source.number, 1) for source, _, _ in refs])
                self._failures.record_success("load")
                return samples
            except STORAGE_DOWN_ERRORS:
                raise
            except Exception:  # noqa: BLE001, S110 - they are loaded again below, one by one, and failures reported there
                pass
        loaded = [self._load_sample(ref, first_draw + i) for i, ref in enumerate(refs)]
        return [sample for sample in loaded if sample is not NO_OUTPUT]

    def next(self) -> PipelineItem | None:
        """The next output of the hooks; None at the end of a finite lane."""
        while True:
            if self._outputs is not None:
                item = self._next_output()
                if item is not None:
                    self._empty_draws = 0
                    return item
            check_empty_draws(self._empty_draws, self._stage.max_empty_draws)
            refs = self._refs.take(1)
            if not refs:
                return None
            self._begin_sample(refs[0], self._refs.draws - 1)
            self._empty_draws += 1

    def rebuild(self, address: Address) -> PipelineItem:
        """Make the item of this address again: of an earlier draw of this lane. Moves nothing."""
        if address is None:
            raise LoaderError(
                "cannot restore a waiting sample that select_samples_to_pack created",
                hint="return only samples that select_samples_to_pack received, and change them in "
                "pack_selected_samples",
                code="WDS502",
            )
        draw, step = _draw_and_step(address)
        if (draw, step) not in self._rebuilt_items:
            ref, steps = self._refs.lookup(draw), self._prefetch_steps.pop(draw, [])
            self._rebuild_steps(ref, draw, steps if step in steps else [*steps, step])
            if (draw, step) not in self._rebuilt_items:
                raise _output_gone_error(ref, draw, step)
        items = self._rebuilt_items.pop((draw, step))
        if len(items) > 1:
            self._rebuilt_items[draw, step] = items[1:]
        return items[0]

    def prefetch(self, addresses: Iterable[Address]) -> None:
        """Announce `rebuild` of these before `next`: several outputs of one sample are then made together."""
        self._prefetch_steps = {}
        for draw, step in map(_draw_and_step, addresses):
            self._prefetch_steps.setdefault(draw, []).append(step)

    def make_items(self, ref: SampleRef, draw: int) -> list[PipelineItem]:
        """All outputs of the hooks for one draw, none if it is skipped; `ref` is its reference. Moves nothing."""
        kept = self._outputs, self._draw, self._step, self._key, self._origin, self._late_ban, self.ref
        try:
            self._begin_sample(ref, draw)
            items = list(iter(self._next_output, None))
        finally:
            self._outputs, self._draw, self._step, self._key, self._origin, self._late_ban, self.ref = kept
        self.count_empty_draws(0 if items else 1)
        return items

    def state(self) -> list[int]:
        return [self._refs.draws, 0] if self._outputs is None else [self._draw, self._step]

    def load(self, state: list[int]) -> None:
        draw, step = state
        self._refs.seek(draw)
        self._outputs, self._empty_draws = None, 0
        if step:
            self._begin_sample(self._refs.take(1)[0], draw)
            # If a hook has changed since, skip at most its outputs for this one sample.
            while self._step < step and self._next_output() is not None:
                pass

    def _load_sample(self, ref: SampleRef, draw: int = -1) -> Any:
        """One sample, or NO_OUTPUT if it is banned or cannot be read."""
        source, block, i = ref
        if draw >= 0 and self.ban_check is not None and self.ban_check(ref, draw):
            self._stats.banned += 1
            return NO_OUTPUT
        if self.report_sample is not None:
            self.report_sample(f"dataset {source.dataset_path}, key {block.keys[i]}, reading or decoding it")
        if draw >= 0:
            self._failures.tally.begin_attempt(source.number)
        else:
            self._failures.tally.begin_rebuild(source.number)
        try:
            sample = source.load(block, i)
        except SkipSample as skip:  # of the joiner of a join
            self._stats.count_skip(skip)
            return NO_OUTPUT
        except Exception as error:  # noqa: BLE001 - a decoder may raise anything: all of it is reported
            self._failures.record_failure("load", error, None, source.describe_reference(block, i))
            return NO_OUTPUT
        self._failures.record_success("load")
        return sample

    def _begin_sample(self, ref: SampleRef, draw: int) -> None:
        """Load the sample of a draw; its outputs are then made one by one."""
        self._draw, self._step, self.ref, self._rebuilt_items = draw, 0, ref, {}
        started = perf_counter()
        sample = self._load_sample(ref, draw)
        self._stats.load_seconds += perf_counter() - started
        self._outputs = None if sample is NO_OUTPUT else self._run_hooks(sample, ref)

    def _run_hooks(self, sample: Any, ref: SampleRef) -> Iterator[Any]:
        source, block, i = ref
        self._origin = (source.number, block.passes[i], block.ids[i])
        self._key = hash_restore_key(self._origin)
        self._late_ban = 0 if self.ban_check is None else self.ban_check(ref, None)
        cook = self._stage.cook_hooks.get(source.number)
        hooks = self._stage.hooks if cook is None else (cook, *self._stage.hooks)
        return self._apply_hooks(sample, hooks, self._key) if hooks else iter((sample,))

    def _apply_hooks(self, value: Any, hooks: tuple[Hook, ...], key: int) -> Iterator[Any]:
        """The outputs of these hooks, one applied to the outputs of the other."""
        if self.report_sample is not None:
            self.report_sample(f"{describe_sample_location(value)}, in {hooks[0].name}")
        outputs = hooks[0].outputs(value, key, self._failures, describe_sample_location)
        if len(hooks) == 1:
            yield from outputs
            return
        for step, output in enumerate(outputs):
            yield from self._apply_hooks(output, hooks[1:], key + step)

    def _next_output(self) -> PipelineItem | None:
        """The next output of the current sample; None, and no sample is current, if there is none."""
        started = perf_counter()
        value = next(self._outputs or iter(()), NO_OUTPUT)
        self._stats.encode_seconds += perf_counter() - started
        if value is NO_OUTPUT:
            self._outputs = None
            return None
        step = self._step
        self._step += 1
        if not step:
            return PipelineItem(value, self._draw, self._key, (self._origin,), self._late_ban)
        origin = (*self._origin, step)
        set_field(value, "__restore_key__", origin)
        return PipelineItem(value, [self._draw, step], self._key + step, (origin,), self._late_ban)

    def _rebuild_steps(self, ref: SampleRef, draw: int, steps: Sequence[int]) -> None:
        """Make these outputs of a draw again, each as many times as it is in `steps`."""
        sample = self._load_sample(ref)
        if sample is NO_OUTPUT:
            return
        kept = self._outputs, self._draw, self._step, self._key, self._origin, self._late_ban
        try:
            self._outputs, self._draw, self._step = self._run_hooks(sample, ref), draw, 0
            for step in range(max(steps) + 1):
                item = self._next_output()
                if item is None:
                    break
                if step in steps:
                    self._rebuilt_items[draw, step] = [item] * steps.count(step)
        finally:
            self._outputs, self._draw, self._step, self._key, self._origin, self._late_ban = kept

    def count_empty_draws(self, draws: int) -> None:
        """Count consecutive draws without output; 0: one had output. Raises LoaderError (WDS505) above the limit."""
        self._empty_draws = self._empty_draws + draws if draws else 0
        check_empty_draws(self._empty_draws, self._stage.max_empty_draws)


def _draw_and_step(address: Address) -> tuple[int, int]:
    """Draw and step of an address. The address of a piece of a sample has further numbers, which are ignored."""
    return (address[0], address[1]) if isinstance(address, list) else (address, 0)


def _output_gone_error(ref: SampleRef, draw: int, step: int) -> LoaderError:
    source, block, i = ref
    return LoaderError(
        f"the hooks no longer return output {step} of the sample of draw {draw}",
        where=source.describe_reference(block, i),
        hint="resume with the hooks and the data of the run that saved the state",
        code="WDS502",
    )
