"""The offsets file: where every part of every sample is, as arrays that all processes of a machine map and share.

`read` and `write` are its reader and writer, `key_index` finds a sample by its key, `bounds` refuses addresses outside
the shards. `mapped_arrays` is the format that all mapped files share. The loader reads it on its hot path. Every room
from `catalog` up may import it.
"""

from __future__ import annotations
