"""A state in the middle of a packing window is refused if hooks of the same names would now make other packs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import digests, json_round_trip, save_state_after
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, SkipSample, WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.packing import Packing


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 300, shard_samples=100, parts=numbered)


class Lengths(Raw):
    """Samples of different lengths, times `factor`; skips one in `skips`."""

    def __init__(self, factor: int = 1, skips: int = 1000) -> None:
        self.factor, self.skips = factor, skips

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number % self.skips == 1:
            raise SkipSample
        return {**sample, "tokens": [number] * ((number * 7 % 23 + 1) * self.factor)}

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "keys": [sample["__key__"] for sample in samples]}


class Selects(Lengths):
    """Packs neighbours, `2 * factor` at a time."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        size = 2 * self.factor
        return [samples[i : i + size] for i in range(0, len(samples), size)]


def count_tokens(sample: Any) -> int:
    return len(sample["tokens"])


def ten(sample: Any) -> int:
    return 10


PACKED: dict[str, Any] = {"packing": Packing(length=count_tokens, capacity=100, window=64)}
SELECTED: dict[str, Any] = {"packing_buffer_size": 12}


def packed(path: str, encoder: Raw, workers: int = 0, **options: Any) -> Loader:
    config = WorkerConfig(num_workers=workers)
    options = {"batch_size": 1, "lanes": 1, "worker_config": config, **options}
    return get_loader(get_train_dataset(path, task_encoder=encoder, **options))


def resumed(loader: Loader, state: Any) -> Loader:
    loader.load_state_dict(json_round_trip(state))
    return loader


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("encoder", "options"), [(Lengths, PACKED), (Selects, SELECTED)])
@pytest.mark.parametrize("steps", [1, 3])
def test_state_within_window_refuses_hooks_that_make_other_packs(
    dataset: str, encoder: type[Lengths], options: Any, steps: int, workers: int
) -> None:
    state = save_state_after(packed(dataset, encoder(), **options), steps)

    with resumed(packed(dataset, encoder(factor=2), workers, **options), state) as loader:
        with pytest.raises(StateMismatch, match="samples of unfinished packs would come twice or never") as raised:
            list(loader)
        assert loader.state_dict()["cursors"] == state["cursors"], "the state is not lost"

    assert raised.value.code == "WDS501"


def test_state_within_window_refuses_other_samples_of_equal_lengths(dataset: str) -> None:
    options: dict[str, Any] = {"packing": Packing(length=ten, capacity=100, window=64)}
    state = save_state_after(packed(dataset, Lengths(), **options), 1)

    with pytest.raises(StateMismatch, match="a packing window has other samples or lengths"):
        next(iter(resumed(packed(dataset, Lengths(skips=5), **options), state)))


def test_state_between_windows_refuses_other_lengths_of_carried_samples(dataset: str) -> None:
    loader = packed(dataset, Lengths(), **PACKED)
    for _ in loader:
        state = json_round_trip(loader.state_dict())
        pack = state["cursors"]["0"]["stream"]["upstream"]
        if pack["carried"] and not pack["packs"]:
            break
    expected = digests(loader, 20)

    assert digests(resumed(packed(dataset, Lengths(), **PACKED), state), 20) == expected
    with pytest.raises(StateMismatch, match="a packing window has other samples or lengths"):
        next(iter(resumed(packed(dataset, Lengths(factor=2), **PACKED), state)))


def test_state_without_waiting_samples_takes_changed_hooks(dataset: str) -> None:
    options: dict[str, Any] = {"packing": Packing(length=ten, capacity=10, window=64)}
    state = packed(dataset, Lengths(), **options).state_dict()

    assert digests(resumed(packed(dataset, Lengths(factor=2), **options), state), 2)


@pytest.mark.parametrize(("encoder", "options"), [(Lengths, PACKED), (Selects, SELECTED)])
def test_changed_shards_skip_continues_with_other_packs(
    dataset: str, encoder: type[Lengths], options: Any, caplog: pytest.LogCaptureFixture
) -> None:
    state = save_state_after(packed(dataset, encoder(), **options), 1)
    loader = resumed(packed(dataset, encoder(factor=2), changed_shards="skip", **options), state)

    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        assert len(digests(loader, 20)) == 20

    (line,) = [line for line in caplog.messages if "unfinished packs" in line]
    assert line.endswith("the run continues because of changed_shards='skip'")
