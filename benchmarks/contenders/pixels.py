"""A picture decoded by Pillow, as the peers without a decoder of their own do it: uint8 (3, height, width)."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image


def decode(encoded: Any) -> torch.Tensor:
    """`encoded`: the file's content, bytes or a view of them."""
    pixels = np.array(Image.open(io.BytesIO(encoded)).convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
