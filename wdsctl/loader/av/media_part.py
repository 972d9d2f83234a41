"""What a part that is a film or a sound becomes: a lazy decoder, its frames and samples, or PyAV's open container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import av

from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.stream import OPTIONS
from wdsctl.loader.av.decoder import AVDecoder
from wdsctl.loader.av.media_source import source_of
from wdsctl.loader.lazy_part import LazyPart


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A decode function. It takes handles as well as bytes; where `by_range`, nothing is to be read before."""

    part: str
    av_decode: str
    video_decode_audio: bool
    max_pixels: int

    #: Whether it can be called with a handle.
    takes_ranges = True

    @property
    def by_range(self) -> bool:
        """Whether it wants a handle even of a small part: a lazy decoder may never be asked for anything."""
        return self.av_decode == "AVDecoder"

    def __call__(self, data: bytes | LazyPart) -> Any:
        if self.av_decode == "pyav":
            return self._container(data)
        decoder = AVDecoder(data, part=self.part, max_pixels=self.max_pixels)
        return decoder if self.by_range else decoder.get_frames(self.video_decode_audio)

    def _container(self, data: bytes | LazyPart) -> Any:
        try:
            file = source_of(data).open()
            return av.open(file, "r", container_options=OPTIONS, metadata_errors="replace")
        except av.FFmpegError as error:
            raise SampleFailed(
                f"part '{self.part}' cannot be opened: FFmpeg says: {(error.strerror or 'unknown error').lower()}",
                where=f"part '{self.part}'",
                hint="look at it with a player; repair it, or leave the sample out",
            ) from error
