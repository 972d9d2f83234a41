"""Saved states of a loader: checking, merging, describing and comparing them.

`state` checks and merges states, `addresses` encodes the samples that wait in a state, `summary` describes and compares
states, `files` and `torch_file` find states in checkpoint files without running code. `checkpoint` is the function
behind the command. The loader saves and restores through this room.
"""

from __future__ import annotations
