"""The SQLite catalog of a dataset (shards, samples, parts, splits, media facts) and its ledger (history, views).

`Catalog` (`read.py`) reads a published catalog, `CatalogDraft` (`draft.py`) writes the next one, `stage.py` publishes
it atomically. `values.py` defines the values that readers return. `Ledger` (`ledger.py`) reads and writes the ledger.
`database_file.py` opens all these files, and refuses files that could do harm. `presence.py` describes a folder without
a catalog. `schema.py` defines the tables with SQLAlchemy, which no other room imports; SQL and documents are generated
from these tables. Every room from `views` up may import this one.
"""

from __future__ import annotations
