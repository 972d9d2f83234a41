"""One piece of memory for the images of a batch: decoded side by side, they are the batch, and nothing is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wdsctl.loader.decoding.blocks import BLOCKS
from wdsctl.loader.decoding.layout import channels_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class BatchMemory:
    """Where one part's images of one batch go.

    `begin(n)` opens a batch of at most n samples, `take` gives the place of the next image, and `whole` is the stack of
    all that were taken, if they are of one size. A batch belongs to whoever holds it, and shares its memory with the
    images it was made of: it is not used again before the last of them is gone.

    Stacking 32 images of 256 x 256 costs 600 us when they are copied, and 40 us here.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._samples = 0
        self._taken = 0
        self._shape: tuple[int, ...] = ()
        self._pixels: torch.Tensor | None = None
        self._images: tuple[torch.Tensor, ...] = ()
        self._arrays: NDArray[Any] | None = None

    def begin(self, samples: int) -> None:
        """Images taken from now on belong to a new batch, in new memory."""
        self._samples = samples
        self._taken = 0
        self._pixels = self._arrays = None
        self._images = ()

    def take(self, shape: tuple[int, ...]) -> tuple[NDArray[Any], torch.Tensor]:
        """An array of this shape to fill, and the image: a tensor over the same memory, channels first."""
        i = self._taken
        self._taken = i + 1
        if i == 0 and shape == self._shape:
            # Only where the last image had this size too: where sizes vary, a block would be for one image only.
            self._open_block(shape)
        self._shape = shape
        if self._arrays is None or i >= len(self._images) or shape != self._arrays.shape[1:]:
            pixels = torch.empty(shape, dtype=self._dtype)
            return pixels.numpy(), channels_first(pixels, len(shape))
        return self._arrays[i], self._images[i]

    def whole(self, images: Sequence[Any]) -> torch.Tensor | None:
        """The batch, if `images` are the images taken since `begin`, all of them, in order and of one size."""
        if self._pixels is None or len(images) != self._taken or self._taken > len(self._images):
            return None
        batch = channels_first(self._pixels[: len(images)], len(self._shape))
        # Against views of its own: a hook may have given those that it got another shape in place.
        return batch if all(map(_is_same, images, batch.unbind(0))) else None

    def _open_block(self, shape: tuple[int, ...]) -> None:
        self._pixels = BLOCKS.empty((self._samples, *shape), self._dtype)
        self._arrays = self._pixels.numpy()
        self._images = channels_first(self._pixels, len(shape)).unbind(0)


def _is_same(image: torch.Tensor, place: torch.Tensor) -> bool:
    """Whether a hook left the image as it was handed out. Its pixels may have been changed in place."""
    return (
        image.dtype is place.dtype
        and image.device == place.device
        and not image.requires_grad
        and image.is_set_to(place)
    )
