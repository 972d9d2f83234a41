"""The index of a join: which samples of several datasets have the same key, computed once and cached as arrays.

The loader's joins and `validate` import it.
"""

from __future__ import annotations
