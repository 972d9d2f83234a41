"""The metadata of a LeRobot dataset: its features, and where the rows and the videos of each episode are.

v2.0 and v2.1 have a Parquet file and a video file for each episode; v3.0 has files of many episodes. Nothing is
guessed: what this module does not know, it refuses by name.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.dataset.sequences import IMAGE, VALUE_DTYPES, VIDEO
from wdsctl.core.errors import DatasetError, InputError, translate_os_errors
from wdsctl.core.file_limits import iter_lines
from wdsctl.core.importers.common import arrow
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.protocol import damaged_file_error, read_json_object
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import name_source
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

INFO_FILE = "meta/info.json"
VERSIONS = ("v2.0", "v2.1", "v3.0")
#: The names of features that a policy sees begin so.
OBSERVATION = "observation."
#: Columns that every table has.
INDEX_COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_MAX_EPISODES = 100_000_000
_FIELD = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}")


class Feature(NamedTuple):
    """`shape`: of a value in the table; empty for a number."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class VideoPlace(NamedTuple):
    path: str  # below the root
    start: float  # seconds into the video, where the episode begins


@dataclass(frozen=True, slots=True)
class Episode:
    """`first`: the number of its first frame in the dataset. `table`: the Parquet file, below the root."""

    number: int
    first: int
    length: int
    table: str
    videos: Mapping[str, VideoPlace]


@dataclass(frozen=True, slots=True)
class RobotDataset:
    """`features`: those that samples get, in the order of the dataset; `dropped`: those left out on request.

    `tasks`: by number. `episodes`: in order, without gaps.
    """

    root: str
    version: str
    fps: float
    features: tuple[Feature, ...]
    dropped: tuple[str, ...]
    tasks: tuple[str, ...]
    episodes: tuple[Episode, ...]

    @property
    def videos(self) -> tuple[Feature, ...]:
        return tuple(feature for feature in self.features if feature.dtype == VIDEO)

    @property
    def images(self) -> tuple[Feature, ...]:
        """The features whose images are in the tables."""
        return tuple(feature for feature in self.features if feature.dtype == IMAGE)

    @property
    def columns(self) -> tuple[Feature, ...]:
        """The features with numbers and texts in the tables."""
        return tuple(feature for feature in self.features if feature.dtype not in (IMAGE, VIDEO))

    @property
    def frames(self) -> int:
        return sum(episode.length for episode in self.episodes)


def read_robot_dataset(
    root: str, dropped: tuple[str, ...] = (), *, kept: Collection[str] | None = None
) -> RobotDataset:
    """Read the metadata. `dropped`: features to leave out; with `kept`, also all others.

    Raises InputError WDS235 for an unknown version, DatasetError WDS233 for damaged metadata, WDS234 for a feature that
    wdsctl does not read, WDS230 for a path outside of the root.
    """
    name_source(root)
    info_file = os.path.join(root, INFO_FILE)
    info = read_json_object(info_file)
    version = info.get("codebase_version")
    if version not in VERSIONS:
        raise InputError(
            f"LeRobot datasets of version {version!r} are unknown: wdsctl reads {', '.join(VERSIONS)}",
            where=path_for_message(info_file),
            hint="convert the dataset to v3.0 with LeRobot",
            code="WDS235",
        )
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not (math.isfinite(fps) and fps > 0):
        raise damaged_file_error(f"fps is {fps!r}, not a positive number", info_file)
    if kept is not None and isinstance(info.get("features"), dict):
        dropped = tuple(name for name in info["features"] if name in dropped or name not in kept)
    features = _read_features(info.get("features"), dropped, info_file)
    videos = [feature.name for feature in features if feature.dtype == VIDEO]
    is_v3 = version == "v3.0"
    tasks = _read_tasks_v3(root) if is_v3 else _read_tasks_v2(root)
    episodes = tuple(_read_episodes_v3(root, info, videos) if is_v3 else _read_episodes_v2(root, info, videos))
    if not episodes:
        raise damaged_file_error("the dataset has no episodes", info_file)
    total = info.get("total_frames")
    frames = sum(episode.length for episode in episodes)
    if total != frames:
        raise damaged_file_error(f"total_frames is {total!r}, but the episodes have {frames:,} frames", info_file)
    return RobotDataset(root, str(version), float(fps), features, dropped, tasks, episodes)


