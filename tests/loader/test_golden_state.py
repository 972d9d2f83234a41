"""Every later release resumes states of this release: the file guards the order and the form of states.

A change to the file is a decision: raise ORDER_VERSION or the state's version, and say so in the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.savable import shape_of
from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.blend import Blender
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

FOLDER = Path(__file__).parents[1] / "golden"
#: By version: the states of each version were saved at the same batches of the same jobs.
GOLDEN: dict[int, dict[str, Any]] = {
    version: json.loads((FOLDER / f"state-v{version}.json").read_text("utf-8")) for version in (1, 2)
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("golden")
    return a_dataset(root, 50, shard_samples=12, parts=lambda i: {"txt": b"%d" % i}, split={"train": 4.0, "val": 1.0})


def training(path: str, rank: int = 0, world: int = 1) -> Loader:
    options: dict[str, Any] = {"batch_size": 3, "shuffle_buffer_size": 6, "max_samples_per_sequence": 2, "seed": 7}
    workers = WorkerConfig(rank, world)
    return get_loader(get_train_dataset(path, worker_config=workers, lanes=2, task_encoder=Raw(), **options))


def blend(path: str) -> Loader:
    """Two thirds of one dataset and one third of a subset of it, with weights that change by a schedule."""
    parts = {"path": path, "split_part": "val", "subset": {"range": [1, 8]}}
    blender = Blender([(path, 2), (parts, 1)], schedule=[{"step": 9, "weights": [1, 3]}])
    options: dict[str, Any] = {"batch_size": 3, "shuffle_buffer_size": 6, "max_samples_per_sequence": 2, "lanes": 2}
    return get_loader(get_train_dataset(blender, task_encoder=Raw(), **options))


def validation(path: str) -> Loader:
    return get_loader(get_val_dataset(path, batch_size=3, task_encoder=Raw()))


class Packs(Raw):
    """Yields two copies of every third sample, packs of two or three, and batches of packs of one size."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(1 + (int(sample["__key__"]) % 3 == 0)):
            yield {**sample, "copy": copy}

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:2], samples[4:2:-1], samples[5:]]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "__key__": "+".join(each["__key__"] for each in samples)}

    def batch_group_criterion(self, sample: Any) -> tuple[int, int | None]:
        return len(sample["__key__"]), None


def packing_training(path: str) -> Loader:
    options: dict[str, Any] = {"batch_size": 3, "packing_buffer_size": 8, "seed": 7, "max_samples_per_sequence": 2}
    return get_loader(get_train_dataset(path, lanes=2, task_encoder=Packs(), **options))


LOADERS: dict[str, tuple[Callable[[str], Loader], int]] = {
    "training": (training, 21),
    "blend": (blend, 13),
    "validation": (validation, 2),
    "packed": (packing_training, 7),
}


def keys(batches: Iterable[Any], count: int) -> list[str]:
    return [" ".join(batch["__key__"]) for batch in islice(batches, count)]


def make_golden(path: str) -> dict[str, Any]:
    """Returns the contents of the file. To rewrite it: `python -c 'from tests.loader import
    test_golden_state as golden; golden.main()'`, as states name the module of the hooks."""
    contents: dict[str, Any] = {}
    for name, (open_loader, steps) in LOADERS.items():
        loader = open_loader(path)
        batches = iter(loader)
        first = keys(batches, steps)
        state = loader.state_dict()
        contents[name] = {"first": first, "state": state, "next": keys(batches, 9 if name == "validation" else 12)}
    return contents


@pytest.mark.parametrize("version", GOLDEN)
@pytest.mark.parametrize("name", LOADERS)
def test_state_of_each_version_resumes_with_next_batches(name: str, version: int, dataset: str) -> None:
    loader = LOADERS[name][0](dataset)

    loader.load_state_dict(GOLDEN[version][name]["state"], strict=True)

    assert keys(loader, 12) == GOLDEN[1][name]["next"]


def test_state_of_version_1_resumes_on_two_ranks(dataset: str) -> None:
    merged = {**GOLDEN[1]["training"]["state"], "kind": "world", "rank": -1}
    world = [training(dataset, rank, 2) for rank in range(2)]
    for loader in world:
        loader.load_state_dict(merged)

    streams = [keys(loader, 6) for loader in world]

    assert [key for pair in zip(*streams, strict=True) for key in pair] == GOLDEN[1]["training"]["next"]


def test_order_and_form_of_states_are_unchanged(dataset: str) -> None:
    actual = make_golden(dataset)

    assert actual == GOLDEN[2]
    assert shape_of(actual) == shape_of(GOLDEN[2])


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        parts = {"train": 4.0, "val": 1.0}
        root = a_dataset(Path(folder), 50, shard_samples=12, parts=lambda i: {"txt": b"%d" % i}, split=parts)
        text = json.dumps(make_golden(root), indent=1) + "\n"
    (FOLDER / "state-v2.json").write_text(text, encoding="utf-8")
