"""`megatron.energon.dataset_config`."""

from __future__ import annotations

from wdsctl.loader.energon.replaced import replaced

__all__ = ["get_dataset_from_config"]

get_dataset_from_config = replaced("get_dataset_from_config")
