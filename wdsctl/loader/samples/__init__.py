"""The samples that a loader hands to hooks: typed ones, and crude ones for datasets without a type."""

from __future__ import annotations

from wdsctl.loader.samples.base import BASE_FIELDS, Sample, base_values
from wdsctl.loader.samples.build import builder
from wdsctl.loader.samples.crude import CrudeSample
from wdsctl.loader.samples.edataclass import edataclass
from wdsctl.loader.samples.own import admit, fields_of, sample_type_of
from wdsctl.loader.samples.source_info import Origin, SourceInfo, source_at
from wdsctl.loader.samples.types import (
    TYPES,
    AudioSample,
    CaptioningSample,
    ImageClassificationSample,
    ImageSample,
    InterleavedSample,
    MultiChoiceVQASample,
    OCRSample,
    SimilarityInterleavedSample,
    TextSample,
    VideoSample,
    VidQASample,
    VQAOCRSample,
    VQASample,
)

__all__ = [
    "BASE_FIELDS",
    "TYPES",
    "AudioSample",
    "CaptioningSample",
    "CrudeSample",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "Origin",
    "Sample",
    "SimilarityInterleavedSample",
    "SourceInfo",
    "TextSample",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "VideoSample",
    "admit",
    "base_values",
    "builder",
    "edataclass",
    "fields_of",
    "sample_type_of",
    "source_at",
]
