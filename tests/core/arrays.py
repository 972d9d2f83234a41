"""Small files of arrays and tensors, as their libraries write them."""

from __future__ import annotations

import io

import numpy as np
import torch


def an_array() -> bytes:
    """A float32 array of shape (2, 3)."""
    file = io.BytesIO()
    np.save(file, np.arange(6, dtype=np.float32).reshape(2, 3))
    return file.getvalue()


def arrays() -> bytes:
    """Two arrays, compressed."""
    file = io.BytesIO()
    np.savez_compressed(file, a=np.zeros(10), b=np.ones(3))
    return file.getvalue()


def a_checkpoint() -> bytes:
    file = io.BytesIO()
    torch.save({"x": torch.ones(3)}, file)
    return file.getvalue()
