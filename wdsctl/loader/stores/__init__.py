"""Auxiliary stores: datasets and folders whose files are looked up by name, and read one range at a time."""

from __future__ import annotations

from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.opening import open_store
from wdsctl.loader.stores.prepared import PreparedStore
from wdsctl.loader.stores.store import FileStore

__all__ = ["Entry", "FileStore", "PreparedStore", "open_store"]
