"""MosaicML Streaming's names, imported so that it works beside a CPU build of torch.

It imports torchvision, whose wheel on PyPI is built for CUDA, fails to load its operators beside a CPU torch, and then
stumbles over the two it takes for granted. They are declared here first. Nothing measured uses torchvision.
"""

from __future__ import annotations

import torch

# Kept: the operators are gone when the library object is.
LIBRARY = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
for _operator in ("nms", "qnms"):
    LIBRARY.define(  # type: ignore[no-untyped-call]
        f"{_operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402
from streaming.base.util import clean_stale_shared_memory  # noqa: E402

__all__ = ["MDSWriter", "StreamingDataLoader", "StreamingDataset", "clean_stale_shared_memory"]
