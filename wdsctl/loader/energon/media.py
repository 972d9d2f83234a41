"""`megatron.energon.media`: facts of media. Stores return `VideoFacts` and `AudioFacts` for video and audio."""

from __future__ import annotations

from wdsctl.core.media.facts import AudioFacts, VideoFacts
from wdsctl.core.media.facts import ImageFacts as ImageMetadata
from wdsctl.loader.decoding.av import AVMetadata
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules

__all__ = [
    "AVMetadata",
    "AudioFacts",
    "ImageMetadata",
    "MediaFilterConfig",
    "MediaFilterStrategy",
    "VideoFacts",
    "prepare_filesystem_dataset",
]

MediaFilterConfig = replaced("MediaFilterConfig")
MediaFilterStrategy = replaced("MediaFilterStrategy")
prepare_filesystem_dataset = replaced("prepare_filesystem_dataset")

publish_submodules(__name__)
