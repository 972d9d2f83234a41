"""References become samples: read, decoded, built, cooked and encoded. One becomes one, none, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.failures import STORAGE_DOWN, Failures, place_of, set_value
from wdsctl.loader.skip import SkipSample
from wdsctl.loader.source import Ref
from wdsctl.loader.stages.hook import NOTHING, Hook
from wdsctl.loader.stages.item import Address, Item, key_of
from wdsctl.loader.stages.patience import give_up_if_barren
from wdsctl.loader.stats import Stats

Banned = Callable[[Ref, int | None], int]  # whether a pick of this number is passed over; None: whether by now it is


class Refs(Protocol):
    """Where references come from; `picks`: how many have."""

    picks: int

    def take(self, count: int) -> list[Ref]: ...

    def at(self, pick: int) -> Ref: ...

    def seek(self, picks: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SampleStage:
    """`cooks`: by the number of the source, for crude samples. `hooks`: of the encoder, in the order they run.

    `patience`: picks in a row that give nothing, after which a lane gives up.
    """

    cooks: Mapping[int, Hook]
    hooks: tuple[Hook, ...]
    patience: int

    def open(self, refs: Refs, failures: Failures, stats: Stats) -> SampleCursor:
        return SampleCursor(self, refs, failures, stats)

    @property
    def is_plain(self) -> bool:
        """Whether samples are handed on as they were built."""
        return not self.hooks and not self.cooks


class SampleCursor:
    """State: [pick, step]. The next output is number `step` of this pick, which is loaded again after a restore."""

    def __init__(self, stage: SampleStage, refs: Refs, failures: Failures, stats: Stats) -> None:
        self._stage = stage
        self._refs = refs
        self._failures = failures
        self._stats = stats
        self._outputs: Iterator[Any] | None = None  # what is left of the sample under way
        self._pick = self._step = self._key = 0
        self._origin: tuple[int, int, int] = (0, 0, 0)
        self._late = 0  # it was banned since it was first read, by this ban
        self._barren = 0
        self._wanted: dict[int, list[int]] = {}  # the steps that were foreseen, by pick
        self._remade: dict[tuple[int, int], list[Item]] = {}  # made together with another step, and not asked for yet
        self.ref: Ref | None = None  # of the sample under way, or the last one
        self.is_banned: Banned | None = None
        self.telling: Callable[[str], None] | None = None  # told which sample is under way

    def take(self, count: int) -> list[Any]:
        """The next samples as they are built, fewer where a finite lane ends. For plain stages."""
        samples: list[Any] = []
        while len(samples) < count:
            refs = self._refs.take(count - len(samples))
            if not refs:
                break
            started = perf_counter()
            samples += self.load_all(refs, self._refs.picks - len(refs))
            self._stats.load_seconds += perf_counter() - started
            self.count_barren(len(refs) if not samples else 0)
        return samples

    def load_all(self, refs: list[Ref], first: int) -> list[Any]:
        """The samples of these references, picks from `first` on, without those that fail or are banned."""
        if self.is_banned is None and self.telling is None:
            try:
                with refs[0][0].together() if refs else nullcontext():
                    samples = [source.load(block, i) for source, block, i in refs]
                self._failures.tally.begin_all([(source.number, 1) for source, _, _ in refs])
                return samples
            except STORAGE_DOWN:
                raise
            except Exception:  # noqa: BLE001, S110 - they are loaded again below, one by one, and failures told there
                pass
        loaded = [self._loaded(ref, first + i) for i, ref in enumerate(refs)]
        return [sample for sample in loaded if sample is not NOTHING]

    def next(self) -> Item | None:
        """The next output of the hooks; None where a finite lane ends."""
        while True:
            if self._outputs is not None:
                item = self._next_output()
                if item is not None:
                    self._barren = 0
                    return item
            give_up_if_barren(self._barren, self._stage.patience)
            refs = self._refs.take(1)
            if not refs:
                return None
            self._begin(refs[0], self._refs.picks - 1)
            self._barren += 1

    def rebuild(self, address: Address) -> Item:
        """The item of this address once more: of a pick of this lane that came before. Moves nothing."""
        if address is None:
            raise LoaderError(
                "a sample that select_samples_to_pack made itself waits in a group, and cannot be made again",
                hint="return the samples that the hook was given; change them in pack_selected_samples",
                code="WDS502",
            )
        pick, step = _parts(address)
        if (pick, step) not in self._remade:
            ref, wanted = self._refs.at(pick), self._wanted.pop(pick, [])
            self._remake(ref, pick, wanted if step in wanted else [*wanted, step])
            if (pick, step) not in self._remade:
                raise _not_any_more(ref, pick, step)
        items = self._remade.pop((pick, step))
        if len(items) > 1:
            self._remade[pick, step] = items[1:]
        return items[0]

    def foresee(self, addresses: Iterable[Address]) -> None:
        """`rebuild` will be asked for these before `next` is: several outputs of one sample are then made together."""
        self._wanted = {}
        for pick, step in map(_parts, addresses):
            self._wanted.setdefault(pick, []).append(step)

    def items_of(self, ref: Ref, pick: int) -> list[Item]:
        """All that the hooks make of one pick, none where it is skipped; `ref` is its reference. Moves nothing."""
        kept = self._outputs, self._pick, self._step, self._key, self._origin, self._late, self.ref
        try:
            self._begin(ref, pick)
            items = list(iter(self._next_output, None))
        finally:
            self._outputs, self._pick, self._step, self._key, self._origin, self._late, self.ref = kept
        self.count_barren(0 if items else 1)
        return items

    def state(self) -> list[int]:
        return [self._refs.picks, 0] if self._outputs is None else [self._pick, self._step]

    def load(self, state: list[int]) -> None:
        pick, step = state
        self._refs.seek(pick)
        self._outputs, self._barren = None, 0
        if step:
            self._begin(self._refs.take(1)[0], pick)
            # Of a hook that has changed since, no more is thrown away than what it makes of this one sample.
            while self._step < step and self._next_output() is not None:
                pass

    def _banned_by(self, ref: Ref) -> int:
        return 0 if self.is_banned is None else self.is_banned(ref, None)

    def _loaded(self, ref: Ref, pick: int = -1) -> Any:
        """One sample, or NOTHING where it is banned or cannot be read."""
        source, block, i = ref
        if pick >= 0 and self.is_banned is not None and self.is_banned(ref, pick):
            self._stats.banned += 1
            return NOTHING
        if self.telling is not None:
            self.telling(f"dataset {source.dataset_path}, key {block.keys[i]}, reading or decoding it")
        if pick >= 0:
            self._failures.tally.begin(source.number)
        else:
            self._failures.tally.begin_again(source.number)
        try:
            sample = source.load(block, i)
        except SkipSample:  # of the joiner of a join
            self._stats.skipped += 1
            return NOTHING
        except Exception as error:  # noqa: BLE001 - a decoder may raise anything: all of it is told
            self._failures.failed("load", error, None, source.where(block, i))
            return NOTHING
        self._failures.succeeded("load")
        return sample

    def _begin(self, ref: Ref, pick: int) -> None:
        """Load the sample of a pick; its outputs are then made one by one."""
        self._pick, self._step, self.ref, self._remade = pick, 0, ref, {}
        started = perf_counter()
        sample = self._loaded(ref, pick)
        self._stats.load_seconds += perf_counter() - started
        self._outputs = None if sample is NOTHING else self._outputs_of(sample, ref)

    def _outputs_of(self, sample: Any, ref: Ref) -> Iterator[Any]:
        source, block, i = ref
        self._origin = (source.number, block.passes[i], block.ids[i])
        self._key = key_of(self._origin)
        self._late = self._banned_by(ref)
        cook = self._stage.cooks.get(source.number)
        hooks = self._stage.hooks if cook is None else (cook, *self._stage.hooks)
        return self._through(sample, hooks, self._key) if hooks else iter((sample,))

    def _through(self, value: Any, hooks: tuple[Hook, ...], key: int) -> Iterator[Any]:
        """What these hooks make of a value, one after the other."""
        if self.telling is not None:
            self.telling(f"{place_of(value)}, in {hooks[0].name}")
        outputs = hooks[0].outputs(value, key, self._failures, place_of)
        if len(hooks) == 1:
            yield from outputs
            return
        for step, output in enumerate(outputs):
            yield from self._through(output, hooks[1:], key + step)

    def _next_output(self) -> Item | None:
        """The next output of the sample under way; None, and nothing is under way, where there is none."""
        started = perf_counter()
        value = next(self._outputs or iter(()), NOTHING)
        self._stats.encode_seconds += perf_counter() - started
        if value is NOTHING:
            self._outputs = None
            return None
        step = self._step
        self._step += 1
        if not step:
            return Item(value, self._pick, self._key, (self._origin,), self._late)
        origin = (*self._origin, step)
        set_value(value, "__restore_key__", origin)
        return Item(value, [self._pick, step], self._key + step, (origin,), self._late)

    def _remake(self, ref: Ref, pick: int, steps: Sequence[int]) -> None:
        """Make these outputs of a pick once more, each for as many times as it is in `steps`."""
        sample = self._loaded(ref)
        if sample is NOTHING:
            return
        kept = self._outputs, self._pick, self._step, self._key, self._origin, self._late
        try:
            self._outputs, self._pick, self._step = self._outputs_of(sample, ref), pick, 0
            for step in range(max(steps) + 1):
                item = self._next_output()
                if item is None:
                    break
                if step in steps:
                    self._remade[pick, step] = [item] * steps.count(step)
        finally:
            self._outputs, self._pick, self._step, self._key, self._origin, self._late = kept

    def count_barren(self, picks: int) -> None:
        """So many picks more in a row gave nothing; 0: one gave something. Raises LoaderError (WDS505) at last."""
        self._barren = self._barren + picks if picks else 0
        give_up_if_barren(self._barren, self._stage.patience)


def _parts(address: Address) -> tuple[int, int]:
    """Pick and step; a piece of a sample has more in its address."""
    return (address[0], address[1]) if isinstance(address, list) else (address, 0)


def _not_any_more(ref: Ref, pick: int, step: int) -> LoaderError:
    source, block, i = ref
    return LoaderError(
        f"the sample of pick {pick} gives no output {step} any more",
        where=source.where(block, i),
        hint="resume with the hooks and the data of the run that saved the state",
        code="WDS502",
    )
