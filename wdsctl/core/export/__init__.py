"""`wdsctl export`: writes another tool's metadata beside the shards, from the catalog alone. Opens no shard.

`export` runs the command: `source` reads the catalog once, and each target has a module, which is imported on first
use. `energon` (with `energon_config`) writes what Megatron Energon needs, `wids` the index of webdataset, `hub` a card
for the Hugging Face Hub, `croissant` JSON-LD. `convert` writes the data itself; this room never does. The
command line and the Python API import it, and `convert` takes the names of splits that the Hub allows from it.
"""

from __future__ import annotations
