"""Saved states of a loader: their format, their facts, merging and comparing them.

`state` checks and merges states, `addresses` encodes the samples that wait in them, `summary` describes and compares
them, `files` and `torch_file` find them in checkpoint files without running code, `checkpoint` is the command's work.
The loader saves and restores through this room.
"""

from __future__ import annotations
