"""The first N draws of a job over N samples are these N samples, on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, numbered
from wdsctl.core.blend import Blender
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, merge_states


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    root = tmp_path_factory.mktemp("data")
    return {n: a_dataset(root / str(n), n, shard_samples=-(-n // 7), parts=numbered) for n in (48, 300, 5000)}


def job(path: Any, batch: int | None, ranks: int, states: Any = None, **options: Any) -> list[Any]:
    loaders = []
    for rank in range(ranks):
        config = WorkerConfig(rank, ranks, 0)
        dataset = get_train_dataset(path, batch_size=batch, worker_config=config, task_encoder=Raw(), **options)
        loaders.append(get_loader(dataset))
        if states is not None:
            loaders[-1].load_state_dict(states)
    return loaders


def draw_batches(loaders: list[Any], batches: int, first: int = 0) -> list[list[tuple[str, bytes]]]:
    """Returns batches of the whole job in order."""
    streams = [iter(loader) for loader in loaders]
    items = (next(streams[number % len(streams)]) for number in range(first, first + batches))
    return [list(zip(batch["__key__"], batch["txt"], strict=True)) for batch in items]


def count_distinct(samples: list[Any], n: int) -> list[int]:
    """Returns the number of distinct samples in each run of n samples."""
    return [len(set(samples[i : i + n])) for i in range(0, len(samples) - n + 1, n)]


@pytest.mark.parametrize(
    ("n", "batch"),
    [
        *((n, batch) for n in (48, 300, 5000) for batch in (16, 64)),
        *((48, 1), (300, 1), pytest.param(5000, 1, marks=pytest.mark.slow)),
    ],
)
@pytest.mark.parametrize("ranks", [1, 4, 6])
def test_first_n_draws_of_job_are_its_n_samples(n: int, batch: int, ranks: int, datasets: dict[int, str]) -> None:
    batches = draw_batches(job(datasets[n], batch, ranks), 2 * n // batch + 2)

    samples = [sample for each in batches for sample in each]

    assert count_distinct(samples, n)[:2] == [n, n]
    if batch <= n:
        assert all(len(set(each)) == batch for each in batches)


@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("ranks", [1, 3])
def test_unshuffled_job_draws_samples_in_order(batch: int | None, ranks: int, datasets: dict[int, str]) -> None:
    loaders = job(datasets[300], batch, ranks, shuffle=False)
    streams = [iter(loader) for loader in loaders]
    drawn_keys: list[str] = []
    for number in range(600 // (batch or 1)):
        items = next(streams[number % ranks])["__key__"]
        drawn_keys += [items] if batch is None else items

    assert drawn_keys == sorted(set(drawn_keys)) * 2
    assert len(set(drawn_keys)) == 300


@pytest.mark.parametrize("n", [300, 5000])
def test_first_n_draws_are_distinct_after_resume_with_lane_split(n: int, datasets: dict[int, str]) -> None:
    four = job(datasets[n], 16, 4)
    before = draw_batches(four, 8)
    state = merge_states([loader.state_dict() for loader in four])

    after = draw_batches(job(datasets[n], 16, 6, state), 3 * n // 16)

    samples = [sample for each in [*before, *after] for sample in each]
    assert count_distinct(samples, n)[:2] == [n, n]


@pytest.mark.parametrize("ranks", [1, 4, 6])
def test_first_n_draws_of_component_with_whole_share_are_distinct(ranks: int, tmp_path: Path) -> None:
    def make_dataset(name: str, n: int) -> str:
        return a_dataset(tmp_path / name, n, shard_samples=50, parts=lambda i: {"txt": f"{name} {i}".encode()})

    paths = [make_dataset("small", 300), make_dataset("large", 900)]
    batches = draw_batches(job(Blender([(paths[0], 1), (paths[1], 3)]), 16, ranks), 160)

    texts = [text.split()[0].decode() + key for each in batches for key, text in each]
    assert count_distinct([text for text in texts if text.startswith("small")], 300)[:2] == [300, 300]
    assert count_distinct([text for text in texts if text.startswith("large")], 900)[:2] == [900, 900]
