"""The rows of LeRobot's tables as lines of JSON, one a frame, and the checks that they are what the metadata says.

A line has the key of the frame (`episode_000003/000042`), its values by feature, its task as text, for each video the
file and the time of the frame in it, and for each image in the table its range of bytes in a file beside the lines. A
number is written with the fewest digits that give it back exactly.
Infinities and NaN, which JSON does not have, are the texts "Infinity", "-Infinity" and "NaN".
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.dataset.sequences import FLOATS, IMAGE, TEXT
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common import arrow
from wdsctl.core.importers.lerobot.metadata import INDEX_COLUMNS, Episode, Feature, RobotDataset
from wdsctl.core.importers.protocol import damaged_file_error
from wdsctl.core.safe_open import name_source
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.text import path_for_message

TOLERANCE_S = 1e-4  # LeRobot's default
_BATCH_ROWS = 4096
_BATCH_ROWS_WITH_IMAGES = 64
_ODD_NUMBERS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"', "-0": "-0.0"}


class FrameTable(NamedTuple):
    """A Parquet file of the dataset, and the episodes in it, in order. `path`: below the root."""

    path: str
    episodes: tuple[Episode, ...]

    @property
    def frames(self) -> int:
        return sum(episode.length for episode in self.episodes)


def frame_tables(dataset: RobotDataset) -> list[FrameTable]:
    """The files of the dataset, in the order of their episodes. Raises DatasetError if one has two runs of episodes."""
    tables = [
        FrameTable(path, tuple(episodes)) for path, episodes in groupby(dataset.episodes, lambda each: each.table)
    ]
    twice = next((path for path, count in Counter(table.path for table in tables).items() if count > 1), None)
    if twice is not None:
        raise damaged_file_error(
            "other episodes lie between the episodes of this file", os.path.join(dataset.root, twice)
        )
    return tables


def frame_key(episode: int, frame: int) -> str:
    return f"episode_{episode:06d}/{frame:06d}"


class FrameImages(NamedTuple):
    """The images in a Parquet file, as one file has them: frame by frame, and in a frame by feature.

    `sizes`: (frames, features) in bytes. `digest`: of all bytes.
    """

    digest: str
    sizes: Int64Array

    @property
    def offsets(self) -> Int64Array:
        ends = np.cumsum(self.sizes).reshape(self.sizes.shape)
        return ends - self.sizes


def table_images(dataset: RobotDataset, table: FrameTable) -> Iterator[bytes]:
    """Yield the files of all images in a Parquet file, frame by frame.

    Memory: the images of 64 frames. Raises DatasetError WDS233 if one is missing, or only named by its path, WDS234 for
    a column of another type.
    """
    path = os.path.join(dataset.root, table.path)
    name_source(dataset.root)  # also in worker processes
    with arrow.translate_arrow_errors(path):
        file = arrow.open_parquet(path)
        _check_columns(dataset, file.schema_arrow, path)
        names = [feature.name for feature in dataset.images]
        for *_, batch in arrow.parquet_batches(file, path, _BATCH_ROWS_WITH_IMAGES, names):
            columns = [_read_images(name, batch.column(name), path) for name in names]
            for images in zip(*columns, strict=True):
                yield from images


def survey_images(dataset: RobotDataset, table: FrameTable) -> FrameImages:
    """Read the images, and return their sizes. Raises what `table_images` raises."""
    digest, sizes = blake2b(digest_size=8), []
    for image in table_images(dataset, table):
        digest.update(image)
        sizes.append(len(image))
    return FrameImages(digest.hexdigest(), np.array(sizes, np.int64).reshape(-1, max(1, len(dataset.images))))


def frame_lines(
    dataset: RobotDataset,
    table: FrameTable,
    tolerance_s: float = TOLERANCE_S,
    images: FrameImages | None = None,
    images_path: str = "",
) -> Iterator[bytes]:
    """Yield the lines of a file in pieces, with the newlines. `images_path`: below the root, of the file of `images`.

    Memory: some thousand rows. Raises DatasetError WDS233 if the rows are not those of the metadata, WDS234 for a
    column of another type.
    """
    path = os.path.join(dataset.root, table.path)
    name_source(dataset.root)  # also in worker processes
    with arrow.translate_arrow_errors(path):
        file = arrow.open_parquet(path)
        _check_columns(dataset, file.schema_arrow, path)
        times = _check_rows(dataset, table, file, path, tolerance_s)
        row = 0
        names = [feature.name for feature in dataset.columns]
        for *_, batch in arrow.parquet_batches(file, path, _BATCH_ROWS, names):
            stop = row + batch.num_rows
            columns = {
                feature.name: _value_texts(feature, batch.column(feature.name), path) for feature in dataset.columns
            }
            if images is not None:
                columns |= _image_texts(dataset, images, images_path, row, stop)
            yield _encode_batch(dataset, table, columns, times[row:stop], row)
            row = stop


def _check_columns(dataset: RobotDataset, schema: Any, path: str) -> None:
    """Check that every feature has a column of its type."""
    types = arrow.import_arrow_module("pyarrow.types", "a LeRobot dataset")
    arrow.check_column_names(schema, path)
    known = {*(feature.name for feature in dataset.features), *dataset.dropped}
    unknown = next((name for name in schema.names if name not in known), None)
    if unknown is not None:
        raise damaged_file_error(f"the column {unknown!r} is not among the features of meta/info.json", path)
    for feature in (*dataset.columns, *dataset.images):
        if feature.name not in schema.names:
            raise damaged_file_error(f"it has no column {feature.name!r}", path)
        if feature.dtype == IMAGE:
            if feature.name not in arrow.media_columns(schema):
                raise _wrong_column_error(feature, schema, path)
            continue
        kind = getattr(schema.field(feature.name).type, "storage_type", schema.field(feature.name).type)
        depth = 0
        while arrow.is_list_type(kind):
            kind, depth = kind.value_type, depth + 1
        is_text = types.is_string(kind) or types.is_large_string(kind)
        expected = "text" if feature.dtype == TEXT else "bool" if feature.dtype == "bool" else ""
        found = "text" if is_text else "bool" if types.is_boolean(kind) else ""
        is_number = types.is_floating(kind) if feature.dtype in FLOATS else types.is_integer(kind)
        if depth != len(feature.shape) or expected != found or not (expected or is_number):
            raise _wrong_column_error(feature, schema, path)


def _wrong_column_error(feature: Feature, schema: Any, path: str) -> DatasetError:
    return DatasetError(
        f"the column {feature.name!r} has the type {schema.field(feature.name).type}, but meta/info.json says "
        f"{feature.dtype} of shape {list(feature.shape)}",
        where=path_for_message(path),
        hint=f"correct meta/info.json, or pass `-O {quote_shell_word(f'drop={feature.name}')}`",
        code="WDS234",
    )


def _check_rows(
    dataset: RobotDataset, table: FrameTable, file: Any, path: str, tolerance_s: float
) -> NDArray[np.float32]:
    """Check that the rows are the frames of the episodes, evenly spaced. Returns their timestamps."""
    rows = arrow.read_parquet(file, path, INDEX_COLUMNS)
    if any(rows[name].null_count for name in INDEX_COLUMNS):
        raise damaged_file_error("an index column has nulls", path)
    if rows.num_rows != table.frames:
        raise damaged_file_error(f"it has {rows.num_rows:,} rows, but its episodes have {table.frames:,} frames", path)
    numbers = {name: rows[name].to_numpy() for name in INDEX_COLUMNS}
    lengths = [episode.length for episode in table.episodes]
    frames = np.concatenate([np.arange(length) for length in lengths])
    expected = {
        "episode_index": np.repeat([episode.number for episode in table.episodes], lengths),
        "frame_index": frames,
        "index": table.episodes[0].first + np.arange(len(frames)),
    }
    for name, values in expected.items():
        wrong = np.flatnonzero(numbers[name] != values)
        if len(wrong):
            row = int(wrong[0])
            raise damaged_file_error(f"{name} of row {row} is {numbers[name][row]}, not {values[row]}", path)
    tasks = numbers["task_index"]
    wrong = np.flatnonzero((tasks < 0) | (tasks >= len(dataset.tasks)))
    if len(wrong):
        raise damaged_file_error(
            f"row {int(wrong[0])} has the task {tasks[wrong[0]]}, which is not in meta/tasks", path
        )
    times: NDArray[np.float32] = numbers["timestamp"].astype(np.float32)
    # A float32 cannot hold a time of many minutes to a tenth of a millisecond.
    allowed = tolerance_s + np.spacing(np.abs(times)).astype(np.float64)
    wrong = np.flatnonzero(~(np.abs(times.astype(np.float64) - frames / dataset.fps) <= allowed))
    if len(wrong):
        row = int(wrong[0])
        key = frame_key(int(expected["episode_index"][row]), int(frames[row]))
        raise damaged_file_error(
            f"{len(wrong):,} frames are not evenly spaced: {key} has the timestamp {times[row]:g} s, and not "
            f"{frames[row] / dataset.fps:g} s, as at {dataset.fps:g} fps (tolerance {tolerance_s:g} s)",
            path,
        )
    return times


def _encode_batch(
    dataset: RobotDataset,
    table: FrameTable,
    columns: Mapping[str, Sequence[str]],
    times: NDArray[np.float32],
    first_row: int,
) -> bytes:
    """The lines of some rows. `columns`: the JSON of the values by feature."""
    tasks = [json.dumps(task) for task in dataset.tasks]
    heads = [(f"{json.dumps(name)}:", texts) for name, texts in columns.items()]
    numbers = [(f"{json.dumps(video.name)}:", video.name) for video in dataset.videos]
    starts = np.cumsum([0, *(episode.length for episode in table.episodes)])
    lines = []
    for i, (time, task) in enumerate(zip(times.tolist(), columns["task_index"], strict=True)):
        row = first_row + i
        at = int(np.searchsorted(starts, row, side="right")) - 1
        episode = table.episodes[at]
        fields = [f'"{KEY_COLUMN}":"{frame_key(episode.number, row - int(starts[at]))}"']
        fields += [head + texts[i] for head, texts in heads]
        fields.append(f'"task":{tasks[int(task)]}')
        for head, name in numbers:
            place = episode.videos[name]
            fields.append(f'{head}{{"path":{json.dumps(place.path)},"timestamp":{place.start + time!r}}}')
        lines.append("{" + ",".join(fields) + "}\n")
    return "".join(lines).encode()


def _read_images(name: str, column: Any, path: str) -> list[bytes]:
    found = []
    for value in column.to_pylist():
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes) or not data:
            named = value.get("path") if isinstance(value, dict) else None
            what = f"names the image {named!r} instead of holding it" if named else "has no image in a row"
            raise damaged_file_error(f"the column {name!r} {what}", path)
        found.append(data)
    return found


def _image_texts(
    dataset: RobotDataset, images: FrameImages, images_path: str, first: int, stop: int
) -> dict[str, list[str]]:
    """The JSON that names the images of some rows by file and range, by feature."""
    path = json.dumps(images_path)
    found = {}
    for i, feature in enumerate(dataset.images):
        places = zip(images.offsets[first:stop, i].tolist(), images.sizes[first:stop, i].tolist(), strict=True)
        found[feature.name] = [f'{{"path":{path},"offset":{offset},"size":{size}}}' for offset, size in places]
    return found


def _value_texts(feature: Feature, column: Any, path: str) -> list[str]:
    """The JSON of each value of a column. Raises DatasetError WDS233 for nulls, and for values of another shape."""
    count = len(column)
    values, size = getattr(column, "storage", column), 1
    for length in feature.shape:
        if values.null_count:
            raise damaged_file_error(f"the column {feature.name!r} has nulls", path)
        flat = values.flatten()
        is_even = len(flat) == len(values) * length and all(each == length for each in _list_lengths(values))
        if not is_even:
            raise damaged_file_error(
                f"the column {feature.name!r} has values that are not of shape {list(feature.shape)}", path
            )
        values, size = flat, size * length
    if values.null_count:
        raise damaged_file_error(f"the column {feature.name!r} has nulls", path)
    texts = [json.dumps(each) for each in values.to_pylist()] if feature.dtype == TEXT else _number_texts(values)
    for length in reversed(feature.shape):
        texts = [f"[{','.join(texts[at : at + length])}]" for at in range(0, len(texts), length)]
    if len(texts) != count:
        raise damaged_file_error(f"the column {feature.name!r} lacks values", path)
    return texts


def _list_lengths(values: Any) -> Sequence[int]:
    compute = arrow.import_arrow_module("pyarrow.compute", "a LeRobot dataset")
    lengths: Sequence[int] = compute.list_value_length(values).to_pylist()
    return lengths


def _number_texts(values: Any) -> list[str]:
    """The JSON of numbers and booleans: the shortest text that gives back the number."""
    pa = arrow.import_arrow_module("pyarrow", "a LeRobot dataset")
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    texts: list[str] = values.cast(pa.string()).to_pylist()
    if not pa.types.is_floating(values.type):
        return texts
    numbers = values.to_numpy(zero_copy_only=False)
    read_back = np.array([float(text) for text in texts], np.float64).astype(numbers.dtype)
    inexact = np.flatnonzero((read_back != numbers) & ~np.isnan(numbers))
    for i in inexact.tolist():
        texts[i] = repr(float(numbers[i]))
    return [_ODD_NUMBERS.get(text, text) for text in texts]
