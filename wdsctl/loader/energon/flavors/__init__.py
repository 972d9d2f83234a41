"""`megatron.energon.flavors`: the sample types."""

from __future__ import annotations

from wdsctl.loader.decoding.av import AVData, AVDecoder
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.energon.flavors.factories import (
    BaseCoreDatasetFactory,
    BaseWebdatasetFactory,
    CaptioningWebdataset,
    CrudeJsonlDatasetFactory,
    DefaultCrudeJsonlDatasetFactory,
    DefaultDecoderWebdatasetFactory,
    DefaultGenericWebdatasetFactory,
    ImageClassificationWebdataset,
    ImageWebdataset,
    InterleavedWebdataset,
    MultiChoiceVQAWebdataset,
    OCRWebdataset,
    SimilarityInterleavedWebdataset,
    StandardWebdatasetFactory,
    TextWebdataset,
    VidQAWebdataset,
    VQAOCRWebdataset,
    VQAWebdataset,
)
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules
from wdsctl.loader.energon.wrappers import SavableDataset
from wdsctl.loader.samples import CrudeSample, Sample
from wdsctl.loader.samples.energon_types import CaptioningSample, InterleavedSample
from wdsctl.loader.samples.types import (
    ImageClassificationSample,
    ImageSample,
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

CrudeWebdataset = replaced("CrudeWebdataset")
JoinedWebdatasetFactory = replaced("JoinedWebdatasetFactory")
WebdatasetMeta = replaced("WebdatasetMeta")

publish_submodules(__name__)
