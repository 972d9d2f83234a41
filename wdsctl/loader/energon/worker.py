"""`megatron.energon.worker`."""

from __future__ import annotations

from wdsctl.loader.recipe.worker_config import WorkerConfig

__all__ = ["WorkerConfig"]
