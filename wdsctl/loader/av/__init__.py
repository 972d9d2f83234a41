"""Sound and film: lazy decoders, exact to the frame and the sample."""

from __future__ import annotations

from wdsctl.loader.av.data import AVData, AVMetadata
from wdsctl.loader.av.decoder import AVDecoder
from wdsctl.loader.av.uniform import get_clips_uniform, get_single_frames_uniform

__all__ = ["AVData", "AVDecoder", "AVMetadata", "get_clips_uniform", "get_single_frames_uniform"]
