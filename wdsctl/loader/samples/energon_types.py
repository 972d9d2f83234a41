"""Sample types with the fields that they have in Energon, if wdsctl's have more: Energon's programs copy all fields."""

from __future__ import annotations

from typing import Any

from wdsctl.loader.samples.base import Sample, edataclass


@edataclass
class CaptioningSample(Sample):
    """An image with a caption."""

    image: Any
    caption: str


@edataclass
class InterleavedSample(Sample):
    """A sequence of texts and media in order."""

    sequence: list[Any]