def _read_features(given: Any, dropped: tuple[str, ...], where: str) -> tuple[Feature, ...]:
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise damaged_file_error("it has no table of features", where)
    unknown = next((name for name in dropped if name not in given), None)
    if unknown is not None:
        raise InputError(
            f"cannot drop {unknown!r}: the dataset has no such feature",
            where=path_for_message(where),
            hint=did_you_mean(unknown, given) or f"its features are {', '.join(given)}",
        )
    for name in INDEX_COLUMNS:
        if name not in given:
            raise damaged_file_error(f"the features lack {name!r}", where)
        if name in dropped:
            raise InputError(
                f"cannot drop {name!r}: it says where a frame belongs",
                where=path_for_message(where),
                hint=f"remove {name} from `-O drop=`",
            )
    return tuple(_read_feature(name, each, where) for name, each in given.items() if name not in dropped)


def _read_feature(name: str, given: Mapping[str, Any], where: str) -> Feature:
    dtype, shape = given.get("dtype"), given.get("shape")
    details = {**(given.get("video_info") or {}), **(given.get("info") or {})}
    is_depth = details.get("is_depth_map") or details.get("video.is_depth_map")
    reason = ""
    if is_depth:
        reason = "is a depth map"
    elif dtype not in (IMAGE, VIDEO, *VALUE_DTYPES):
        reason = f"has the unknown dtype {dtype!r}"
    elif name.startswith("__") or name.endswith("_is_pad") or name == "task":
        reason = "has the name of a field that wdsctl adds"
    if reason:
        raise DatasetError(
            f"wdsctl does not read the feature {name!r}: it {reason}",
            where=path_for_message(where),
            hint=f"pass `-O {quote_shell_word(f'drop={name}')}` to leave the feature out",
            code="WDS234",
        )
    if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in shape):
        raise damaged_file_error(f"the shape of {name!r} is {shape!r}", where)
    # A table stores the only number of the shape [1] as a number, not as a list.
    return Feature(name, str(dtype), () if shape == [1] else tuple(shape))


# ---------------------------------------------------------------------------------------------------------- v2.0, v2.1


def _read_tasks_v2(root: str) -> tuple[str, ...]:
    path = os.path.join(root, "meta/tasks.jsonl")
    return _in_order(((row.get("task_index"), row.get("task")) for row in _read_lines(path)), path)


