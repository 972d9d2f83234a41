"""The keyframe index of a video that lies in a shard or a folder, as the catalog keeps it."""

from __future__ import annotations

import av

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.keyframe_scan import scan_keyframes
from wdsctl.core.media.stream import first_video, opened


def keyframes_of(source: ByteRange, format_name: str) -> bytes | None:
    """`KeyframeIndex.to_bytes()`. None where the video has no clock to seek by, or cannot be read to its end.

    Reads the whole file, once, and decodes nothing. Raises what the source raises.
    """
    try:
        with opened(source, format_name) as container:
            stream = first_video(container)
            scan = scan_keyframes(container, stream) if stream is not None else None
    except av.FFmpegError:
        scan = None
    if source.failure is not None:
        raise source.failure
    return None if scan is None or source.is_spent else scan.index.to_bytes()
