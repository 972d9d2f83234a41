"""Read rows and folders and turn them into samples, for all importers.

`text` reads lines and JSON, `arrow` reads Arrow tables. `indexed_folders` opens MDS and LitData, whose shards
`offset_shards` reads, and whose values `stored_fields` decodes. `files` finds the files that rows name, `folder_files`
lists folders, `samples` makes keys and parts, `source` is the open source. Importers and exporters import this package.
"""

from __future__ import annotations
