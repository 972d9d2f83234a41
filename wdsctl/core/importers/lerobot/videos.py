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
    """`until`: seconds into the file until which episodes need it. `frames`: that they need. `first`, `episode`: the
    first and the last of these episodes."""

    path: str
    until: float
    frames: int
    first: int
    episode: int

    @property
    def episodes(self) -> str:
        """For messages."""
        return f"episode {self.episode}" if self.first == self.episode else f"episodes {self.first} to {self.episode}"


def video_files(dataset: RobotDataset) -> list[VideoFile]:
    """The files of the dataset's videos, each once, in the order of their first episodes."""
    found: dict[str, VideoFile] = {}
    for episode in dataset.episodes:
        for path, start in episode.videos.values():
            before = found.get(path, VideoFile(path, 0.0, 0, episode.number, 0))
            until = max(before.until, start + episode.length / dataset.fps)
            found[path] = VideoFile(path, until, before.frames + episode.length, before.first, episode.number)
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


def videos_with_errors(
    dataset: RobotDataset, *, decodes: bool = False
) -> Iterator[tuple[VideoFile, WdsctlError | None]]:
    """Yield each video with the error that `check_videos` raises for it. `decodes`: decode every frame, too."""
    with closing(LocalStorage(os.path.realpath(dataset.root))) as storage:
        for file in video_files(dataset):
            try:
                _check_video(storage, dataset, file, decodes=decodes)
            except WdsctlError as error:
                yield file, error
            else:
                yield file, None


def _check_video(storage: LocalStorage, dataset: RobotDataset, file: VideoFile, *, decodes: bool) -> None:
    path = os.path.join(os.path.realpath(dataset.root), file.path)
    check_beneath(path, dataset.root)
    if not os.path.isfile(path):
        raise DatasetError(
            f"the video of {file.episodes} is missing",
            where=path_for_message(path),
            hint="copy the file from the origin of the dataset",
            code="WDS231",
        )
    size = os.path.getsize(path)
    head = storage.read(path, 0, min(size, _HEAD_BYTES))
    content = sniff(head, size)
    facts = probe_media(ByteRangeFile.from_storage(storage, path, 0, size, head=head), content)
    if not isinstance(facts, VideoFacts):
        reason = facts.reason if isinstance(facts, Unreadable) else f"it holds {facts.kind}"
        raise damaged_file_error(f"it is no video that can be decoded: {reason}", path)
    _check_length(file, facts, dataset.fps, path)
    if not decodes:
        return
    from wdsctl.core.media.decode_check import check_stream_decodes  # brings PyAV

    source = ByteRangeFile.from_storage(storage, path, 0, size, head=head)
    verdict = check_stream_decodes(source, content.format)
    if verdict.outcome != "sound":
        raise damaged_file_error(f"not every frame can be decoded: {verdict.reason}", path)


def _check_length(file: VideoFile, facts: VideoFacts, fps: float, path: str) -> None:
    if facts.frames is not None and facts.frames_are == "stated" and facts.frames < file.frames:
        raise damaged_file_error(
            f"it has {facts.frames:,} frames, but the tables of {file.episodes} have {file.frames:,}",
            path,
        )
    if facts.duration_s is not None and facts.duration_s + 0.5 / fps < file.until:
        raise damaged_file_error(
            f"it lasts {facts.duration_s:.3f} s, but episode {file.episode} needs {file.until:.3f} s", path
        )
