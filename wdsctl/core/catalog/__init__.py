"""The SQLite catalog of a dataset (shards, samples, parts, splits, media facts) and its ledger (history, views).

`Catalog` (`read.py`) reads a published catalog, `CatalogDraft` (`draft.py`) writes the next one, `stage.py` publishes
it atomically; what readers return is in `values.py`. `Ledger` (`ledger.py`) reads and writes the ledger.
`database_file.py` opens all of them, and refuses files that could do harm. `presence.py` tells what a folder without a
catalog holds. SQLAlchemy defines the tables (`schema.py`), from which SQL and documents are written; no other room
imports it. Every room from `views` up may import this one.
"""

from __future__ import annotations
