"""LeRobot datasets for tests, in the layouts v2.1 and v3.0: three episodes, two cameras, and their tables.

The images of the camera `IN_TABLES` are in the tables, if a test asks for it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

FPS = 10
LENGTHS = (12, 7, 9)
SIZE = (48, 32)  # width, height
CAMERAS = ("observation.images.top", "observation.images.wrist")
IN_TABLES = "observation.images.side"
TASKS = ("pick the cube", 'say "no" to ünknown')


def features(
    fps: int = FPS, cameras: Sequence[str] = CAMERAS, *, has_images: bool = False, **more: Any
) -> dict[str, Any]:
    video: dict[str, Any] = {"dtype": "video", "shape": [SIZE[1], SIZE[0], 3], "names": ["height", "width", "channels"]}
    video["info"] = {"video.fps": fps, "video.codec": "h264", "video.is_depth_map": False, "has_audio": False}
    return {
        "observation.state": {"dtype": "float32", "shape": [3], "names": ["a", "b", "c"]},
        "action": {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
        "observation.map": {"dtype": "float64", "shape": [2, 2], "names": None},
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "next.done": {"dtype": "bool", "shape": [1], "names": None},
        "gripper": {"dtype": "int32", "shape": [1], "names": None},
        **dict.fromkeys(cameras, video),
        **({IN_TABLES: {"dtype": "image", "shape": [SIZE[1], SIZE[0], 3], "names": None}} if has_images else {}),
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        "frame_index": {"dtype": "int64", "shape": [1], "names": None},
        "episode_index": {"dtype": "int64", "shape": [1], "names": None},
        "index": {"dtype": "int64", "shape": [1], "names": None},
        "task_index": {"dtype": "int64", "shape": [1], "names": None},
        **more,
    }


def episode_table(number: int, length: int, first: int, fps: int = FPS, *, has_images: bool = False) -> dict[str, Any]:
    """The columns of an episode. Its numbers have no short decimal text."""
    draws = np.random.default_rng(number)
    images = [
        {"bytes": _as_png(pixels), "path": f"{i}.png"} for i, pixels in enumerate(frame_pixels(2, number, length))
    ]
    return {
        **({IN_TABLES: images} if has_images else {}),
        "observation.state": list(draws.normal(size=(length, 3)).astype(np.float32)),
        "action": list((draws.normal(size=(length, 2)) * 1e-3).astype(np.float32)),
        "observation.map": [each.tolist() for each in draws.normal(size=(length, 2, 2))],
        "next.reward": draws.normal(size=length).astype(np.float32),
        "next.done": np.arange(length) == length - 1,
        "gripper": draws.integers(-9, 9, size=length).astype(np.int32),
        "timestamp": (np.arange(length) / fps).astype(np.float32),
        "frame_index": np.arange(length),
        "episode_index": np.full(length, number),
        "index": first + np.arange(length),
        "task_index": np.full(length, number % len(TASKS)),
    }


def _as_png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


_TYPES = {
    IN_TABLES: pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    "observation.state": pa.list_(pa.float32(), 3),
    "action": pa.list_(pa.float32(), 2),
    "observation.map": pa.list_(pa.list_(pa.float64())),
}


def arrow_table(columns: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(values, _TYPES.get(name)) for name, values in columns.items()})


def frame_pixels(camera: int, number: int, length: int) -> np.ndarray:
    """Return (length, height, width, 3) pixels; each frame has another shade, so that a wrong frame is detected."""
    width, height = SIZE
    shades = (np.arange(length) * 37 + number * 53 + camera * 101) % 200 + 20
    frames = np.empty((length, height, width, 3), np.uint8)
    frames[...] = shades[:, None, None, None]
    frames[:, : height // 2, : width // 2, camera] = 255 - shades[:, None, None]
    return frames


def write_video(path: Path, frames: np.ndarray, fps: int = FPS, keyframes: int = 5) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"g": str(keyframes), "crf": "10"})
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "yuv420p"
        stream.time_base = Fraction(1, fps)
        for i, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = i
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _write_info(
    root: Path, version: str, lengths: Sequence[int], fps: int, feature_map: Mapping[str, Any], **more: Any
) -> None:
    info = {
        "codebase_version": version,
        "robot_type": "test",
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": len(TASKS),
        "chunks_size": 1000,
        "fps": fps,
        "splits": {"train": f"0:{len(lengths)}"},
        "features": dict(feature_map),
        **more,
    }
    (root / "meta").mkdir(parents=True, exist_ok=True)
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))


def make_v21(
    root: Path,
    lengths: Sequence[int] = LENGTHS,
    fps: int = FPS,
    cameras: Sequence[str] = CAMERAS,
    *,
    has_images: bool = False,
) -> str:
    """A dataset with a Parquet file and a video of each camera for each episode."""
    _write_info(
        root,
        "v2.1",
        lengths,
        fps,
        features(fps, cameras, has_images=has_images),
        total_chunks=1,
        total_videos=len(cameras) * len(lengths),
        data_path="data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        video_path="videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    )
    with open(root / "meta/tasks.jsonl", "w") as file:
        file.writelines(json.dumps({"task_index": i, "task": task}) + "\n" for i, task in enumerate(TASKS))
    with open(root / "meta/episodes.jsonl", "w") as file:
        file.writelines(
            json.dumps({"episode_index": i, "tasks": [TASKS[i % len(TASKS)]], "length": length}) + "\n"
            for i, length in enumerate(lengths)
        )
    first = 0
    (root / "data/chunk-000").mkdir(parents=True)
    for i, length in enumerate(lengths):
        columns = episode_table(i, length, first, fps, has_images=has_images)
        pq.write_table(arrow_table(columns), root / f"data/chunk-000/episode_{i:06d}.parquet")
        for number, camera in enumerate(cameras):
            path = root / f"videos/chunk-000/{camera}/episode_{i:06d}.mp4"
            write_video(path, frame_pixels(number, i, length), fps)
        first += length
    return str(root)


def make_v30(
    root: Path,
    lengths: Sequence[int] = LENGTHS,
    fps: int = FPS,
    cameras: Sequence[str] = CAMERAS,
    *,
    has_images: bool = False,
) -> str:
    """A dataset whose first two episodes share a Parquet file and the videos; the others share the next ones."""
    _write_info(
        root,
        "v3.0",
        lengths,
        fps,
        features(fps, cameras, has_images=has_images),
        data_files_size_in_mb=100,
        video_files_size_in_mb=500,
        data_path="data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        video_path="videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    )
    tasks = pa.table({"task_index": list(range(len(TASKS))), "__index_level_0__": list(TASKS)})
    columns = [
        {"name": name, "field_name": field, "pandas_type": kind, "numpy_type": kind, "metadata": None}
        for name, field, kind in (("task_index", "task_index", "int64"), (None, "__index_level_0__", "object"))
    ]
    index = {"index_columns": ["__index_level_0__"], "columns": columns, "column_indexes": []}
    tasks = tasks.replace_schema_metadata({"pandas": json.dumps(index)})  # as pandas writes an index
    pq.write_table(tasks, root / "meta/tasks.parquet")
    rows: list[dict[str, Any]] = []
    first = 0
    for file, numbers in enumerate(([0, 1], list(range(2, len(lengths))))):
        tables, start = [], 0.0
        for i in numbers:
            tables.append(arrow_table(episode_table(i, lengths[i], first, fps, has_images=has_images)))
            row: dict[str, Any] = {"episode_index": i, "tasks": [TASKS[i % len(TASKS)]], "length": lengths[i]}
            row |= {"data/chunk_index": 0, "data/file_index": file}
            row |= {"dataset_from_index": first, "dataset_to_index": first + lengths[i]}
            for camera in cameras:
                row |= {f"videos/{camera}/chunk_index": 0, f"videos/{camera}/file_index": file}
                row |= {
                    f"videos/{camera}/from_timestamp": start,
                    f"videos/{camera}/to_timestamp": start + lengths[i] / fps,
                }
            rows.append(row | {"stats/action/mean": [0.0, 0.0]})
            start += lengths[i] / fps
            first += lengths[i]
        (root / "data/chunk-000").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(tables), root / f"data/chunk-000/file-{file:03d}.parquet")
        for number, camera in enumerate(cameras):
            frames = np.concatenate([frame_pixels(number, i, lengths[i]) for i in numbers])
            write_video(root / f"videos/{camera}/chunk-000/file-{file:03d}.mp4", frames, fps)
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), root / "meta/episodes/chunk-000/file-000.parquet")
    return str(root)


class RobotReader:
    """Computes the frames of LeRobot's reader from the files of a test dataset, without seeking.

    A window is clamped to its episode; `_is_pad` marks the clamped positions. For videos, a window of one time has no
    time dimension; for columns, it has one. All floats are float32, all integers int64.
    """

    def __init__(self, root: str, lengths: Sequence[int] = LENGTHS, fps: int = FPS) -> None:
        self.root, self.fps = Path(root), fps
        self.info = json.loads((self.root / "meta/info.json").read_text())
        self.table = pa.concat_tables([pq.read_table(path) for path in sorted(self.root.glob("data/*/*.parquet"))])
        self.starts = np.cumsum([0, *lengths])
        self._videos: dict[Path, tuple[list[float], list[np.ndarray]]] = {}

    def item(self, index: int, deltas: Mapping[str, Sequence[float]], tolerance_s: float = 1e-4) -> dict[str, Any]:
        episode = int(np.searchsorted(self.starts, index, side="right")) - 1
        start, stop = int(self.starts[episode]), int(self.starts[episode + 1])
        item: dict[str, Any] = {"task": TASKS[self.table["task_index"][index].as_py()]}
        for name, feature in self.info["features"].items():
            offsets = [round(delta * self.fps) for delta in deltas.get(name, [0])]
            rows = [min(max(index + each, start), stop - 1) for each in offsets]
            if name in deltas:
                item[f"{name}_is_pad"] = np.array([not start <= index + each < stop for each in offsets])
            if feature["dtype"] == "video":
                frames = self._frames(name, episode, rows, tolerance_s)
                item[name] = frames[0] if len(rows) == 1 else frames
                continue
            if feature["dtype"] == "image":
                files = [io.BytesIO(self.table[name][row].as_py()["bytes"]) for row in rows]
                images = np.stack([np.asarray(Image.open(file)).transpose(2, 0, 1) for file in files])
                images = images.astype(np.float32) / 255
                item[name] = images if name in deltas else images[0]
                continue
            values = np.array([self.table[name][row].as_py() for row in rows])
            values = values.astype({"f": np.float32, "i": np.int64, "b": np.bool_}[values.dtype.kind])
            item[name] = values if name in deltas else values[0]
        return item

    def _frames(self, name: str, episode: int, rows: Sequence[int], tolerance_s: float) -> np.ndarray:
        path, start = self.root / self._place(name, episode)[0], self._place(name, episode)[1]
        if path not in self._videos:
            with av.open(str(path)) as container:
                frames = list(container.decode(video=0))
            decoded = [(each.time or 0.0, each.to_ndarray(format="rgb24")) for each in frames]
            self._videos[path] = [time for time, _ in decoded], [pixels for _, pixels in decoded]
        times, pixels = self._videos[path]
        found = []
        for row in rows:
            target = start + float(np.float32(self.table["timestamp"][row].as_py()))
            nearest = int(np.argmin(np.abs(np.array(times) - target)))
            assert abs(times[nearest] - target) <= tolerance_s
            found.append(pixels[nearest].transpose(2, 0, 1).astype(np.float32) / 255)
        return np.stack(found)

    def _place(self, name: str, episode: int) -> tuple[str, float]:
        if self.info["codebase_version"] == "v2.1":
            return f"videos/chunk-000/{name}/episode_{episode:06d}.mp4", 0.0
        rows = pq.read_table(self.root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
        file, start = rows[episode][f"videos/{name}/file_index"], rows[episode][f"videos/{name}/from_timestamp"]
        return f"videos/{name}/chunk-000/file-{file:03d}.mp4", start
