"""`megatron.energon.flavors.webdataset`."""

from __future__ import annotations

from wdsctl.core.dataset.location import ENERGON_INFO_FILES
from wdsctl.core.dataset.location import ENERGON_META_FOLDER as MAIN_FOLDER_NAME
from wdsctl.core.energon.meta import SPLIT_FILES
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
from wdsctl.loader.energon.submodules import publish_submodules

__all__ = [
    "INDEX_SQLITE_FILENAME",
    "INDEX_UUID_FILENAME",
    "INFO_JSON_FILENAME",
    "INFO_YAML_FILENAME",
    "MAIN_FOLDER_NAME",
    "SPLIT_YAML_FILENAME",
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

INDEX_SQLITE_FILENAME = "index.sqlite"
INDEX_UUID_FILENAME = "index.uuid"
INFO_JSON_FILENAME, INFO_YAML_FILENAME = ENERGON_INFO_FILES
SPLIT_YAML_FILENAME = SPLIT_FILES[0]

publish_submodules(__name__)
