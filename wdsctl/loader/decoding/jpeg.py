"""JPEG decoding with libjpeg-turbo (`simplejpeg`): the same pixels as Pillow in half the time.

`DecodeThreads` decodes the images of a batch in several threads, as libjpeg-turbo releases Python's lock. Headers are
read and memory is assigned in order on the caller's thread; threads only fill in pixels, each image in its own memory.
So the result does not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from simplejpeg import decode_jpeg, decode_jpeg_header

from wdsctl.core.media.jpeg import is_scalable_jpeg
from wdsctl.core.media.sniff import JPEG_SIGNATURE
from wdsctl.loader.decoding.limits import check_decoded_size, check_pixel_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wdsctl.loader.decoding.images import ImageDecodeOptions


#: Mode -> color spaces of files for which libjpeg-turbo's pixels equal Pillow's. CMYK and YCCK differ; gray from a
#: color file is the luma in libjpeg-turbo and a weighted sum of the rounded RGB in Pillow.
PILLOW_EXACT_COLORSPACES: dict[str, tuple[str, ...]] = {
    "L": ("Gray",),
    "RGB": ("YCbCr", "Gray", "RGB"),
    "RGBA": ("YCbCr", "Gray", "RGB"),
}
_OUTPUT_COLORSPACES = {"L": "GRAY", "RGB": "RGB", "RGBA": "RGBA"}

#: Below this, several of libjpeg-turbo's fractions round to one size, and it might choose another one than Pillow.
_MIN_REDUCED_SIDE = 8


def reduction_factor(height: int, width: int, min_side: int) -> int:
    """The largest of 8, 4 and 2 by which the shorter side keeps `min_side` pixels; else 1. `min_side` 0: always 1.

    The reduced image has ceil(size / factor) pixels per side.
    """
    if not min_side:
        return 1
    shorter = min(height, width)
    return next((factor for factor in (8, 4, 2) if shorter // factor >= max(min_side, _MIN_REDUCED_SIDE)), 1)


def jpeg_reduction(data: bytes, height: int, width: int, min_side: int) -> int:
    """`reduction_factor` of an image of any format: 1 for what libjpeg cannot reduce."""
    factor = reduction_factor(height, width, min_side)
    return factor if factor == 1 or is_scalable_jpeg(data) else 1


def jpeg_header_size(data: bytes, max_pixels: int) -> tuple[int, int, str] | None:
    """(height, width, colors) by libjpeg-turbo; None for other files and what it does not support.

    Raises ValueError if the header states more than `max_pixels`.
    """
    if data[:3] != JPEG_SIGNATURE:
        return None
    try:
        height, width, colors, _ = decode_jpeg_header(data)
    except (ValueError, KeyError):
        # Damaged, or not supported by libjpeg-turbo, or with a sampling that simplejpeg does not know (a KeyError).
        return None
    check_pixel_count(width, height, max_pixels)
    return height, width, colors


def jpeg_output_size(data: bytes, options: ImageDecodeOptions) -> tuple[int, int] | None:
    """(height, width) of the pixels from `decode_into`; None if Pillow must decode the file. Cost: 1.5 us, or 5 us
    with `min_side`.

    Raises ValueError if the header states more than `max_pixels`, or pixels that take more than `max_bytes`.
    """
    header = jpeg_header_size(data, options.max_pixels)
    if header is None:
        return None
    height, width, colors = header
    if colors not in PILLOW_EXACT_COLORSPACES[options.spec.mode]:
        return None
    factor = reduction_factor(height, width, options.min_side)
    if (factor > 1 or colors != "YCbCr") and not is_scalable_jpeg(data):
        return None  # lossless: it has all its pixels, and maybe fewer than 8 bits, which simplejpeg does not say
    size = -(-height // factor), -(-width // factor)
    check_decoded_size(size[1], size[0], options.spec.pixel_bytes, options.max_bytes)
    return size


def decode_into(pixels: NDArray[np.uint8], data: bytes, options: ImageDecodeOptions) -> bool:
    """Fill `pixels`: uint8, C-contiguous, of the size from `jpeg_output_size`. False if the file is damaged.

    Damage that libjpeg-turbo could conceal is left to Pillow, so that one decoder decides which files are accepted and
    what they look like.
    """
    buffer: Any = pixels
    # libjpeg-turbo takes the smallest of its fractions that is at least this large, which `jpeg_output_size` chose.
    height, width = pixels.shape[:2] if options.min_side else (0, 0)
    try:
        decode_jpeg(data, _OUTPUT_COLORSPACES[options.spec.mode], min_height=height, min_width=width, buffer=buffer)
    except ValueError as error:
        if options.on_damage is not None:
            options.on_damage(str(error))
        return False
    return True


#: More threads do not finish a batch sooner: the rest of the work runs on one thread.
MAX_DECODE_THREADS = 4

#: Images that wait with their bytes until the threads run.
MAX_WAITING_IMAGES = 64


def default_threads() -> int:
    """The number of processors that this process may use, up to 4."""
    return min(
        MAX_DECODE_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


class DecodeThreads:
    """Runs fill functions: at once, or in threads within `decode_in_parallel`. Threads end with the batch.

    `decode_in_parallel` raises an error of one fill function. Which one depends on the threads: to get the first error
    in sample order, load the samples again outside of it.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._is_open = False
        self._waiting: deque[Callable[[], None]] = deque()

    def fill(self, fill: Callable[[], None]) -> None:
        """Call `fill` now, or before `decode_in_parallel` ends."""
        if not self._is_open:
            fill()
            return
        self._waiting.append(fill)
        if len(self._waiting) >= MAX_WAITING_IMAGES:
            self._run_waiting()

    @contextmanager
    def decode_in_parallel(self) -> Iterator[None]:
        self._is_open = self._threads > 1
        try:
            yield
            self._run_waiting()
        finally:
            self._is_open = False
            self._waiting.clear()

    def _run_waiting(self) -> None:
        failures: list[Exception] = []
        others = min(self._threads, len(self._waiting)) - 1
        threads = [threading.Thread(target=self._work, args=(failures,), daemon=True) for _ in range(others)]
        try:
            for thread in threads:
                thread.start()
            self._work(failures)
        finally:
            self._waiting.clear()  # an interrupt leaves the rest undone
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if failures:
            raise failures[0]

    def _work(self, failures: list[Exception]) -> None:
        while self._waiting and not failures:
            try:
                fill = self._waiting.popleft()
            except IndexError:
                return  # another thread had the last one
            try:
                fill()
            except Exception as error:  # noqa: BLE001 - raised by the caller's thread
                failures.append(error)
