"""One geometry for images and what is drawn on them: images are decoded as their labels need it, and labels of images
that are decoded smaller (`min_side`) shrink with them. For datasets whose dataset.yaml says what labels are drawn on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.samples.geometry import follow_json
from wdsctl.core.samples.picture_change import CannotFollow, PictureChange, change_mask
from wdsctl.core.samples.types import GEOMETRY_FIELDS, FieldKind, has_geometry
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.runtime.failures import FatalSampleError
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.samples import BASE_FIELDS

_SHRINKING_TYPES = ("DetectionSample", "SegmentationSample")


class ShrunkImage(NamedTuple):
    """A decoded image, and the (width, height) of its file and of the decoded image, both upright if it is."""

    image: Any
    full_size: tuple[int, int]
    size: tuple[int, int]


def is_upright(decoder: SampleDecoder, config: DatasetConfig, where: str) -> bool | None:
    """Whether images are turned upright by EXIF; None: dataset.yaml does not say, so the decoder's option decides.

    Raises UsageError if the option contradicts the labels.
    """
    requested, needed = decoder.exif_orientation, config.drawn_on == "shown"
    if not config.drawn_on:
        if has_geometry(config.field_map):
            _warn_of_unknown_geometry(where)
        return None
    if requested is not None and requested != needed and has_geometry(config.field_map):
        raise UsageError(
            f"exif_orientation={requested}, but dataset.yaml says that labels are drawn on images as {config.drawn_on}",
            where=where,
            hint="omit exif_orientation: images then fit their labels; or correct `drawn_on` in dataset.yaml",
        )
    return needed if requested is None else requested


@lru_cache(maxsize=1024)
def _warn_of_unknown_geometry(where: str) -> None:
    """Log once per dataset and process."""
    logger.warning(
        "%s: dataset.yaml does not say what labels are drawn on, so images are delivered without regard to them: write "
        "`drawn_on: shown` (as viewers show images, turned by EXIF) or `drawn_on: stored` (as files store them)",
        where,
    )


def must_shrink_labels(decoder: SampleDecoder, config: DatasetConfig, where: str) -> bool:
    """Whether labels must follow images that are decoded smaller. Raises UsageError if they cannot."""
    if not (decoder.min_side and config.drawn_on and has_geometry(config.field_map)):
        return False
    names = [name for name in config.field_map if name in GEOMETRY_FIELDS or name == "mask"]
    if config.sample_type not in _SHRINKING_TYPES:
        reason = f"the form of {names[0]} of {config.sample_type} is not known"
    elif sum(path == config.field_map.get("image") for path in config.field_map.values()) > 1:
        reason = "several fields have the image"
    elif "boxes" in config.field_map and "box_format" not in config.field_map:
        reason = "dataset.yaml maps no box_format, which says what the numbers of boxes are"
    else:
        return True
    raise _cannot_follow_error(reason, where)


def _cannot_follow_error(reason: str, where: str) -> UsageError:
    return UsageError(
        f"min_side shrinks images, and their labels cannot follow: {reason}",
        where=where,
        hint="omit min_side; or remove `drawn_on` from dataset.yaml to get labels as they are",
    )


def decode_with_size(
    decode: Callable[[bytes], Any] | None, part: str, kind: FieldKind, *, decoder: SampleDecoder, upright: bool | None
) -> Callable[[bytes], Any] | None:
    """`decode`, with the sizes that labels need. Cost: 2 us per JPEG, or 60 us with EXIF.

    Returns `decode` itself if `min_side` does not apply to the part: its labels stay as they are.
    """
    if decode is None or not decoder.may_reduce(part, kind, "image"):
        return decode
    decode_image = decode

    def decoded(data: bytes) -> ShrunkImage:
        image = decode_image(data)
        return ShrunkImage(image, *decoder.image_sizes(data, upright=bool(upright)))

    return decoded


def decode_mask_that_follows(
    decode: Callable[[bytes], Any] | None, part: str, *, decoder: SampleDecoder, where: str
) -> Callable[[bytes], Any]:
    """`decode`, whose masks can shrink with their image. Raises UsageError for masks that stay bytes.

    A decoder of the user's that returns no array raises FatalSampleError, as every mask would fail.
    """
    if decode is None:
        raise _cannot_follow_error(f"the mask stays bytes (skip={decoder.skip})", where)
    if not decoder.has_custom_decoder(part, "mask"):
        return decode
    decode_own = decode

    def decoded(data: bytes) -> Any:
        mask = decode_own(data)
        if isinstance(mask, (np.ndarray, torch.Tensor)) and mask.ndim == 2:
            return mask
        raise FatalSampleError(
            f"min_side shrinks images, and the mask cannot follow: its decoder returned a {type(mask).__name__}",
            where=f"part '{part}'",
            hint="return an array or tensor (height, width) of ids from this decoder, or omit min_side",
        )

    return decoded


def shrink_labels(build: Callable[..., Any], fields: Sequence[str]) -> Callable[..., Any]:
    """`build` for samples whose value of `image` may be a `ShrunkImage`: the other fields then shrink with it."""
    if "image" not in fields:
        return build
    image_at, first = fields.index("image"), len(BASE_FIELDS)

    def built(*values: Any) -> Any:
        base, own = values[:first], list(values[first:])
        if not isinstance(own[image_at], ShrunkImage):
            return build(*values)
        own[image_at], full_size, size = own[image_at]
        if size != full_size:
            own = _shrink(dict(zip(fields, own, strict=True)), PictureChange(full_size, 1, size))
        return build(*base, *own)

    return built


def _shrink(values: dict[str, Any], change: PictureChange) -> list[Any]:
    labels = {name: value for name, value in values.items() if name in (*GEOMETRY_FIELDS, "box_format")}
    try:
        changed = {**values, **follow_json(labels, change)}
        mask = values.get("mask")
        if mask is not None:
            ids = np.ascontiguousarray(change_mask(np.asarray(mask), change))
            changed["mask"] = torch.from_numpy(ids) if isinstance(mask, torch.Tensor) else ids
    except CannotFollow as why:
        raise SampleFailed(
            f"the image is decoded smaller (min_side), and its labels cannot follow: {why}",
            hint="correct the sample, or omit min_side",
            code="WDS348",
        ) from why
    return list(changed.values())
