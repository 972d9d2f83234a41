"""What ranks do that have not equally many batches: keep them, pad, drop; alone where that is known, else together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.hooked import Draws
from wdsctl.core.errors import LoaderError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_val_dataset

BATCHES, SIZE = 5, 4


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), BATCHES * SIZE, parts=numbered, split={"val": 1.0})


def loader_of(path: str, rank: int, uneven: Any, encoder: Any = None) -> Loader:
    workers = WorkerConfig(rank, 2, 0)
    encoder = encoder or Raw()
    return get_loader(
        get_val_dataset(path, batch_size=SIZE, uneven=uneven, worker_config=workers, task_encoder=encoder)
    )


@pytest.mark.parametrize(
    ("uneven", "padding"),
    [
        ("keep", [[False] * 3, [False] * 2]),
        ("drop", [[False] * 2, [False] * 2]),
        ("pad", [[False] * 3, [False, False, True]]),
    ],
)
def test_ranks_have_as_many_batches_as_was_asked_for_in_every_pass(
    uneven: str, padding: list[list[bool]], dataset: str
) -> None:
    for rank in range(2):
        loader = loader_of(dataset, rank, uneven)
        for _ in range(2):
            assert [loader.is_padding for _ in loader] == padding[rank]
        assert len(loader) == len(padding[rank])


def test_padding_is_the_last_batch_once_more(dataset: str) -> None:
    batches = list(loader_of(dataset, 1, "pad"))

    assert batches[2] is batches[1]


def test_a_rank_without_any_batch_has_nothing_to_pad_with(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 1, parts=numbered, split={"val": 1.0})

    with pytest.raises(LoaderError, match="nothing to pad with") as raised:
        next(iter(loader_of(path, 1, "pad")))

    assert raised.value.code == "WDS511"


@pytest.mark.parametrize("uneven", ["pad", "drop"])
def test_where_hooks_decide_the_ranks_have_to_talk(uneven: str, dataset: str) -> None:
    with pytest.raises(LoaderError, match=r"torch\.distributed is not running") as raised:
        next(iter(loader_of(dataset, 0, uneven, Draws())))

    assert raised.value.code == "WDS510"
