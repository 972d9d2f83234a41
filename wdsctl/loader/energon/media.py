"""`megatron.energon.media`: facts of media. Stores return `VideoFacts` and `AudioFacts` for video and audio."""

from __future__ import annotations

from wdsctl.core.media.facts import AudioFacts, VideoFacts
from wdsctl.core.media.facts import ImageFacts as ImageMetadata
from wdsctl.loader.decoding.av import AVMetadata

__all__ = ["AVMetadata", "AudioFacts", "ImageMetadata", "VideoFacts"]
