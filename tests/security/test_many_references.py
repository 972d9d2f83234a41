"""The time to open a blend of many references grows linearly, not with their square."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.build import a_dataset, samples, split_by_ratios
from wdsctl.core.blend import read_blend
from wdsctl.core.index.index import index
from wdsctl.core.inspect.blend import inspect_blend
from wdsctl.loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset


class _RawEncoder(DefaultTaskEncoder):
    decoder = None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    root = a_dataset(folder / "data", {"a.tar": samples(0, 4)})
    index(root)
    split_by_ratios(root, {"train": 1})
    return folder


def count_calls(path: str) -> int:
    """Function calls to read a blend file, to inspect it, and until its first batch."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read_blend(path)
        inspect_blend(path)
        dataset = get_train_dataset(
            path, batch_size=2, task_encoder=_RawEncoder(), worker_config=WorkerConfig(0, 1), shuffle_buffer_size=None
        )
        next(iter(get_loader(dataset)))
    finally:
        sys.setprofile(before)
    return calls


def write_blend(folder: Path, references: int, entry: str) -> str:
    path = folder / f"{references}.yaml"
    path.write_text("blend:\n" + "".join(entry.format(i) for i in range(references)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "entry",
    [
        "- {{path: data, weight: 0.1{0}, subflavors: {{n: {0}}}}}\n",
        "- {{path: data, name: n{0}, subset: {{range: [0, 2]}}}}\n",
    ],
)
def test_blend_of_twice_as_many_references_takes_twice_as_many_calls(folder: Path, entry: str) -> None:
    count_calls(write_blend(folder, 1, entry))  # imports modules
    few, many, more = (count_calls(write_blend(folder, references, entry)) for references in (20, 40, 80))
    assert more - many < 2.2 * (many - few)
