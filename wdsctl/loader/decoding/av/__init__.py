"""Video and audio: lazy decoders, exact to the frame and to the sample.

`decoder` is what a hook receives, `container` opens a medium, `video` and `audio` read clips of its streams, `frames`
and `audio_samples` decode from any position on, `uniform` spaces clips evenly. Only `loader/decoding` imports PyAV.
"""

from __future__ import annotations

from wdsctl.loader.decoding.av.decoder import AVDecoder
from wdsctl.loader.decoding.av.uniform import get_clips_uniform, get_single_frames_uniform
from wdsctl.loader.decoding.av.values import AVData, AVMetadata

__all__ = ["AVData", "AVDecoder", "AVMetadata", "get_clips_uniform", "get_single_frames_uniform"]
