"""`megatron.energon.flavors.webdataset`."""

from __future__ import annotations

from wdsctl.loader.energon.flavors import (
    AVData,
    AVDecoder,
    BaseWebdatasetFactory,
    DefaultDecoderWebdatasetFactory,
    DefaultGenericWebdatasetFactory,
    JoinedWebdatasetFactory,
    SampleDecoder,
    StandardWebdatasetFactory,
    WebdatasetMeta,
)

__all__ = [
    "AVData",
    "AVDecoder",
    "BaseWebdatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "JoinedWebdatasetFactory",
    "SampleDecoder",
    "StandardWebdatasetFactory",
    "WebdatasetMeta",
]
