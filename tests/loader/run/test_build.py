"""Hooks become stages: hooks that are not overridden need none, failures name their samples, and no batch is lost."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.hooked import Draws, Fails, loader_of
from tests.loader.running import digests, take_batches
from wdsctl.core.errors import LoaderError, SampleFailed, StateMismatch, WdsctlError
from wdsctl.loader import (
    Loader,
    SampleDecoder,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.packing.options import Packing

SAMPLES = 60


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


HOOKS = ("encode_sample", "batch", "encode_batch")


# Hooks that fail.


@pytest.mark.parametrize("hook", HOOKS)
def test_failing_hook_is_reported_with_samples_and_error(hook: str, dataset: str) -> None:
    encoder = Fails(hook, ValueError("no good"))
    loader = loader_of(dataset, encoder)
    take_batches(loader, 3)
    encoder.in_calls(1)

    with pytest.raises(LoaderError, match=f"{hook} failed: ValueError: no good") as raised:
        next(iter(loader))

    assert raised.value.code == "WDS503"
    assert raised.value.__cause__ is encoder.error
    assert "0000" in raised.value.where, "keys"
    assert raised.value.hint


@pytest.mark.parametrize("error", [ValueError("no good"), StopIteration(), KeyError("x")], ids=repr)
def test_failing_sample_is_reported_with_dataset_shard_and_key(error: Exception, dataset: str) -> None:
    encoder = Fails("encode_sample", error)
    encoder.in_calls(1)

    with pytest.raises(SampleFailed) as raised:
        next(iter(loader_of(dataset, encoder, shuffle=False, lanes=1)))

    assert raised.value.where == f"dataset {dataset}, shard shard-000.tar, key 000000"
    assert "SkipSample" in raised.value.hint


def test_wdsctl_error_in_hook_is_reported_with_sample(dataset: str) -> None:
    class Decodes(Raw):
        def encode_sample(self, sample: Any) -> Any:
            return SampleDecoder()("jpg", sample["txt"])

    with pytest.raises(SampleFailed) as raised:
        next(iter(loader_of(dataset, Decodes(), shuffle=False, lanes=1)))

    assert raised.value.where == f"dataset {dataset}, shard shard-000.tar, key 000000, part 'jpg'"


@pytest.mark.parametrize("hook", ["batch", "encode_batch"])
def test_samples_without_keys_do_not_hide_hook_error(hook: str, dataset: str) -> None:
    class Keyless(Fails):
        def encode_sample(self, sample: Any) -> Any:
            return {"number": int(sample["__key__"])}

    encoder = Keyless(hook, ValueError("no good"))
    encoder.in_calls(1)

    with pytest.raises(LoaderError, match="no good"):
        next(iter(loader_of(dataset, encoder)))


def test_generator_hook_that_fails_after_output_is_reported(dataset: str) -> None:
    class Breaks(Raw):
        def encode_sample(self, sample: Any) -> Iterator[Any]:
            yield sample
            raise ValueError("in the middle")

    with pytest.raises(SampleFailed, match="in the middle"):
        take_batches(loader_of(dataset, Breaks()), 2)


# After an error, the batch that failed is drawn again, and nothing is lost.


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("error", [ValueError("once"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("place", [0, 1, 6])
def test_failed_batch_is_drawn_again(hook: str, error: BaseException, place: int, dataset: str) -> None:
    expected = digests(loader_of(dataset, Fails("", error)), 40)
    encoder = Fails(hook, error)
    loader = loader_of(dataset, encoder)
    before = digests(loader, place)
    saved = json.dumps(loader.state_dict())
    encoder.in_calls(3 if hook == "encode_sample" else 1, times=2)

    for _ in range(2):
        with pytest.raises((WdsctlError, KeyboardInterrupt)):
            next(iter(loader))
        assert json.dumps(loader.state_dict()) == saved, "a state says where the last batch was that came"
    encoder.times = 0
    resumed = loader_of(dataset, Fails("", error))
    resumed.load_state_dict(json.loads(saved))

    assert before + digests(loader, 40 - place) == expected
    assert digests(resumed, 40 - place) == expected[place:]
    assert loader.stats.batches == 40
    assert loader.stats.samples == 160


def test_keyboard_interrupt_passes_through(dataset: str) -> None:
    encoder = Fails("encode_sample", KeyboardInterrupt())
    encoder.in_calls(1)

    with pytest.raises(KeyboardInterrupt):
        next(iter(loader_of(dataset, encoder)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that hits a destructor
@pytest.mark.parametrize("finite", [False, True], ids=["without end", "in passes"])
def test_interrupts_neither_lose_nor_repeat_batches(finite: bool, dataset: str) -> None:
    def make_loader() -> Loader:
        return loader_of(dataset, Draws(), batch_size=1, repeat=not finite)

    armed: list[bool] = []

    def interrupt(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    delays = random.Random(5)
    count = 6 * SAMPLES
    undisturbed = make_loader()
    expected = [each for _ in range(6) for each in digests(undisturbed, SAMPLES)]
    loader, actual, interrupts = make_loader(), list[str](), 0
    loader.state_dict()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while len(actual) < count or interrupts <= 5:
            batches: list[Any] = []
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, 0.0001 * 1.5 ** delays.randrange(16))
                for batch in islice(loader, 50):
                    batches.append(batch)  # noqa: PERF402 - what came before the interrupt is kept
                armed.clear()
            except KeyboardInterrupt:
                armed.clear()
                interrupts += 1
            actual += map(digest, batches)
            if not finite:
                assert loader.state_dict()["batches_drawn"] == len(actual)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert interrupts > 5
    assert actual[:count] == expected


def test_broken_sample_fails_again_after_restore(dataset: str) -> None:
    class Broken(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if int(sample["__key__"]) == 17:
                raise ValueError("broken")
            return sample

    loader = loader_of(dataset, Broken())
    with pytest.raises(SampleFailed, match="broken"):
        take_batches(loader, SAMPLES)
    resumed = loader_of(dataset, Broken())
    resumed.load_state_dict(loader.state_dict())

    with pytest.raises(SampleFailed, match="broken"):
        next(iter(resumed))


# Stages of hooks.


class First(Raw):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


class Selects(First):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples]


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> tuple[int, int | None]:
        return 0, None


@pytest.mark.parametrize(
    ("encoder", "options", "stages"),
    [
        (Raw(), {}, []),
        (Selects(), {"packing_buffer_size": 4}, ["pack"]),
        (Grouped(), {}, ["group"]),
        (First(), {"packing": Packing(length=lambda _: 1, capacity=3)}, ["pack"]),
        (Raw(), {"buckets": Buckets(of=lambda _: 1, edges=[2])}, ["group"]),
    ],
    ids=["nothing", "packs", "groups", "packs by length", "buckets"],
)
def test_pipeline_has_only_stages_that_hooks_and_options_need(
    encoder: Raw, options: Any, stages: list[str], dataset: str
) -> None:
    loader = loader_of(dataset, encoder, **options)

    assert [entry.partition(":")[0] for entry in loader.state_dict()["plan"]["stages"]] == stages
    assert len(take_batches(loader, 3)) == 3


@pytest.mark.filterwarnings("ignore:WDS516")
@pytest.mark.parametrize("get", [get_train_dataset, get_val_dataset])
def test_pack_hooks_without_packing_buffer_leave_samples_unpacked(get: Any, dataset: str) -> None:
    class Late(Selects):
        def postencode_sample(self, sample: Any) -> Iterator[Any]:
            yield {**sample, "late": True}

    loader = get_loader(get(dataset, batch_size=4, split_part="train", task_encoder=Late()))
    batch = next(iter(loader))

    assert (len(set(batch["__key__"])), batch["late"], loader.state_dict()["plan"]["stages"]) == (4, [True] * 4, [])


def test_state_of_other_stages_is_rejected(dataset: str) -> None:
    state = loader_of(dataset, Grouped()).state_dict()

    with pytest.warns(UserWarning, match="other hooks"), pytest.raises(StateMismatch, match="the stages"):
        loader_of(dataset).load_state_dict(state)
