"""Auxiliary stores: datasets and folders whose files are looked up by name; their caches; and cookers.

`open` opens a store, `store` is the interface, `folder` and `media_facts` are its parts, `cache` and `disk_cache` keep
bytes, `cookers` runs user functions over crude samples. `plan` and `pipeline` import it.
"""

from __future__ import annotations

from wdsctl.loader.stores.open import PreparedStore, open_store
from wdsctl.loader.stores.store import FileStore, StoreEntry

__all__ = ["FileStore", "PreparedStore", "StoreEntry", "open_store"]
