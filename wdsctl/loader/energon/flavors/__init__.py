"""`megatron.energon.flavors`: the sample types."""

from __future__ import annotations

from wdsctl.loader.decoding.av import AVData, AVDecoder
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.wrappers import SavableDataset
from wdsctl.loader.samples import CrudeSample, Sample
from wdsctl.loader.samples.types import (
    CaptioningSample,
    ImageClassificationSample,
    ImageSample,
    InterleavedSample,
    MultiChoiceVQASample,
    OCRSample,
    SimilarityInterleavedSample,
    TextSample,
    VidQASample,
    VQAOCRSample,
    VQASample,
)

__all__ = [
    "AVData",
    "AVDecoder",
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "CaptioningSample",
    "CaptioningWebdataset",
    "CrudeJsonlDatasetFactory",
    "CrudeSample",
    "CrudeWebdataset",
    "DefaultCrudeJsonlDatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "ImageClassificationSample",
    "ImageClassificationWebdataset",
    "ImageSample",
    "ImageWebdataset",
    "InterleavedSample",
    "InterleavedWebdataset",
    "JoinedWebdatasetFactory",
    "MultiChoiceVQASample",
    "MultiChoiceVQAWebdataset",
    "OCRSample",
    "OCRWebdataset",
    "Sample",
    "SampleDecoder",
    "SavableDataset",
    "SimilarityInterleavedSample",
    "SimilarityInterleavedWebdataset",
    "StandardWebdatasetFactory",
    "TextSample",
    "TextWebdataset",
    "VQAOCRSample",
    "VQAOCRWebdataset",
    "VQASample",
    "VQAWebdataset",
    "VidQASample",
    "VidQAWebdataset",
    "WebdatasetMeta",
]

BaseCoreDatasetFactory = replaced("BaseCoreDatasetFactory")
BaseWebdatasetFactory = replaced("BaseWebdatasetFactory")
CaptioningWebdataset = replaced("CaptioningWebdataset")
CrudeJsonlDatasetFactory = replaced("CrudeJsonlDatasetFactory")
CrudeWebdataset = replaced("CrudeWebdataset")
DefaultCrudeJsonlDatasetFactory = replaced("DefaultCrudeJsonlDatasetFactory")
DefaultDecoderWebdatasetFactory = replaced("DefaultDecoderWebdatasetFactory")
DefaultGenericWebdatasetFactory = replaced("DefaultGenericWebdatasetFactory")
ImageClassificationWebdataset = replaced("ImageClassificationWebdataset")
ImageWebdataset = replaced("ImageWebdataset")
InterleavedWebdataset = replaced("InterleavedWebdataset")
JoinedWebdatasetFactory = replaced("JoinedWebdatasetFactory")
MultiChoiceVQAWebdataset = replaced("MultiChoiceVQAWebdataset")
OCRWebdataset = replaced("OCRWebdataset")
SimilarityInterleavedWebdataset = replaced("SimilarityInterleavedWebdataset")
StandardWebdatasetFactory = replaced("StandardWebdatasetFactory")
TextWebdataset = replaced("TextWebdataset")
VQAOCRWebdataset = replaced("VQAOCRWebdataset")
VQAWebdataset = replaced("VQAWebdataset")
VidQAWebdataset = replaced("VidQAWebdataset")
WebdatasetMeta = replaced("WebdatasetMeta")
