"""Samples: keys and parts as file names, sample types and their fields, and the detection of a dataset's type.

`naming` splits a file name into key and part, `types` lists the sample types, `field_map`, `field_path` and `fields`
map parts to fields, and `detect` proposes a type from the parts of a dataset. The classes of the types are in
`loader/samples`. No function opens a file: callers pass names, bytes or open sources. Every room from `dataset` up may
import it.
"""

from __future__ import annotations
