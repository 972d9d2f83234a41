"""Frames compared with LeRobot's own reader, if it is installed: 0.3 reads v2.1, later versions read v3.0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.prepare_requests import prepare_request
from tests.robots import CAMERAS, IN_TABLES, LENGTHS, make_v21, make_v30
from wdsctl import Dataset
from wdsctl.core.prepare.prepare import prepare

WINDOWS = {
    "action": [0, 0.1, 0.2, 0.3],
    "observation.state": [-0.2],
    "observation.map": [0, 0.1],
    "next.done": [-0.1, 0.5],
    CAMERAS[0]: [-0.3, -0.1, 0.0, 0.8],
    CAMERAS[1]: [0.1],
    IN_TABLES: [0, 0.1],
}


def test_frames_equal_those_of_lerobot_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lerobot = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    is_v3 = lerobot.CODEBASE_VERSION == "v3.0"
    # LeRobot 0.3 takes a column as images only with the metadata that Hugging Face's writer leaves in the Parquet.
    root = (make_v30 if is_v3 else make_v21)(tmp_path / "set", has_images=is_v3)
    windows = {name: times for name, times in WINDOWS.items() if is_v3 or name != IN_TABLES}
    stats = {name: [0.0, 1.0] for name in ("min", "max", "mean", "std")} | {"count": [1]}
    with open(f"{root}/meta/episodes_stats.jsonl", "w") as file:  # LeRobot 0.3 needs it
        file.writelines(
            json.dumps({"episode_index": i, "stats": {"action": stats}}) + "\n" for i in range(len(LENGTHS))
        )
    prepare(root, None, prepare_request())
    reference = lerobot.LeRobotDataset("a/b", root=root, delta_timestamps=windows)
    actual = Dataset(root, delta_timestamps=windows)
    assert len(reference) == len(actual)
    for i in range(len(actual)):
        expected, found = reference[i], actual[i]
        assert {name for name in found if not name.startswith("__")} == expected.keys()
        for name, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert found[name].dtype == value.dtype, name
                assert torch.equal(found[name], value), (i, name)
            elif name == "task":
                assert found[name] == value
