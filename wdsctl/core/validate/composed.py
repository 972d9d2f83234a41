"""Level `schema`, for types whose fields belong together: conversations and their media, boxes and their image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.errors import DatasetError
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.media.probe import probe_media
from wdsctl.core.samples.boxes import BOX_FORMATS, convert_boxes, read_boxes
from wdsctl.core.samples.conversations import begins_with_assistant, normalize_conversation
from wdsctl.core.text import short_repr
from wdsctl.core.validate.headers import ReadShard, part_byte_range, read_part_header

_TOLERANCE = 1  # pixels that a box may reach outside of its image, since tools round


def check_conversation(
    values: Mapping[str, Any],
    media: Mapping[str, tuple[str, ...]],
    part: PartToCheck,
    findings: LocatedFindingCollector,
) -> None:
    """Check whether the turns of a sample are a conversation with its media. `media`: the parts of each list."""
    try:
        conversation = normalize_conversation(
            values["messages"],
            images=media.get("images", ()),
            videos=media.get("videos", ()),
            audios=media.get("audios", ()),
            tools=values.get("tools"),
        )
    except DatasetError as error:
        findings.add("WDS161", error.message, part)
        return
    if begins_with_assistant(conversation):
        findings.add("WDS162", "the first turn is the assistant's", part, "warning")


def check_boxes(
    read: ReadShard,
    values: Mapping[str, Any],
    image: PartToCheck | None,
    part: PartToCheck,
    findings: LocatedFindingCollector,
) -> None:
    """Check the boxes of a sample. If their format is known, also their sizes and whether they are in the image, whose
    header is read.
    """
    try:
        boxes = read_boxes(values["boxes"])
    except DatasetError as error:
        findings.add("WDS163", error.message, part)
        return
    box_format = values.get("box_format")
    if box_format is None or not len(boxes):
        return
    if box_format not in BOX_FORMATS:
        findings.add("WDS163", f"box_format {short_repr(box_format)} is none of {', '.join(BOX_FORMATS)}", part)
        return
    width, height = _image_size(read, image)
    if not width:
        return
    corners = convert_boxes(boxes, box_format, "xyxy", width=width, height=height)
    negative = np.flatnonzero((corners[:, 2:] < corners[:, :2]).any(axis=1))
    if len(negative):
        found = short_repr(values["boxes"][negative[0]])
        findings.add("WDS163", f"box {negative[0]} has a negative size as {box_format}: {found}", part, "warning")
    limit = np.asarray([width, height], np.float32) + _TOLERANCE
    outside = np.flatnonzero((corners[:, :2] < -_TOLERANCE).any(axis=1) | (corners[:, 2:] > limit).any(axis=1))
    if len(outside):
        found = short_repr(values["boxes"][outside[0]])
        message = f"box {outside[0]} reaches outside of the image of {width} x {height} as {box_format}: {found}"
        findings.add("WDS163", message, part, "warning")


def _image_size(read: ReadShard, image: PartToCheck | None) -> tuple[int, int]:
    """(width, height) in pixels, of the stored and the upright image the larger; zeros if the header cannot be read,
    which the level `headers` reports.
    """
    if image is None or not image.size:
        return 0, 0
    head, content = read_part_header(read, image)
    facts = probe_media(part_byte_range(read, image, head), content) if content.kind == "image" else None
    if not isinstance(facts, ImageFacts):
        return 0, 0
    return max(facts.width, facts.display_width), max(facts.height, facts.display_height)
