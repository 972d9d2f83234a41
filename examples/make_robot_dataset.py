"""Make a small LeRobot dataset (v3.0) to try things on: a dot that a two-jointed arm follows, seen by one camera.

    python examples/make_robot_dataset.py robot --episodes 4 --frames 30

Needs pyarrow and av. The same arguments give the same tables.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FPS, SIZE = 10, 64
CAMERA = "observation.images.top"
TASK = "follow the dot"


def make_episode(number: int, frames: int, first: int) -> dict[str, Any]:
    """The columns of the table."""
    times = np.arange(frames) / FPS
    state = np.stack([np.sin(times + number), np.cos(times + number)], 1).astype(np.float32)
    action = np.concatenate([state[1:], state[-1:]])
    return {
        "observation.state": list(state),
        "action": list(action),
        "timestamp": times.astype(np.float32),
        "frame_index": np.arange(frames),
        "episode_index": np.full(frames, number),
        "index": first + np.arange(frames),
        "task_index": np.zeros(frames, np.int64),
    }


def draw(state: np.ndarray) -> np.ndarray:
    """A picture of the dot."""
    pixels = np.full((SIZE, SIZE, 3), 30, np.uint8)
    x, y = ((state * 0.4 + 0.5) * SIZE).astype(int)
    pixels[y - 4 : y + 4, x - 4 : x + 4] = (240, 180, 40)
    return pixels


def write_video(path: Path, states: np.ndarray) -> None:
    path.parent.mkdir(parents=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"g": "2"})
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        for state in states:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(draw(state), format="rgb24")))
        container.mux(stream.encode())


def write_dataset(root: Path, episodes: int, frames: int) -> None:
    for name in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / name).mkdir(parents=True)
    numbers = {
        name: {"dtype": "int64", "shape": [1]} for name in ("frame_index", "episode_index", "index", "task_index")
    }
    info = {
        "codebase_version": "v3.0",
        "fps": FPS,
        "total_episodes": episodes,
        "total_frames": episodes * frames,
        "total_tasks": 1,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": {
            "observation.state": {"dtype": "float32", "shape": [2]},
            "action": {"dtype": "float32", "shape": [2]},
            CAMERA: {"dtype": "video", "shape": [SIZE, SIZE, 3]},
            "timestamp": {"dtype": "float32", "shape": [1]},
            **numbers,
        },
    }
    (root / "meta/info.json").write_text(json.dumps(info, indent=2))
    pq.write_table(pa.table({"task_index": [0], "task": [TASK]}), root / "meta/tasks.parquet")
    tables, rows, states = [], [], []
    for number in range(episodes):
        columns = make_episode(number, frames, number * frames)
        tables.append(pa.table({name: pa.array(values) for name, values in columns.items()}))
        states += list(columns["observation.state"])
        row = {"episode_index": number, "tasks": [TASK], "length": frames, "data/chunk_index": 0, "data/file_index": 0}
        row |= {"dataset_from_index": number * frames, "dataset_to_index": (number + 1) * frames}
        row |= {f"videos/{CAMERA}/chunk_index": 0, f"videos/{CAMERA}/file_index": 0}
        row |= {f"videos/{CAMERA}/from_timestamp": number * frames / FPS}
        rows.append(row | {f"videos/{CAMERA}/to_timestamp": (number + 1) * frames / FPS})
    pq.write_table(pa.concat_tables(tables), root / "data/chunk-000/file-000.parquet")
    pq.write_table(pa.Table.from_pylist(rows), root / "meta/episodes/chunk-000/file-000.parquet")
    write_video(root / f"videos/{CAMERA}/chunk-000/file-000.mp4", np.array(states))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--frames", type=int, default=30, help="of an episode")
    arguments = parser.parse_args()
    write_dataset(arguments.folder, arguments.episodes, arguments.frames)


if __name__ == "__main__":
    main()
