"""`prepare` of a LeRobot dataset, in place: its tables become JSONL in `frames/`, its videos stay where they are.

The JSONL files are the shards, one for each Parquet file. Images in a Parquet file, which are inside compressed pages,
are copied to a file beside its lines. A second run writes only files whose rows have changed.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from wdsctl.core.dataset.config import DatasetConfig, dump_config, load_config
from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command, shell_command_at
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.dataset.root_spec import ShardSelection
from wdsctl.core.dataset.sequences import SequenceConfig
from wdsctl.core.errors import InputError, OptionConflict, UsageError
from wdsctl.core.files import open_file_draft, remove_file, write_pieces, write_text
from wdsctl.core.importers.common.values import check_format_options, parse_list_option
from wdsctl.core.importers.lerobot.frames import (
    TOLERANCE_S,
    FrameImages,
    FrameTable,
    frame_lines,
    frame_tables,
    survey_images,
    table_images,
)
from wdsctl.core.importers.lerobot.importer import describe_features
from wdsctl.core.importers.lerobot.metadata import INFO_FILE, RobotDataset, read_robot_dataset
from wdsctl.core.importers.lerobot.videos import check_videos, video_files
from wdsctl.core.importers.protocol import FieldUse, Options
from wdsctl.core.options import given_options
from wdsctl.core.prepare.checks import RAW_OPTIONS, WRITING_OPTIONS
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import Progress
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message
from wdsctl.core.urls import is_url, redact_secrets

FORMAT = "lerobot"
FRAMES_FOLDER = "frames"
_IMAGES_SUFFIX = ".images"
_SELECTION = ShardSelection(globs=(f"{FRAMES_FOLDER}/**/*.jsonl",))
#: Splits keep the frames of an episode together.
_GROUP = "json:episode_index"


@dataclass(frozen=True, slots=True)
class RobotReport:
    """`fields`: what becomes of each feature. `written`: tables whose lines were written, of `tables`."""

    version: str
    fps: float
    episodes: int
    frames: int
    videos: int
    tables: int
    written: int
    fields: tuple[FieldUse, ...]


def check_robot_request(source: str, dest: str | None, request: PrepareRequest) -> None:
    """Raise UsageError for a destination, a URL, and options that do not apply."""
    if dest is not None:
        raise UsageError(
            "a LeRobot dataset is prepared in place: its videos stay where they are",
            where=redact_secrets(source),
            hint=f"omit DEST: {shell_command('prepare', redact_secrets(source))}",
        )
    if is_url(source):
        raise UsageError(
            "wdsctl prepares LeRobot datasets in local folders, not at URLs",
            where=redact_secrets(source),
            hint="download the dataset, for example with `hf download --local-dir`",
        )
    given = {
        **given_options(request, "sample_type field_map redetect accept_type drawn_on layout by"),
        "--key": request.index.key,
        "--exclude": request.index.exclude,
        "--key-until": request.index.key_until,
        "--media": request.index.media.selection is not None,
        **given_options(request, f"{RAW_OPTIONS} {WRITING_OPTIONS}"),
    }
    for name, is_given in given.items():
        if is_given:
            raise OptionConflict(
                f"{name} does not apply to a LeRobot dataset", options=(name,), where=source, hint=f"omit {name}"
            )


def write_robot_frames(source: str, request: PrepareRequest, progress: Progress) -> RobotReport:
    """Check the dataset, write its frames, and write dataset.yaml if there is none. A dry run only checks.

    Raises what `read_robot_dataset`, `check_videos` and `frame_lines` raise; InputError if dataset.yaml is not that of
    this dataset.
    """
    options = check_format_options(FORMAT, request.format_options, ("drop", "tolerance_s"))
    dataset = read_robot_dataset(source, parse_list_option(options, "drop"))
    tolerance = _parse_tolerance(options)
    tables = frame_tables(dataset)
    videos = len(video_files(dataset))
    if os.path.isdir(os.path.join(source, FRAMES_FOLDER)):
        _check_no_other_frames(source, tables)
    progress.phase("check videos", items=videos)
    for _ in check_videos(dataset):
        progress.advance(items=1)
    progress.phase("write frames", items=len(tables))
    location = locate(source, request.catalog, writing=True)
    if request.index.dry_run:
        written = 0
        for table in tables:
            images = survey_images(dataset, table) if dataset.images else None
            for _ in frame_lines(dataset, table, tolerance, images):
                pass
            progress.advance(items=1)
    else:
        with lock_dataset(location, wait=request.wait, note=progress.note):
            config = _resolve_config(location, dataset, request)
            written = _write_tables(dataset, tables, tolerance, lambda: progress.advance(items=1))
            if config is not None:
                write_text(location.config_path, dump_config(config))
    return RobotReport(
        dataset.version,
        dataset.fps,
        len(dataset.episodes),
        dataset.frames,
        videos,
        len(tables),
        written,
        describe_features(dataset),
    )


def frames_request(request: PrepareRequest) -> PrepareRequest:
    """The request that prepares the JSONL of the frames. Splits are by the rule in dataset.yaml."""
    index = replace(request.index, selection=_SELECTION, key=KEY_COLUMN)
    return replace(request, from_format="", format_options={}, split=None, index=index)


def robot_split_rule(request: PrepareRequest) -> SplitRule:
    """The rule of the request, all frames of an episode in one split."""
    return SplitRule(dict(request.split or {"train": 1.0}), seed=request.seed, group_by=_GROUP)


def frames_path(table: str) -> str:
    """The path of the lines of a Parquet file, both below the root."""
    return f"{FRAMES_FOLDER}/{os.path.splitext(table.removeprefix('data/'))[0]}.jsonl"


def images_path(table: str, images: FrameImages) -> str:
    """The path of the images of a Parquet file, both below the root. Other images get another name: lines never name a
    file that others replace."""
    return f"{frames_path(table).removesuffix('.jsonl')}.{images.digest}{_IMAGES_SUFFIX}"


def _parse_tolerance(options: Options) -> float:
    text = options.get("tolerance_s", "")
    try:
        tolerance = float(text) if text else TOLERANCE_S
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance < 1:
        raise UsageError(
            f"tolerance_s={text}: expected seconds, less than 1", hint="pass a number such as -O tolerance_s=0.001"
        )
    return tolerance


def _resolve_config(location: DatasetLocation, dataset: RobotDataset, request: PrepareRequest) -> DatasetConfig | None:
    """The dataset.yaml to write; None if it is there. Raises InputError if it describes other frames."""
    sequences = SequenceConfig(dataset.fps, {feature.name: feature.dtype for feature in dataset.features})
    sequences.features.setdefault("task", "string")
    if not os.path.exists(location.config_path):
        return DatasetConfig(CRUDE, sequences=sequences, split=robot_split_rule(request))
    before = load_config(location.config_path)
    if before.sequences != sequences:
        raise InputError(
            f"dataset.yaml describes other frames than {INFO_FILE}",
            where=location.config_path,
            hint=f"use the options of the first run ({shell_command_at(location, 'log')} lists it), or "
            "move dataset.yaml away",
        )
    return None


def _check_no_other_frames(root: str, tables: Iterable[FrameTable]) -> None:
    """Raise InputError for a file in `frames/` that belongs to no table: its lines would be samples."""
    own = {frames_path(table.path) for table in tables}
    for path, _ in source_files.walk_facts(os.path.join(root, FRAMES_FOLDER)):
        name = f"{FRAMES_FOLDER}/{path}"
        if name.endswith(".jsonl") and name not in own:
            raise InputError(
                f"{path_for_message(name)} belongs to no table of the dataset",
                where=path_for_message(root),
                hint=f"move the file out of {FRAMES_FOLDER}/",
            )


def _write_tables(
    dataset: RobotDataset, tables: Iterable[FrameTable], tolerance: float, advance: Callable[[], None]
) -> int:
    """Write the files whose lines have changed, and return their number. A file is written as a whole or not at all."""
    written = 0
    for table in tables:
        path = os.path.join(dataset.root, frames_path(table.path))
        images = survey_images(dataset, table) if dataset.images else None
        image_file = "" if images is None else images_path(table.path, images)
        if images is not None and not os.path.exists(os.path.join(dataset.root, image_file)):
            write_pieces(os.path.join(dataset.root, image_file), table_images(dataset, table))
        with open_file_draft(path) as draft:
            with open(draft.path, "xb") as file:
                file.writelines(frame_lines(dataset, table, tolerance, images, image_file))
            if not (os.path.isfile(path) and filecmp.cmp(draft.path, path, shallow=False)):
                draft.publish()
                written += 1
        _remove_other_images(path, image_file)
        advance()
    return written


def _remove_other_images(lines_path: str, image_file: str) -> None:
    """Remove the images of an earlier version of these lines. `image_file`: of the current ones, or empty."""
    folder, name = os.path.split(lines_path)
    stem = name.removesuffix(".jsonl")
    for other in os.listdir(folder):
        digest = other.removeprefix(f"{stem}.").removesuffix(_IMAGES_SUFFIX)
        is_images = other == f"{stem}.{digest}{_IMAGES_SUFFIX}" and "." not in digest
        if is_images and other != os.path.basename(image_file):
            remove_file(os.path.join(folder, other))