def _read_episodes_v2(root: str, info: Mapping[str, Any], videos: list[str]) -> Iterator[Episode]:
    path, info_file = os.path.join(root, "meta/episodes.jsonl"), os.path.join(root, INFO_FILE)
    chunk_size = info.get("chunks_size")
    if type(chunk_size) is not int or chunk_size < 1:
        raise damaged_file_error(f"chunks_size is {chunk_size!r}", info_file)
    first = 0
    for number, row in enumerate(_read_lines(path)):
        length = _count(row, "length", path)
        if row.get("episode_index") != number:
            raise damaged_file_error(f"line {number + 1} is episode {row.get('episode_index')!r}, not {number}", path)
        names = {"episode_chunk": number // chunk_size, "episode_index": number}
        places = {
            key: VideoPlace(_fill_template(root, info, "video_path", {**names, "video_key": key}), 0.0)
            for key in videos
        }
        yield Episode(number, first, length, _fill_template(root, info, "data_path", names), places)
        first += length


def _read_lines(path: str) -> Iterator[dict[str, Any]]:
    with translate_os_errors(path, "read"), source_files.open_file(path) as file:
        for number, line in enumerate(iter_lines(file, path), 1):
            if not line.strip():
                continue
            try:
                row = read_json(line)
            except ValueError as error:
                raise damaged_file_error(f"line {number} is not valid JSON: {error}", path) from error
            if not isinstance(row, dict):
                raise damaged_file_error(f"line {number} is not an object", path)
            yield row


# ---------------------------------------------------------------------------------------------------------------- v3.0


def _read_tasks_v3(root: str) -> tuple[str, ...]:
    path = os.path.join(root, "meta/tasks.parquet")
    with arrow.translate_arrow_errors(path):
        table = arrow.read_parquet(arrow.open_parquet(path), path)
    names = [name for name in table.column_names if name != "task_index"]
    if len(names) != 1 or len(table.column_names) != 2:
        raise damaged_file_error(f"it has the columns {', '.join(table.column_names)}, not task_index and task", path)
    return _in_order(zip(table["task_index"].to_pylist(), table[names[0]].to_pylist(), strict=True), path)


def _read_episodes_v3(root: str, info: Mapping[str, Any], videos: list[str]) -> Iterator[Episode]:
    folder = os.path.join(root, "meta/episodes")
    columns = ["episode_index", "length", "dataset_from_index", "dataset_to_index", "data/chunk_index"]
    columns += ["data/file_index"]
    columns += [f"videos/{key}/{name}" for key in videos for name in ("chunk_index", "file_index", "from_timestamp")]
    number = first = 0
    for path in list_parquet_files(folder):
        with arrow.translate_arrow_errors(path):
            file = arrow.open_parquet(path)
            missing = next((name for name in columns if name not in file.schema_arrow.names), None)
            if missing is not None:
                raise damaged_file_error(f"it has no column {missing!r}", path)
            rows = arrow.read_parquet(file, path, columns).to_pylist()
        for row in rows:
            length = _count(row, "length", path)
            ends = row["dataset_from_index"], row["dataset_to_index"]
            if row["episode_index"] != number or ends != (first, first + length):
                raise damaged_file_error(
                    f"expected episode {number} with the frames {first} to {first + length}, found episode "
                    f"{row['episode_index']} with {ends[0]} to {ends[1]}",
                    path,
                )
            places = {key: _video_place(root, info, key, row, path) for key in videos}
            names = {"chunk_index": row["data/chunk_index"], "file_index": row["data/file_index"]}
            yield Episode(number, first, length, _fill_template(root, info, "data_path", names), places)
            number, first = number + 1, first + length


def _video_place(root: str, info: Mapping[str, Any], key: str, row: Mapping[str, Any], where: str) -> VideoPlace:
    start = row[f"videos/{key}/from_timestamp"]
    if not isinstance(start, float) or not math.isfinite(start) or start < 0:
        raise damaged_file_error(f"from_timestamp of {key!r} in episode {row['episode_index']} is {start!r}", where)
    names = {name: row[f"videos/{key}/{name}"] for name in ("chunk_index", "file_index")}
    return VideoPlace(_fill_template(root, info, "video_path", {**names, "video_key": key}), start)


def list_parquet_files(folder: str) -> list[str]:
    """The Parquet files in the folders below `folder`, in the order in which LeRobot concatenates them."""
    found: list[str] = []
    with translate_os_errors(folder, "list"):
        for name in sorted(os.listdir(folder)):
            below = os.path.join(folder, name)
            if os.path.isdir(below):
                found += [os.path.join(below, each) for each in sorted(os.listdir(below)) if each.endswith(".parquet")]
    return found


# ------------------------------------------------------------------------------------------------------------- helpers


def _count(row: Mapping[str, Any], name: str, path: str) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 < value < _MAX_EPISODES:
        raise damaged_file_error(f"{name} of episode {row.get('episode_index')!r} is {value!r}", path)
    return value


def _in_order(pairs: Iterable[tuple[Any, Any]], path: str) -> tuple[str, ...]:
    tasks: list[str] = []
    for number, task in pairs:
        if number != len(tasks) or not isinstance(task, str):
            raise damaged_file_error(f"expected task {len(tasks)} and its text, found {number!r} and {task!r}", path)
        tasks.append(task)
    return tuple(tasks)


def _fill_template(root: str, info: Mapping[str, Any], name: str, values: Mapping[str, Any]) -> str:
    """A path below the root. Templates are data: only plain numbers and names are filled in, nothing is formatted.

    Raises DatasetError WDS233 for another template or value, WDS230 for a path outside of the root.
    """
    where, template = os.path.join(root, INFO_FILE), info.get(name)
    if not isinstance(template, str):
        raise damaged_file_error(f"{name} is {template!r}, not a path with fields", where)

    def fill(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if not isinstance(value, (int, str)) or isinstance(value, bool) or (match[2] and not isinstance(value, int)):
            raise damaged_file_error(f"{name} has the field {match[0]}, whose value is {value!r}", where)
        return f"{value:0{int(match[2])}d}" if match[2] else str(value)

    path = _FIELD.sub(fill, template)
    if "{" in path or "}" in path:
        raise damaged_file_error(f"{name} is {template!r}, which has fields that wdsctl does not know", where)
    resolve_reference(root, path, path_for_message(where))
    return path
