"""What ranks do that have not equally many batches: keep them, pad, drop; alone where that is known, else together."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
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


def test_a_rank_without_any_batch_pads_with_that_of_another(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 1, parts=numbered, split={"val": 1.0})
    loaders = [loader_of(path, rank, "pad") for rank in range(2)]

    own, padded = ([(digest(batch), loader.is_padding) for batch in loader] for loader in loaders)

    assert padded == [(own[0][0], True)]
    assert own == [(own[0][0], False)]
    assert loaders[1].stats.batches == 0, "what only evens out is not counted"


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_state_of_any_step_is_padded_with_the_same_batch(steps: int, dataset: str) -> None:
    truth = [digest(batch) for batch in loader_of(dataset, 1, "pad")]
    loader, resumed = loader_of(dataset, 1, "pad"), loader_of(dataset, 1, "pad")
    list(islice(loader, steps))

    resumed.load_state_dict(loader.state_dict())

    assert [digest(batch) for batch in resumed] == (truth[steps:] or truth)


def test_a_rank_on_which_every_batch_fails_has_nothing_to_pad_with(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 3, shard_samples=1, parts=numbered, split={"val": 1.0})
    for tar in sorted(Path(path).rglob("*.tar"))[:2]:
        tar.write_bytes(b"")
    workers = WorkerConfig(1, 4, global_error_handler=lambda *_: None)
    options: dict[str, Any] = {"limit": 1, "ban": ["000002"], "task_encoder": Raw()}
    loader = get_loader(get_val_dataset(path, batch_size=3, uneven="pad", worker_config=workers, **options))

    with pytest.raises(LoaderError, match="no batch of this pass to pad with") as raised:
        next(iter(loader))

    assert raised.value.code == "WDS511"


@pytest.mark.parametrize("uneven", ["pad", "drop"])
def test_where_hooks_decide_the_ranks_have_to_talk(uneven: str, dataset: str) -> None:
    with pytest.raises(LoaderError, match=r"needs torch\.distributed") as raised:
        next(iter(loader_of(dataset, 0, uneven, Draws())))

    assert raised.value.code == "WDS510"
