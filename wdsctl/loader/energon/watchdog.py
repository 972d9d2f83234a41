"""`megatron.energon.watchdog`: here, an option of the loader."""

from __future__ import annotations

from wdsctl.loader.energon.replaced import replaced

__all__ = ["Watchdog"]

Watchdog = replaced("Watchdog")
