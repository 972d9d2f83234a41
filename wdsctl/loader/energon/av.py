"""`megatron.energon.av`."""

from __future__ import annotations

from wdsctl.loader.decoding.av import AVData, AVDecoder, get_clips_uniform, get_single_frames_uniform
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules

__all__ = ["AVData", "AVDecoder", "AVWebdatasetDecoder", "get_clips_uniform", "get_single_frames_uniform"]

AVWebdatasetDecoder = replaced("AVWebdatasetDecoder")

publish_submodules(__name__)
