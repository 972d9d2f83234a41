"""Time windows over any dataset whose keys are SEQUENCE/NUMBER: parts of neighbouring samples, stacked."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.loader.datasets import a_shard
from tests.loader.running import raising_worker_config
from tests.prepare_requests import prepare_request
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, get_val_dataset


def a_frame(shade: int) -> dict[str, bytes]:
    image, array = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.full((4, 6, 3), shade, np.uint8)).save(image, "png")
    np.save(array, np.array([shade, -shade], np.float32))
    return {"png": image.getvalue(), "npy": array.getvalue(), "txt": str(shade).encode()}


def make_frames(root: Path, shards: list[list[tuple[str, int]]], fps: float = 10, sequences: str = "") -> str:
    for number, samples in enumerate(shards):
        a_shard(root / f"{number}.tar", [(key, a_frame(shade)) for key, shade in samples])
    prepare(str(root), None, prepare_request(sample_type="CrudeSample"))
    with open(root / ".wdsctl/dataset.yaml", "a") as file:
        file.write(sequences or f"sequences: {{fps: {fps}}}\n")
    return str(root)


def sequence(name: str, shades: range) -> list[tuple[str, int]]:
    return [(f"{name}/{i:04d}", shade) for i, shade in enumerate(shades, 7)]


def samples(root: str, windows: Any, **options: Any) -> list[Any]:
    dataset = get_val_dataset(
        root,
        split_part="train",
        delta_timestamps=windows,
        worker_config=raising_worker_config(),
        batch_size=None,
        **options,
    )
    return list(get_loader(dataset))


def test_windows_stack_parts_within_sequence_and_across_shards(tmp_path: Path) -> None:
    first, second = sequence("a", range(10, 16)), sequence("b", range(50, 53))
    root = make_frames(tmp_path, [first[:4], [*first[4:], *second]])
    found = samples(root, {"npy": [-0.1, 0, 0.2], "png": [0.1, -0.5]})
    shades = {sample["__key__"]: sample["npy"][:, 0].tolist() for sample in found}
    assert shades["a/0007"] == [10, 10, 12]
    assert shades["a/0010"] == [12, 13, 15]
    assert shades["a/0012"] == [14, 15, 15]
    assert shades["b/0007"] == [50, 50, 52]
    last = next(sample for sample in found if sample["__key__"] == "a/0012")
    assert last["npy_is_pad"].tolist() == [False, False, True]
    assert last["png"].shape == (2, 3, 4, 6)
    assert torch.equal(last["png"][:, 0, 0, 0] * 255, torch.tensor([15.0, 10.0]))
    assert last["txt"] == "15"


def test_windows_are_same_with_workers(tmp_path: Path) -> None:
    root = make_frames(tmp_path, [sequence("a", range(40)), sequence("b", range(100, 130))])

    def batches(workers: int) -> list[Any]:
        config = WorkerConfig(num_workers=workers)
        dataset = get_train_dataset(
            root, batch_size=5, delta_timestamps={"png": [-0.1, 0]}, worker_config=config, repeat=False
        )
        return [batch["png"] for batch in get_loader(dataset)]

    for actual, other in zip(batches(0), batches(2), strict=True):
        assert torch.equal(actual, other)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a/1", "a/2", "a/4"], "found frame 4 in the place of frame 3"),
        (["a/2", "a/1"], "found frame 1 in the place of frame 3"),
        (["a/1", "b/1", "a/2"], "are in different places"),
        (["one", "two"], "the key 'one' is not SEQUENCE/NUMBER"),
    ],
)
def test_window_over_broken_sequence_reports_problem(tmp_path: Path, keys: list[str], message: str) -> None:
    root = make_frames(tmp_path, [[(key, 1) for key in keys]])
    with pytest.raises(SampleFailed, match=message):
        samples(root, {"npy": [0, 0.1]})


def test_window_refuses_part_that_is_no_tensor_or_unknown(tmp_path: Path) -> None:
    root = make_frames(tmp_path, [sequence("a", range(3))])
    with pytest.raises(SampleFailed, match="cannot stack the values of 'txt'"):
        samples(root, {"txt": [0, 0.1]})
    with pytest.raises(UsageError, match="no feature 'jpg'"):
        samples(root, {"jpg": [0]})


def test_delta_timestamps_refuse_dataset_without_sequences(tmp_path: Path) -> None:
    root = make_frames(tmp_path, [sequence("a", range(3))], sequences="#\n")
    with pytest.raises(UsageError, match="needs a dataset whose samples are frames"):
        samples(root, {"npy": [0]})
