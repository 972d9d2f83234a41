"""YAML texts: parsing them within limits, with the lines of their keys, and formatting values.

`limits` parses every YAML text that wdsctl reads, and refuses texts that would expand to more than fits into memory.
`document` reads `dataset.yaml` strictly on top of it, with errors that name the line, and formats its sections. No
function opens a file. Every room from `split_rules` up may import it.
"""

from __future__ import annotations
