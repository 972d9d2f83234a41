"""`megatron.energon.transforms`: augmentations of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from wdsctl.core.errors import UsageError
from wdsctl.loader.energon.replaced import replaced

__all__ = ["CustomTransform", "MergeTransform"]

CustomTransform = replaced("CustomTransform")


class MergeTransform(torch.nn.Module):
    """Transforms of torchvision, or other functions of an image, applied one after the other.

    Draws the random numbers that the transforms draw. Energon computes one warp from all of them, and interpolates
    once: pixels may differ by the rounding and smoothing between two steps.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        for each in transforms:
            if not callable(each):
                raise UsageError(
                    f"{each!r} is not a transform", hint="pass functions of an image, such as those of torchvision"
                )
        self.transforms = list(transforms)

    def forward(self, image: Any) -> Any:
        for each in self.transforms:
            image = each(image)
        return image
