"""How a picture was turned and resized, and masks on it, which change alike.

Source: EXIF 2.3, 4.6.4 (orientation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from wdsctl.core.samples.types import DrawnOn

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CannotFollow(Exception):  # noqa: N818 - an outcome, which callers turn into their error
    """Geometry that cannot follow its picture; the text says which, and why."""


class PictureForm(NamedTuple):
    """A picture: width and height of the stored pixels, and the EXIF orientation, 1 to 8."""

    width: int
    height: int
    orientation: int = 1

    def size(self, drawn_on: DrawnOn) -> tuple[int, int]:
        """(width, height) of what labels are drawn on."""
        if drawn_on == "shown" and self.orientation >= 5:
            return self.height, self.width
        return self.width, self.height


class PictureChange(NamedTuple):
    """The change of what labels are drawn on, from one (width, height) to another. `turn`: the EXIF orientation that
    was applied before the resizing. `other`: sizes before and after of the picture by its other view (as stored, for
    labels on the shown one), if they may differ: JSON may state them.
    """

    before: tuple[int, int]
    turn: int
    after: tuple[int, int]
    other: tuple[tuple[int, int], tuple[int, int]] | None = None

    @property
    def moves_labels(self) -> bool:
        return self.turn != 1 or self.before != self.after

    @property
    def is_none(self) -> bool:
        return not self.moves_labels and (self.other is None or self.other[0] == self.other[1])

    @property
    def turned_size(self) -> tuple[int, int]:
        return self.before[::-1] if self.turn >= 5 else self.before

    @property
    def area_factor(self) -> float:
        return self.after[0] * self.after[1] / (self.before[0] * self.before[1])


def find_change(before: PictureForm, after: PictureForm, drawn_on: DrawnOn | Literal[""]) -> PictureChange | None:
    """The change for labels that are drawn on the picture as shown, or as stored; None if that must be known and is not
    (`drawn_on` empty).
    """
    if before.orientation == 1 == after.orientation:
        drawn_on = "stored"
    if not drawn_on:
        return PictureChange(before[:2], 1, after[:2]) if before == after else None
    is_turned = drawn_on == "stored" and before.orientation != after.orientation
    if is_turned and after.orientation != 1:
        return None
    view: DrawnOn = "stored" if drawn_on == "shown" else "shown"
    other = (before.size(view), after.size(view)) if before.orientation >= 5 else None
    return PictureChange(before.size(drawn_on), before.orientation if is_turned else 1, after.size(drawn_on), other)


def orient_pixels(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """A view of (height, width, ...) pixels, oriented by an EXIF orientation of 1 to 8."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def resize_nearest(pixels: NDArray[Any], width: int, height: int) -> NDArray[Any]:
    """(height, width, ...) values of the nearest of the given (rows, columns, ...), so that ids stay ids."""
    rows = (np.arange(height) * 2 + 1) * pixels.shape[0] // (2 * height)
    columns = (np.arange(width) * 2 + 1) * pixels.shape[1] // (2 * width)
    resized: NDArray[Any] = pixels[rows[:, None], columns]
    return resized


def change_mask(pixels: NDArray[Any], change: PictureChange) -> NDArray[Any]:
    """A mask of (height, width, ...) ids after the change. Raises CannotFollow if it has another size than its
    picture.
    """
    size = pixels.shape[1], pixels.shape[0]
    if size != change.before:
        expected = f"{change.before[0]} x {change.before[1]}"
        raise CannotFollow(f"the mask has {size[0]} x {size[1]} pixels, but its picture {expected}")
    return resize_nearest(orient_pixels(pixels, change.turn), *change.after)
