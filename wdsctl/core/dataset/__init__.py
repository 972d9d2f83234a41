"""A dataset on disk: its root, its `.wdsctl` folder, its lock and its `dataset.yaml`.

`location` finds and names these, `root_spec` parses the ROOT argument, `view_root` ROOT@NAME, `config` reads
`dataset.yaml` with line numbers, `raw_folder` lists a folder of raw files. Every room from `shards` up may import it.
"""

from __future__ import annotations
