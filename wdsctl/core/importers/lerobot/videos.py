"""Checks that the videos of a LeRobot dataset are there, and have a frame for each row. Decodes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.importers.lerobot.metadata import RobotDataset
from wdsctl.core.importers.protocol import damaged_file_error
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import Unreadable, VideoFacts
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import sniff
from wdsctl.core.safe_open import check_beneath
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.text import path_for_message

_HEAD_BYTES = 4096


class VideoFile(NamedTuple):
    """`until`: seconds into the file until which episodes need it. `frames`: that they need. `episode`: the last."""

    path: str
    until: float
    frames: int
    episode: int


def video_files(dataset: RobotDataset) -> list[VideoFile]:
    """The files of the dataset's videos, each once, in the order of their first episodes."""
    found: dict[str, VideoFile] = {}
    for episode in dataset.episodes:
        for path, start in episode.videos.values():
            before = found.get(path, VideoFile(path, 0.0, 0, 0))
            until = max(before.until, start + episode.length / dataset.fps)
            found[path] = VideoFile(path, until, before.frames + episode.length, episode.number)
    return list(found.values())


def check_videos(dataset: RobotDataset) -> Iterator[VideoFile]:
    """Yield each video after it was checked. Cost: reads the headers, some milliseconds a file.

    Raises DatasetError WDS231 for a missing file, WDS233 for one that is damaged or too short, PermissionDenied WDS409
    for a link out of the dataset.
    """
    for file, error in videos_with_errors(dataset):
        if error is not None:
            raise error
        yield file


def videos_with_errors(dataset: RobotDataset) -> Iterator[tuple[VideoFile, WdsctlError | None]]:
    """Yield each video with the error that `check_videos` raises for it."""
    with closing(LocalStorage(os.path.realpath(dataset.root))) as storage:
        for file in video_files(dataset):
            try:
                _check_video(storage, dataset, file)
            except WdsctlError as error:
                yield file, error
            else:
                yield file, None


def _check_video(storage: LocalStorage, dataset: RobotDataset, file: VideoFile) -> None:
    path = os.path.join(os.path.realpath(dataset.root), file.path)
    check_beneath(path, dataset.root)
    if not os.path.isfile(path):
        raise DatasetError(
            f"the video of episode {file.episode} is missing",
            where=path_for_message(path),
            hint="copy the file from the origin of the dataset",
            code="WDS231",
        )
    size = os.path.getsize(path)
    head = storage.read(path, 0, min(size, _HEAD_BYTES))
    facts = probe_media(ByteRangeFile.from_storage(storage, path, 0, size, head=head), sniff(head, size))
    if not isinstance(facts, VideoFacts):
        reason = facts.reason if isinstance(facts, Unreadable) else f"it holds {facts.kind}"
        raise damaged_file_error(f"it is no video that can be decoded: {reason}", path)
    _check_length(file, facts, dataset.fps, path)


def _check_length(file: VideoFile, facts: VideoFacts, fps: float, path: str) -> None:
    if facts.frames is not None and facts.frames_are == "stated" and facts.frames < file.frames:
        raise damaged_file_error(
            f"it has {facts.frames:,} frames, but the tables of its episodes (the last is {file.episode}) have "
            f"{file.frames:,}",
            path,
        )
    if facts.duration_s is not None and facts.duration_s + 0.5 / fps < file.until:
        raise damaged_file_error(
            f"it lasts {facts.duration_s:.3f} s, but episode {file.episode} needs {file.until:.3f} s", path
        )
