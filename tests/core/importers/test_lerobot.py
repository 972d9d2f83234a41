"""LeRobot datasets: what is read from them, and what is refused with which message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.robots import CAMERAS, LENGTHS, TASKS, frame_pixels, make_v21, make_v30, write_video
from wdsctl.core import importers
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, UsageError, WdsctlError
from wdsctl.core.importers.lerobot.frames import frame_lines, frame_tables
from wdsctl.core.importers.lerobot.importer import describe_features
from wdsctl.core.importers.lerobot.metadata import read_robot_dataset
from wdsctl.core.importers.lerobot.videos import check_videos, video_files

EPISODE = "data/chunk-000/episode_000001.parquet"


@pytest.fixture
def v21(tmp_path: Path) -> str:
    return make_v21(tmp_path / "v21", cameras=CAMERAS[:1])


@pytest.fixture
def v30(tmp_path: Path) -> str:
    return make_v30(tmp_path / "v30", cameras=CAMERAS[:1])


def change_info(root: str, change: Callable[[dict[str, Any]], Any]) -> None:
    path = Path(root) / "meta/info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


def change_table(root: str, name: str, values: Any, path: str = EPISODE) -> None:
    table = pq.read_table(f"{root}/{path}")
    at = table.column_names.index(name)
    pq.write_table(table.set_column(at, name, values), f"{root}/{path}")


def lines_of(root: str, *dropped: str) -> list[dict[str, Any]]:
    dataset = read_robot_dataset(root, dropped)
    pieces = b"".join(piece for table in frame_tables(dataset) for piece in frame_lines(dataset, table))
    return [json.loads(line) for line in pieces.splitlines()]


def read_all(root: str) -> None:
    for _ in check_videos(read_robot_dataset(root)):
        pass
    lines_of(root)


def test_lerobot_v21_and_v30_have_same_frames(v21: str, v30: str) -> None:
    old, new = lines_of(v21), lines_of(v30)
    assert len(old) == len(new) == sum(LENGTHS)
    for a, b in zip(old, new, strict=True):
        first, second = a.pop(CAMERAS[0]), b.pop(CAMERAS[0])
        assert a == b
        offset = 0.1 * LENGTHS[0] if a["episode_index"] == 1 else 0.0
        assert second["timestamp"] == pytest.approx(first["timestamp"] + offset)
    assert old[LENGTHS[0] + 3]["__key__"] == "episode_000001/000003"
    assert old[LENGTHS[0]]["task"] == TASKS[1]


def test_lerobot_preserves_float_values_exactly(v21: str) -> None:
    table = pq.read_table(f"{v21}/{EPISODE}")
    states = [
        [float("nan"), float("inf"), -0.0],
        [1e-45, 3.4028235e38, 0.1],
        *table["observation.state"].to_pylist()[2:],
    ]
    change_table(v21, "observation.state", pa.array(states, pa.list_(pa.float32(), 3)))
    lines = [line for line in lines_of(v21) if line["episode_index"] == 1]
    found = np.array([line["observation.state"] for line in lines], np.float64).astype(np.float32)
    np.testing.assert_array_equal(found, np.array(states, np.float32))
    assert np.signbit(found[0, 2])
    assert lines[0]["observation.state"][:2] == ["NaN", "Infinity"]


def test_lerobot_is_recognised_and_described(v21: str) -> None:
    importer, match = importers.best_importer(v21)
    assert (importer.name, match.reason) == ("lerobot", "meta/info.json of LeRobot v2.1")
    uses = {use.name: use.becomes for use in describe_features(read_robot_dataset(v21, ("observation.map",)))}
    assert uses["observation.state"] == "tensor[3]"
    assert uses[CAMERAS[0]] == "frames"
    assert uses["observation.map"] == ""
    with pytest.raises(UsageError, match="prepared in place"):
        importer.open(v21, {})


def test_lerobot_v20_is_read_as_v21(v21: str) -> None:
    expected = lines_of(v21)
    change_info(v21, lambda info: info.update(codebase_version="v2.0"))
    assert lines_of(v21) == expected


def test_check_videos_checks_each_file_once(v30: str) -> None:
    files = video_files(read_robot_dataset(v30))
    assert [file.frames for file in files] == [LENGTHS[0] + LENGTHS[1], LENGTHS[2]]
    assert [file.path for file in check_videos(read_robot_dataset(v30))] == [file.path for file in files]


def _feature(name: str, **values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda info: info["features"].update({name: {"shape": [3], "names": None, **values}})


BAD_INFO: list[tuple[Any, type[WdsctlError], str, str]] = [
    (lambda info: info.update(codebase_version="v4.0"), InputError, "WDS235", "version 'v4.0' are unknown"),
    (lambda info: info.update(codebase_version="v1.6"), InputError, "WDS235", "version 'v1.6' are unknown"),
    (lambda info: info.update(fps=0), DatasetError, "WDS233", "fps is 0"),
    (lambda info: info.update(fps="30"), DatasetError, "WDS233", "fps is '30'"),
    (lambda info: info.update(total_frames=99), DatasetError, "WDS233", "total_frames is 99"),
    (lambda info: info.update(features=[]), DatasetError, "WDS233", "no table of features"),
    (lambda info: info["features"].pop("timestamp"), DatasetError, "WDS233", "lack 'timestamp'"),
    (_feature("x", dtype="complex64"), DatasetError, "WDS234", "'x'.*unknown dtype 'complex64'"),
    (_feature("d", dtype="video", info={"video.is_depth_map": True}), DatasetError, "WDS234", "'d'.*depth map"),
    (_feature("a_is_pad", dtype="bool"), DatasetError, "WDS234", "'a_is_pad'.*name of a field"),
    (_feature("x", dtype="float32", shape=[-1]), DatasetError, "WDS233", "the shape of 'x'"),
    (_feature("x", dtype="float32"), DatasetError, "WDS233", "no column 'x'"),
    (lambda info: info["features"].pop("action"), DatasetError, "WDS233", "column 'action' is not among"),
    (lambda info: info["features"]["action"].update(dtype="int64"), DatasetError, "WDS234", "'action' has the type"),
    (lambda info: info["features"]["action"].update(shape=[3]), DatasetError, "WDS233", r"not of shape \[3\]"),
    (lambda info: info.update(data_path="../{episode_index}.parquet"), DatasetError, "WDS230", r"\.\."),
    (lambda info: info.update(data_path="{episode_index.__class__}"), DatasetError, "WDS233", "does not know"),
    (lambda info: info.update(data_path="{root}"), DatasetError, "WDS233", "has the field {root}"),
    (lambda info: info.update(video_path=None), DatasetError, "WDS233", "video_path is None"),
    (lambda info: info.update(chunks_size=0), DatasetError, "WDS233", "chunks_size is 0"),
]


@pytest.mark.parametrize(("change", "kind", "code", "message"), BAD_INFO, ids=[each[3] for each in BAD_INFO])
def test_lerobot_refuses_invalid_or_unknown_metadata(
    v21: str, change: Any, kind: type[WdsctlError], code: str, message: str
) -> None:
    change_info(v21, change)
    with pytest.raises(kind, match=message) as error:
        read_all(v21)
    assert error.value.code == code
    assert error.value.hint


def test_lerobot_unreadable_feature_can_be_dropped(v21: str) -> None:
    change_info(v21, _feature("cam", dtype="image", shape=[3, 4, 4]))
    images = pa.array([{"bytes": b"png", "path": "x.png"}] * LENGTHS[1])
    for number, length in enumerate(LENGTHS):
        path = f"{v21}/data/chunk-000/episode_{number:06d}.parquet"
        pq.write_table(pq.read_table(path).append_column("cam", images.take(pa.array([0] * length))), path)
    assert "cam" not in lines_of(v21, "cam")[0]
    with pytest.raises(InputError, match="no such feature"):
        read_robot_dataset(v21, ("cm",))
    with pytest.raises(InputError, match="says where a frame belongs"):
        read_robot_dataset(v21, ("index",))


BAD_TABLES: list[tuple[str, Any, str]] = [
    (
        "timestamp",
        pa.array(np.array([0, 0.1, 0.2, 0.35, 0.4, 0.5, 0.6], np.float32)),
        "1 frames are not evenly spaced: episode_000001/000003",
    ),
    ("timestamp", pa.array(np.array([0, 0.1, 0.2, np.nan, 0.4, 0.5, 0.6], np.float32)), "not evenly spaced"),
    ("frame_index", pa.array([0, 1, 2, 4, 3, 5, 6]), "frame_index of row 3 is 4, not 3"),
    ("episode_index", pa.array([1, 1, 1, 2, 1, 1, 1]), "episode_index of row 3 is 2, not 1"),
    ("index", pa.array([0, 1, 2, 3, 4, 5, 6]), "index of row 0 is 0, not 12"),
    ("task_index", pa.array([1, 1, 1, 1, 1, 1, 7]), "row 6 has the task 7"),
    ("task_index", pa.array([1, 1, 1, 1, 1, 1, None]), "nulls"),
    ("action", pa.array([[0.0, 1.0]] * 6 + [[None, 1.0]], pa.list_(pa.float32())), "'action' has nulls"),
    ("action", pa.array([[0.0, 1.0]] * 5 + [[0.0], [0.0, 1.0, 2.0]], pa.list_(pa.float32())), r"shape \[2\]"),
]


@pytest.mark.parametrize(("name", "values", "message"), BAD_TABLES)
def test_lerobot_refuses_rows_that_do_not_match_frames(v21: str, name: str, values: Any, message: str) -> None:
    change_table(v21, name, values)
    with pytest.raises(DatasetError, match=message) as error:
        lines_of(v21)
    assert error.value.code == "WDS233"
    assert EPISODE in error.value.where


def test_lerobot_accepts_timestamps_that_float32_rounds_in_long_episodes(v21: str) -> None:
    change_info(v21, lambda info: info.update(fps=0.00075))
    for number, length in enumerate(LENGTHS):
        times = (np.arange(length) / 0.00075).astype(np.float32)  # of 5,333 s is 0.16 ms off, more than the tolerance
        change_table(v21, "timestamp", pa.array(times), f"data/chunk-000/episode_{number:06d}.parquet")
    assert len(lines_of(v21)) == sum(LENGTHS)


def test_lerobot_refuses_short_or_damaged_table(v21: str) -> None:
    path = Path(v21) / EPISODE
    pq.write_table(pq.read_table(path).slice(0, 5), path)
    with pytest.raises(DatasetError, match="5 rows, but its episodes have 7"):
        lines_of(v21)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DatasetError, match="damaged"):
        lines_of(v21)


def test_lerobot_refuses_missing_short_or_damaged_videos(v21: str) -> None:
    path = Path(v21) / f"videos/chunk-000/{CAMERAS[0]}/episode_000001.mp4"
    write_video(path, frame_pixels(0, 1, LENGTHS[1] - 1))
    with pytest.raises(DatasetError, match=r"6 frames, but the tables of episode 1 have 7"):
        read_all(v21)
    path.write_bytes(b"no video at all")
    with pytest.raises(DatasetError, match="no video that can be decoded"):
        read_all(v21)
    path.unlink()
    with pytest.raises(DatasetError, match="the video of episode 1 is missing") as error:
        read_all(v21)
    assert error.value.code == "WDS231"


def test_lerobot_refuses_video_shorter_than_its_episodes(v30: str) -> None:
    path = Path(v30) / f"videos/{CAMERAS[0]}/chunk-000/file-000.mp4"
    write_video(path, frame_pixels(0, 0, sum(LENGTHS[:2])), fps=20)
    with pytest.raises(DatasetError, match=r"lasts 0.950 s, but episode 1 needs 1.900 s"):
        read_all(v30)


def test_lerobot_refuses_video_link_outside_dataset(v21: str, tmp_path: Path) -> None:
    path = Path(v21) / f"videos/chunk-000/{CAMERAS[0]}/episode_000001.mp4"
    path.rename(tmp_path / "else.mp4")
    path.symlink_to(tmp_path / "else.mp4")
    with pytest.raises((PermissionDenied, DatasetError)) as error:
        read_all(v21)
    assert error.value.code in ("WDS409", "WDS230")


def test_lerobot_refuses_damaged_episode_and_task_lists(v21: str, v30: str) -> None:
    (Path(v21) / "meta/tasks.jsonl").write_text('{"task_index": 1, "task": "x"}\n')
    with pytest.raises(DatasetError, match="expected task 0"):
        read_robot_dataset(v21)
    episodes_path = Path(v30) / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(episodes_path).to_pylist()
    pq.write_table(pa.Table.from_pylist([rows[1], rows[0], rows[2]]), episodes_path)
    with pytest.raises(DatasetError, match="expected episode 0"):
        read_robot_dataset(v30)
    pq.write_table(pa.Table.from_pylist([{"episode_index": 0}]), episodes_path)
    with pytest.raises(DatasetError, match="no column 'length'"):
        read_robot_dataset(v30)
