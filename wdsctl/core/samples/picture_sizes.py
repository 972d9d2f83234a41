"""Sizes of one picture by several sources: its file, its EXIF orientation, labels that state it, and its mask."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from wdsctl.core.samples.geometry import SIZE_KEYS, read_number
from wdsctl.core.samples.picture_change import PictureForm
from wdsctl.core.samples.types import DrawnOn


class PictureSizes(NamedTuple):
    """`stated`: (width, height) that JSON states, and whether as Pascal VOC, whose tools state what they draw on.

    `mask`: (width, height) of the mask. None: there is none.
    """

    picture: PictureForm
    stated: tuple[int, int] | None = None
    is_voc: bool = False
    mask: tuple[int, int] | None = None

    @property
    def is_sideways(self) -> bool:
        return self.picture.orientation >= 5 and self.picture.width != self.picture.height


def stated_size(value: Any) -> tuple[tuple[int, int] | None, bool]:
    """((width, height) of the picture that the JSON of a sample states, or None; whether as Pascal VOC)."""
    if not isinstance(value, dict):
        return None, False
    annotation = value.get("annotation")
    voc = annotation.get("size") if isinstance(annotation, dict) else None
    for each in (voc, value, value.get("image"), value.get("size")):
        size = _size_of(each)
        if size is not None:
            return size, each is voc
    return None, False


def _size_of(value: Any) -> tuple[int, int] | None:
    for names in SIZE_KEYS if isinstance(value, dict) else ():
        width, height = (read_number(value.get(name)) for name in names)
        if width and height and width > 0 and height > 0:
            return int(width), int(height)
    return None


def vote_drawn_on(sizes: PictureSizes) -> DrawnOn | None:
    """What the labels of one sample must be drawn on, by the size of the mask or of Pascal VOC; None if both fit."""
    size = sizes.mask or (sizes.stated if sizes.is_voc else None)
    if not sizes.is_sideways or size is None:
        return None
    if size == sizes.picture.size("shown"):
        return "shown"
    return "stored" if size == sizes.picture.size("stored") else None


def describe_disagreement(sizes: PictureSizes, drawn_on: DrawnOn | Literal[""]) -> str:
    """How the sizes of a sample disagree, without numbers, so that equal faults have one text; empty if they agree."""
    picture, fitting = sizes.picture, sizes.picture.size(drawn_on or "stored")
    both = {picture.size("shown"), picture.size("stored")}
    if sizes.mask is not None and sizes.mask != fitting:
        if sizes.mask in both:
            other = "stored" if drawn_on == "shown" else "shown"
            return f"the mask fits the image as {other}, which has an EXIF orientation, and not as it is delivered"
        return "the mask has another size than its image"
    if sizes.stated is not None and sizes.stated not in both:
        return "the stated size is not that of the image"
    if not drawn_on and picture.orientation != 1:
        return "the image has an EXIF orientation, and dataset.yaml does not say what its labels are drawn on"
    if sizes.stated is not None and sizes.stated != fitting:
        other = "stored" if drawn_on == "shown" else "shown"
        return f"the stated size is that of the image as {other}, but labels are drawn on it as {drawn_on}"
    return ""


def describe_sizes(sizes: PictureSizes) -> str:
    """The sizes of a sample, for an example: `image 4 x 3 (orientation 6: 3 x 4), stated 4 x 3, mask 3 x 4`."""
    picture = sizes.picture
    shown = "{} x {}".format(*picture.size("shown"))
    texts = [f"image {picture.width} x {picture.height}"]
    texts[0] += f" (EXIF orientation {picture.orientation}: {shown})" if picture.orientation != 1 else ""
    texts += [
        f"{name} {size[0]} x {size[1]}" for name, size in (("stated", sizes.stated), ("mask", sizes.mask)) if size
    ]
    return ", ".join(texts)
