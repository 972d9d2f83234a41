"""Blends of many entries: every command's work grows with their number, and never with its square.

The tests count the calls of each function at N and 2N entries. Work that grows with the square makes four times as many
calls.
"""

from __future__ import annotations

import cProfile
import pstats
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.loader.datasets import Raw, a_dataset, numbered
from wdsctl.core.checkpoint.state import merge_states
from wdsctl.core.errors import InputError
from wdsctl.core.inspect.blend import inspect_blend
from wdsctl.core.validate.blend import validate_blend
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

ENTRIES = 12
WORLD = 2


class CountedName(str):
    """A name whose comparisons are calls, so that a search through a list of names is counted, too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Distinct prepared datasets, for twice as many entries."""
    place = tmp_path_factory.mktemp("many")
    first = a_dataset(place / "0", 40, parts=numbered)
    others = [str(place / str(i)) for i in range(1, 2 * ENTRIES)]
    for path in others:
        shutil.copytree(first, path)
    return [first, *others]


def a_blend(folders: list[str], *, schedule: bool = False) -> dict[str, Any]:
    """A blend that names each dataset twice."""
    entries = [
        {"path": path, "weight": 1 + (i + turn) % 7, "name": CountedName(f"entry-{i}-{turn}")}
        for i, path in enumerate(folders)
        for turn in range(2)
    ]
    weights = {entry["name"]: 3 for entry in entries}
    return {"blend": entries, **({"schedule": [{"step": 2, "weights": weights}]} if schedule else {})}


def a_blend_file(folders: list[str], path: Path) -> str:
    path.write_text(yaml.safe_dump({"splits": {"train": {"blend": [{"path": each} for each in folders]}}}))
    return str(path)


def a_rank(blend: Any, rank: int = 0, world: int = WORLD) -> Loader:
    config = WorkerConfig(rank, world)
    return get_loader(get_train_dataset(blend, batch_size=4, task_encoder=Raw(), worker_config=config))


def count_calls(work: Callable[[], object]) -> Counter[Any]:
    """The calls of each function, Python's own included, by file, line and name."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return Counter({name: numbers[1] for name, numbers in pstats.Stats(profile).stats.items()})  # type: ignore[attr-defined]


def assert_linear(work: Callable[[list[str]], Callable[[], object]], folders: list[str]) -> None:
    """`work` returns what to count, for a list of datasets. What it does before it returns is not counted."""
    work(folders[:2])()  # imports
    few, many = count_calls(work(folders[:ENTRIES])), count_calls(work(folders))
    steep = {name: (few[name], calls) for name, calls in many.items() if calls > 2.3 * few[name] + 6 * ENTRIES}

    assert steep == {}


def save_states(blend: Any) -> list[Any]:
    states = []
    for rank in range(WORLD):
        loader = a_rank(blend, rank)
        next(iter(loader))
        states.append(loader.save_state_rank())
    return states


@pytest.mark.parametrize("schedule", [False, True])
def test_calls_of_first_batch_grow_linearly_with_entries(schedule: bool, folders: list[str]) -> None:
    def first_batch(folders: list[str]) -> Callable[[], object]:
        blend = a_blend(folders, schedule=schedule)
        return lambda: next(iter(a_rank(blend)))

    assert_linear(first_batch, folders)


def test_calls_of_saving_and_merging_grow_linearly_with_entries(folders: list[str]) -> None:
    def save(folders: list[str]) -> Callable[[], object]:
        loader = a_rank(a_blend(folders))
        next(iter(loader))
        return loader.save_state_rank

    def merge(folders: list[str]) -> Callable[[], object]:
        states = save_states(a_blend(folders))
        return lambda: merge_states(states)

    assert_linear(save, folders)
    assert_linear(merge, folders)


@pytest.mark.parametrize("world", [WORLD, 3])  # on three ranks, lanes are split
def test_calls_of_resuming_grow_linearly_with_entries(world: int, folders: list[str]) -> None:
    def resume(folders: list[str]) -> Callable[[], object]:
        blend = a_blend(folders)
        state = merge_states(save_states(blend))

        def load() -> None:
            loader = a_rank(blend, 1, world)
            loader.load_state_dict(state)
            next(iter(loader))

        return load

    assert_linear(resume, folders)


def test_calls_of_validation_loader_grow_linearly_with_entries(folders: list[str]) -> None:
    def validate(folders: list[str]) -> Callable[[], object]:
        blend = a_blend(folders)

        def load() -> None:
            loader = get_loader(get_val_dataset(blend, split_part="train", batch_size=4, task_encoder=Raw()))
            next(iter(loader))
            loader.state_dict()

        return load

    assert_linear(validate, folders)


def test_calls_of_inspect_and_validate_grow_linearly_with_entries(folders: list[str], tmp_path: Path) -> None:
    def inspect(folders: list[str]) -> Callable[[], object]:
        path = a_blend_file(folders * 2, tmp_path / "blend.yaml")
        return lambda: inspect_blend(path)

    def validate(folders: list[str]) -> Callable[[], object]:
        path = a_blend_file(folders * 2, tmp_path / "blend.yaml")
        for folder in folders:  # without the findings of an earlier check
            Path(folder, ".wdsctl", "ledger.sqlite").unlink(missing_ok=True)
        return lambda: validate_blend(path, ValidateRequest(levels=("structure",)))

    assert_linear(inspect, folders)
    assert_linear(validate, folders)


def test_one_missing_dataset_of_10000_entries_is_one_error_with_its_entry(folders: list[str], tmp_path: Path) -> None:
    entries = [{"path": folders[i % 2]} for i in range(10_000)]
    entries[1_000] = {"path": str(tmp_path / "gone")}

    with pytest.raises(InputError, match="the dataset does not exist") as raised:
        a_rank({"blend": entries})

    assert raised.value.where == f"{tmp_path / 'gone'} (mapping.blend[1000].path)"
