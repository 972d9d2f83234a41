"""Training in place from shards of other formats gives the samples of a converted copy, as exactly as tars do."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import children
from tests.in_place import a_dataset_of_parquet, write_litdata, write_mds, write_zip
from tests.loader.datasets import Raw, a_dataset
from tests.loader.in_place_process import blend_of
from tests.loader.mixed import everything, number_of
from tests.loader.test_matrix import content
from tests.places import place_dataset
from tests.prepare_requests import prepare_request
from wdsctl import Dataset
from wdsctl.core.blend import Blender
from wdsctl.core.errors import InputError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, merge_states

FORMS = Path(__file__).parents[1] / "golden" / "forms"
SIZES = {"tar": 120, "mds": 90, "litdata": 61, "zip": 33}
STEPS = 240


def _rows(name: str) -> list[dict[str, bytes]]:
    return [{"number": b"%d" % i, "text": f"{name} {i}".encode()} for i in range(SIZES[name])]


def _pieces(rows: list[dict[str, bytes]], size: int) -> list[list[dict[str, bytes]]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def write_all(folder: Path) -> dict[str, Path]:
    """A dataset of each format, of several shards; the part `number` says which sample it is."""
    columns = {"number": "str", "text": "str"}
    roots = {name: folder / name for name in SIZES}
    write_mds(roots["mds"], columns, _pieces(_rows("mds"), 40))
    write_litdata(roots["litdata"], columns, _pieces(_rows("litdata"), 30))
    for i, rows in enumerate(_pieces(_rows("zip"), 20)):
        entries = {f"{i}-{at}.{name}.txt": row[name] for at, row in enumerate(rows) for name in columns}
        write_zip(roots["zip"] / f"part-{i}.zip", entries)
    return roots


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    roots = write_all(folder)
    paths = {
        "tar": a_dataset(
            roots["tar"], SIZES["tar"], shard_samples=50, parts=lambda i: {"number.txt": b"%d" % i, "text.txt": b"x"}
        )
    }
    for name in ("mds", "litdata", "zip"):
        paths[name] = str(roots[name])
        report = prepare(paths[name], None, prepare_request(sample_type="CrudeSample"))
        assert report.index is not None
        assert report.index.samples == SIZES[name]
    return paths


@pytest.fixture(scope="module")
def blend(paths: dict[str, str]) -> Blender:
    return blend_of(paths)


def run_world(blend: Blender, ranks: int, workers: int, steps: int, state: Any = None) -> tuple[list[str], Any]:
    """Return the global batches with every hook, on lanes that 1, 2 and 3 ranks divide, and the state after them."""
    loaders = [get_loader(everything(blend, rank, ranks, workers, lanes=12)) for rank in range(ranks)]
    for loader in loaders:
        loader.restore_state_rank(state)
    batches = [content(next(iter(loader))) for _ in range(steps) for loader in loaders]
    merged = json.loads(json.dumps(merge_states([loader.state_dict() for loader in loaders])))
    for loader in loaders:
        loader.close()
    return batches, merged


@pytest.fixture(scope="module")
def truth(blend: Blender) -> list[str]:
    return run_world(blend, 1, 0, STEPS)[0]


@pytest.mark.parametrize(("before", "after"), [((1, 2), (3, 0)), ((2, 0), (2, 2)), ((3, 0), (2, 0)), ((3, 2), (1, 0))])
def test_states_resume_exactly_on_other_ranks_and_workers(
    blend: Blender, truth: list[str], before: tuple[int, int], after: tuple[int, int]
) -> None:
    head, state = run_world(blend, *before, 30 // before[0])
    assert head == truth[: len(head)]
    tail, _ = run_world(blend, *after, 36 // after[0], state)
    assert tail == truth[len(head) : len(head) + 36]


@pytest.mark.slow
def test_killed_training_resumes_exactly_on_other_ranks(
    paths: dict[str, str], truth: list[str], tmp_path: Path
) -> None:
    rng = random.Random(7)
    for ranks, workers in ((1, 2), (3, 0), (2, 1), (1, 0)):
        arguments = [json.dumps(paths), str(tmp_path), str(ranks), str(workers), str(STEPS)]
        process = children.Popen(
            [sys.executable, "-m", "tests.loader.in_place_process", *arguments],
            start_new_session=True,
            parent="training",
        )
        before = len(saved_batches(tmp_path))
        while len(saved_batches(tmp_path)) < before + 20:  # training is running; the kill can hit any moment of a step
            assert process.poll() is None
            time.sleep(rng.uniform(0.001, 0.02))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    batches = saved_batches(tmp_path)

    assert len(batches) >= 80
    assert batches[: len(truth)] == truth[: len(batches)]


def saved_batches(folder: Path) -> list[str]:
    try:
        found: list[str] = json.loads((folder / "state.json").read_text())["batches"]
    except FileNotFoundError:
        return []
    return found


class Numbered(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return {name: value for name, value in sample.items() if name.startswith("__")} | {"number": number_of(sample)}


def test_each_sample_is_read_once_across_saves_and_rank_changes(blend: Blender) -> None:
    seen: Counter[tuple[Any, ...]] = Counter()
    state: Any = None
    for ranks, steps in ((1, 9), (3, 11), (2, 7), (1, 400)):
        loaders = [
            get_loader(
                get_train_dataset(
                    blend,
                    batch_size=3,
                    shuffle_buffer_size=8,
                    max_samples_per_sequence=3,
                    lanes=12,
                    task_encoder=Numbered(),
                    worker_config=WorkerConfig(rank, ranks),
                )
            )
            for rank in range(ranks)
        ]
        for loader in loaders:
            loader.restore_state_rank(state)
        for _ in range(steps):
            for loader in loaders:
                seen.update(tuple(key) for key in next(iter(loader))["__restore_key__"])
        state = json.loads(json.dumps(merge_states([loader.state_dict() for loader in loaders])))
    assert max(seen.values()) == 1
    for source, size in enumerate(SIZES.values()):
        assert Counter(number for each, number, *_ in seen if each == source)[0] == size


def test_order_in_place_equals_order_of_converted_copy(tmp_path: Path) -> None:
    """The same samples in shards of the same number and sizes: the order depends on nothing else."""
    rows = _pieces(_rows("mds"), 40)
    write_mds(tmp_path / "mds", {"number": "str", "text": "str"}, rows)
    prepare(str(tmp_path / "mds"), None, prepare_request(sample_type="CrudeSample"))
    for i, piece in enumerate(rows):
        copy = {f"{at}.{name}.txt": row[name] for at, row in enumerate(piece) for name in row}
        write_zip(tmp_path / "zip" / f"part-{i}.zip", copy)
    prepare(str(tmp_path / "zip"), None, prepare_request(sample_type="CrudeSample"))

    orders = [
        [batch["number.txt"] for _, batch in zip(range(70), loader_of(tmp_path / name), strict=False)]
        for name in ("mds", "zip")
    ]

    assert orders[0] == orders[1]


def loader_of(path: Path | str, encoder: Any = None, **options: Any) -> Any:
    settings = {"batch_size": 2, "shuffle_buffer_size": 8, "max_samples_per_sequence": 3, **options}
    return get_loader(
        get_train_dataset(str(path), task_encoder=encoder or Raw(), worker_config=WorkerConfig(0, 1, 0), **settings)
    )


class SingleSamples(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Values as the loader decodes them, one sample a batch."""

    def batch(self, samples: list[Any]) -> Any:
        return samples[0]


