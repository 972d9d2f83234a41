"""`wdsctl index`: updates a catalog from its shards, and reads only shards that have changed.

`index` runs the command: `changes` compares shards and catalog, `shards` decides what to read, `merge` scans in
parallel and writes one new catalog, `write_dataset_yaml` records the sample type. Media facts (`media*`), columns and
the maintenance of catalogs (`catalog_check`, `vacuum`) are also here. `inspect`, `validate`, `convert` and `prepare`
may import it.
"""

from __future__ import annotations
