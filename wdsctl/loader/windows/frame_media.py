"""Frames that lines of JSON name instead of containing them: by file and time in a video, or by range of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from wdsctl.core.errors import SampleFailed
from wdsctl.core.urls import is_url
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.runtime.failures import MISSING_ENTRY
from wdsctl.loader.samples.lazy_part import LazyPart
from wdsctl.loader.stores.folder import FolderStore, RemoteFolderStore

if TYPE_CHECKING:
    from wdsctl.loader.decoding.av.open_videos import OpenVideos

_PREPARE_HINT = "run `wdsctl prepare` on the dataset again"
_OPEN_IMAGE_FILES = 8  # per source and process


class FrameMedia:
    """Videos and files of images below the root of a dataset. Those used last stay open.

    `decoder`: of images; without one, they are uint8 tensors. `are_float`: frames of videos are float32 from 0 to 1,
    otherwise uint8. A frame must be within `tolerance_s` seconds of its timestamp. Methods raise SampleFailed for a
    value that names no frame, and for a file that is missing or too short; and what reading and decoding raise.
    """

    def __init__(
        self, root: str, decoder: SampleDecoder | None, fps: float, tolerance_s: float, *, are_float: bool
    ) -> None:
        self._folder = RemoteFolderStore(root, None) if is_url(root) else FolderStore(root, None)
        self._image_decoder = decoder or SampleDecoder(image_decode="torchrgb8")
        self._are_float = are_float
        self._tolerance_s = tolerance_s
        self._half_frame_s = 0.5 / fps
        self._image_files: OrderedDict[str, LazyPart] = OrderedDict()  # those used last

    def decode_frames(self, locations: Sequence[Any], name: str) -> torch.Tensor:
        """The frames of one video as (frames, 3, height, width). `locations`: values of feature `name`, each with the
        `path` of the video and the `timestamp` in seconds."""
        try:
            paths = {str(location["path"]) for location in locations}
            times = [float(location["timestamp"]) for location in locations]
        except (TypeError, KeyError, ValueError) as error:
            message = f"{name!r} is no path and timestamp of a video: {locations[0]!r}"
            raise SampleFailed(message, hint=_PREPARE_HINT) from error
        if len(paths) > 1:
            raise SampleFailed(f"the frames of {name!r} are in several videos", hint=_PREPARE_HINT)
        frames = self._videos.frames(paths.pop(), times, self._tolerance_s, self._half_frame_s)
        return frames.to(torch.float32) / 255 if self._are_float else frames

    def decode_image(self, location: Any, name: str) -> Any:
        """An image. `location`: a value of feature `name`, with the `path` of a file, `offset` and `size` in bytes."""
        try:
            path, offset, size = str(location["path"]), int(location["offset"]), int(location["size"])
        except (TypeError, KeyError, ValueError) as error:
            message = f"{name!r} is no range of bytes of an image: {location!r}"
            raise SampleFailed(message, hint=_PREPARE_HINT) from error
        if path in self._image_files:
            self._image_files.move_to_end(path)
        else:
            self._image_files[path] = self._open_file("file of images", path)
            if len(self._image_files) > _OPEN_IMAGE_FILES:
                self._image_files.popitem(last=False)[1].release()
        data = self._image_files[path].read(offset, size)
        if len(data) != size:
            raise SampleFailed(f"{path!r} ends before the image of {name!r}", hint=_PREPARE_HINT)
        return self._image_decoder.function_for(name, None, "image")(data)

    def close(self) -> None:
        """Close all files. The next use opens them again."""
        if "_videos" in vars(self):
            self._videos.close()
        while self._image_files:
            self._image_files.popitem()[1].release()

    @cached_property
    def _videos(self) -> OpenVideos:
        from wdsctl.loader.decoding.av.open_videos import OpenVideos  # imports PyAV, which few datasets need

        return OpenVideos(partial(self._open_file, "video"))

    def _open_file(self, what: str, path: str) -> LazyPart:
        try:
            return self._folder.open(path)
        except SampleFailed as error:
            if error.code != MISSING_ENTRY:
                raise
            if what == "video":
                hint = "copy it from the origin of the dataset; `wdsctl validate` lists all that are missing"
            else:
                hint = _PREPARE_HINT
            raise SampleFailed(f"the {what} {path!r} is missing", hint=hint, code=MISSING_ENTRY) from error
