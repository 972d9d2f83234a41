"""Ranks with unequal numbers of batches keep, pad or drop them; they communicate only if hooks decide the number."""

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
def test_uneven_option_determines_batches_of_ranks_in_every_pass(
    uneven: str, padding: list[list[bool]], dataset: str
) -> None:
    for rank in range(2):
        loader = loader_of(dataset, rank, uneven)
        for _ in range(2):
            assert [loader.is_padding for _ in loader] == padding[rank]
        assert len(loader) == len(padding[rank])


def test_padding_repeats_last_batch(dataset: str) -> None:
    batches = list(loader_of(dataset, 1, "pad"))

    assert batches[2] is batches[1]


def test_rank_without_batch_pads_with_batch_of_another_rank(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 1, parts=numbered, split={"val": 1.0})
    loaders = [loader_of(path, rank, "pad") for rank in range(2)]

    own, padded = ([(digest(batch), loader.is_padding) for batch in loader] for loader in loaders)

    assert padded == [(own[0][0], True)]
    assert own == [(own[0][0], False)]
    assert loaders[1].stats.batches == 0, "what only evens out is not counted"


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_resumed_pass_is_padded_with_same_batch(steps: int, dataset: str) -> None:
    expected = [digest(batch) for batch in loader_of(dataset, 1, "pad")]
    loader, resumed = loader_of(dataset, 1, "pad"), loader_of(dataset, 1, "pad")
    list(islice(loader, steps))

    resumed.load_state_dict(loader.state_dict())

    assert [digest(batch) for batch in resumed] == (expected[steps:] or expected)


def test_loader_pads_restored_pass_with_a_batch_of_that_pass(dataset: str) -> None:
    batches = [digest(batch) for batch in loader_of(dataset, 1, "pad")]
    saved, loader = loader_of(dataset, 1, "pad"), loader_of(dataset, 1, "pad")
    list(islice(saved, 2))
    list(islice(loader, 1))  # its last batch is an earlier one

    loader.load_state_dict(saved.state_dict())

    assert [digest(batch) for batch in loader] == batches[2:] == [batches[1]]


def test_rank_with_only_failed_batches_cannot_pad(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 3, shard_samples=1, parts=numbered, split={"val": 1.0})
    for tar in sorted(Path(path).rglob("*.tar"))[:2]:
        tar.write_bytes(b"")
    workers = WorkerConfig(1, 4, global_error_handler=lambda *_: None)
    options: dict[str, Any] = {"limit": 1, "ban": ["000002"], "task_encoder": Raw()}
    loader = get_loader(get_val_dataset(path, batch_size=3, uneven="pad", worker_config=workers, **options))

    with pytest.raises(LoaderError, match="no batch of this pass to pad with") as raised:
        next(iter(loader))

    assert raised.value.code == "WDS511"


@pytest.mark.parametrize("reason", ["banned", "unreadable"])
@pytest.mark.parametrize("uneven", ["pad", "drop"])
def test_rank_pads_batch_whose_samples_are_all_banned_or_failed(uneven: Any, reason: str, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 4, shard_samples=1, parts=numbered, split={"val": 1.0})
    if reason == "unreadable":
        sorted(Path(path).rglob("*.tar"))[3].write_bytes(b"")
    ban = ["000003"] if reason == "banned" else []
    options: dict[str, Any] = {"uneven": uneven, "ban": ban, "task_encoder": Raw()}
    loaders = [
        get_loader(get_val_dataset(path, batch_size=1, worker_config=WorkerConfig(rank, 2), **options))
        for rank in range(2)
    ]

    for _ in range(2):
        loops = [[(batch["__key__"], loader.is_padding) for batch in loader] for loader in loaders]
        assert loops[0] == [(["000000"], False), (["000002"], False)]
        assert loops[1] == [(["000001"], False), (["000001"], True)]
    assert [len(loader) for loader in loaders] == [2, 2]


@pytest.mark.parametrize("uneven", ["pad", "drop"])
def test_uneven_option_needs_torch_distributed_if_hooks_decide_batches(uneven: str, dataset: str) -> None:
    with pytest.raises(LoaderError, match=r"needs torch\.distributed") as raised:
        next(iter(loader_of(dataset, 0, uneven, Draws())))

    assert raised.value.code == "WDS510"