def decode_samples(path: Path | str, count: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    loader = loader_of(path, SingleSamples(), batch_size=1, shuffle_buffer_size=None, max_samples_per_sequence=None)
    for _, sample in zip(range(count), loader, strict=False):
        found[sample["__key__"]] = {name: value for name, value in sample.items() if not name.startswith("__")}
    return found


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=0, abs_tol=0)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("form", ["mds", "litdata"])
def test_values_in_place_equal_values_of_converted_copy(tmp_path: Path, form: str) -> None:
    source = tmp_path / form
    shutil.copytree(FORMS / form, source)
    prepare(str(source), str(tmp_path / "copy"), prepare_request(sample_type="CrudeSample"))
    prepare(str(source), None, prepare_request(sample_type="CrudeSample"))

    original, copy = decode_samples(source, 5), decode_samples(tmp_path / "copy", 5)

    assert sorted(original) == sorted(copy)
    assert len(original) == 5
    for key, parts in original.items():
        fields = copy[key]["json"]
        others = {name.partition(".")[0]: value for name, value in copy[key].items() if name != "json"}
        assert {name.partition(".")[0] for name in parts} == {*fields, *others}
        for name, value in parts.items():
            column = name.partition(".")[0]
            assert is_equal(value, fields[column] if column in fields else others[column]), (key, name)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", ["s3"], indirect=True)
@pytest.mark.parametrize("form", ["mds", "litdata", "zip"])
def test_loader_reads_foreign_formats_from_s3(tmp_path: Path, form: str) -> None:
    url = place_dataset(write_all(tmp_path)[form])
    prepare(url, None, prepare_request(sample_type="CrudeSample"))

    numbers = [number for batch in loader_of(url, repeat=False) for number in batch["number.txt"]]

    assert len(set(numbers)) == len(numbers) == SIZES[form]


def test_loader_refuses_former_dataset_of_parquet_with_command_that_copies(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    root = a_dataset_of_parquet(tmp_path / "table")

    for opened in (lambda path: next(iter(loader_of(path))), Dataset):
        with pytest.raises(InputError, match="Parquet files, which wdsctl no longer reads in place") as caught:
            opened(root)
        assert f"`wdsctl prepare {root} DEST`" in caught.value.hint
