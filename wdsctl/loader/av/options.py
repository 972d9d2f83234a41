"""How a medium is decoded, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from wdsctl.core.errors import UsageError
from wdsctl.loader.av.sound_shape import SoundShape
from wdsctl.loader.decoding.limits import MAX_PIXELS

MAX_BYTES = 8 << 30  # of pixels and samples that one call hands out


@dataclass(frozen=True, slots=True, kw_only=True)
class AVOptions:
    rotate: bool = True  # turn frames upright
    sound: SoundShape = field(default_factory=SoundShape)
    threads: int = 1  # of FFmpeg; 0: as many as it likes
    max_pixels: int = MAX_PIXELS  # of a frame
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        if self.threads < 0 or self.max_pixels < 1 or self.max_bytes < 1:
            raise UsageError(
                f"threads={self.threads}, max_pixels={self.max_pixels}, max_bytes={self.max_bytes}: nothing can be "
                "decoded with that",
                hint="leave them out for one thread and the usual limits",
            )
