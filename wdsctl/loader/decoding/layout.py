"""How images lie in memory: as decoders write them, channels last; what is handed out is a view, channels first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def channels_first(pixels: torch.Tensor, image_dims: int) -> torch.Tensor:
    """(..., height, width, channels) as (..., channels, height, width), no copy; gray images have no channels."""
    return pixels.movedim(-1, -3) if image_dims == 3 else pixels
