"""Lazy media, and pools that keep their bytes on a local disk until they are wanted."""

from __future__ import annotations

from wdsctl.loader.cache.file_pool import FileStoreCachePool
from wdsctl.loader.cache.lazy import Lazy
from wdsctl.loader.cache.pool import CachePool, NoCachePool

__all__ = ["CachePool", "FileStoreCachePool", "Lazy", "NoCachePool"]
